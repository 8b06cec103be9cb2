"""Where a release goes. Each target takes finished files and shows each of its pages old or new, never half."""
