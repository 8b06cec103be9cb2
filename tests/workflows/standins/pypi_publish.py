"""Stands for pypa/gh-action-pypi-publish: uploads with twine to the test's index."""

from __future__ import annotations

import subprocess
import sys

from standin import INPUTS, SETTINGS, WORKSPACE, given, refuse

CONFLICT = "409 Conflict"  # twine itself skips what is there on PyPI alone


def main() -> None:
    index = INPUTS["repository-url"] or SETTINGS["index"]
    password = INPUTS["password"] or SETTINGS["index_token"]  # trusted publishing mints one
    if not index or not password:
        refuse("Trusted publishing exchange failure: this run was given no index")
    files = sorted(map(str, (WORKSPACE / INPUTS["packages-dir"]).glob("*.whl")))
    files += sorted(map(str, (WORKSPACE / INPUTS["packages-dir"]).glob("*.tar.gz")))
    if not files:
        refuse(f"It looks like there are no Python distribution packages to publish in '{INPUTS['packages-dir']}/'")
    command = [sys.executable, "-m", "twine", "upload", "--non-interactive", "--disable-progress-bar"]
    command += ["--repository-url", index, "--username", INPUTS["user"], "--password", password]
    for file in files:
        done = subprocess.run([*command, file], capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr)
        if done.returncode and not (given("skip-existing") and CONFLICT in done.stdout + done.stderr):
            refuse("twine failed")


main()
