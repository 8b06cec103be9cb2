"""The standard library as the cell has it: its modules, their names, and the values under them."""
