from line_count._count import lines
