"""Runs the command line: `python -m ci_tools`."""

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", sys.flags.isolated):  # of Python 3.11
    del sys.path[0]  # the folder where it is started, which may be a project's

from ci_tools.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
