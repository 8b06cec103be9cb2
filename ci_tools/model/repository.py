"""How a repository on GitHub, and a commit in it, are written."""

from __future__ import annotations

import re

REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")  # OWNER/REPO
COMMIT = re.compile(r"[0-9a-f]{40}")  # a full commit SHA, as GitHub has them
GIT_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # git's own repositories may use SHA-256
