"""What builds ask of compilers and of their builder's libc: it decides nothing of a wheel, or is a doubt."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.evidence import CellEvidence, Extensions
from tests.builders.sources import evidence_of, write

pytestmark = pytest.mark.slow  # real processes

CONFIG = """\
package: demo
version: "1.0"
python: ["3.12"]
torch: ["2.10"]
platforms:
  linux-cpu: {owner: "@demo/cpu"}
  macos-arm64: {owner: "@demo/macos"}
  windows: {owner: "@demo/windows"}
"""
PROJECT = '[build-system]\nrequires = ["setuptools"REQUIRES]\nbuild-backend = "setuptools.build_meta"\n'
SETUP = """\
import platform, re, sys
from setuptools import Extension, setup

module = Extension("demo.a", ["a.c"])
modules = [module]
BODY
setup(name="demo", version="1.0", packages=["demo"], ext_modules=modules)
"""
COMPILER = "platform.python_compiler()"


def shown(folder: Path, body: str, requires: str = "", **files: str) -> dict[str, CellEvidence]:
    """Return the evidence of a project whose setup.py has these lines before it calls setup(), by platform."""
    project = PROJECT.replace("REQUIRES", requires)
    named = {name.replace("__", "-"): text for name, text in files.items()}
    written = {"fatwheel.yml": CONFIG, "pyproject.toml": project, "setup.py": SETUP.replace("BODY", body), "a.c": ""}
    found = evidence_of(write(folder / "a", {**written, "demo/__init__.py": "", **named}))
    return {str(one.platform): one.shown for one in found.platforms}


def extensions(found: dict[str, CellEvidence]) -> dict[str, str]:
    """Return whether each platform compiles something."""
    return {name: str(one.extensions) for name, one in found.items()}


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param(f"'MSC' in {COMPILER}", id="by-platform"),
        pytest.param(f"{COMPILER}.startswith('MSC')", id="its-start"),
        pytest.param("'MSC' in sys.version", id="by-sys"),
        pytest.param("sys.version.find('MSC v.') != -1", id="as-distutils-finds-it"),
    ],
)
def test_the_kind_of_compiler_that_each_python_of_a_system_has_is_known(asks: str, tmp_path: Path) -> None:
    found = shown(tmp_path, f"if {asks}:\n    modules.clear()\n")
    assert extensions(found) == {"linux-cpu": "some", "macos-arm64": "some", "windows": "none"}


@pytest.mark.parametrize(
    ("asks", "known"),
    [
        pytest.param(f"'GCC' in {COMPILER}", {"macos-arm64", "windows"}, id="the-kind"),
        pytest.param("'GCC' in sys.version", {"macos-arm64", "windows"}, id="the-kind-by-sys"),
        pytest.param(f"int(re.search(r'\\d+', {COMPILER})[0]) > 14", {"windows"}, id="the-version"),
        pytest.param(f"int(re.search(r'\\d+', {COMPILER})[0]) > 1930", {"linux-cpu", "macos-arm64"}, id="microsofts"),
    ],
)
def test_what_differs_between_pythons_is_a_doubt_where_it_decides(asks: str, known: set[str], tmp_path: Path) -> None:
    found = shown(tmp_path, f"if {asks}:\n    modules.clear()\n")
    assert {name for name, one in found.items() if one.extensions is not Extensions.UNKNOWN} == known
    doubt = next(one.extensions_where for one in found.values() if one.extensions is Extensions.UNKNOWN)
    assert doubt.startswith("setup.py:6: its result may depend on whether")


@pytest.mark.parametrize(
    ("body", "known"),
    [
        pytest.param("module.extra_compile_args.append('-DX')", {"linux-cpu", "macos-arm64", "windows"}, id="a-flag"),
        pytest.param("modules.clear()", {"macos-arm64", "windows"}, id="the-wheel"),
    ],
)
def test_the_tags_of_the_builder_are_asked_for_old_and_new(body: str, known: set[str], tmp_path: Path) -> None:
    asks = "import packaging.tags as t\nif any(tag.startswith('musllinux_1_1_') for tag in t.platform_tags()):\n"
    found = shown(tmp_path, f"{asks}    {body}\n")
    assert {name for name, one in found.items() if one.extensions is not Extensions.UNKNOWN} == known


def test_a_new_libc_decides_nothing_that_an_old_one_does_not(tmp_path: Path) -> None:
    asks = "from packaging.tags import platform_tags\nif {}: modules.clear()\n"
    old = "'manylinux_2_17_x86_64' in platform_tags() or 'musllinux_1_1_x86_64' in platform_tags()"
    found = shown(tmp_path, asks.format(old))
    assert extensions(found) == {"linux-cpu": "none", "macos-arm64": "some", "windows": "some"}
    newer = shown(tmp_path / "new", asks.format("'manylinux_2_28_x86_64' in platform_tags()"))
    assert newer["linux-cpu"].extensions is Extensions.UNKNOWN


# ---------------------------------------------------------------- packages that add no more than flags or a version


def test_cppy_adds_headers_and_flags(tmp_path: Path) -> None:
    body = "from cppy import CppyBuildExt, get_include\nmodule.extra_link_args.append(get_include())\n"
    own = SETUP.replace("ext_modules=modules", 'ext_modules=modules, cmdclass={"build_ext": CppyBuildExt}')
    found = shown(tmp_path, "", ', "cppy"', **{"setup.py": own.replace("BODY", body)})
    assert extensions(found) == {"linux-cpu": "some", "macos-arm64": "some", "windows": "some"}
    flags = {name: one.built[0].compiles[0].flags for name, one in found.items()}
    assert all("-I<cppy>/include" in each for each in flags.values()), flags
    assert ("-std=c++11" in flags["linux-cpu"], "/EHsc" in flags["windows"]) == (True, True)
    missing = shown(tmp_path / "b", body)["linux-cpu"]
    assert "No module named 'cppy'" in (missing.unsupported or "")


VERSION = "from setuptools_scm import get_version\nmodule.define_macros.append(('VERSION', get_version({})))\n"
SCM = ', "setuptools-scm"'


def test_setuptools_scm_says_the_version_that_its_build_is_told(tmp_path: Path) -> None:
    found = shown(tmp_path, VERSION.format("local_scheme=lambda version: ''"), SCM)
    assert "-DVERSION=1.0" in found["linux-cpu"].built[0].compiles[0].flags


def test_versioneer_says_the_version_that_its_build_is_told(tmp_path: Path) -> None:
    body = "import versioneer\nmodule.define_macros.append(('VERSION', versioneer.get_version()))\n"
    found = shown(tmp_path, body, ', "versioneer"')
    assert "-DVERSION=1.0" in found["linux-cpu"].built[0].compiles[0].flags
    missing = shown(tmp_path / "b", body)["linux-cpu"]
    assert "No module named 'versioneer'" in (missing.unsupported or "")


def test_public_names_of_setuptools_scm_are_no_doubt(tmp_path: Path) -> None:
    """One that was not simulated hid a declared abi3 (checkout.md, K11)."""
    body = (
        "from setuptools_scm import Configuration, ScmVersion, get_version\n"
        "from setuptools_scm.version import guess_next_version\n"
        "def scheme(version: ScmVersion) -> str:\n    return version.format_next_version(guess_next_version)\n"
        "get_version('.', version_scheme=scheme, write_to='demo/v.py')\n"
    )
    found = shown(tmp_path, body, SCM, **{"PKG-INFO": "Metadata-Version: 2.4\nName: demo\nVersion: 1.7\n"})
    assert extensions(found) == {"linux-cpu": "some", "macos-arm64": "some", "windows": "some"}


@pytest.mark.parametrize(
    ("body", "doubt"),
    [
        pytest.param("from setuptools_scm import hg\n", "hg, which is not simul", id="a-name"),
        pytest.param("from setuptools_scm.version import meta\nmeta('1')\n", "calls setuptools_scm.version.meta",
                     id="a-scheme-that-is-called"),
        pytest.param("try:\n    import vcs_versioning\nexcept ImportError:\n    modules.clear()\n",
                     "it imports vcs_versioning, which is not simulated", id="what-comes-with-it"),
        pytest.param("import importlib.metadata as m\ntry:\n    m.version('setuptools-scm')\n"
                     "except m.PackageNotFoundError:\n    modules.clear()\n",
                     "it asks importlib.metadata for setuptools-scm", id="its-own-version"),
    ],
)  # fmt: skip
def test_what_else_is_asked_of_setuptools_scm_is_a_doubt(body: str, doubt: str, tmp_path: Path) -> None:
    assert doubt in shown(tmp_path, body, SCM)["linux-cpu"].extensions_where


BY_CL = """
from setuptools.command.build_ext import build_ext

class Build(build_ext):
    def build_extension(self, ext):
        compiler = self.compiler
        if compiler.compiler_type != "msvc":
            assert not hasattr(compiler, "initialized")
            return build_ext.build_extension(self, ext)
        if not compiler.initialized:
            compiler.initialize()
        compiler.spawn([compiler.cc, *compiler.compile_options, "/Tca.c", "/Foa.obj"])
        compiler.link_shared_object(["a.obj"], self.get_ext_fullpath(ext.name))
"""


def test_a_build_that_calls_cl_itself_compiles_for_windows(tmp_path: Path) -> None:
    project = PROJECT.replace("REQUIRES", "")
    script = SETUP.replace("BODY", BY_CL).replace("modules)", 'modules, cmdclass={"build_ext": Build})')
    found = evidence_of(write(tmp_path / "a", {"fatwheel.yml": CONFIG, "pyproject.toml": project, "setup.py": script,
                                               "a.c": "", "demo/__init__.py": ""})).platforms  # fmt: skip
    assert {one.shown.extensions_where for one in found} == {
        "observed by running setup.py: compiles 1 file into demo/a"
    }


OWN_COMPILE = """
import numpy
from setuptools.command.build_ext import build_ext
plain = build_ext.build_extensions
def build(self):
    compile = self.compiler._compile
    self.compiler._compile = lambda *given: compile(*given)  # as for nvcc
    plain(self)
build_ext.build_extensions = build
module.include_dirs.append(numpy.get_include())
"""


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("#include <numpy/arrayobject.h>\n", id="of-numpy"),
        pytest.param("/*\n#include <cuda_runtime.h>\n*/\n", id="in-a-comment"),
        pytest.param('#include "cuda_runtime.h"\n', id="of-the-builder"),
    ],
)
def test_a_header_is_looked_for_beside_those_of_numpy_and_not_among_them(code: str, tmp_path: Path) -> None:
    found = shown(tmp_path, OWN_COMPILE, ', "numpy"', **{"a.c": code})
    assert {one.extensions_where.partition(":")[0] for one in found.values()} == {"observed by running setup.py"}
