"""Commands for maintainers that write tables of the catalog, from what others have published."""
