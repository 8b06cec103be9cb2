"""The names of torch's modules: the catalog's table of them, and a torch that shows the cell's."""
