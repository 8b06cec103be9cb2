from bit_count._native import lib


def bits(number: int) -> int:
    """Return how many bits of a number are set."""
    return lib.bits(number)
