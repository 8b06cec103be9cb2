"""What the finder reads from errors that people pasted into public issues."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ci_tools import catalog
from ci_tools.index.finder import page
from tests.builders import javascript

pytestmark = pytest.mark.slow

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PASTED = tomllib.loads((Path(javascript.__file__).parent / "pasted_errors.toml").read_text(encoding="utf-8"))["error"]
SCRIPT = "\n".join(
    (Path(page.__file__).parent / "script" / f"{name}.js").read_text(encoding="utf-8")
    for name in ("choice", "machine", "errors")
)
NAMES = [error["issue"].removeprefix("https://github.com/").replace("/issues/", "#") for error in PASTED]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """The diagnosis of each error, by its issue."""
    texts = [error["text"] for error in PASTED]
    diagnoses = javascript.call(SCRIPT, "given.texts.map(diagnose)", {"texts": texts})
    return dict(zip((error["issue"] for error in PASTED), diagnoses, strict=True))


def test_there_are_errors_of_many_kinds_each_from_an_issue_of_its_own() -> None:
    assert len({error["issue"] for error in PASTED}) == len(PASTED) > 30
    assert len({rule for error in PASTED for rule in error["rules"]}) > 11


@pytest.mark.parametrize("error", PASTED, ids=NAMES)
def test_an_error_is_known(found: dict[str, Any], error: dict[str, Any]) -> None:
    diagnosis = found[error["issue"]]
    assert [each["name"] for each in diagnosis["errors"]] == error["rules"]
    assert diagnosis["machine"] == error["machine"]
    if error["rules"]:
        first = diagnosis["errors"][0]
        assert (first["title"], first["mend"]) == (error["title"], error["mend"])
    assert diagnosis["project"] == error.get("project", diagnosis["project"])


@pytest.mark.parametrize(
    "text", ["", "Killed", "a" * 200_000, "(" * 50_000, "/site-packages/" * 20_000, "undefined symbol"]
)
def test_what_no_rule_knows_is_no_error(text: str) -> None:
    diagnosis = javascript.call(SCRIPT, "diagnose(given.text)", {"text": text})
    assert (diagnosis["errors"], diagnosis["machine"]) == ([], {})


def test_each_gpu_is_known_by_the_name_that_tools_give_it() -> None:
    names = {
        "NVIDIA A100-SXM4-80GB": "8.0",
        "NVIDIA A10G": "8.6",
        "NVIDIA GeForce RTX 3090": "8.6",
        "NVIDIA RTX A6000": "8.6",
        "NVIDIA RTX 6000 Ada Generation": "8.9",
        "NVIDIA L40S": "8.9",
        "NVIDIA GeForce RTX 4090": "8.9",
        "NVIDIA H100 80GB HBM3": "9.0",
        "NVIDIA GH200 480GB": "9.0",
        "NVIDIA H20": "9.0",
        "NVIDIA B200": "10.0",
        "NVIDIA GB300": "10.3",
        "NVIDIA GeForce RTX 5090": "12.0",
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "12.0",
        "NVIDIA GB10": "12.1",
        "Tesla T4": "7.5",
        "Quadro RTX 6000": "7.5",
        "Tesla V100-SXM2-32GB": "7.0",
        "Orin (nvgpu)": "8.7",
        "AMD Instinct MI300X": None,
    }
    read = "Object.fromEntries(given.names.map((name) => [name, readGpu(name).gpu ?? null]))"
    assert javascript.call(SCRIPT, read, {"names": list(names)}) == names


def test_a_gap_of_pytorch_is_said_in_words() -> None:
    choice = {"system": "linux-x86_64", "accelerator": "cu129", "torch": "2.14", "python": "3.12"}
    script = page.write_script(catalog.load()).partition("const ROOT")[0]
    ask = "given.choices.map((choice) => torchGap(choice, accelerated))"
    others = [
        {"accelerator": "cu130"},
        {"python": "3.9"},
        {"system": "macos-arm64"},
        {"torch": "9.9"},
        {"system": "__proto__", "torch": "__proto__"},
    ]
    said = javascript.call(script, ask, {"choices": [choice, *({**choice, **other} for other in others)]})
    assert said == [
        "PyTorch has no 2.14 for CUDA 12.9; it has it for CUDA 12.6, CUDA 13.0 and CUDA 13.2.",
        "",
        "PyTorch 2.14 has no build for Python 3.9; it has them for 3.10, 3.11, 3.12, 3.13, 3.14 and 3.14t.",
        "PyTorch has no build for CUDA 12.9 on macOS.",
        "",
        "",
    ]
