from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ci_tools.errors import InputError
from ci_tools.index.foreign import files as foreign_files
from ci_tools.index.maintain.marks import selection_of
from ci_tools.index.of_releases import read_listing
from ci_tools.index.pages import project_and_version
from ci_tools.model.versions import Minor, parse_specifiers, parse_version, read_required, read_version
from ci_tools.source.files import Tree
from ci_tools.source.includes import Includes, torch_abi
from ci_tools.source.python_api import uses
from tests.builders.sources import CONFIG, PROJECT, plan_of, request_of, write

DIGITS = "9" * 5000  # more than Python converts to a number


@pytest.mark.parametrize("text", [f">={DIGITS}", f"=={DIGITS}.*", f"!={DIGITS}"])
def test_a_specifier_of_more_digits_than_python_converts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="digits"):
        parse_specifiers(text)


def test_a_specifier_is_what_it_says() -> None:
    assert parse_specifiers(">=3.10").contains("3.11")


def test_a_version_of_more_digits_than_python_converts_is_one_sentence(tmp_path: Path) -> None:
    write(tmp_path, {"fatwheel.yml": f'{CONFIG}version: "{DIGITS}"\n'})
    with pytest.raises(InputError, match="version"):
        request_of(tmp_path)


@pytest.mark.parametrize("line", [f'requires-python = ">={DIGITS}"', f'dependencies = ["torch>={DIGITS}"]'])
def test_a_project_of_such_a_number_is_one_sentence(line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        plan_of(write(tmp_path / "a", {"fatwheel.yml": CONFIG, "pyproject.toml": f"{PROJECT}{line}\n", "demo.py": ""}))


@pytest.mark.parametrize(
    ("name", "repeated"),
    [
        pytest.param("a.cpp", "/*", id="comments-that-stay-open"),
        pytest.param("a.cpp", "# /**//**//**//**//**//**/", id="comments-in-directives"),
        pytest.param("a.cpp", "Py_A(", id="one-name-again-and-again"),
        pytest.param("a.cpp", "#define TORCH_TARGET_VERSION 0x020a000000000000\n", id="targets"),
        pytest.param("CMakeLists.txt", "#[[", id="comments-of-cmake"),
        pytest.param("CMakeLists.txt", "if(\n-DTORCH_TARGET_VERSION=0x020a000000000000\n", id="flags-in-branches"),
        pytest.param("CMakeLists.txt", "torch.utils import ", id="imports"),
    ],
)
def test_the_time_that_a_source_takes_grows_with_its_length(name: str, repeated: str, tmp_path: Path) -> None:
    write(tmp_path, {name: repeated * (200_000 // len(repeated)), "b.cpp": "#include <torch/a.h>\n"})
    includes = Includes(Tree(tmp_path, tuple(sorted({name, "b.cpp"}))))
    started = time.process_time()
    torch_abi(includes, ["b.cpp", *([name] if name == "a.cpp" else [])], "")
    uses(includes, ["b.cpp", *([name] if name == "a.cpp" else [])], Minor(3, 10))
    assert time.process_time() - started < 5


LISTING = json.dumps({"project": "demo", "version": DIGITS, "files": []})


@pytest.mark.parametrize("text", [DIGITS, f"1.{DIGITS}", f"1!{DIGITS}", "nonsense", ""])
def test_what_is_no_version_is_none(text: str) -> None:
    assert read_version(text) is None
    with pytest.raises(ValueError, match=r"is not a version"):
        parse_version(text)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda: selection_of(f"demo=={DIGITS}"), id="a-release-to-yank"),
        pytest.param(lambda: selection_of(f"demo-{DIGITS}.tar.gz"), id="a-file-to-yank"),
        pytest.param(lambda: read_listing(LISTING.encode(), ""), id="a-list"),
        pytest.param(lambda: project_and_version(f"demo-{DIGITS}-py3-none-any.whl"), id="a-file-name"),
    ],
)
def test_such_a_number_is_refused_wherever_it_comes_in(ask: Callable[[], object]) -> None:
    with pytest.raises((ValueError, InputError)):
        ask()


def test_metadata_of_such_a_version_is_not_that_of_a_wheel() -> None:
    content = f"Metadata-Version: 2.1\nName: demo\nVersion: {DIGITS}\n".encode()
    assert not foreign_files.is_metadata_of("demo-1.0-py3-none-any.whl", content)


NAMES = st.sampled_from(["torch", "Torch_Vision", "a.b", "a-", "-a", "numpy", "x1"])
VERSIONS = st.sampled_from(["2.10", "1.0.*", "1!2", "2.0a1", "2.0+cu130", "1.0-1", "abc", "", "1..2", "3"])
OPERATORS = st.sampled_from(["==", "===", ">=", "<=", "~=", "!=", "<", ">", "=", "=>", ""])
SPECIFIERS = st.lists(st.tuples(OPERATORS, st.sampled_from(["", " "]), VERSIONS).map("".join), max_size=3)
ENDS = st.sampled_from(["", " ", ",", '; python_version < "3.12"', " @ https://example.org/a.whl", "[cuda]", ")"])


@given(NAMES, st.sampled_from(["", " ", "["]), SPECIFIERS, st.sampled_from([",", " , ", " ", ",,"]), ENDS)
def test_a_requirement_is_read_as_packaging_reads_it(
    name: str, gap: str, specifiers: list[str], comma: str, end: str
) -> None:
    text = f"{name}{gap}{comma.join(specifiers)}{end}"
    try:
        whole = Requirement(text)
    except ValueError:
        assert read_required(text) is None, text
        return
    assert read_required(text) == (canonicalize_name(whole.name), str(whole.specifier), whole.marker is not None), text
