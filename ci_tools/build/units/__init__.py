"""Compile units: each compiler call of a build, taken from the store if its object is there."""
