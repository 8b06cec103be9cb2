"""Kinds of flawed wheels, each wrong in a single way, and what installers, loaders and other checkers say of them."""
