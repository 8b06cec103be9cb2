"""What the finder reads from errors that people pasted into public issues."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.catalog.failures import INSTALL
from ci_tools.catalog.tables import read
from ci_tools.index.finder import page
from ci_tools.index.finder.causes import explain, read_rows
from tests.builders import javascript

pytestmark = pytest.mark.slow

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PASTED = tomllib.loads((Path(__file__).parents[3] / "samples/pasted_errors.toml").read_text(encoding="utf-8"))["error"]
SCRIPT = page.write_script(catalog.load()).partition("const ROOT")[0]
TOOLS = [row["example"] for row in read(INSTALL).values()]
ODD = (
    *(
        "",
        "a" * 200_000,
        "(" * 50_000,
        "/site-packages/" * 20_000,
        "undefined symbol",
        "\0",
        "\ufeff\u00a0Killed\u2028",
    ),
    *(
        "\x1b[31mKilled\x1b[0m\r\n",
        "x" * 990 + " undefined symbol: _ZN3c10",
        "\U0001f525" * 999 + " Illegal instruction",
    ),
    "Killed\n" * 6000 + "Segmentation fault\n",
    "  x No\n  |-> Because flash-\n  |   attn==1 depends on a and b depends\n      on c, they are incompatible\n\nmore",
    "  \u2570\u2500\u25b6 Because a\n" + "      depends on b\n" * 900 + "      are incompatible",
    "conftest.c:1:1: fatal error: Python.h: No such file\na.c:1:1: fatal error: Python.h: No such file or directory",
    "constructor undefined symbol: __proto__ $library $symbol",
)


def test_the_page_answers_as_the_terminal() -> None:
    texts = [*TOOLS, *(error["text"] for error in PASTED), *ODD]
    found = javascript.call(SCRIPT, "given.texts.map(explain)", {"texts": texts})
    answers = [answer and answer._asdict() for answer in map(explain, texts)]
    assert found == answers
    assert len({answer["name"] for answer in answers if answer}) == len(read_rows())


def test_the_machine_is_read_from_what_is_pasted() -> None:
    known = [error for error in PASTED if "machine" in error]
    found = javascript.call(SCRIPT, "given.texts.map(diagnose)", {"texts": [error["text"] for error in known]})
    read = {error["source"]: diagnosis["machine"] for error, diagnosis in zip(known, found, strict=True)}
    assert read == {error["source"]: error["machine"] for error in known}
    assert len(known) > 30


@pytest.mark.parametrize(
    ("text", "projects"),
    [
        ("/e/site-packages/flash_attn_2_cuda.cpython-38.so: undefined symbol: _ZN2at3x", ["flash-attn-2-cuda"]),
        ('File "/e/site-packages/vllm/a.py"\n/e/site-packages/demo/_C.so: undefined symbol: _ZN2at3x', ["demo"]),
        ('"/e/site-packages/a/x.py"\n"/e/site-packages/b/x.py"\nlibcudart.so.12: cannot open shared object', ["b"]),
        ("my_demo-1.0+cu130-cp310-cp310-linux_x86_64.whl is not a supported wheel on this platform.", ["my-demo"]),
        (r"C:\e\Lib\site-packages\demo\_C.pyd is not it" + "\nIllegal instruction", ["demo"]),
        ("nvcc was not found\nERROR: Failed building wheel for demo", ["demo"]),
        ("Collecting flash_attn\n  Getting requirements to build wheel\nNo module named 'torch'", ["flash-attn"]),
        ("RuntimeError: no kernel image is available", []),
        ("/e/site-packages/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent", []),
    ],
)
def test_an_error_is_about_the_package_whose_file_fails(text: str, projects: list[str]) -> None:
    assert javascript.call(SCRIPT, "diagnose(given.text).projects", {"text": text}) == projects


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
    ask = "given.choices.map((choice) => torchGap(choice, accelerated))"
    others = [
        {"accelerator": "cu130"},
        {"python": "3.9"},
        {"system": "macos-arm64"},
        {"torch": "9.9"},
        {"system": "__proto__", "torch": "__proto__"},
    ]
    said = javascript.call(SCRIPT, ask, {"choices": [choice, *({**choice, **other} for other in others)]})
    assert said == [
        "PyTorch has no 2.14 for CUDA 12.9; it has it for CUDA 12.6, CUDA 13.0 and CUDA 13.2.",
        "",
        "PyTorch 2.14 has no build for Python 3.9; it has them for 3.10, 3.11, 3.12, 3.13, 3.14 and 3.14t.",
        "PyTorch has no build for CUDA 12.9 on macOS.",
        "",
        "",
    ]
