"""What a proof says of a library that is linked with the C library of this machine."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from ci_tools.verify.fingerprint import compare, fingerprint
from tests.builders.wheels import LINUX, make
from tests.unit.verify.test_prover import INTERFACE, LIBRARY, SERVES

pytestmark = pytest.mark.slow


def test_what_a_library_asks_of_the_system_is_left_to_its_platform_tag(tmp_path: Path) -> None:
    asked = fingerprint(make(tmp_path, LINUX, {LIBRARY: linked("int puts(const char *); int ours(int);")}))
    interface = asked.libraries[LIBRARY]
    assert ("ours" in interface.symbols, "puts" in interface.symbols, "puts" in interface.system) == (True, False, True)
    less = asked.libraries[LIBRARY]._replace(system=())
    other = asked._replace(sha256="x", members={**asked.members, LIBRARY: "x"}, libraries={LIBRARY: less})
    assert compare(asked, other, INTERFACE)[1:] == (
        SERVES,
        f"the content differs of {LIBRARY}; {LIBRARY} asks the system for other symbols: -puts",
    )


def linked(declared: str) -> bytes:
    """Return a library that is linked with libc, and asks for what is declared."""
    code = f'{declared} int demo(void) {{ return ours(puts("")); }}'
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "library.so"
        command = ["gcc", "-shared", "-fPIC", "-nostartfiles", "-x", "c", "-", "-o", str(out)]
        subprocess.run(command, input=code.encode(), check=True)
        return out.read_bytes()
