"""Forks a process for each confined program: a script for `groups`, prepared with nothing but `_confined`."""

import runpy
import sys

if __name__ == "__main__":
    runpy.run_path(sys.argv[1])["serve"](int(sys.argv[2]))
