from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import InputError
from ci_tools.recipes.native import read_archs
from tests.builders.sources import world, write

if TYPE_CHECKING:
    from pathlib import Path


def answering(folder: Path, text: str) -> str:
    """Return a PATH on which the driver's program prints a text."""
    write(folder, {"nvidia-smi": f"#!/bin/sh\nprintf '{text}'\n"})
    (folder / "nvidia-smi").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_native_is_the_architectures_of_the_gpus_here(tmp_path: Path) -> None:
    outside = world(tmp_path, PATH=answering(tmp_path / "bin", "12.0\\n8.9\\n12.0\\n"))
    assert read_archs(["native", "8.0"], outside) == ("8.9", "12.0", "8.0")


def test_native_without_a_gpu_is_an_error_and_no_guess(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_archs(["native"], world(tmp_path, PATH=str(tmp_path)))
    assert caught.value.message.startswith("--archs native: no GPU of this machine answers (nvidia-smi)")


def test_named_architectures_ask_no_gpu(tmp_path: Path) -> None:
    assert read_archs(["8.9"], world(tmp_path, PATH=str(tmp_path))) == ("8.9",)
