"""The exit statuses of the command that no error has; the others are in `errors`."""

from __future__ import annotations

DONE = 0
BAD = 1  # the work was done, and what it looked at is bad: as `Rejected`
INTERRUPTED = 130  # 128 + SIGINT, as in shells
