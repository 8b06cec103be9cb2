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
    refused = upload(command, files)
    if CONFLICT in refused and given("skip-existing"):
        refused = "".join(said for said in (upload(command, [file]) for file in files) if CONFLICT not in said)
    if refused:
        refuse("twine failed")


def upload(command: list[str], files: list[str]) -> str:
    """Upload files, up to the first that is refused; return what was said then, and nothing if all are there."""
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    return done.stdout + done.stderr if done.returncode else ""


main()
