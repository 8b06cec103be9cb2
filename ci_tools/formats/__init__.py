"""Readers and writers of file formats: wheels, ELF, fatbinaries, YAML, TOML, Markdown. They contain no policy."""
