"""The process from which others are forked that need the same modules, so that each starts at once."""

from __future__ import annotations

import multiprocessing

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.builders.forked", "tests.servers.loaded", "pypiserver.__main__"])
