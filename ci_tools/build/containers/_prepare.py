"""Makes an environment with what Fatwheel needs: a script that a Python of the image runs, not a module to import."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

INSTALL = (
    "-I",
    "-m",
    "pip",
    "install",
    "--quiet",
    "--no-input",
    "--disable-pip-version-check",
    "--only-binary",
    ":all:",
)


def main() -> int:
    """Make it in the folder of the first argument, and return an exit status."""
    folder, toolkit, requirements, constraints, version = sys.argv[1:]
    try:
        venv.create(folder, with_pip=True, symlinks=True)
    except subprocess.CalledProcessError:
        print(f"the image's Python cannot make an environment with pip ({sys.executable})", file=sys.stderr)  # noqa: T201
        return 3
    python = Path(folder) / "bin" / "python"
    # The versions of this very run, where the Python is the same; those of another may be for other Pythons.
    is_same = version == ".".join(map(str, sys.version_info[:2]))
    same = ["--constraint", constraints] if is_same else []
    done = subprocess.run([python, *INSTALL, "--requirement", requirements, *same], check=False)
    if done.returncode:
        return 3
    packages = next((Path(folder) / "lib").glob("python*/site-packages"))
    (packages / "fatwheel.pth").write_text(f"{toolkit}\n", encoding="utf-8")  # the toolkit is mounted, not installed
    return 0


if __name__ == "__main__":
    sys.exit(main())
