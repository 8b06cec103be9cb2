"""`make proof`: reads and observes every project, and prints what agrees with the truth."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from ci_tools.outside import Outside, Silent
from ci_tools.storage import cache_folder
from tests.proof.truth import checked, projects


def main() -> None:
    """Check every project, or those named."""
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    with tempfile.TemporaryDirectory() as folder:
        for project in projects():
            if len(sys.argv) > 1 and project["name"] not in sys.argv[1:]:
                continue
            started = time.monotonic()
            rows = checked(project, Path(folder), outside)
            print(f"{project['name']} {project['version']} ({time.monotonic() - started:.1f} s)")
            for row in rows:
                print(f"  {row.platform}: {row.verdict}: {row.difference or row.seen.native} | {row.seen[1:]}")


if __name__ == "__main__":
    main()
