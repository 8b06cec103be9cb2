"""Where the time and the memory of a build went: a trace that is kept with its log, and what is made of it."""
