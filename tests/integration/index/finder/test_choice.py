"""The finder's choice of a wheel, in JavaScript, beside that of the backend in a smart sdist, in Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_tools.index import finder
from ci_tools.install import fatwheel_backend as backend
from ci_tools.install.fatwheel_backend import Facts
from ci_tools.install.lock import LockedWheel
from ci_tools.model.names import FileName, Sha256
from tests.builders import javascript
from tests.unit.install.test_fatwheel_backend import lock_of

pytestmark = pytest.mark.slow

CHOICE = (Path(finder.__file__).parent / "script" / "choice.js").read_text(encoding="utf-8")
ASK = """(() => {
  const texts = new Map();
  const place = (text) => texts.get(text) ?? texts.set(text, texts.size).get(text);
  const cells = given.facts.map((facts) => {
    const { wheel, rows } = chooseWheel(given.lock, facts);
    return [wheel === null ? "" : wheel.file, ...rows.flat()].map(place);
  });
  return { cells, texts: [...texts.keys()] };
})()"""
DRIVERS = {"12.6": ("525", "560.28.03"), "12.9": ("525", "575.51.03"), "13.0": ("580", "580.65.06")}
ARCHS = ("8.0", "9.0a", "10.3f", "10.0+PTX")

PYTHONS = (
    {"python": "3.9"},
    {"python": "3.12"},
    {"python": "3.14"},
    {"python": "3.14", "free_threaded": True},
    {"python": "3.15", "free_threaded": True},
    {"python": "3.10", "implementation": "pypy"},
)
SYSTEMS = (
    {"platform": "linux_x86_64", "libc": "glibc 2.36"},
    {"platform": "linux_x86_64", "libc": "glibc 2.17"},
    {"platform": "linux_x86_64", "libc": "musl 1.2"},
    {"platform": "linux_aarch64", "libc": "glibc 2.39"},
    {"platform": "win_amd64", "libc": ""},
    {"platform": "macosx_14_0_arm64", "libc": ""},
)
TORCHES: tuple[dict[str, Any], ...] = (
    {},
    {"torch": "2.9.1+cu130", "torch_cuda": "13.0", "cxx11abi": True},
    {"torch": "2.10.0+cu126", "torch_cuda": "12.6", "cxx11abi": False},
    {"torch": "2.10.0+cu130", "torch_cuda": "13.0", "cxx11abi": True},
    {"torch": "2.15.0.dev20261120+cu132", "torch_cuda": "13.2", "cxx11abi": None},
    {"torch": "2.10.0+cpu"},
    {"torch": "2.10.0+rocm7.1", "torch_rocm": "7.1"},
    {"torch": "2.10.0+rocm7.2", "torch_rocm": "7.2"},
    {"torch": "2.10.0+xpu", "torch_xpu": "2025.2"},
)
DRIVEN: tuple[dict[str, Any], ...] = (
    {},
    {"driver": "550.54.14", "driver_cuda": "12.4"},
    {"driver": "575.64", "driver_cuda": "12.9"},
    {"driver_cuda": "13.0"},
    {"driver": "520.61.05"},
)
GPUS: tuple[dict[str, Any], ...] = ({}, {"gpus": ("7.5",)}, {"gpus": ("8.6", "9.0")}, {"gpus": ("12.1",)})
ASKED: tuple[dict[str, Any], ...] = ({}, {"asked_cuda": "none"}, {"asked_cuda": "12.9"})

DEV, LATER = "2.15.0.dev20261120", "2.15.0.dev20261121"

# A part of each sentence, so that the grid leaves out none.
SENTENCES = (
    *("and this is cpython", "and this is pypy", "and this is linux_x86_64 with", "and this is win_amd64"),
    *("what you asked for has CUDA", "you asked for none", "is a build without CUDA", "CUDA is never guessed"),
    *(
        "the driver, of CUDA",
        "it is for ROCm, and no torch",
        "it is for XPU, and torch",
        "and torch 2.10.0+rocm7.2 has",
    ),
    *(
        "or newer, and torch",
        "to below 2.11, and torch",
        f"it is for torch {LATER}, and torch {DEV}",
        "with the C++ ABI _GLIBCXX_USE_CXX11_ABI=1, and",
    ),
    *("it has no kernel for the GPU here", "only PTX for the GPU here", "needs driver 525 or newer; driver 520"),
    *("needs driver of CUDA 13.0 or newer; driver 575.64", "fits, but less closely", "taken"),
)


def list_facts() -> list[Facts]:
    """Return machines of every combination of any three axes.

    Of all combinations it is those whose places sum up to a multiple of five. Whichever three axes are given, one of
    the others has at least five values, and so one value that makes the sum such a multiple.
    """
    axes = (PYTHONS, SYSTEMS, TORCHES, DRIVEN, GPUS, ASKED)
    return [
        Facts()._replace(**{name: value for _, part in cell for name, value in part.items()})
        for cell in itertools.product(*map(enumerate, axes))
        if sum(place for place, _ in cell) % 5 == 0
    ]


def list_wheels() -> Iterator[LockedWheel]:
    """Yield wheels of every kind: for each accelerator, Python tag and platform tag, with and without one torch."""
    for cuda, (sass, ptx) in DRIVERS.items():
        label = f"cu{cuda.replace('.', '')}"
        known: dict[str, Any] = {"cuda": cuda, "driver_sass": sass, "driver_ptx": ptx, "archs": ARCHS}
        serves = ("12.6", "12.9") if cuda == "12.6" else (cuda,)
        for tags in ("cp39-abi3-manylinux_2_28_x86_64", "cp314-cp314t-manylinux_2_28_x86_64.manylinux2014_x86_64"):
            yield wheel(f"{label}-{tags}", **known, serves=serves, torch=("2.10", None))
        for tags in ("cp312-cp312-manylinux_2_34_aarch64", "py3-none-win_amd64"):
            own = {**known, "torch": ("2.10", "2.11"), "cxx11abi": True}
            yield wheel(f"{label}torch2.10-{tags}", **own, serves=serves)
    yield wheel("cu130s-cp315-abi3t-linux_x86_64", cuda="13.0", serves=("13.0",), archs=(), cxx11abi=False)
    yield wheel("rocm7.1-cp312-cp312-manylinux_2_28_x86_64", rocm="7.1", archs=("gfx942",), torch=("2.10", None))
    yield wheel("xpu-cp312-cp312-manylinux_2_28_x86_64", xpu=True, torch=("2.10", None))
    yield wheel("cu132torch-cp310-abi3-manylinux_2_28_x86_64", cuda="13.2", serves=("13.2",), torch=(DEV, "2.16"))
    yield wheel("cu132torchb-cp310-abi3-manylinux_2_28_x86_64", cuda="13.2", serves=("13.2",), torch=(LATER, "2.16"))
    yield wheel("cpu-cp310-abi3-musllinux_1_1_x86_64")
    yield wheel("cpu-py2.py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64")
    yield wheel("cpu-pp310-pypy310_pp73-manylinux1_x86_64")
    yield wheel("cpu-cp312-cp312-macosx_11_0_universal2")
    yield wheel("cpu-cp312-cp312-macosx_15_0_arm64")


def wheel(name: str, **known: Any) -> LockedWheel:  # noqa: ANN401 - the fields of a LockedWheel
    """Return a wheel of the lock."""
    file = FileName(f"demo-1.0+{name}.whl")
    return LockedWheel(file=file, urls=(f"https://host/{file}",), sha256=Sha256("0" * 64), size=1, **known)


def test_the_page_chooses_as_the_backend_does_and_says_the_same() -> None:
    pure = LockedWheel(FileName("demo-1.0-py3-none-any.whl"), (), Sha256("0" * 64), 1)
    lock, machines = lock_of(*list_wheels(), pure), list_facts()
    answer = javascript.call(CHOICE, ASK, {"lock": lock, "facts": [facts._asdict() for facts in machines]})
    texts = answer["texts"]
    taken = set()
    for facts, cell in zip(machines, answer["cells"], strict=True):
        choice = backend.choose(lock, facts)
        name = choice.wheel["file"] if choice.wheel else ""
        assert [texts[place] for place in cell] == [name, *itertools.chain(*choice.rows)], facts
        taken.add(name)
    assert len(machines) == len(PYTHONS) * len(SYSTEMS) * len(TORCHES) * len(DRIVEN) * len(GPUS) * len(ASKED) // 5
    assert len(taken) > len(DRIVERS) * 2  # so that the grid reaches every kind of wheel
    assert [part for part in SENTENCES if not any(part in text for text in texts)] == []


def test_without_a_pure_wheel_nothing_may_fit_in_either() -> None:
    lock = lock_of(*list_wheels())
    machines = list_facts()[::7]
    answer = javascript.call(CHOICE, ASK, {"lock": lock, "facts": [facts._asdict() for facts in machines]})
    found = [answer["texts"][cell[0]] for cell in answer["cells"]]
    wheels = [backend.choose(lock, facts).wheel for facts in machines]
    assert found == [one["file"] if one else "" for one in wheels]
    assert "" in found
