"""Mach-O files, macOS' libraries and programs (Apple's mach-o/loader.h, mach-o/fat.h and mach-o/nlist.h)."""
