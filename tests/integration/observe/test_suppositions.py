"""What a build asks of its builder and no cell answers: both answers are tried, and decide nothing or are a doubt."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ci_tools.model.evidence import CellEvidence, Extensions
from tests.builders.sources import evidence_of, write

pytestmark = pytest.mark.slow  # many real processes

CONFIG = """\
package: demo
version: "1.0"
python: ["3.12"]
torch: ["2.10"]
platforms:
  linux-cpu: {owner: "@demo/cpu"}
"""
PROJECT = """\
[build-system]
requires = ["setuptools"REQUIRES]
build-backend = "setuptools.build_meta"
"""
SETUP = """\
import os, pathlib, shutil
from distutils.ccompiler import new_compiler
from setuptools import Extension, setup

libraries = []
modules = [Extension("demo.a", ["a.c"], libraries=libraries)]
BODY
setup(name="demo", version="1.0", packages=["demo"], ext_modules=modules)
"""
FILES = {"demo/__init__.py": "", "a.c": "#include <Python.h>\n", "b.c": "#include <Python.h>\n"}


def shown(folder: Path, body: str, requires: str = "", **files: str) -> CellEvidence:
    """Return the evidence of a project whose setup.py has these lines before it calls setup()."""
    project = PROJECT.replace("REQUIRES", requires)
    written = {"fatwheel.yml": CONFIG, "pyproject.toml": project, "setup.py": SETUP.replace("BODY", body)}
    return evidence_of(write(folder / "a", {**written, **FILES, **files})).platforms[0].shown


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param("new_compiler().has_function('mkl_free')", id="a-function"),
        pytest.param("os.path.isdir('/opt/homebrew/include')", id="a-folder"),
        pytest.param("pathlib.Path('/usr/lib/libz.so').exists()", id="a-file"),
        pytest.param("shutil.which('nasm')", id="a-program"),
    ],
)
def test_an_answer_of_the_builder_is_a_doubt_where_it_decides_something(asks: str, tmp_path: Path) -> None:
    found = shown(tmp_path, f"if {asks}:\n    modules.clear()\n")
    assert found.extensions is Extensions.UNKNOWN
    assert "setup.py:7: its result may depend on whether" in found.extensions_where


@pytest.mark.parametrize(
    ("action", "extensions"),
    [
        pytest.param("libraries.append('x')", Extensions.SOME, id="another-library"),
        pytest.param("modules.append(Extension('demo.b', ['b.c']))", Extensions.UNKNOWN, id="one-more-module"),
    ],
)
def test_an_answer_that_decides_no_wheel_is_no_doubt(action: str, extensions: Extensions, tmp_path: Path) -> None:
    asks = "if os.path.isdir('/opt/x') and os.path.isfile('/opt/x/y') and shutil.which('z'):\n"
    assert shown(tmp_path, f"{asks}    {action}\n").extensions is extensions


@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param("os.cpu_count()", id="processors"),
        pytest.param("int(open('/proc/meminfo').readline().split()[1]) >> 20", id="memory"),
        pytest.param("os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') >> 30", id="memory-by-sysconf"),
        pytest.param("pathlib.Path('/proc/cpuinfo').read_text().count('processor')", id="processors-by-a-file"),
        pytest.param("int(subprocess.check_output(['nproc']))", id="nproc"),
        pytest.param(
            "os.cpu_count() if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2000 else 64", id="a-limit-of-processes"
        ),
        pytest.param("25 if 'ID=ubuntu' in open('/etc/os-release').read() else 4", id="distribution"),
        pytest.param("25 if platform.freedesktop_os_release()['ID'] == 'ubuntu' else 4", id="distribution-by-platform"),
        pytest.param("int(open(CGROUP).read().replace('max', '9') if os.path.exists(CGROUP) else 1)", id="a-limit"),
    ],
)
def test_the_size_of_a_machine_is_a_doubt_only_where_it_decides_what_is_in_a_wheel(jobs: str, tmp_path: Path) -> None:
    number = f"import platform, resource, subprocess\nCGROUP = '/sys/fs/cgroup/memory.max'\njobs = {jobs}\n"
    flags = "modules[0].extra_compile_args = ['--threads', str(jobs), f'-flto={jobs}']\n"
    assert shown(tmp_path, f"{number}{flags}").extensions is Extensions.SOME
    more = "if jobs > 20:\n    modules.append(Extension('demo.b', ['b.c']))\n"
    assert "processors, memory or distribution" in shown(tmp_path / "b", f"{number}{more}").extensions_where


def test_only_all_answers_together_decide_and_that_is_seen(tmp_path: Path) -> None:
    body = "a, b = os.path.exists('/opt/a'), os.path.exists('/opt/b')\nif a and not b:\n    modules.clear()\n"
    assert shown(tmp_path, body).extensions is Extensions.UNKNOWN


def test_more_answers_than_are_tried_are_a_doubt(tmp_path: Path) -> None:
    found = shown(tmp_path, "for i in range(9): os.path.exists(f'/opt/{i}')\n")
    assert "whether there is anything at /opt/0 (and 8 more such), which no cell defines" in found.extensions_where


@pytest.mark.parametrize(
    ("body", "doubt"),
    [
        pytest.param("if os.path.exists('/opt/x'): open('/opt/x')\n", "it looks for /opt/x", id="its-content"),
        pytest.param("if shutil.which('x'): os.system('x --version')\n", "it runs x", id="its-output"),
    ],
)
def test_what_has_more_than_two_answers_is_a_doubt(body: str, doubt: str, tmp_path: Path) -> None:
    assert doubt in shown(tmp_path, body).extensions_where


# ---------------------------------------------------------------- build requirements


@pytest.mark.parametrize(
    ("requires", "body", "where"),
    [
        pytest.param("mako", "", "", id="only-modules"),
        pytest.param("mako", "import secret\n", "ModuleNotFoundError: No module named 'secret'", id="not-its-own"),
        pytest.param("mako", "import mako\nprint(mako.template)\n",
                     "it imports mako, which comes from mako", id="used"),
        pytest.param("mako", "try:\n    import mako\nexcept ImportError:\n    modules.clear()\n", "", id="found"),
        pytest.param("hatchling", "try:\n    import secret\nexcept ImportError:\n    pass\n", "", id="found-or-not"),
        pytest.param("hatchling", "try:\n    import secret\n    modules.clear()\nexcept ImportError:\n    pass\n",
                     "its result may depend on whether hatchling brings a module secret", id="found-decides"),
        pytest.param("setuptools-scm", "", "", id="only-a-version"),
        pytest.param("setuptools-scm", "from setuptools_scm import get_version\nget_version()\n", "",
                     id="a-version-by-import"),
        pytest.param("setuptools-git", "", "", id="only-a-list-of-files"),
        pytest.param("versioningit", "", "", id="only-a-version-by-a-hook"),
        pytest.param("incremental", "", "incremental adds setuptools.finalize_distribution_options of incremental",
                     id="a-hook"),
        pytest.param("demo-build-tool", "", "what demo-build-tool adds to setuptools is not known", id="nobody-knows"),
    ],
)  # fmt: skip
def test_a_build_requirement_is_a_doubt_where_it_takes_part(
    requires: str, body: str, where: str, tmp_path: Path
) -> None:
    found = shown(tmp_path, body, f', "{requires}"')
    assert where in found.extensions_where
    assert (found.extensions is Extensions.SOME) == (not where)


CARGO = '[package]\nname = "a"\n[lib]\ncrate-type = ["cdylib"]\n'
RUST = "from setuptools_rust import Binding, RustExtension\n"
IN_PROJECT = f"{PROJECT}\n[[tool.setuptools-rust.ext-modules]]\ntarget = 'demo.r'\n"
FFI = "from cffi import FFI\nffi = FFI()\nffi.cdef('int f(int);')\nffi.set_source('demo.c', '#include <x.h>')\n"


@pytest.mark.parametrize(
    ("requires", "arguments", "files", "members"),
    [
        pytest.param("setuptools-rust", 'rust_extensions=[RustExtension("demo.r", binding=Binding.PyO3)]',
                     {"setup.py": RUST, "Cargo.toml": CARGO}, ["demo/r.cpython-fatwheel.so"], id="rust_extensions"),
        pytest.param("setuptools-rust", "", {"pyproject.toml": IN_PROJECT, "Cargo.toml": CARGO},
                     ["demo/r.cpython-fatwheel.so"], id="rust-in-pyproject"),
        pytest.param("setuptools-rust", 'options={"bdist_wheel": {"py_limited_api": "cp310"}}',
                     {"pyproject.toml": IN_PROJECT, "Cargo.toml": CARGO}, ["demo/r.abi3.so"], id="rust-abi3"),
        pytest.param("cffi", 'cffi_modules=["make.py:ffi"], options={"bdist_wheel": {"py_limited_api": "cp310"}}',
                     {"make.py": FFI}, ["demo/c.abi3.so"], id="cffi_modules"),
    ],
)  # fmt: skip
def test_what_a_known_requirement_adds_is_seen(
    requires: str, arguments: str, files: dict[str, str], members: list[str], tmp_path: Path
) -> None:
    project = files.get("pyproject.toml", PROJECT).replace("REQUIRES", f', "{requires}"')
    script = f'from setuptools import setup\nsetup(name="demo", version="1.0", packages=["demo"], {arguments})\n'
    written = {**FILES, **files, "pyproject.toml": project, "setup.py": f"{files.get('setup.py', '')}{script}"}
    found = evidence_of(write(tmp_path / "a", {"fatwheel.yml": CONFIG, **written})).platforms[0].shown
    assert ([one.member for one in found.built], found.torch_abi.kind.value) == (members, "none"), found
    assert found.python_api.mislabel is None


@pytest.mark.parametrize("changed", ["", "ffi.cdef('int g(int);')\n"], ids=["the-same", "another-declaration"])
def test_a_module_that_cffi_writes_in_python_is_of_its_declarations(changed: str, tmp_path: Path) -> None:
    script = 'from setuptools import setup\nsetup(name="demo", packages=["demo"], cffi_modules=["make.py:ffi"])\n'
    files = {"pyproject.toml": PROJECT.replace("REQUIRES", ', "cffi"'), "setup.py": script, "fatwheel.yml": CONFIG}
    made = FFI.replace("'#include <x.h>'", "None")
    one, other = (
        evidence_of(write(tmp_path / name, {**FILES, **files, "make.py": text})).platforms[0].shown
        for name, text in (("a", made), ("b", f"{made}{changed}"))
    )
    assert (one.extensions, {line.partition(" ")[0] for line in one.contents}) == (
        Extensions.NONE, {"demo/__init__.py", "demo/c.py"})  # fmt: skip
    assert (one.contents == other.contents) == (not changed)


def test_the_time_in_the_head_of_a_gzip_file_is_no_content(tmp_path: Path) -> None:
    text = "import gzip\nfrom setuptools import setup\ngzip.open('demo/a.gz', 'wb').close()\n"
    text += 'setup(name="demo", version="1.0", packages=["demo"], package_data={"demo": ["*.gz"]})\n'
    one = shown(tmp_path, "", **{"setup.py": text})
    time.sleep(1.1)  # the head counts in seconds
    other = shown(tmp_path / "b", "", **{"setup.py": text, "demo/b.py": ""})
    assert {line for line in one.contents if "a.gz" in line} & {*other.contents}


def test_a_plugin_that_is_not_required_is_missing(tmp_path: Path) -> None:
    body = "try:\n    import cffi\nexcept ImportError:\n    modules.clear()\n"
    assert shown(tmp_path, body).extensions is Extensions.NONE
    assert shown(tmp_path / "b", body, ', "cffi"').extensions is Extensions.SOME


@pytest.mark.parametrize(
    ("body", "extensions"),
    [
        pytest.param("modules[0] = Extension('demo.a', ['a.c'], **pkgconfig.parse('x'))", Extensions.SOME, id="flags"),
        pytest.param("if pkgconfig.parse('x')['libraries'] == ['y']: modules.clear()", Extensions.UNKNOWN, id="read"),
        pytest.param("modules.clear()", Extensions.UNKNOWN, id="decides"),
    ],
)
def test_pkgconfig_is_asked_both_ways(body: str, extensions: Extensions, tmp_path: Path) -> None:
    asks = (
        "import pkgconfig\ntry:\n    found = pkgconfig.installed('x', '>= 1.2')\nexcept OSError:\n    found = False\n"
    )
    assert shown(tmp_path, f"{asks}if found:\n    {body}\n", ', "pkgconfig"').extensions is extensions


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("from Cython.Utils import cached_function", id="a-module-of-cython"),
        pytest.param("from Cython.Build.Dependencies import create_extension_list", id="below-a-module"),
        pytest.param("from Cython import Plex", id="a-module-taken-from-its-package"),
        pytest.param("import torch.distributed", id="a-module-of-torch"),
        pytest.param("from Cython.Build import create_extension_list", id="a-function"),
        pytest.param("import ninja; ninja.DATA", id="an-attribute"),
        pytest.param("from distlib.version import get_scheme", id="below-a-module-that-has-no-fake"),
    ],
)
def test_what_a_fake_lacks_is_not_missing_but_a_doubt(statement: str, tmp_path: Path) -> None:
    found = shown(tmp_path, f"try:\n    {statement}\nexcept Exception:\n    modules.clear()\n", ', "distlib"')
    assert "is not simulated" in found.extensions_where


CYTHON = "from Cython.Distutils.extension import Extension as Own\nfrom Cython.Build import build_ext\n"


def test_cython_translates_python_files_for_its_own_command(tmp_path: Path) -> None:
    script = f"""{CYTHON}from setuptools import setup
setup(name="demo", version="1.0", packages=["demo"], cmdclass={{"build_ext": build_ext}},
      ext_modules=[Own("demo.fast", ["demo/fast.py"], cython_directives={{}}, optional=True)])
"""
    written = {"fatwheel.yml": CONFIG, **FILES, "demo/fast.py": "", "setup.py": script}
    found = evidence_of(write(tmp_path / "a", written)).platforms[0].shown
    assert [(one.member, [command.source for command in one.compiles]) for one in found.built] == [
        ("demo/fast.cpython-fatwheel.so", ["demo/fast.py"])
    ]


def test_a_module_has_the_same_name_on_each_host_by_the_command_of_distutils(tmp_path: Path) -> None:
    body = "from distutils.command.build_ext import build_ext\n"
    script = SETUP.replace("BODY", body).replace("ext_modules=", "cmdclass={'build_ext': build_ext}, ext_modules=")
    found = evidence_of(write(tmp_path / "a", {"fatwheel.yml": CONFIG, **FILES, "setup.py": script})).platforms[0].shown
    assert [one.member for one in found.built] == ["demo/a.cpython-fatwheel.so"]


@pytest.mark.parametrize(
    ("pythons", "is_warned"), [("", True), (", python_requires='>=3.10'", True), (", python_requires='>=2.7'", False)]
)
def test_a_universal_wheel_is_warned_of_unless_it_serves_python_2(
    pythons: str, tmp_path: Path, *, is_warned: bool
) -> None:
    own = f"setup(name='demo', packages=['demo'], options={{'bdist_wheel': {{'universal': 1}}}}{pythons})\n"
    files = {"fatwheel.yml": CONFIG, "setup.py": f"from setuptools import setup\n{own}", "demo/__init__.py": ""}
    warnings = evidence_of(write(tmp_path / "a", files)).warnings
    assert any("where bdist_wheel has `universal`: leave that out" in one for one in warnings) is is_warned, warnings
