"""Projects that look as if they collapsed, and do not: none may share a wheel that cannot serve."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from ci_tools.errors import InputError, RejectedInput
from ci_tools.model.plan import Plan
from ci_tools.model.versions import Minor
from tests.builders.setuptools_projects import jobs_of, only, planned, setup
from tests.builders.sources import plan_of, write
from tests.builders.wheels import library

pytestmark = pytest.mark.slow  # many real processes


# ---------------------------------------------------------------- what is not pure


@pytest.mark.parametrize(
    "files",
    [
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


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"setup.py": setup("package_data={'demo': ['weights.dat']}"), "demo/weights.dat":
                      library("int f;")}, id="a-library-as-package-data-under-another-name"),
        pytest.param({"setup.py": setup("include_package_data=True"), "MANIFEST.in": "include demo/model.txt\n",
                      "demo/model.txt": library("int f;")}, id="a-library-by-the-manifest"),
        pytest.param({"setup.py": setup("data_files=[('lib', ['x.bin'])]"), "x.bin": library("int f;")},
                     id="a-library-as-a-data-file"),
    ],
)  # fmt: skip
def test_a_wheel_for_any_machine_with_a_library_in_it_stops_the_plan(
    files: dict[str, str | bytes], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="is compiled, and the wheel is for any machine: expected"):
        planned(tmp_path, files, only("linux"))


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
        pytest.param("works()", "import ctypes\n" + tried("ctypes.CDLL('libmkl_rt.so.2')"), id="by-what-it-loads"),
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


def test_the_home_of_a_toolkit_decides_for_its_platform_only(tmp_path: Path) -> None:
    config = only("linux-cpu", "linux-cuda").replace('["3.10", "3.12", "3.14t"]', '["3.12"]')
    files = {"setup.py": setup("ext_modules=[Extension('demo.a', ['a.c'])] * ('CUDA_HOME' in os.environ)"), "a.c": ""}
    plan = planned(tmp_path, files, config)
    assert (jobs_of(plan, "linux-cpu"), "pure" in jobs_of(plan, "linux-cuda")) == ({"pure"}, False)


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
