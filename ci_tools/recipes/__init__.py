"""Recipes: configs for packages that others publish, what of them is due, and their verbs."""
