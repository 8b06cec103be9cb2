from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.evidence import Binding, Extensions
from ci_tools.model.versions import Minor, Python
from ci_tools.source import backends
from ci_tools.source.backends import CellFacts, Read
from tests.builders.sources import CONFIG
from tests.unit.source.backends.test_declarative import BINARY, opened, pyproject

NONE, SOME, UNKNOWN = Extensions.NONE, Extensions.SOME, Extensions.UNKNOWN
PROJECT = "project('demo', 'c')\npy = import('python').find_installation()\n"
PURE = f"{PROJECT}py.install_sources('demo.py')\n"
LIMITED = "py.extension_module('a', 'a.c', install: true, limited_api: '3.11')\n"
PYTHONS = CONFIG.replace('"3.12"', '"3.10", "3.11", "3.12", "3.14t", "3.15t"')


def found(
    folder: Path, build: str, settings: str = "", python: str = "3.12", more: dict[str, str | bytes] | None = None
) -> Read:
    content = pyproject("mesonpy", f"[tool.meson-python]\n{settings}\n")
    files = {"pyproject.toml": content, "fatwheel.yml": PYTHONS, "meson.build": build, **(more or {})}
    read = backends.read(opened(folder, files), {}, CellFacts("linux", "x86_64", Python.parse(python)))
    assert read is not None
    return read


@pytest.mark.parametrize(
    ("build", "expected", "where"),
    [
        pytest.param(
            f"{PROJECT}py.extension_module('a',\n 'a.c')\n", SOME, "meson.build:3: extension_module()", id="extension"
        ),
        pytest.param(f"{PROJECT}shared_library('a', 'a.c')\n", SOME, "meson.build:3: shared_library()", id="library"),
        pytest.param(PURE, NONE, "meson.build:1: no meson.build compiles anything", id="python-alone"),
        pytest.param(f"{PURE}# executable('a')\n", NONE, "", id="comment"),
        pytest.param(f"{PURE}message('executable(a) # ')\n", NONE, "", id="text"),
        pytest.param(f"{PURE}message('''\nit's executable(\n''')\n", NONE, "", id="long-text"),
        pytest.param(f"{PURE}x = [\n'a'] # '\nlibrary('a')\n", SOME, "meson.build:6: library()", id="after-a-comment"),
        pytest.param(
            PURE.replace("demo.py'", "demo.py', pure: false"),
            UNKNOWN,
            "meson.build:3: pure: false, so",
            id="python-for-one-machine",
        ),
        pytest.param(PURE.replace("demo.py'", "demo.py', pure: true"), NONE, "", id="python-for-any-machine"),
        pytest.param(
            f"{PURE}custom_target('a', command: ['nvcc'])\n",
            UNKNOWN,
            "meson.build:4: what custom_target()",
            id="custom-target",
        ),
        pytest.param(f"{PURE}subproject('b')\n", UNKNOWN, "meson.build:4: what subproject()", id="subproject"),
        pytest.param(
            f"{PURE}install_data('a', install_dir: py.get_path('platlib'))\n",
            UNKNOWN,
            "meson.build:4: installs for one machine",
            id="data-for-one-machine",
        ),
        pytest.param(f"{PURE}run_command('make')\n", UNKNOWN, "meson.build:4: what run_command() runs", id="command"),
        pytest.param(
            f"{PURE}configure_file(output: 'a', command: ['cc'])\n",
            UNKNOWN,
            "meson.build:4: what configure_file() runs",
            id="command-that-writes",
        ),
        pytest.param("", UNKNOWN, "meson.build:1: there is no such file", id="no-file"),
    ],
)
def test_targets_tell_whether_anything_is_compiled(
    tmp_path: Path, build: str, expected: Extensions, where: str
) -> None:
    read = found(tmp_path, build)
    assert (read.extensions, read.where[: len(where)]) == (expected, where)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("subdir('one')", SOME, id="named"),
        pytest.param("subdir('two')", NONE, id="another"),
        pytest.param("foreach name : names\nsubdir(name)\nendforeach", SOME, id="any"),
        pytest.param("subdir('o' + 'ne')", SOME, id="made-of-two"),
        pytest.param("subdir('two/../one')", SOME, id="by-a-detour"),
    ],
)
def test_folders_are_followed(tmp_path: Path, call: str, expected: Extensions) -> None:
    more: dict[str, str | bytes] = {"one/meson.build": "library('a')\n", "two/meson.build": "message('a')\n"}
    assert found(tmp_path, f"{PURE}{call}\n", more=more).extensions is expected


def test_a_compiled_file_in_the_source_counts(tmp_path: Path) -> None:
    assert found(tmp_path, PURE, more={"demo/kernel.bin": BINARY}).extensions is UNKNOWN


@pytest.mark.parametrize(
    ("build", "settings", "expected"),
    [
        pytest.param(LIMITED, "", (Binding.FULL, None, None), id="not-in-the-tag"),
        # The tag is that of the Python that builds.
        pytest.param(LIMITED, "limited-api = true", (Binding.STABLE, Minor(3, 11), Minor(3, 15)), id="limited"),
        pytest.param(
            LIMITED.replace("11", "8"),
            "limited-api = true",
            (Binding.STABLE, Minor(3, 10), Minor(3, 15)),
            id="limited-from-before-what-is-asked-for",
        ),
        pytest.param(
            LIMITED.replace("11", "99"),
            "limited-api = true",
            (Binding.STABLE, Minor(3, 99), None),
            id="limited-from-beyond-what-is-asked-for",
        ),
        pytest.param(
            LIMITED + LIMITED.replace("11", "12"),
            "limited-api = true",
            (Binding.STABLE, Minor(3, 12), Minor(3, 15)),
            id="two-modules",
        ),
        pytest.param(
            f"{LIMITED}py.extension_module('b', 'b.c')",
            "limited-api = true",
            (Binding.UNKNOWN, None, None),
            id="one-module-is-not",
        ),
        pytest.param(
            LIMITED.replace("'3.11'", "is_on ? version : ''"),
            "limited-api = true",
            (Binding.UNKNOWN, None, None),
            id="version-from-elsewhere",
        ),
        pytest.param(
            LIMITED.replace("'3.11'", "is_on ? '3.11' : ''"),
            "limited-api = true",
            (Binding.STABLE, Minor(3, 11), Minor(3, 15)),
            id="version-of-a-condition",
        ),
        pytest.param(
            f"api = '3.11'\nif api == '3.13'\nendif\n{LIMITED.replace(chr(39) + '3.11' + chr(39), 'api')}",
            "limited-api = true",
            (Binding.STABLE, Minor(3, 11), Minor(3, 15)),
            id="version-of-a-name",
        ),
        pytest.param(
            LIMITED,
            "limited-api = true\nargs.setup = ['-Dpython.allow_limited_api=false']",
            (Binding.FULL, None, None),
            id="switched-off",
        ),
        pytest.param("executable('a', 'a.c', install: true)", "", (Binding.NONE, None, None), id="program"),
        pytest.param(
            "library('a', 'a.c', install_dir: py.get_install_dir())",
            "",
            (Binding.FULL, None, None),
            id="library-among-the-packages",
        ),
        pytest.param(
            "executable('a')\npy.install_sources('demo.py', pure: false)",
            "",
            (Binding.FULL, None, None),
            id="python-for-one-machine",
        ),
    ],
)
def test_the_python_api_is_what_the_tag_says(
    tmp_path: Path, build: str, settings: str, expected: tuple[Binding, Minor | None, Minor | None]
) -> None:
    api = found(tmp_path, f"{PROJECT}{build}", settings).python_api
    assert (api.kind, api.lowest, api.lowest_free_threaded) == expected


@pytest.mark.parametrize(
    ("python", "settings", "refused"),
    [
        pytest.param("3.14t", "limited-api = true", True, id="free-threaded-and-limited"),
        pytest.param("3.15t", "limited-api = true", False, id="free-threaded-with-a-limited-api"),
        pytest.param("3.14", "limited-api = true", False, id="limited"),
        pytest.param("3.14t", "", False, id="free-threaded"),
    ],
)
def test_a_build_that_the_backend_refuses_is_unsupported(
    tmp_path: Path, python: str, settings: str, *, refused: bool
) -> None:
    assert bool(found(tmp_path, f"{PROJECT}{LIMITED}", settings, python).unsupported) is refused


@pytest.mark.parametrize(
    ("call", "settings", "refused"),
    [
        pytest.param(
            "py.extension_module('b', 'b.c', install: true)", "limited-api = true", True, id="one-for-its-python"
        ),
        pytest.param("py.extension_module('b', 'b.c', install: true)", "", False, id="no-limited-wheel"),
        pytest.param("py.extension_module('b', 'b.c')", "limited-api = true", False, id="not-installed"),
        pytest.param("py.extension_module('b', kwargs: all, install: true)", "limited-api = true", False, id="kwargs"),
        pytest.param(
            "if x\npy.extension_module('b', 'b.c', install: true)\nendif", "limited-api = true", False, id="if"
        ),
    ],
)
def test_a_limited_wheel_refuses_a_module_for_one_python(
    tmp_path: Path, call: str, settings: str, *, refused: bool
) -> None:
    said = found(tmp_path, f"{PROJECT}{LIMITED}{call}\n", settings).unsupported
    assert said.startswith("meson.build:") is refused, said


def test_torch_in_a_meson_file_is_seen(tmp_path: Path) -> None:
    torch = found(tmp_path, f"{PROJECT}dependency('torch', modules: ['torch'])\n").torch
    assert torch is not None
    assert (torch.kind, torch.uses_torch, torch.where) == (Binding.UNKNOWN, True, "meson.build:3: names torch")


def test_architectures_in_flags_are_read(tmp_path: Path) -> None:
    archs = found(tmp_path, f"{PROJECT}args = ['-gencode=arch=compute_90a,code=sm_90a']\n").archs
    assert [tuple(one) for one in archs] == [("-gencode=arch=compute_90a,code=sm_90a", "meson.build:3")]
