"""The causes of errors from public issues, and what a text without one is answered."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ci_tools.catalog.failures import INSTALL
from ci_tools.catalog.tables import read
from ci_tools.cli.main import main
from ci_tools.errors import InputError
from ci_tools.index.finder.causes import explain, explain_file, plain_lines, read_rows

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_samples(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parents[3] / "samples" / name).read_text(encoding="utf-8"))


PASTED = read_samples("pasted_errors.toml")["error"]
ROWS = [pytest.param(row, id=row["name"]) for row in read_rows()]
LINES = [row["name"] for row in read_rows() if row["late"] in {8, 10}]
SYMBOL = "/env/lib/python3.12/site-packages/demo/_C.so: undefined symbol: "


def name_of(error: dict[str, Any]) -> str:
    return str(error["source"]).removeprefix("https://github.com/")


def cause_of(text: str) -> str:
    """Return the cause of an error; "" where the answer is the first line with an error in it, or none."""
    answer = explain(text)
    return answer.name if answer and answer.name not in LINES else ""


def test_each_text_has_an_address_of_its_own_and_there_are_forty() -> None:
    assert len({error["source"] for error in PASTED}) == len(PASTED)
    assert len([error for error in PASTED if not error.get("held-out")]) >= 40
    assert {key for error in PASTED for key in error} <= {"source", "text", "cause", "machine", "held-out"}
    assert {error["cause"] for error in PASTED} <= {"", *read(INSTALL)}


@pytest.mark.parametrize("error", PASTED, ids=name_of)
def test_an_error_of_a_public_issue_is_answered_by_its_cause(error: dict[str, Any]) -> None:
    assert cause_of(error["text"]) == error["cause"]


@pytest.mark.parametrize("row", ROWS)
def test_a_cause_has_what_mends_it_or_what_to_look_at(row: dict[str, Any]) -> None:
    assert bool(row["mend"]) != bool(row["look"])
    assert row["lines"] in {"", "wheel", "torch", "driver", "libraries"}
    assert not (row["look"] and row["lines"])  # a line is offered only by what is known to mend it


@pytest.mark.parametrize("row", ROWS)
def test_each_sign_has_the_groups_of_its_sentences_and_is_read_alike_by_javascript(row: dict[str, Any]) -> None:
    used = {*re.findall(r"\$(\w+)", " ".join(row[word] for word in ("says", "why", "mend", "look")))} - {"library"}
    for sign in row["signs"]:
        assert used - set(re.compile(sign).groupindex) == set(), sign
        assert not re.search(r"\(\?[aiLmsux]|\\[AZ]|\{,|\(\?>", sign), sign


@pytest.mark.parametrize("name", [row["name"] for row in read_rows()])
def test_the_words_of_a_tool_are_answered_by_their_cause(name: str) -> None:
    example = read(INSTALL)[name]["example"]
    answer = explain(f"Collecting demo\n{example}\nnote: This error originates from a subprocess\n")
    assert answer is not None
    assert (answer.name, answer.line > 1) == (name, True)
    assert "$" not in answer.says + answer.why + answer.mend + answer.look


@pytest.mark.parametrize(
    ("symbol", "cause"),
    [
        ("_ZTIN5torch3jit8FunctionE", "other-torch"),
        ("_ZNK3c1010TensorImpl4sizeEv", "other-torch"),
        ("_ZN2at4_ops3add4callERKSs", "other-torch-abi"),
        ("aoti_torch_create_tensor", "newer-torch"),
        ("ncclCommWindowRegister", "other-cuda-library"),
        ("cudaLaunchKernelExC", "other-cuda-library"),
        ("cuTensorMapEncodeTiled", "driver-symbol"),
        ("_PyUnicode_Ready", "other-python"),
        ("PyUnicode_AsUTF8", "other-python"),
        ("_ZSt28__throw_bad_array_new_lengthv", "libstdcxx"),
        ("__gxx_personality_v0", "cxx-symbol"),
        ("__libc_single_threaded, version GLIBC_2.32", "glibc"),
        ("EVP_MD_size, version OPENSSL_3.0.0", "other-library-version"),
        ("_ZN2cv3MatC1Ev", "undefined-symbol"),
        ("_Z3addRN2at6TensorE", "undefined-symbol"),
        ("multiply", "undefined-symbol"),
        ("THPVariableClass", "torch-python-symbol"),
        ("_Z16THPVariable_WrapN2at6TensorE", "torch-python-symbol"),
        ("THCudaMalloc", "old-torch-symbol"),
        ("_THError", "old-torch-symbol"),
    ],
)
def test_whose_symbol_is_missing(symbol: str, cause: str) -> None:
    assert cause_of(f"ImportError: {SYMBOL}{symbol}") == cause
    assert cause_of(f"undefined symbol: {symbol}") == cause


@pytest.mark.parametrize(
    ("gpu", "cause"),
    [("sm_120", "gpu-newer-than-torch"), ("sm_61", "gpu-older-than-torch"), ("sm_110", "thor-newer-than-torch")],
)
def test_which_way_torch_lacks_a_gpu(gpu: str, cause: str) -> None:
    text = f"NVIDIA X with CUDA capability {gpu} is not compatible with the current PyTorch installation."
    assert cause_of(f"{text}\nRuntimeError: CUDA error: no kernel image is available for execution") == cause


@pytest.mark.parametrize(
    "text",
    [
        *("", "hello", "undefined symbol", "All tests passed", "Killed by the user's wish", "0 errors, 403 files"),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: [c10d] The client socket has failed to connect: Connection refused",
        "PermissionError: [Errno 13] Permission denied: '/data/train.bin'",
        "ImportError: cannot import name '_get_model' from 'transformers'",
        "Segmentation fault (core dumped)",
    ],
)
def test_what_is_no_error_of_an_installation_has_no_cause(text: str) -> None:
    assert cause_of(text) == ""


LATER = "ninja: build stopped: subcommand failed.\nsubprocess.CalledProcessError: Command '['ninja']' returned\n"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('a.cu(52): error: identifier "scale" is undefined', "compiler-error"),
        ("C:\\a\\b.cpp(7): error C2039: 'scale': is not a member of 'at'", "compiler-error"),
        ("a.cpp:7:3: Fehler: \u00bbscale\u00ab wurde nicht deklariert", "compiler-error"),
        ("g++: error: build/a.o: No such file or directory", "compiler-error"),
        ("a.obj : error LNK2001: unresolved external symbol scale", "linker-error"),
        ("CMake Error at CMakeLists.txt:7 (message):\n  demo wants scale", "cmake-error"),
        ("    ValueError: demo wants scale", "python-error"),
    ],
)
def test_the_first_line_with_an_error_is_named_where_its_cause_is_not_known(line: str, name: str) -> None:
    pip = "error: subprocess-exited-with-error\n\u00d7 Building wheel for demo did not run successfully.\n"
    answer = explain(f"{pip}a.h:1: warning: error is unused\n{line}\n{LATER}")
    assert answer is not None
    assert (answer.name, answer.known, answer.line, answer.quote) == (name, False, 4, line)
    assert cause_of(f"{line}\n{SYMBOL}_ZN3c10x") == "other-torch"


@pytest.mark.parametrize("given", read_samples("loudest_lines.toml")["text"], ids=lambda given: given["name"])
def test_the_loudest_line_is_not_the_cause(given: dict[str, str]) -> None:
    assert cause_of(given["text"]) == given["cause"]


@pytest.mark.parametrize(
    ("module", "command"),
    [("pkg_resources", 'install "setuptools<82"'), ("distutils", "install setuptools"), ("imp", "Python 3.11")],
)
def test_a_module_that_left_is_not_to_be_installed_by_its_name(module: str, command: str) -> None:
    answer = explain(f"ModuleNotFoundError: No module named '{module}'")
    assert answer is not None
    assert command in answer.mend
    assert f"install {module}" not in answer.mend


def test_a_range_of_versions_is_named_as_a_whole() -> None:
    answer = explain("Because torch>=2.0.1,<=2.4.1 has no wheels with a matching Python ABI tag, torch cannot be used")
    assert answer is not None
    assert (answer.says, answer.mend) == ("there is no file of torch>=2.0.1,<=2.4.1 for this Python", "")


def test_the_lines_of_uv_are_joined_and_keep_their_number() -> None:
    arrow = "  \u2570\u2500\u25b6 "
    text = f"a\n{arrow}Because flash-\n      attn needs\n  \u2502   torch\n\n      hint: more\n      of it\nnext"
    joined = [(1, "a"), (2, f"{arrow}Because flash-attn needs torch"), (5, ""), (6, "      hint: more of it")]
    assert plain_lines(text) == [*joined, (8, "next")]


class Given(NamedTuple):
    buffer: io.BytesIO


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_is_answered_with_its_line(encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "install.log"
    log.write_bytes(f"Collecting demo\r\n\x1b[31mImportError: {SYMBOL}_ZN3c10x\x1b[0m\r\nmore".encode(encoding))
    assert main(["install", "explain", str(log)]) == 0
    first, _, says, helps, page = capsys.readouterr().out.splitlines()
    assert first == f"{log}:2: ImportError: {SYMBOL}_ZN3c10x"
    assert says.startswith("_C.so was compiled for another torch than the one that is installed. ")
    assert helps.startswith("What mends it: install the file of its package that is for your torch")
    assert page == "See Fatwheel's docs/reference/install-failures.md#other-torch"


def test_what_is_not_known_says_where_to_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Given(io.BytesIO(b"no kernel image is available")))
    assert main(["install", "explain", "-"]) == 0
    assert "What mends it is not known. Look at `python -c" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", Given(io.BytesIO(b"something else")))
    assert main(["install", "explain", "-"]) == 1
    assert "There is no line with an error in it" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", Given(io.BytesIO(b"all is well\nerror: something else\nerror: more")))
    assert main(["install", "explain", "-"]) == 1
    assert capsys.readouterr().out.startswith("line 2: error: something else\n\nWhat went wrong is not known here.")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), (b"", "is empty, expected"), (b"\x7fELF\0\0", "is no text, expected")],
)
def test_a_file_that_has_no_text_is_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "log").write_bytes(content)
    with pytest.raises(InputError, match=message):
        explain_file(str(tmp_path / "log"))
