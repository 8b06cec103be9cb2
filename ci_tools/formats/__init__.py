"""Files as values: wheels, ELF, fatbinaries, YAML, TOML, Markdown. They judge nothing."""
