"""Projects that look as if they collapsed, and do not: none may share a wheel that cannot serve."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import InputError, RejectedInput
from ci_tools.model.versions import Minor
from tests.builders.sources import plan_of, write
from tests.builders.wheels import library

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.model.plan import Plan

pytestmark = pytest.mark.slow  # many real processes

HEAD = "import os, subprocess, sys\nfrom setuptools import Extension, setup\n"
TORCH = "from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension\n"
CONFIG = """\
package: demo
version: "1.0"
python: ["3.10", "3.12", "3.14t"]
torch: ["2.10", "2.13"]
build: {env: {SHARED: "1"}}
platforms:
  linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0", "10.0+PTX"], env: {ON_CUDA: "1"}}
  linux-cpu: {owner: "@demo/cpu"}
  windows: {owner: "@demo/windows"}
"""
ABI3 = "options={'bdist_wheel': {'py_limited_api': 'cp310'}}"
STABLE = "#include <torch/csrc/stable/library.h>\n"
DEFINED = "#define TORCH_TARGET_VERSION 0x020a000000000000\n"
TARGET = "'-DTORCH_TARGET_VERSION=0x020a000000000000'"


def setup(keywords: str, before: str = "") -> str:
    """Return a setup.py that gives setup() these keywords besides the usual."""
    return f"{HEAD}{before}setup(name='demo', version='1.0', packages=['demo'], {keywords})\n"


def only(*platforms: str) -> str:
    """Return the config with some of its platforms: each is observed, also where nobody asks for its wheels."""
    lines = CONFIG.splitlines(keepends=True)
    return "".join(line for line in lines if "@demo" not in line or line.strip().startswith(platforms))


def planned(folder: Path, files: dict[str, str | bytes], config: str = CONFIG) -> Plan:
    """Return the plan of a project with these files."""
    return plan_of(write(folder / "a", {"fatwheel.yml": config, "demo/__init__.py": "", **files}))


def jobs_of(plan: Plan, platform: str) -> set[str]:
    """Return the names of the jobs that serve a platform's cells."""
    return {item.job for item in plan.covered if item.cell.platform == platform}


# ---------------------------------------------------------------- what is not pure


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"setup.py": setup("package_data={'demo': ['weights.dat']}"), "demo/weights.dat":
                      library("int f;")}, id="a-library-as-package-data-under-another-name"),
        pytest.param({"setup.py": setup("include_package_data=True"), "MANIFEST.in": "include demo/model.txt\n",
                      "demo/model.txt": library("int f;")}, id="a-library-by-the-manifest"),
        pytest.param({"setup.py": setup("data_files=[('lib', ['x.bin'])]"), "x.bin": library("int f;")},
                     id="a-library-as-a-data-file"),
        pytest.param({"setup.py": setup("scripts=['tool']"), "tool": library("int f;")}, id="a-program-as-a-script"),
        pytest.param({"setup.py": setup("cmdclass={'build_ext': B}, ext_modules=[Extension('demo.a', ['a.c'])]",
                      "from setuptools.command.build_ext import build_ext\nclass B(build_ext):\n  def run(self):\n"
                      "    self.extensions.append(Extension('demo.b', ['b.c']))\n    super().run()\n"),
                      "a.c": "", "b.c": ""}, id="an-extension-by-a-command"),
        pytest.param({"setup.py": setup("cmdclass={'build_py': B}",
                      "from setuptools.command.build_py import build_py\nclass B(build_py):\n  def run(self):\n"
                      "    super().run()\n    subprocess.check_call(['gcc', '-shared', 'a.c', '-o', 'demo/a.so'])\n"),
                      "a.c": ""}, id="a-compiler-run-by-a-command"),
        pytest.param({"setup.py": setup("cmdclass={'build_py': B}",
                      "from setuptools.command.build_py import build_py\nclass B(build_py):\n  def run(self):\n"
                      "    super().run()\n    subprocess.check_call(['cmake', '.'])\n")}, id="cmake-run-by-a-command"),
        pytest.param({"setup.py": setup("cffi_modules=['build.py:ffi'], setup_requires=['cffi']")},
                     id="a-plugin-that-setup-asks-for"),
        pytest.param({"setup.py": setup(""), "pyproject.toml": "[build-system]\n"
                      "requires = ['setuptools', 'setuptools-secret']\nbuild-backend = 'setuptools.build_meta'\n"},
                     id="a-plugin-that-the-build-requires"),
        pytest.param({"setup.py": setup("distclass=D", "from setuptools import Distribution\nclass D(Distribution):\n"
                      "  def has_ext_modules(self): return True\n")}, id="a-wheel-for-one-platform-by-hand"),
        pytest.param({"setup.py": setup("ext_modules=[Extension('demo.a', ['a.c'])] if os.path.exists(os.sep) else []"),
                      "a.c": ""}, id="an-extension-by-what-lies-on-the-machine"),
        pytest.param({"setup.py": setup("", "print(open('/etc/hostname').read())\n")}, id="a-file-of-the-machine"),
        pytest.param({"backend.py": "from setuptools import Extension, setup\nfrom setuptools.build_meta import *\n",
                      "setup.py": setup("ext_modules=[Extension('demo.a', ['a.c'])]"), "a.c": "", "pyproject.toml":
                      "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'backend'\nbackend-path = ['.']\n"},
                     id="an-extension-behind-a-backend-of-its-own"),
        pytest.param({"setup.py": setup("", "import secret_accelerator\n"), "pyproject.toml": "[build-system]\n"
                      "requires = ['setuptools', 'secret-accelerator']\nbuild-backend = 'setuptools.build_meta'\n"},
                     id="a-module-that-the-build-installs"),
    ],
)  # fmt: skip
def test_what_may_be_compiled_is_in_no_pure_wheel(files: dict[str, str | bytes], tmp_path: Path) -> None:
    plan = planned(tmp_path, files, only("linux"))
    assert "pure" not in jobs_of(plan, "linux-cpu") | jobs_of(plan, "linux-cuda")


def test_files_that_no_extension_uses_make_no_native_wheel_unless_the_config_says_so(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"setup.py": setup(""), "kernels/unused.cu": "", "demo/table.cuh": ""})
    assert [job.name for job in plan.jobs] == ["pure"]


def test_an_extension_of_one_python_alone_is_built_for_that_python(tmp_path: Path) -> None:
    extensions = "ext_modules=[Extension('demo.a', ['a.c'])] if sys.version_info >= (3, 12) else []"
    plan = planned(tmp_path, {"setup.py": setup(extensions), "a.c": "#include <Python.h>\n"})
    served = {item.job for item in plan.covered if item.cell.python.version == Minor(3, 12)}
    assert "pure" not in served
    assert {item.job for item in plan.covered if item.cell.python.version == Minor(3, 10)} == {"pure"}


# ---------------------------------------------------------------- what a build may decide by


def deciding(folder: Path, condition: str, before: str = "", *, config: str = "") -> Plan:
    """Return the plan of a project that has an extension where a condition holds."""
    script = setup(f"ext_modules=[Extension('demo.a', ['a.c'])] if {condition} else []", before)
    files = {"setup.py": script, "a.c": "", "helper.py": HELPER, "fatwheel.yml": config or SMALL}
    return plan_of(write(folder / "a", {"demo/__init__.py": "", **files}))


BEGUN = f"BEGUN = {datetime.now(timezone.utc).year}\n"
HELPER = "import sys\nWINDOWS = sys.platform == 'win32'\n"
SMALL = """\
package: demo
version: "1.0"
python: ["3.10", "3.14t"]
platforms:
  linux-cpu: {owner: "@demo/cpu", env: {ON_CPU: "1"}}
  windows: {owner: "@demo/windows"}
"""
ONE_PYTHON = SMALL.replace(', "3.14t"', "")
ON_LINUX = SMALL.partition("  windows")[0]  # nobody asks for its wheels where a test looks only at those of Linux


def tried(statement: str) -> str:
    """Return the definition of a function that says whether a statement raises nothing."""
    return f"def works():\n  try: {statement}\n  except Exception: return False\n  return True\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "before"),
    [
        pytest.param("Path('/etc/x').exists()", "from pathlib import Path\n", id="by-pathlib"),
        pytest.param("works()", tried("os.stat('/etc/x')"), id="by-os.stat"),
        pytest.param("os.access('/etc/x', os.R_OK)", "", id="by-os.access"),
        pytest.param("'x' in os.listdir('/usr/lib')", "", id="by-os.listdir"),
        pytest.param("glob.glob('/usr/lib/libx*')", "import glob\n", id="by-glob"),
        pytest.param("works()", tried("os.open('/etc/x', os.O_RDONLY)"), id="by-os.open"),
        pytest.param("os.path.exists(os.path.expanduser('~/.demorc'))", "", id="by-the-home-folder"),
        pytest.param("os.path.exists(sys.prefix + '/include/demo.h')", "", id="by-python's-folder"),
        pytest.param("find_library('nvrtc')", "from ctypes.util import find_library\n", id="by-a-library"),
        pytest.param("works()", "import ctypes\n" + tried("ctypes.CDLL('libcuda.so.1')"), id="by-a-driver"),
        pytest.param("shutil.which('nasm')", "import shutil\n", id="by-a-program"),
        pytest.param("find_executable('nasm')", "from distutils.spawn import find_executable\n",
                     id="by-a-program-that-distutils-finds"),
        pytest.param("os.path.exists(os.environ['PATH'].split(os.pathsep)[0] + '/nasm')", "",
                     id="by-a-program-on-the-path"),
        pytest.param("x", "x = os.system('true && uname')\n", id="by-the-second-word-of-a-shell"),
        pytest.param("x", "x = os.system('type gcc >/dev/null 2>&1; type nasm')\n", id="by-a-program-of-a-shell"),
        pytest.param("x", "x = os.system('cd /opt/demo && true')\n", id="by-a-folder-of-a-shell"),
        pytest.param("x", "x = os.system('true & test -f /etc/x')\n", id="by-what-a-shell-does-meanwhile"),
        pytest.param("x", "x = os.system('true | tee /etc/x')\n", id="by-the-end-of-a-pipe"),
        pytest.param("x", "x = subprocess.getoutput('/usr/bin/gcc -dumpversion')\n", id="by-a-compiler-of-a-shell"),
        pytest.param("x", "x = subprocess.check_output(['/usr/bin/env'])\n", id="by-a-program-of-the-machine"),
        pytest.param("x", "try: x = subprocess.call(['/usr/bin/gcc', '--version'])\nexcept OSError: x = 0\n",
                     id="by-a-compiler-of-the-machine"),
        pytest.param("os.read(r, 9)", "r, w = os.pipe()\nif os.fork() == 0:\n  os.write(w, b'x'); os._exit(0)\n"
                     "os.close(w)\n",
                     id="by-half-of-a-process"),
        pytest.param("works()", tried("import triton"), id="by-what-torch-brings"),
        pytest.param("[m for m in pkgutil.iter_modules() if m.name == 'demo2']", "import pkgutil\n",
                     id="by-what-is-installed"),
        pytest.param("new_compiler().has_function('openpty')", "from distutils.ccompiler import new_compiler\n",
                     id="by-a-function-of-the-machine"),
        pytest.param("socket.gethostname() == 'x'", "import socket\n", id="by-the-name-of-the-machine"),
        pytest.param("os.getuid() == 7", "", id="by-who-runs-it"),
        pytest.param("os.cpu_count() > 8", "", id="by-the-processors"),
        pytest.param("time.strftime('%Y') > str(BEGUN)", f"import time\n{BEGUN}", id="by-the-year"),
        pytest.param("datetime.now().year > BEGUN", f"from datetime import datetime\n{BEGUN}",
                     id="by-the-date"),
    ],
)  # fmt: skip
def test_what_the_machine_decides_is_in_no_pure_wheel(condition: str, before: str, tmp_path: Path) -> None:
    config = ON_LINUX.replace(', "3.14t"', "")
    assert "pure" not in jobs_of(deciding(tmp_path, condition, before, config=config), "linux-cpu")


def test_what_a_commit_of_torch_decides_needs_the_torches_to_be_named(tmp_path: Path) -> None:
    said = r"linux-cpu may be built in another way for each torch \(setup\.py:4: .*\), expected `torch: "
    with pytest.raises(RejectedInput, match=said):
        deciding(tmp_path, "torch.version.git_version.startswith('f')", "import torch\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "before"),
    [
        pytest.param("platform.win32_ver()[0]", "import platform\n", id="win32_ver"),
        pytest.param("get_platform().startswith('win')", "from distutils.util import get_platform\n", id="distutils"),
        pytest.param("get_platform().startswith('win')", "from setuptools._distutils.util import get_platform\n",
                     id="setuptools"),
        pytest.param("get_default_compiler() == 'msvc'", "from distutils.ccompiler import get_default_compiler\n",
                     id="the-compiler"),
        pytest.param("new_compiler().compiler_type == 'msvc'", "from distutils.ccompiler import new_compiler\n",
                     id="the-kind-of-a-compiler"),
        pytest.param("not works()", tried("import fcntl"), id="a-module-of-posix"),
        pytest.param("not hasattr(os, 'getuid')", "", id="a-function-of-posix"),
        pytest.param("hasattr(sys, 'winver')", "", id="an-attribute-of-windows"),
        pytest.param("os.environ.get('OS') == 'Windows_NT'", "", id="a-variable-of-windows"),
        pytest.param("get_config_vars()['EXT_SUFFIX'].endswith('.pyd')", "from sysconfig import get_config_vars\n",
                     id="a-suffix"),
        pytest.param("'.pyd' in EXTENSION_SUFFIXES", "from importlib.machinery import EXTENSION_SUFFIXES\n",
                     id="the-suffixes-of-import"),
        pytest.param("Marker('sys_platform == \"win32\"').evaluate()", "from packaging.markers import Marker\n",
                     id="a-marker"),
        pytest.param("'win' in next(iter(sys_tags())).platform", "from packaging.tags import sys_tags\n", id="a-tag"),
        pytest.param("helper.WINDOWS", "import helper\n", id="a-module-beside-setup.py"),
        pytest.param("ns['WINDOWS']", "ns = {}\nexec(compile(open('helper.py').read(), '/x.py', 'exec'), ns)\n",
                     id="a-text-that-is-executed-under-another-name"),
        pytest.param("run_path('helper.py')['WINDOWS']", "from runpy import run_path\n", id="a-file-that-is-run"),
        pytest.param("f.result() == 'Windows'", "import platform\nfrom concurrent.futures import ThreadPoolExecutor\n"
                     "f = ThreadPoolExecutor().submit(platform.system)\n", id="a-thread"),
        pytest.param("x == b'win32'", "x = subprocess.check_output([sys.executable, '-c', "
                     "'import sys; print(sys.platform, end=str())'])\n", id="another-python"),
        pytest.param("x == b'win32'", "open('ask.py', 'w').write('import sys; print(sys.platform, end=str())')\n"
                     "x = subprocess.check_output(['python3', 'ask.py'])\n", id="a-script-of-another-python"),
    ],
)  # fmt: skip
def test_what_only_windows_compiles_is_seen_however_it_asks(condition: str, before: str, tmp_path: Path) -> None:
    plan = deciding(tmp_path, condition, before, config=ONE_PYTHON)
    assert "pure" not in jobs_of(plan, "windows")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "before"),
    [
        pytest.param("sys.implementation.version >= (3, 12)", "", id="sys.implementation"),
        pytest.param("get_config_var('VERSION') == '3.14'", "from sysconfig import get_config_var\n", id="sysconfig"),
        pytest.param("get_config_vars().get('Py_GIL_DISABLED')", "from sysconfig import get_config_vars\n",
                     id="the-gil"),
        pytest.param("not getattr(sys, '_is_gil_enabled', lambda: True)()", "", id="the-gil-that-sys-tells-of"),
        pytest.param("works()", tried("import compression"), id="a-module-of-a-later-python"),
        pytest.param("not works()", tried("import cgi"), id="a-module-of-an-earlier-python"),
        pytest.param("Marker('python_version >= \"3.12\"').evaluate()", "from packaging.markers import Marker\n",
                     id="a-marker"),
        pytest.param("get_abi_tag() == 'cp314t'", "from setuptools.command.bdist_wheel import get_abi_tag\n",
                     id="a-tag"),
    ],
)  # fmt: skip
def test_what_only_one_python_compiles_is_seen_however_it_asks(condition: str, before: str, tmp_path: Path) -> None:
    plan = deciding(tmp_path, condition, before, config=ON_LINUX)
    assert "pure" not in {item.job for item in plan.covered if item.cell.python.free_threaded}


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("os.environb.get(b'ON_CPU')", id="environb"),
        pytest.param("os.environ.copy().get('ON_CPU')", id="a-copy"),
        pytest.param("dict(**os.environ).get('ON_CPU')", id="two-stars"),
        pytest.param("'ON_CPU' in os.environ", id="in"),
        pytest.param("os.path.expandvars('$ON_CPU') == '1'", id="expandvars"),
        pytest.param("len([name for name in os.environ if name == 'ON_CPU'])", id="a-loop"),
        pytest.param("subprocess.run(['sh', '-c', 'test -n \"$ON_CPU\"']).returncode == 0", id="a-shell"),
        pytest.param("subprocess.run([sys.executable, '-c', 'import os; os.environ[\"ON_CPU\"]']).returncode == 0",
                     id="another-python"),
    ],
)  # fmt: skip
def test_a_variable_of_one_platform_is_seen_however_it_is_read(condition: str, tmp_path: Path) -> None:
    plan = deciding(tmp_path, condition, config=ONE_PYTHON)
    assert "pure" not in jobs_of(plan, "linux-cpu")


def test_a_file_that_names_the_folder_of_its_build_is_in_no_pure_wheel(tmp_path: Path) -> None:
    plan = deciding(tmp_path, "0", "open('demo/here.py', 'w').write(repr(os.getcwd()))\n")
    assert "pure" not in {job.name for job in plan.jobs}


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [
        pytest.param("import time\nprint(time.time())\n", id="a-clock-that-is-printed"),
        pytest.param("jobs = os.cpu_count()\n", id="processors-that-are-counted"),
        pytest.param("import tempfile\nfolder = tempfile.mkdtemp()\n", id="a-folder-for-a-while"),
        pytest.param("here = os.path.realpath(__file__)\n", id="its-own-place"),
        pytest.param("subprocess.call(['nvidia-smi']) if 0 else None\ntry: subprocess.call(['xpu-smi'])\n"
                     "except FileNotFoundError: pass\n", id="a-gpu-that-is-not-there"),
        pytest.param("subprocess.check_output([sys.executable, 'helper.py'])\n", id="another-python"),
        pytest.param("'__pypy__' in sys.builtin_module_names\n", id="another-kind-of-python"),
        pytest.param("import torch\nhasattr(torch.version, 'git_version')\n", id="whose-torch-it-is"),
        pytest.param("import torch\nx = hasattr(torch.ops, 'a') and hasattr(torch.ops.a, 'b')\n",
                     id="torch's-operators"),
        pytest.param("try: subprocess.call(['/usr/local/cuda/bin/nvcc', '-V'])\nexcept FileNotFoundError: pass\n",
                     id="a-toolkit-in-its-usual-place"),
        pytest.param("import psutil\nx = psutil.Process().memory_info().rss\n", id="its-own-memory"),
        pytest.param("if sys.platform != 'win32':\n  os.system('cd demo && type gcc > /dev/null 2>&1; true')\n"
                     "  subprocess.check_call(['bash', '-c', 'type git || exit 1'])\n", id="a-shell"),
    ],
)  # fmt: skip
def test_what_decides_nothing_costs_no_wheel(before: str, tmp_path: Path) -> None:
    assert [job.name for job in deciding(tmp_path, "0", before, config=ONE_PYTHON).jobs] == ["pure"]


@pytest.mark.slow
def test_a_header_that_a_compiler_brings_along_is_known_by_system(tmp_path: Path) -> None:
    """Apple's compiler has no OpenMP."""
    before = """\
from distutils.ccompiler import new_compiler
from distutils.errors import CompileError
import tempfile
probe = os.path.join(tempfile.mkdtemp(), "probe.c")
open(probe, "w").write("#include <omp.h>\\n")
try:
    new_compiler().compile([probe])
    has_openmp = True
except CompileError:
    has_openmp = False
"""
    plan = deciding(tmp_path, "has_openmp", before, config=ONE_PYTHON + '  macos-arm64: {owner: "@demo/macos"}\n')
    assert {name: "pure" in jobs_of(plan, name) for name in ("linux-cpu", "windows", "macos-arm64")} == {
        "linux-cpu": False, "windows": False, "macos-arm64": True}  # fmt: skip
    assert not [line for line in plan.warnings if "omp.h" in line]


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [
        pytest.param("open('written.h', 'w').write(VERSION)\n", id="a-new-header"),
        pytest.param("open('a.c', 'w').write(VERSION)\n", id="a-source-that-it-changes"),
    ],
)
def test_a_source_that_is_written_for_one_torch_is_in_no_wheel_for_another(before: str, tmp_path: Path) -> None:
    script = setup("ext_modules=[Extension('demo.a', ['a.c'])]", "from importlib.metadata import version\n"
                   "VERSION = '#define TORCH \"' + version('torch') + '\"'\n" + before)  # fmt: skip
    config = SMALL.replace("platforms:", 'torch: ["2.10", "2.11"]\nplatforms:')
    files = {"setup.py": script, "a.c": '#include "written.h"\n', "fatwheel.yml": config, "demo/__init__.py": ""}
    with pytest.raises(InputError, match=r"its build differs between them: the sources that it writes"):
        plan_of(write(tmp_path / "a", files))


# ---------------------------------------------------------------- one name, two contents


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keywords", "before", "reason"),
    [
        pytest.param("install_requires=['pywin32'] if sys.platform == 'win32' else []", "", "METADATA",
                     id="requirements-by-the-system"),
        pytest.param("install_requires=['tomli'] if sys.version_info < (3, 11) else []", "", "METADATA",
                     id="requirements-by-the-python"),
        pytest.param("install_requires=['cuda-python'] if os.environ.get('ON_CUDA') else []", "", "METADATA",
                     id="requirements-by-a-variable-of-one-platform"),
        pytest.param("install_requires=['torch==' + torch.__version__.split('+')[0]]", "import torch\n", "METADATA",
                     id="requirements-by-the-torch-of-the-builder"),
        pytest.param("package_data={'demo': ['a.txt'] if sys.platform == 'linux' else []}", "", "its members",
                     id="package-data-by-the-system"),
        pytest.param("", "open('demo/config.py', 'w').write(f'python = {sys.version_info[:2]}')\n",
                     "the content of its files .demo/config.py.", id="a-file-that-names-the-python"),
    ],
)  # fmt: skip
def test_one_pure_wheel_is_not_made_of_builds_that_differ(
    keywords: str, before: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"its build differs between them: {reason}"):
        planned(tmp_path, {"setup.py": setup(keywords, before), "demo/a.txt": ""})


def test_a_version_that_depends_on_the_builder_is_refused(tmp_path: Path) -> None:
    script = setup("").replace("'1.0'", "'1.1' if os.environ.get('ON_CUDA') else '1.0'")
    with pytest.raises(InputError, match=r"more than one version, 1\.0 and 1\.1"):
        planned(tmp_path, {"setup.py": script, "fatwheel.yml": CONFIG.replace('version: "1.0"\n', "")})


def test_a_version_beside_the_config_s_is_told_with_the_variables_that_may_make_it(tmp_path: Path) -> None:
    script = setup("").replace("'1.0'", "'1.1' if os.environ.get('ON_CUDA') else '1.0'")
    with pytest.raises(InputError, match=r"fatwheel\.yml:2: version is 1\.0, but the project's is 1\.1") as caught:
        planned(tmp_path, {"setup.py": script})
    assert "its build asks for ON_CUDA (setup.py:3)" in caught.value.hint


def test_a_local_version_of_the_build_is_told_with_the_variable_and_the_line_that_make_it(tmp_path: Path) -> None:
    script = setup("").replace("'1.0'", "'1.0' + os.environ.get('VERSION_SUFFIX', '+git')")
    config = CONFIG.replace('version: "1.0"\n', "")
    what = r"setup\.py:3: VERSION_SUFFIX, which is not set, makes the version 1\.0\+git, expected a public one"
    with pytest.raises(InputError, match=what) as caught:
        planned(tmp_path, {"setup.py": script, "fatwheel.yml": config})
    assert caught.value.hint == '`build: {env: {VERSION_SUFFIX: ""}}` in the config gives 1.0'


def test_a_version_from_git_is_not_invented(tmp_path: Path) -> None:
    before = "out = subprocess.run(['git', 'describe'], capture_output=True, text=True).stdout.strip() or '0.0.0'\n"
    script = setup("", before).replace("'1.0'", "out")
    config = CONFIG.replace('"1.0"', '"2.5"')
    with pytest.raises(InputError, match=r"2\.5"):
        planned(tmp_path, {"setup.py": script, "fatwheel.yml": config})


# ---------------------------------------------------------------- the Python axis


def limited(source: str, flags: str = "") -> str:
    """Return a setup.py whose wheel says that its extension keeps to the limited API."""
    extension = f"Extension('demo.a', ['{source}'], py_limited_api=True, extra_compile_args=[{flags}])"
    return setup(f"ext_modules=[{extension}], {ABI3}")


@pytest.mark.parametrize(
    ("setup_py", "source"),
    [
        pytest.param(setup(f"ext_modules=[Extension('demo.a', ['a.c'])], {ABI3}"), "#include <Python.h>\n",
                     id="a-tag-without-a-limited-extension"),
        pytest.param(setup(f"ext_modules=[Extension('demo.a', ['a.c'], py_limited_api=True)], {ABI3}"),
                     "#include <Python.h>\n", id="the-whole-api-behind-the-tag"),
        pytest.param(setup("ext_modules=[Extension('demo.a', ['a.c'], py_limited_api=True, define_macros="
                           f"[('Py_LIMITED_API', '0x030a0000')])], {ABI3}"), "#include <pybind11/pybind11.h>\n",
                     id="pybind11-behind-the-tag"),
        pytest.param(limited("a.c", "'-DPy_LIMITED_API=0x030c0000'"), "#include <Python.h>\n",
                     id="a-later-limited-api-than-the-tag's"),
        pytest.param(limited("a.c", "'-DPy_LIMITED_API=0x030a0000', '-UPy_LIMITED_API'"), "#include <Python.h>\n",
                     id="a-limited-api-that-is-undone"),
        pytest.param(limited("a.c"), "#ifdef DEMO\n#define Py_LIMITED_API 0x030a0000\n#endif\n#include <Python.h>\n",
                     id="a-limited-api-by-a-branch"),
        pytest.param(limited("b.pyx"), "", id="cython-without-the-limited-api"),
        pytest.param(limited("a.c", "'-include', 'b.h'"), "", id="the-whole-api-by-a-flag"),
        pytest.param(setup("ext_modules=[CppExtension('demo.a', ['a.c'], py_limited_api=True)], "
                           f"cmdclass={{'build_ext': BuildExtension}}, {ABI3}", TORCH), "#include <torch/torch.h>\n",
                     id="pybind11-by-torch's-own-macros"),
    ],
)  # fmt: skip
def test_abi3_is_not_believed_where_the_code_goes_beyond_it(setup_py: str, source: str, tmp_path: Path) -> None:
    files = {"setup.py": setup_py, "a.c": source, "b.pyx": "", "b.h": "#include <Python.h>\n"}
    plan = planned(tmp_path, files, only("linux-cpu"))
    wheels = {job.wheel for job in plan.jobs if job.platform == "linux-cpu"}
    assert wheels
    assert not any("abi3" in wheel for wheel in wheels)


# ---------------------------------------------------------------- the torch axis


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extension", "source"),
    [
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}])", "#include <ATen/ATen.h>\n",
                     id="a-header-beyond-the-stable-ones"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-include', 'torch/all.h'])",
                     STABLE, id="a-header-by-a-flag"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-includetorch/all.h'])",
                     STABLE, id="a-header-within-a-flag"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-include', 'own.h'])",
                     STABLE, id="a-header-of-its-own-by-a-flag"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-Wp,-include,torch/all.h'])",
                     STABLE, id="a-header-by-a-flag-of-the-preprocessor"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '@flags.txt'])",
                     STABLE, id="flags-in-a-file"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-UTORCH_TARGET_VERSION'])",
                     STABLE, id="a-target-that-is-undone"),
        pytest.param("CppExtension('demo.a', ['a.cpp'])", f"#ifdef DEMO\n{DEFINED}#endif\n{STABLE}",
                     id="a-target-by-a-branch"),
        pytest.param("CppExtension('demo.a', ['a.cpp'])", STABLE + DEFINED, id="a-target-that-comes-too-late"),
        pytest.param("CppExtension('demo.a', ['a.cpp'])", STABLE, id="no-target"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp', 'b.cpp'], extra_compile_args={TARGET}.split() if 0 else [])",
                     STABLE, id="a-target-in-a-branch-that-is-not-taken"),
    ],
)  # fmt: skip
def test_torch_stays_an_axis_where_more_than_its_stable_abi_is_used(
    extension: str, source: str, tmp_path: Path
) -> None:
    script = setup(f"ext_modules=[{extension}], cmdclass={{'build_ext': BuildExtension}}", TORCH)
    own = {"own.h": "#include <torch/extension.h>\n", "flags.txt": "-include torch/all.h"}
    plan = planned(tmp_path, {"setup.py": script, "a.cpp": source, "b.cpp": source, **own}, only("linux-cpu"))
    assert {job.requires_torch for job in plan.jobs if job.platform == "linux-cpu"} == {">=2.10,<2.11", ">=2.13,<2.14"}


def test_a_source_that_the_build_writes_is_read_as_well(tmp_path: Path) -> None:
    before = f"{TORCH}open('made.cpp', 'w').write('#include <torch/extension.h>')\n"
    script = setup("ext_modules=[CppExtension('demo.a', ['made.cpp'])], cmdclass={'build_ext': BuildExtension}", before)
    plan = planned(tmp_path, {"setup.py": script})
    assert {str(job.torch) for job in plan.jobs if job.platform == "linux-cpu"} == {"2.10", "2.13"}
    assert "made.cpp:1: includes torch/extension.h" in plan.covered[0].reason


# ---------------------------------------------------------------- the architectures


def test_each_library_of_a_wheel_is_held_to_its_own_architectures(tmp_path: Path) -> None:
    def cuda(name: str, *codes: str) -> str:
        flags = ", ".join(f"'-gencode=arch=compute_{code.split('_')[1]},code={code}'" for code in codes)
        return f"CUDAExtension('demo.{name}', ['{name}.cu'], extra_compile_args={{'nvcc': [{flags}]}})"

    extensions = f"[{cuda('hopper', 'sm_90a')}, {cuda('blackwell', 'sm_100', 'compute_120')}, {cuda('asked')}]"
    script = setup(
        f"ext_modules={extensions} if os.getenv('CUDA_HOME') else [], cmdclass={{'build_ext': BuildExtension}}", TORCH
    )
    plan = planned(
        tmp_path, {"setup.py": script, **{f"{name}.cu": STABLE for name in ("hopper", "blackwell", "asked")}}
    )
    job = next(job for job in plan.jobs if job.platform == "linux-cuda" and str(job.python) == "3.10")
    assert {library.member.partition(".")[0]: set(library.images) for library in job.libraries} == {
        "demo/hopper": {"sm_90a"},
        "demo/blackwell": {"sm_100", "compute_120"},
        "demo/asked": {"sm_90", "sm_100", "compute_100"},
    }


@pytest.mark.parametrize(
    ("archs", "said"),
    [
        pytest.param(["80"], "no library is for 9.0 10.0+PTX, which the request names: the project chooses sm_80",
                     id="others"),
        pytest.param(["80", "90", "100", "100,code=compute_100"], "it compiles for more than the request names, which "
                     "takes longer: the project chooses compute_100 sm_100 sm_80 sm_90", id="more"),
    ],
)  # fmt: skip
def test_architectures_that_the_project_chooses_by_itself_are_named(
    archs: list[str], said: str, tmp_path: Path
) -> None:
    codes = [f"arch=compute_{arch}" + ("" if "code" in arch else f",code=sm_{arch}") for arch in archs]
    flags = f"extra_compile_args={{'nvcc': {[f'-gencode={code}' for code in codes]}}}"
    extension = f"ext_modules=[CUDAExtension('demo.a', ['a.cu'], {flags})] if os.getenv('CUDA_HOME') else []"
    script = setup(f"{extension}, cmdclass={{'build_ext': BuildExtension}}", TORCH)
    warnings = planned(tmp_path, {"setup.py": script, "a.cu": ""}, only("linux-cuda")).warnings
    assert [warning for warning in warnings if warning.endswith(said)]


@pytest.mark.parametrize(
    ("flag", "setting"),
    [
        # As fused-ssim and FlashAttention have it, and one whose variable is in torch's notation.
        pytest.param("f'-gencode=arch=compute_{a},code=sm_{a}'", '"{number}"', id="numbers"),
        pytest.param("'-arch=sm_' + a.split('.')[0] + a.split('.')[1]", '"{version}"', id="versions"),
        pytest.param("'-gencode=arch=compute_75,code=sm_75'", "", id="of-no-effect"),
    ],
)
def test_the_variable_that_chooses_the_architectures_is_named(flag: str, setting: str, tmp_path: Path) -> None:
    flags = f"[{flag} for a in os.getenv('DEMO_CUDA_ARCHS', '7.5' if 'split' in {flag!r} else '75').split(';')]"
    extension = f"[CUDAExtension('demo.a', ['a.cu'], extra_compile_args={{'nvcc': {flags}}})]"
    online = (
        "import urllib.request\nif os.getenv('CUDA_HOME') and os.getenv('DEMO_FORCE_BUILD', 'FALSE') == 'FALSE':\n"
        "    urllib.request.urlretrieve('http://127.0.0.1:9/x.whl', 'x.whl')\n"
    )
    script = setup(
        f"ext_modules={extension} if os.getenv('CUDA_HOME') else [], cmdclass={{'build_ext': BuildExtension}}",
        TORCH + online,
    )
    plan = planned(tmp_path, {"setup.py": script, "a.cu": ""}, only("linux-cuda"))
    (said,) = {one for one in plan.warnings if "chooses" in one}
    expected = f"; `arch-env: {{DEMO_CUDA_ARCHS: {setting}}}` in the config chooses them"
    assert said.endswith(expected) if setting else "arch-env" not in said


OWN_NVCC = """
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class CUDA(build_ext):
    def build_extension(self, ext):
        self.compiler.spawn(["nvcc", "-c", "a.cu", *FLAGS, "-o", "a.o"])
        ext.extra_objects = ["a.o"]
        super().build_extension(ext)

setup(name="demo", version="1.0", packages=["demo"], cmdclass={"build_ext": CUDA},
      ext_modules=[Extension("demo.a", ["b.c"])])
"""


@pytest.mark.parametrize(
    ("flags", "images"),
    [
        pytest.param([], None, id="by-its-compiler"),
        pytest.param(["-gencode=arch=compute_90,code=sm_90"], {"sm_90"}, id="by-a-flag"),
    ],
)
def test_the_images_of_what_the_project_compiles_by_a_command_of_its_own_are_those_of_the_command(
    flags: list[str], images: set[str] | None, tmp_path: Path
) -> None:
    script = OWN_NVCC.replace("*FLAGS", repr(flags).strip("[]") or "'-O2'")
    files = {"setup.py": script, "a.cu": "#include <torch/extension.h>\n", "b.c": ""}
    plan = planned(tmp_path, files, only("linux-cuda"))
    jobs = [job for job in plan.jobs if job.platform == "linux-cuda"]
    assert {job.libraries and frozenset(job.libraries[0].images) for job in jobs} == {images and frozenset(images)}
    assert all(job.requires_torch for job in jobs)  # its header was read


# ---------------------------------------------------------------- hollow wheels, and builds that are not to be


HOLLOW = setup(
    "ext_modules=[CUDAExtension('demo.a', ['a.cu']) if gpu else CppExtension('demo.a', ['a.cpp'])], "
    "cmdclass={'build_ext': BuildExtension}",
    f"import torch\n{TORCH}gpu = torch.cuda.is_available() or os.getenv('FORCE_CUDA', '0') == '1'\n",
)


@pytest.mark.slow
def test_the_switch_that_kernels_need_is_set_for_their_cells_alone(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"setup.py": HOLLOW, "a.cu": "", "a.cpp": ""})
    by_platform = {job.platform: dict(job.env).get("FORCE_CUDA") for job in plan.jobs}
    assert by_platform == {"linux-cuda": "1", "linux-cpu": None, "windows": None}
    assert "built with FORCE_CUDA=1, without which it would leave kernels out (setup.py:5)" in plan.covered[0].reason


# As mamba-ssm 2.3.2: kernels are off by default, and once they are on, it looks for a wheel online before it compiles.
KEPT = setup(
    "ext_modules=[CUDAExtension('demo.a', ['a.cu'])] if keep else [], cmdclass={'build_ext': BuildExtension}",
    f"import urllib.request\n{TORCH}keep = os.getenv('DEMO_KEEP_CUDA', 'FALSE') == 'TRUE'\n"
    "if keep and os.getenv('DEMO_FORCE_BUILD', 'FALSE') != 'TRUE':\n"
    "    urllib.request.urlretrieve('http://127.0.0.1:9/x.whl', 'x.whl')\n",
)


@pytest.mark.slow
def test_a_switch_that_leads_to_the_network_is_set_with_the_one_that_leads_back(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"setup.py": KEPT, "a.cu": ""})
    (env,) = {job.env for job in plan.jobs if job.platform == "linux-cuda"}
    assert {("DEMO_KEEP_CUDA", "TRUE"), ("DEMO_FORCE_BUILD", "TRUE")} <= {*env}
    assert "built with DEMO_KEEP_CUDA=TRUE and DEMO_FORCE_BUILD=TRUE, without which it would" in plan.covered[0].reason
    assert not any(dict(job.env).keys() & {"DEMO_KEEP_CUDA"} for job in plan.jobs if job.platform != "linux-cuda")


HIDDEN = HOLLOW.replace(" or os.getenv('FORCE_CUDA', '0') == '1'", "")
OPTIONAL = setup(
    "ext_modules=[CppExtension('demo.a', ['a.cpp'])] + more, cmdclass={'build_ext': BuildExtension}",
    f"{TORCH}more = [CUDAExtension('demo.b', ['b.cu'])] if os.getenv('DEMO_EXTRAS') == '1' else []\n",
)
LATER = OPTIONAL.replace("if os", "if torch.__version__ >= '2.13' or os").replace(TORCH, f"import torch; {TORCH}")


def for_cuda(native: str) -> str:
    """Return a config for CUDA only, with a key."""
    archs = 'archs: ["9.0", "10.0+PTX"]'
    return only("linux-cuda").replace(f'{archs}, env: {{ON_CUDA: "1"}}', f"{native} {archs}")


@pytest.mark.parametrize(
    ("script", "native", "said"),
    [
        pytest.param(HIDDEN, "", "setup.py:5: a.cu is compiled only where the build finds a GPU, "
                     "so every wheel of linux-cuda would lack it", id="a-gpu"),
        pytest.param(OPTIONAL, 'native: ["*.cu"],', "setup.py:4: b.cu is compiled only with DEMO_EXTRAS=1, "
                     "which no cell sets, so every wheel of linux-cuda would lack it", id="a-variable"),
    ],
)  # fmt: skip
def test_sources_behind_a_condition_that_no_cell_meets_end_the_plan(
    script: str, native: str, said: str, tmp_path: Path
) -> None:
    config = for_cuda(native)
    files = {"fatwheel.yml": config, "setup.py": script, "a.cu": "", "a.cpp": "", "b.cu": ""}
    with pytest.raises(InputError) as caught:
        planned(tmp_path, files)
    assert caught.value.message == said
    assert "`native: {exclude: [" in caught.value.hint


@pytest.mark.parametrize(
    ("script", "native"),
    [
        pytest.param(HIDDEN, 'native: {include: ["*.cpp"], exclude: [a.cu]},', id="they-are-excluded"),
        pytest.param(OPTIONAL, "", id="the-config-names-none-and-the-switch-is-no-hardware"),
        pytest.param(OPTIONAL, 'native: ["*.cu"], env: {DEMO_EXTRAS: "1"},', id="the-config-sets-the-switch"),
        pytest.param(LATER, 'native: ["*.cu"],', id="a-newer-torch-of-the-plan-has-them"),
    ],
)
def test_an_optional_extension_is_no_hollow_wheel(script: str, native: str, tmp_path: Path) -> None:
    config = for_cuda(native)
    files = {"fatwheel.yml": config, "setup.py": script, "a.cu": "", "a.cpp": "#include <torch/torch.h>\n", "b.cu": ""}
    assert jobs_of(planned(tmp_path, files), "linux-cuda")


OFF = "linux-cuda: no kernel is compiled for it, though the source has a.cu; off by default: DEMO_EXTRAS (setup.py:4)"


@pytest.mark.parametrize(
    ("native", "said"),
    [
        pytest.param("", [OFF], id="of-the-source"),
        pytest.param('native: {include: ["*.cpp"], exclude: ["*.cu"]},', [], id="but-of-those-that-are-excluded"),
    ],
)
def test_a_wheel_for_cuda_without_any_kernel_is_told(native: str, said: list[str], tmp_path: Path) -> None:
    config = for_cuda(native)
    plan = planned(tmp_path, {"fatwheel.yml": config, "setup.py": OPTIONAL, "a.cu": "", "a.cpp": "", "b.cu": ""})
    assert [one for one in plan.warnings if "kernel" in one] == said


def test_a_wheel_from_the_network_is_not_taken_for_a_build(tmp_path: Path) -> None:
    before = (
        "import urllib.request\nif os.getenv('DEMO_FORCE_BUILD', 'FALSE') == 'FALSE':\n"
        "    urllib.request.urlretrieve('http://127.0.0.1:9/x.whl', 'x.whl')\n"
    )
    plan = planned(tmp_path, {"setup.py": setup("ext_modules=[Extension('demo.a', ['a.c'])]", before), "a.c": ""})
    switches = {job.env for job in plan.jobs if job.platform == "linux-cpu"}
    assert switches == {(("SHARED", "1"), ("DEMO_FORCE_BUILD", "1"))}


def test_a_cell_whose_build_would_fail_is_skipped_with_the_project_s_own_reason(tmp_path: Path) -> None:
    before = f"{TORCH}from torch.utils.cpp_extension import CUDA_HOME\n"
    before += "if CUDA_HOME is None:\n    sys.exit('demo needs CUDA')\n"
    script = setup("ext_modules=[CUDAExtension('demo.a', ['a.cu'])], cmdclass={'build_ext': BuildExtension}", before)
    plan = planned(tmp_path, {"setup.py": script, "a.cu": ""})
    assert jobs_of(plan, "linux-cuda")
    skipped = {item.reason for item in plan.skipped if item.cell.platform == "linux-cpu"}
    assert skipped == {"the project does not build there: SystemExit: demo needs CUDA (setup.py:6)"}
