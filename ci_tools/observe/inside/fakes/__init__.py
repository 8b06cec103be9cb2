"""Packages that build code asks about the machine, each answering for the cell and for nothing it does not know."""
