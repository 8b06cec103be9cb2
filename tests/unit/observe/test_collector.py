from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.model.evidence import Binding, CellEvidence, Extensions
from ci_tools.model.versions import Minor
from tests.builders.sources import PROJECT, committed, demo, evidence_of, write

NONE, SOME, UNKNOWN = Extensions.NONE, Extensions.SOME, Extensions.UNKNOWN
NAMED = '[project]\nname = "demo"\nversion = "1.0"\n'
SCIKIT = f'[build-system]\nbuild-backend = "scikit_build_core.build"\n{NAMED}[tool.scikit-build]\n'
CONFIG = """\
package: demo
python: ["3.12"]
torch: {lowest: "2.10"}
build: {env: {BUILD: "on"}}
platforms:
  linux-cuda: {owner: x, cuda: ["13.0"], archs: ["9.0"], env: {FAST: "1", SLOW: "0"}, native: ["*.cu"]}
"""
STABLE = "#include <torch/csrc/stable/library.h>\n"
UNSTABLE = "#include <torch/extension.h>\n"
TARGET = {"CMakeLists.txt": "add_compile_definitions(TORCH_TARGET_VERSION=0x020a000000000000)\n"}


def found(folder: Path, files: dict[str, str]) -> CellEvidence:
    """Return what a project with these files shows of its one cell."""
    return evidence_of(demo(folder / "a", {"fatwheel.yml": CONFIG, **files})).platforms[0].shown


def backend(name: str, more: str = "") -> str:
    return f'[build-system]\nbuild-backend = "{name}"\n{NAMED}{more}'


# ---------------------------------------------------------------- whether anything is compiled


def test_a_variable_of_scikit_build_core_overrides_the_file(tmp_path: Path) -> None:
    config = CONFIG.replace('FAST: "1"', 'SKBUILD_WHEEL_CMAKE: "1"')
    platform = found(tmp_path, {"fatwheel.yml": config, "pyproject.toml": f"{SCIKIT}wheel.cmake = false\n"})
    assert platform.extensions is SOME


# ---------------------------------------------------------------- what its build requires


@pytest.mark.parametrize(
    ("requires", "line", "expected"),
    [
        pytest.param("", "find_package(Torch REQUIRED)", ("torch",), id="declared-nowhere"),
        pytest.param('"torch"', "find_package(Torch REQUIRED)", (), id="declared"),
        pytest.param("", "find_package(Threads)", (), id="not-looked-for"),
    ],
)
def test_a_build_gets_the_torch_that_cmake_looks_for(
    tmp_path: Path, requires: str, line: str, expected: tuple[str, ...]
) -> None:
    pyproject = SCIKIT.replace("[build-system]\n", f"[build-system]\nrequires = [{requires}]\n")
    cmake = f"project(demo LANGUAGES CXX)\n# find_package(Torch)\n{line}\n"
    shown = found(tmp_path, {"pyproject.toml": pyproject, "CMakeLists.txt": cmake, "a.cu": UNSTABLE})
    assert shown.build_requires == expected
    assert ("CMakeLists.txt:3: cmake looks for torch" in shown.extensions_where) == bool(expected)


@pytest.mark.parametrize(("label", "is_refused"), [("+cu130", False), ("+xpu", True), ("", False)])
def test_a_torch_with_the_label_of_another_accelerator_cannot_build(
    label: str, *, is_refused: bool, tmp_path: Path
) -> None:
    pyproject = SCIKIT.replace("[build-system]\n", f"[build-system]\nrequires = ['torch==2.13.0{label}']\n")
    shown = found(tmp_path, {"pyproject.toml": pyproject, "CMakeLists.txt": "project(demo)\n", "a.cu": UNSTABLE})
    assert bool(shown.unsupported) == is_refused
    assert (shown.unsupported or "") in {"", "it requires torch ==2.13.0+xpu (pyproject.toml:2)"}


# ---------------------------------------------------------------- against which Python


@pytest.mark.parametrize(
    ("pyproject", "files", "expected"),
    [
        pytest.param(f"{SCIKIT}wheel.py-api = 'py3'", {}, (Binding.NONE, None, None), id="none"),
        pytest.param(f"{SCIKIT}wheel.py-api = 'cp310'", {}, (Binding.STABLE, Minor(3, 10), None), id="abi3"),
        pytest.param(f"{SCIKIT}wheel.py-api = 'cp315t'", {}, (Binding.STABLE, None, Minor(3, 15)), id="abi3t"),
        pytest.param(f"{SCIKIT}wheel.py-api = 'cp311.cp315t'", {}, (Binding.STABLE, Minor(3, 11), Minor(3, 15)),
                     id="both"),
        pytest.param(SCIKIT, {}, (Binding.FULL, None, None), id="nothing-declared"),
        pytest.param(f"{SCIKIT}wheel.py-api = ''", {}, (Binding.FULL, None, None), id="nothing-said"),
        pytest.param(f"{SCIKIT}wheel.py-api = 'py2.py3'", {}, (Binding.UNKNOWN, None, None), id="tag-of-another-name"),
        pytest.param(f"{SCIKIT}wheel.py-api = 'abi3'", {}, (Binding.UNKNOWN, None, None), id="misspelt"),
        pytest.param(f"{SCIKIT}wheel.py-api = 'py3'\n[[tool.scikit-build.overrides]]\nif.env.FAST = true\n"
                     "wheel.py-api = 'cp312'\n", {}, (Binding.STABLE, Minor(3, 12), None), id="by-the-platform's-env"),
        # what the sources include has the last word
        pytest.param(f"{SCIKIT}wheel.py-api = 'py3'", {"a.cpp": "#include <Python.h>\n"}, (Binding.UNKNOWN, None, None),
                     id="python-in-a-wheel-without-it"),
        pytest.param(f"{SCIKIT}wheel.py-api = 'cp310'", {"a.cpp": "#include <Python.h>\n"},
                     (Binding.STABLE, Minor(3, 10), None), id="python-in-the-limited-api"),
        pytest.param(f"{SCIKIT}wheel.py-api = 'cp310'", {"a.cu": "", "b.cpp": "#include <pybind11/pybind11.h>\n"},
                     (Binding.UNKNOWN, None, None), id="pybind11-in-the-limited-api"),
        pytest.param(f"{SCIKIT}wheel.py-api = 'py3'", {"a.cpp": UNSTABLE}, (Binding.UNKNOWN, None, None),
                     id="torch-with-python-in-a-wheel-without-it"),
    ],
)  # fmt: skip
def test_which_python_api_is_declared(
    tmp_path: Path, pyproject: str, files: dict[str, str], expected: tuple[object, ...]
) -> None:
    api = found(tmp_path, {"pyproject.toml": pyproject, **files}).python_api
    assert (api.kind, api.lowest, api.lowest_free_threaded) == expected


# ---------------------------------------------------------------- against which torch


@pytest.mark.parametrize(
    ("files", "where"),
    [
        pytest.param({"a.cu": UNSTABLE}, "a.cu:1: includes torch/extension.h", id="kernel"),
        pytest.param({"a.cu": STABLE, "b.cpp": f"\n{UNSTABLE}"}, "b.cpp:2: includes", id="binding-outside-the-globs"),
        pytest.param({"a.cu": f"{STABLE}#include <ATen/ATen.h>\n"}, "a.cu:2: includes ATen/ATen.h", id="one-of-two"),
        pytest.param({"a.cu": '#include "x/b.h"\n', "include/x/b.h": UNSTABLE}, "include/x/b.h:1: ", id="own-header"),
        pytest.param({"a.cu": '#include "../b.inc"\n', "b.inc": UNSTABLE}, "b.inc:1: ", id="own-file-of-any-name"),
        pytest.param({"a.cu": '#include "b.h"\n', "b.h": '#include "c.h"\n', "c.h": UNSTABLE}, "c.h:1: ",
                     id="two-steps"),
        pytest.param({"a.cu": f"/*\n{UNSTABLE}*/\n"}, "a.cu:2: ", id="block-comment-counts"),
        pytest.param({"a.cu": f"#if 0\n{UNSTABLE}#endif\n"}, "a.cu:2: ", id="condition-counts"),
        pytest.param({"a.cu": "/* x */ #include <torch/extension.h>\n"}, "a.cu:1: ", id="behind-a-comment"),
        pytest.param({"a.cu": "# /**/ include/**/<torch/extension.h>\n"}, "a.cu:1: ", id="comments-within"),
        pytest.param({"a.cu": "#include \\\n<torch/extension.h>\n"}, "a.cu:2: ", id="continued-line"),
        pytest.param({"a.cu": '#include "torch\\\\extension.h"\n'}, "a.cu:1: ", id="backslashes"),
        pytest.param({"a.cu": "#include <torch/csrc/stable/../../extension.h>\n"}, "a.cu:1: ", id="way-around"),
        pytest.param({"a.cu": "#include <Torch/Extension.h>\n"}, "a.cu:1: ", id="another-case"),
        pytest.param({"a.cu": '#include "../torch/include/torch/extension.h"\n'}, "a.cu:1: ", id="relative"),
        pytest.param({"a.cu": "#include_next <torch/extension.h>\n"}, "a.cu:1: ", id="include-next"),
        pytest.param({"a.cu": "%:include <torch/extension.h>\n"}, "a.cu:1: ", id="digraph"),
        pytest.param({"a.mm": "#import <torch/extension.h>\n"}, "a.mm:1: ", id="objective-c"),
        pytest.param({"a.cpp": "export import <torch/extension.h>;\n"}, "a.cpp:1: ", id="header-unit"),
        pytest.param({"a.pyx": "cdef extern from 'torch/extension.h':\n"}, "a.pyx:1: ", id="cython"),
        pytest.param({"a.cu.in": UNSTABLE}, "a.cu.in:1: ", id="file-a-build-fills-in"),
        pytest.param({"a.cu": "", "CMakeLists.txt": "target_precompile_headers(x torch/torch.h)\n"},
                     "CMakeLists.txt:1: includes torch/torch.h", id="precompiled-header"),
        pytest.param({"a.cu": "#include <THC/THCAtomics.cuh>\n"}, "a.cu:1: ", id="old-folder"),
        *(pytest.param({"a.cu": STABLE, f"b.{ending}": UNSTABLE}, f"b.{ending}:1: ", id=f"ending-{ending}")
          for ending in ("C", "CPP", "CU", "c++", "cppm", "ixx", "S", "s", "Cu.In")),
    ],
)  # fmt: skip
def test_an_include_of_torch_that_is_not_stable_is_found(tmp_path: Path, files: dict[str, str], where: str) -> None:
    abi = found(tmp_path, {**TARGET, **files}).torch_abi
    assert (abi.kind, abi.where[: len(where)]) == (Binding.FULL, where)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"a.cu": STABLE, **TARGET}, (Binding.STABLE, Minor(2, 10)), id="target-in-cmake"),
        pytest.param({"a.cu": STABLE, "setup.py": "['-DTORCH_TARGET_VERSION=0x020b000000000000']"},
                     (Binding.STABLE, Minor(2, 11)), id="target-in-setup.py"),
        pytest.param({"a.cu": STABLE, "setup.py": "('TORCH_TARGET_VERSION', '0x020B000000000000')"},
                     (Binding.STABLE, Minor(2, 11)), id="target-as-a-macro-of-setup.py"),
        pytest.param({"a.cu": f"#define TORCH_TARGET_VERSION 0x0300000000000000\n{STABLE}"},
                     (Binding.STABLE, Minor(3, 0)), id="target-in-the-source"),
        pytest.param({"a.cu": STABLE, **TARGET, "b/CMakeLists.txt": "-DTORCH_TARGET_VERSION=0x020c000000000000"},
                     (Binding.STABLE, Minor(2, 12)), id="newest-of-two-targets"),
        pytest.param({"a.cu": "#include <torch/headeronly/macros/Macros.h>\n", **TARGET},
                     (Binding.STABLE, Minor(2, 10)), id="header-only"),
        pytest.param({"a.cu": f"// {UNSTABLE}{STABLE}", **TARGET}, (Binding.STABLE, Minor(2, 10)), id="commented-out"),
        pytest.param({"a.cu": '#include "torch_shim.h"\n#include <vector>\n'}, (Binding.NONE, None), id="no-torch"),
        pytest.param({"a.cu": 'const char *s = "#include <torch/extension.h>";\n'}, (Binding.NONE, None),
                     id="in-a-text"),
        pytest.param({"a.cu": STABLE}, (Binding.UNKNOWN, None), id="no-target"),
        pytest.param({"a.cu": STABLE, "CMakeLists.txt": f"# {TARGET['CMakeLists.txt']}"}, (Binding.UNKNOWN, None),
                     id="target-commented-out"),
        pytest.param({"a.cu": f"/*\n#define TORCH_TARGET_VERSION 0x020a000000000000\n*/\n{STABLE}"},
                     (Binding.UNKNOWN, None), id="target-in-a-comment"),
        pytest.param({"a.cu": f"#if TORCH_TARGET_VERSION >= 0x020a000000000000\n{STABLE}"}, (Binding.UNKNOWN, None),
                     id="target-compared"),
        pytest.param({"a.cu": STABLE, "CMakeLists.txt": f"#[=[\n{TARGET['CMakeLists.txt']}]=]\n"},
                     (Binding.UNKNOWN, None), id="target-in-a-comment-of-cmake"),
        pytest.param({"a.cu": STABLE, "CMakeLists.txt": f"if(FALSE)\n{TARGET['CMakeLists.txt']}endif()\n"},
                     (Binding.UNKNOWN, None), id="target-in-a-branch"),
        pytest.param({"a.cu": STABLE, "CMakeLists.txt": f"IF (X)\nendif()\n{TARGET['CMakeLists.txt']}"},
                     (Binding.STABLE, Minor(2, 10)), id="target-after-a-branch"),
        pytest.param({"a.cu": "#include HEADER\n", **TARGET}, (Binding.UNKNOWN, None), id="header-in-a-macro"),
        pytest.param({"a.cu": UNSTABLE.encode("utf-16").decode("latin-1"), **TARGET}, (Binding.UNKNOWN, None),
                     id="source-that-cannot-be-read"),
        pytest.param(TARGET, (Binding.UNKNOWN, None), id="no-source-at-all"),
    ],
)  # fmt: skip
def test_torch_is_stable_only_where_all_is_shown(
    tmp_path: Path, files: dict[str, str], expected: tuple[Binding, Minor | None]
) -> None:
    abi = found(tmp_path, files).torch_abi
    assert (abi.kind, abi.target) == expected


@pytest.mark.parametrize(
    ("files", "where"),
    [
        pytest.param({"CMakeLists.txt": "\nfind_package( Torch REQUIRED)\n"}, "CMakeLists.txt:2: uses torch, but no",
                     id="find-package"),
        pytest.param({"x.cmake": "link(${TORCH_LIBRARIES})"}, "x.cmake:1: uses torch", id="libraries"),
        pytest.param({"setup.py": "from torch.utils import cpp_extension"}, "setup.py:1: uses torch", id="setup.py"),
    ],
)  # fmt: skip
def test_a_build_that_uses_torch_without_a_header_is_not_known(
    tmp_path: Path, files: dict[str, str], where: str
) -> None:
    abi = found(tmp_path, {"a.cu": "", **files}).torch_abi
    assert (abi.kind, abi.uses_torch, abi.where[: len(where)]) == (Binding.UNKNOWN, True, where)


@pytest.mark.parametrize(
    ("requires", "cargo", "expected"),
    [
        pytest.param('["maturin>=1,<2"]', "", Binding.NONE, id="none-brings-torch"),
        pytest.param('["maturin", "torch"]', "", Binding.UNKNOWN, id="torch"),
        pytest.param('["maturin", "xformers"]', "", Binding.UNKNOWN, id="one-that-nobody-knows"),
        pytest.param('["maturin"]', 'tch = "0.20"\n', Binding.UNKNOWN, id="a-crate-that-links-torch"),
    ],
)
def test_a_build_without_torch_binds_to_none(tmp_path: Path, requires: str, cargo: str, expected: Binding) -> None:
    pyproject = backend("maturin").replace("[build-system]\n", f"[build-system]\nrequires = {requires}\n")
    crate = f'[package]\nname = "demo"\nversion = "1.0.0"\n[dependencies]\npyo3 = "0.26"\n{cargo}'
    abi = found(tmp_path, {"pyproject.toml": pyproject, "Cargo.toml": crate, "src/lib.rs": ""}).torch_abi
    assert abi.kind is expected


def test_stable_headers_stay_stable_where_the_build_finds_torch(tmp_path: Path) -> None:
    cmake = f"find_package(Torch)\n{TARGET['CMakeLists.txt']}"
    assert found(tmp_path, {"a.cu": STABLE, "CMakeLists.txt": cmake}).torch_abi.kind is Binding.STABLE


@pytest.mark.parametrize(
    ("native", "files", "expected"),
    [
        pytest.param('["x/*.cu"]', {"y/a.cu": ""},
                     ["linux-cuda: its native globs match no file, although the source has y/a.cu"],
                     id="beside-the-globs"),
        pytest.param('["*.cu"]', {"a.cu": "", "b.cuh": ""}, [], id="some-match"),
        pytest.param('{include: ["x/*.cu"], exclude: [/y/]}', {"y/a.cu": ""}, [], id="excluded"),
        pytest.param('["x/*.cu"]', {"a.hip": ""}, [], id="of-another-platform"),
    ],
)  # fmt: skip
def test_native_files_that_no_glob_matches_are_warned_of(
    tmp_path: Path, native: str, files: dict[str, str], expected: list[str]
) -> None:
    config = CONFIG.replace('["*.cu"]', native)
    assert list(evidence_of(demo(tmp_path / "a", {"fatwheel.yml": config, **files})).warnings) == expected


def test_a_link_to_a_folder_is_warned_of_only_if_it_leads_out_of_the_source(tmp_path: Path) -> None:
    folder = demo(write(tmp_path / "a", {"lib/a.cu": ""}) / "python/one", {"b/c.txt": ""})
    for name, target in (("inside", "b"), ("lib", "../../lib")):
        (folder / name).symlink_to(target)
    committed(tmp_path / "a")
    (warning,) = evidence_of(folder).warnings
    assert warning.startswith("lib is a link to a folder outside the source")
    assert "`source: {path: ../.., subdirectory: python/one}`" in warning


def test_a_source_that_is_compiled_through_a_link_is_the_file_behind_it(tmp_path: Path) -> None:
    setup = "from setuptools import Extension, setup\nsetup(py_modules=['demo'], ext_modules=[EXTENSION])\n"
    setup = setup.replace("EXTENSION", "Extension('_c', ['lib/a.cpp'])")
    project = PROJECT.replace("flit_core.buildapi", "setuptools.build_meta")
    folder = demo(
        tmp_path / "a", {"fatwheel.yml": CONFIG, "pyproject.toml": project, "setup.py": setup, "b/a.cpp": UNSTABLE}
    )
    (folder / "lib").symlink_to("b")
    shown = evidence_of(folder).platforms[0].shown
    assert (shown.built[0].compiles[0].source, shown.torch_abi.where) == (
        "b/a.cpp",
        "b/a.cpp:1: includes torch/extension.h",
    )


def test_an_excluded_source_is_not_read(tmp_path: Path) -> None:
    config = CONFIG.replace('native: ["*.cu"]', 'native: {include: ["*.cu"], exclude: [/tests/]}')
    files = {"fatwheel.yml": config, "a.cu": STABLE, "tests/b.cu": UNSTABLE, **TARGET}
    (platform,) = evidence_of(demo(tmp_path / "a", files)).platforms
    assert (platform.native_files, platform.shown.torch_abi.kind) == (("a.cu",), Binding.STABLE)


# ---------------------------------------------------------------- what the project is


def test_a_project_says_its_name_version_and_pythons(tmp_path: Path) -> None:
    project = PROJECT.replace(">=3", ">=3.10").replace('"1.0"', '"1.0.0-RC1"').replace('"demo"', '"Demo"')
    facts = evidence_of(demo(tmp_path / "a", {"pyproject.toml": project})).project
    assert (facts.name, facts.version, facts.requires_python) == ("Demo", "1.0.0rc1", ">=3.10")
    assert (facts.backend, facts.where) == ("flit_core.buildapi", "pyproject.toml:4")


def test_hatchling_without_requires_python_is_warned_of(tmp_path: Path) -> None:
    (warning,) = evidence_of(demo(tmp_path / "a", {"pyproject.toml": backend("hatchling.build")})).warnings
    assert warning.startswith("pyproject.toml:2: hatchling tags a pure wheel py2.py3, not py3")
    said = backend("hatchling.build", "requires-python = '>=3'\n")
    assert evidence_of(demo(tmp_path / "a", {"pyproject.toml": said})).warnings == ()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"pyproject.toml": f'{PROJECT}dependencies = [\n  "numpy",\n  "Torch>=2.13,!=2.13.1",\n]\n'},
                     ("!=2.13.1,>=2.13", "pyproject.toml:9"), id="pyproject"),
        pytest.param({"pyproject.toml": f"{PROJECT}dependencies = ['torch>2', 'torch<3 ; python_version > \\'3\\'']\n"
                      .replace("\\'", '"')}, (">2", "pyproject.toml:7"), id="marker"),
        pytest.param({"setup.cfg": "[options]\ninstall_requires =\n  torch<3\n  torchvision>4\n"},
                     ("<3", "setup.cfg:2"), id="setup.cfg"),
        pytest.param({"pyproject.toml": f"{PROJECT}dependencies = [1, '???']\n"}, (None, ""), id="none"),
    ],
)  # fmt: skip
def test_which_torch_a_project_requires(tmp_path: Path, files: dict[str, str], expected: tuple[str, str]) -> None:
    assert evidence_of(demo(tmp_path / "a", files)).requires_torch == expected


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param({"pyproject.toml": PROJECT.replace('version = "1.0"', 'dynamic = ["version"]')
                      .replace("flit_core.buildapi", "maturin")},
                     "fatwheel.yml: it has no `version`, and the project states none (pyproject.toml)",
                     id="dynamic-version"),
        pytest.param({"pyproject.toml": PROJECT.replace("1.0", "one")},
                     'pyproject.toml:6: "one" is not a version (PEP 440)', id="version-that-is-none"),
        pytest.param({"pyproject.toml": PROJECT.replace('"1.0"', "1.0")},
                     "pyproject.toml:6: project.version is 1.0, expected text", id="version-is-a-number"),
        pytest.param({"pyproject.toml": PROJECT.replace("1.0", "1.0+cu130")},
                     "pyproject.toml:6: 1.0+cu130 is a local version, expected a public one", id="local-version"),
        pytest.param({"pyproject.toml": PROJECT.replace('"demo"', '"demi"')},
                     'fatwheel.yml:1: package is demo, but the project is "demi" (pyproject.toml:5)',
                     id="another-name"),
        pytest.param({"fatwheel.yml": f"{CONFIG}version: '2.0'\n"},
                     "fatwheel.yml:7: version is 2.0, but the project's is 1.0 (pyproject.toml:6)",
                     id="another-version"),
        pytest.param({"pyproject.toml": "[project\n"}, "pyproject.toml:1:9: this is not TOML: ", id="broken-toml"),
        pytest.param({"pyproject.toml": f"a = {'[' * 9000}"}, "pyproject.toml: this is not TOML: ", id="deep-toml"),
        pytest.param({"setup.cfg": "name = demo\n"}, "setup.cfg: cannot be parsed: File contains no section headers.",
                     id="broken-setup.cfg"),
        pytest.param({"pyproject.toml": PROJECT.replace('"flit_core.buildapi"', "[1]")},
                     "pyproject.toml:2: build-system.build-backend is [1], expected text", id="backend-is-a-list"),
    ],
)  # fmt: skip
def test_a_project_that_cannot_be_read_is_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        evidence_of(demo(tmp_path / "a", files))
    assert str(caught.value).startswith(message)


def test_a_config_may_say_the_version_of_a_dynamic_one(tmp_path: Path) -> None:
    files = {"pyproject.toml": PROJECT.replace('version = "1.0"', ""), "fatwheel.yml": f"{CONFIG}version: '2.0'\n"}
    assert evidence_of(demo(tmp_path / "a", files)).project.version == "2.0"
