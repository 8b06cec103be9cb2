"""Tables for people, on stdout; progress is on stderr, by `cli.reporter`."""
