"""Reads what compilers and linkers write: ELF, PE and Mach-O files, and the device code in them."""
