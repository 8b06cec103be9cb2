# cython: language_level=3


def distance(str a, str b):
    """Return the Levenshtein distance of two texts."""
    cdef int i, j
    cdef list above = list(range(len(b) + 1)), row
    for i in range(len(a)):
        row = [i + 1]
        for j in range(len(b)):
            row.append(min(above[j + 1] + 1, row[j] + 1, above[j] + (a[i] != b[j])))
        above = row
    return above[len(b)]
