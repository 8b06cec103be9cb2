"""An index in a folder is adopted: what takes longer."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.index.foreign.test_adoption import content, put, root, take_over

__all__ = ["root"]  # fixtures

pytestmark = pytest.mark.slow


def test_an_adoption_on_a_full_disk_leaves_the_pages_and_goes_on(root: Path) -> None:
    put(
        root,
        "demo/index.html",
        "".join(f'<a href="../files/demo-{number}.0.tar.gz#sha256={"ab" * 32}">x</a>' for number in range(99)),
    )
    before = content(root)

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    command = [sys.executable, "-m", "ci_tools", "index", "adopt", f"dir:{root}", "--yes"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, preexec_fn=full, cwd=Path(__file__).parents[4]
    )
    assert done.returncode == 3
    assert before.items() <= content(root).items()
    take_over(root)
    assert (root / "demo" / "index.html").read_text().count("<a href") == 99
