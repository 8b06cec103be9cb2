"""Runs the command line: `python -m ci_tools`."""

import sys

from ci_tools.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
