"""Removes what editors leave behind."""


def tidy(text: str) -> str:
    """Return a text without blanks at the ends of its lines."""
    return "\n".join(line.rstrip() for line in text.splitlines())
