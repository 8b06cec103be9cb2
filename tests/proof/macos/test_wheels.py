"""What is recorded of real wheels for macOS: others read the same of their libraries, and each error is true."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.builders.wheels import make
from tests.proof.macos.wheels import RECORD, fetch, look
from tests.servers.uploads import UV

WHEELS: dict[str, dict[str, Any]] = json.loads(RECORD.read_text("utf-8"))["wheels"]
# The library's own LC_BUILD_VERSION or LC_VERSION_MIN_MACOSX asks for more than the wheel's tag.
TRUE = {
    "cryptography-48.0.1-cp311-abi3-macosx_10_9_universal2.whl": "macOS 10.13",
    "torchaudio-2.11.0-cp311-cp311-macosx_11_0_arm64.whl": "macOS 12.1",
}
ZIG = (
    UV,
    "run",
    "--no-project",
    "--with",
    "ziglang==0.17.1",
    "python",
    "-m",
    "ziglang",
    "cc",
    "-x",
    "c",
    "-",
    "-shared",
)
SOURCE = "int late(void) __attribute__((weak_import)); int PyInit__c(void) { return late ? late() : 3; }"


def compiled(target: str, folder: Path) -> bytes:
    """Return a library that zig compiles for another system."""
    options = ("-Wl,-undefined,dynamic_lookup", "-Wl,-rpath,@loader_path/lib", "-Wl,-install_name,@rpath/a.dylib")
    command = [*ZIG, "-target", target, "-o", folder / "a.dylib", *options]
    subprocess.run(command, check=True, input=SOURCE.encode(), capture_output=True)
    return (folder / "a.dylib").read_bytes()


def test_others_read_the_same_of_every_library() -> None:
    assert len(WHEELS) >= 80
    assert sum(one["parts"] - one["files"] for one in WHEELS.values()) >= 100  # of universal files
    assert {name: one["differences"] for name, one in WHEELS.items() if one["differences"]} == {}


def test_no_error_is_false() -> None:
    assert {
        name: [said.rpartition(": ")[2] for said in one["errors"]] for name, one in WHEELS.items() if one["errors"]
    } == {name: [found] for name, found in TRUE.items()}


@pytest.mark.long
@pytest.mark.parametrize("name", [min(WHEELS), "uvloop-0.23.0-cp311-cp311-macosx_10_9_universal2.whl", *TRUE])
def test_a_wheel_is_as_recorded(name: str, tmp_path: Path) -> None:
    assert look(fetch(name, tmp_path)) == WHEELS[name]


@pytest.mark.long
@pytest.mark.parametrize(("minimum", "errors"), [("11.0", 0), ("12.3", 1)])
def test_a_library_that_is_compiled_here_is_read_as_others_do(minimum: str, errors: int, tmp_path: Path) -> None:
    library = compiled(f"aarch64-macos.{minimum}", tmp_path)
    files = {"demo/__init__.py": b"", "demo/_c.cpython-311-darwin.so": library}
    said = look(make(tmp_path, "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl", files))
    assert (said["parts"], said["differences"], len(said["errors"])) == (1, [], errors)
