"""The starter config: what it says is what the evidence says, and it plans at once."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools import catalog
from ci_tools.config import loader, starter
from ci_tools.config.project import BLANK
from ci_tools.config.starter import WrittenConfig
from ci_tools.config.starter.choices import find_imports
from ci_tools.errors import InputError
from ci_tools.model.evidence import Extensions
from ci_tools.model.platforms import Platform
from ci_tools.model.request import PathSource, Request, Route, ToolchainKind
from ci_tools.model.versions import Minor
from ci_tools.plan.make import make_plan
from ci_tools.source.files import tree_at
from ci_tools.source.project_file import ProjectFile
from tests.builders.planned import ABIS, APIS, asked, shown
from tests.builders.sources import committed, git, shared_world, world, write

SYSTEM = '[build-system]\nrequires = [REQUIRES]\nbuild-backend = "BACKEND"\n'
PROJECT = '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.12"\ndependencies = ["torch>=2.8"]\n'
STABLE = "#define TORCH_TARGET_VERSION 0x020b000000000000\n#include <torch/csrc/stable/library.h>\n"
EVERYWHERE = {Platform.LINUX_CPU, Platform.LINUX_AARCH64, Platform.MACOS_ARM64, Platform.WINDOWS}
MINIMUM = "cmake_minimum_required(VERSION 3.26)\n"
CMAKE = (
    f"{MINIMUM}project(demo LANGUAGES CXX)\nadd_library(op MODULE csrc/op.cpp)\ninstall(TARGETS op DESTINATION demo)\n"
)
WITH_CUDA = CMAKE.replace("CXX)", "CXX CUDA)").replace(".cpp", ".cu")


def pyproject(backend: str = "hatchling.build", requires: str = "", project: str = PROJECT) -> str:
    return SYSTEM.replace("BACKEND", backend).replace("REQUIRES", requires) + project


class Started(NamedTuple):
    written: WrittenConfig
    request: Request


def start(root: Path, files: dict[str, str], *, package: str = "", torch: Minor | None = None) -> Started:
    """Write the files and a starter for them, and make its plan, which warns of nothing and raises if it is refused."""
    write(root / "demo", {"pyproject.toml": pyproject(), "demo/__init__.py": "", **files})
    outside = shared_world()
    written = starter.write(root / "demo", catalog.load(), outside, package=package, torch=torch)
    assert make_plan(written.path, outside).plan.warnings == ()
    return Started(written, loader.load(written.path, catalog.load()))


def platforms_of(request: Request) -> set[Platform]:
    return {platform.platform for platform in request.platforms}


def test_a_folder_that_is_called_src_is_no_module_to_import(tmp_path: Path) -> None:
    tree = tree_at(write(tmp_path, {"pyproject.toml": pyproject(), "src/__init__.py": ""}), os.environ)
    assert find_imports("demo", ProjectFile(BLANK, tree), ()) == ()


SO = "cpython-fatwheel.so"
BESIDE = [("demo/__init__.py", f"demo_cpu.{SO}", f"demo_cuda.{SO}"), ("demo/__init__.py", f"demo_cpu.{SO}")]


@pytest.mark.parametrize(
    ("members", "modules"),
    [([(f"demo/_C.{SO}",)], ("demo._C",)), ([("demo/op.so",)], ()), (BESIDE, ("demo", "demo_cpu"))],
    ids=["only-an-extension", "only-a-library", "beside-a-package"],
)
def test_a_wheel_is_tried_by_the_extensions_that_nothing_else_imports(
    members: list[tuple[str, ...]], modules: tuple[str, ...], tmp_path: Path
) -> None:
    found = shown(asked(), APIS[0], ABIS[0], Extensions.SOME)
    platforms = [replace(found, shown=replace(found.shown, members=each)) for each in members]
    project = ProjectFile(BLANK, tree_at(write(tmp_path, {"pyproject.toml": pyproject()}), os.environ))
    assert find_imports("demo", project, platforms) == modules


def test_a_pure_project_asks_for_no_torch_and_no_accelerator(tmp_path: Path) -> None:
    _, request = start(tmp_path, {"demo/kernel.cu": "// compiled on the user's machine\n"})
    assert (request.torch, platforms_of(request)) == (None, EVERYWHERE)
    assert {platform.owner for platform in request.platforms} == {None}
    assert min(request.pythons).version == Minor(3, 12)
    assert (request.validate.imports, request.validate.torch) == (("demo",), "2.15.0")


def test_a_wheel_is_tried_by_its_own_module_and_not_by_one_of_a_project_inside_it(tmp_path: Path) -> None:
    text = pyproject("scikit_build_core.build", project=PROJECT.replace("demo", "speed"))
    inside = {"third/speedy/setup.py": "", "third/speedy/speedy/__init__.py": ""}
    _, request = start(tmp_path, {"pyproject.toml": text, "CMakeLists.txt": CMAKE, "csrc/op.cpp": "", **inside})
    assert request.validate.imports == ("demo",)


def test_native_code_is_for_the_only_system_that_classifiers_name(tmp_path: Path) -> None:
    project = PROJECT.replace('"torch>=2.8"', "") + 'classifiers = ["Operating System :: Microsoft :: Windows"]\n'
    crate = '[package]\nname = "demo"\n[lib]\ncrate-type = ["cdylib"]\n[dependencies]\npyo3 = "0.28"\n'
    files = {"pyproject.toml": pyproject("maturin", project=project), "Cargo.toml": crate}
    assert platforms_of(start(tmp_path, files).request) == {Platform.WINDOWS}


SPACED = PROJECT.replace("demo", "space.tool").replace('"torch>=2.8"', "")
MODULE = 'from setuptools import setup\nsetup(py_modules=["thing"])\n'


@pytest.mark.parametrize(
    ("backend", "files", "module"),
    [
        pytest.param("hatchling.build", {"src/space/tool/__init__.py": ""}, "space.tool", id="by-its-files"),
        pytest.param("setuptools.build_meta", {"src/space/tool/__init__.py": ""}, "space.tool", id="by-its-build",
                     marks=pytest.mark.slow),
        pytest.param("setuptools.build_meta", {"setup.py": MODULE, "thing.py": ""}, "thing", id="one-file",
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_wheel_is_tried_by_what_it_has_and_not_by_a_namespace(
    backend: str, files: dict[str, str], module: str, tmp_path: Path
) -> None:
    project = pyproject(backend, "" if "hatch" in backend else '"setuptools"', SPACED)
    write(tmp_path / "demo", {"pyproject.toml": project, **files})
    found = starter.write(tmp_path / "demo", catalog.load(), shared_world())
    assert found.starter.imports == (module,)


@pytest.mark.parametrize(
    ("header", "lowest", "versions"),
    [
        pytest.param(STABLE, Minor(2, 11), (), id="stable-from-its-target"),
        pytest.param("#include <torch/extension.h>\n", None, (Minor(2, 15),), id="full-for-one-torch"),
    ],
)
def test_torch_is_asked_for_as_the_code_binds_to_it(
    tmp_path: Path, header: str, lowest: Minor | None, versions: tuple[Minor, ...]
) -> None:
    files = {"pyproject.toml": pyproject("scikit_build_core.build", '"torch"'), "CMakeLists.txt": CMAKE}
    written, request = start(tmp_path, {**files, "csrc/op.cpp": header})
    assert request.torch
    assert (request.torch.lowest, request.torch.versions) == (lowest, versions)
    assert written.starter.is_native
    narrowed = "of 2.8 to 2.15, only this; list each that you serve" in written.path.read_text()
    assert narrowed == bool(versions)


def test_a_person_names_the_torch_to_begin_with(tmp_path: Path) -> None:
    files = {"pyproject.toml": pyproject("scikit_build_core.build", '"torch"'), "CMakeLists.txt": CMAKE}
    _, request = start(tmp_path, {**files, "csrc/op.cpp": "#include <ATen/ATen.h>\n"}, torch=Minor(2, 13))
    assert request.torch
    assert (request.torch.versions, request.validate.torch) == ((Minor(2, 13),), "2.13.0")


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        pytest.param(Minor(2, 8), ("12.8", ToolchainKind.REDIST), id="only-cuda-12"),
        pytest.param(Minor(2, 13), ("13.0", ToolchainKind.AUTO), id="cuda-13-too"),
    ],
)
def test_a_compiler_comes_from_where_it_is(tmp_path: Path, torch: Minor, expected: tuple[str, ToolchainKind]) -> None:
    files = {
        "pyproject.toml": pyproject("scikit_build_core.build", '"torch"'),
        "csrc/op.cu": "#include <ATen/ATen.h>\n",
    }
    files["CMakeLists.txt"] = WITH_CUDA
    _, request = start(tmp_path, files, torch=torch)
    cuda = next(one for one in request.platforms if one.platform is Platform.LINUX_CUDA)
    assert (str(cuda.accelerators[0].version), cuda.toolchain) == expected


@pytest.mark.parametrize(
    ("cmake", "why"),
    [
        pytest.param(WITH_CUDA, "CMakeLists.txt:2: project()", id="at-once"),
        pytest.param(
            f"{CMAKE}enable_language(CUDA)\n".replace(".cpp", ".cu"), "CMakeLists.txt:5: enable_language()", id="later"
        ),
    ],
)
def test_cmake_that_needs_cuda_has_no_other_platform(tmp_path: Path, cmake: str, why: str) -> None:
    files = {
        "pyproject.toml": pyproject("scikit_build_core.build", '"torch"'),
        "csrc/op.cu": "#include <ATen/ATen.h>\n",
    }
    written, request = start(tmp_path, {**files, "CMakeLists.txt": cmake})
    assert platforms_of(request) == {Platform.LINUX_CUDA}
    assert f"# windows: {why} needs a CUDA compiler" in written.path.read_text()


def test_cmake_that_turns_cuda_on_by_default_has_no_other_platform(tmp_path: Path) -> None:
    cmake = (
        f'{CMAKE}option(GPU "" ON)\nif(GPU)\nenable_language(CUDA)\ntarget_sources(op PRIVATE csrc/op.cu)\nendif()\n'
    )
    files = {"csrc/op.cpp": "#include <ATen/ATen.h>\n", "csrc/op.cu": "", "CMakeLists.txt": cmake}
    written, request = start(tmp_path, {"pyproject.toml": pyproject("scikit_build_core.build", '"torch"'), **files})
    assert platforms_of(request) == {Platform.LINUX_CUDA}
    assert "cmake's configure step fails: Failed to find nvcc\n" in written.path.read_text()


SETUP = """\
import os
import sys
from setuptools import Extension, setup

if sys.platform == "win32":
    raise RuntimeError("demo does not run on Windows")
setup(
    name="Demo.Tools",
    version="1.5",
    python_requires=">=3.11",
    install_requires=["numpy"],
    packages=["demo"],
    ext_modules=[Extension("demo._fast", ["fast.c"])],
)
"""


EXTENSIONS = """\
import os
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
def made(name, archs):
    flags = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs.split()]
    return CUDAExtension(name, ["csrc/k.cu"], extra_compile_args={"nvcc": flags})
setup(name="demo", version="1", packages=["demo"], ext_modules=[EXTENSIONS], cmdclass={"build_ext": BuildExtension})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extensions", "archs", "env"),
    [
        pytest.param(
            'made("a", "")', ("8.0", "9.0", "10.0+PTX"), (), id="those-that-are-asked-for", marks=pytest.mark.long
        ),
        pytest.param('made("a", "80 86 90")', ("8.0", "8.6", "9.0"), (), id="its-own"),
        pytest.param(
            'made("a", "80 90"), made("b", "90a")',
            ("8.0", "9.0", "9.0a"),
            (),
            id="those-of-two-libraries",
            marks=pytest.mark.long,
        ),
        pytest.param(
            """made("a", " ".join({"8.0": "80", "9.0": "90a"}.get(one, "")
            for one in os.environ["TORCH_CUDA_ARCH_LIST"].replace(";", " ").split()))""",
            ("8.0", "9.0"),
            (),
            id="by-the-names-that-it-knows",
        ),
        pytest.param(
            'made("a", os.environ.get("CUDA_ARCHS", "70;80").replace(";", " "))',
            ("8.0", "9.0", "10.0"),
            (("CUDA_ARCHS", "80;90;100"),),
            id="by-its-own-variable-where-no-compiler-knows-its-own",
        ),
    ],
)
def test_architectures_are_those_that_the_project_compiles_for(
    tmp_path: Path, extensions: str, archs: tuple[str, ...], env: tuple[tuple[str, str], ...]
) -> None:
    setup = {"setup.py": EXTENSIONS.replace("EXTENSIONS", extensions), "csrc/k.cu": "#include <torch/extension.h>\n"}
    text = pyproject("setuptools.build_meta", '"setuptools", "torch"', PROJECT)
    _, request = start(tmp_path, {"pyproject.toml": text, **setup})
    (cuda,) = (one for one in request.platforms if one.platform is Platform.LINUX_CUDA)
    assert (cuda.archs, cuda.env) == (archs, env)


@pytest.mark.slow
def test_the_torch_of_its_builder_that_a_wheel_requires_is_no_limit_of_the_project(tmp_path: Path) -> None:
    requires = 'version="1", install_requires=["torch>=" + torch.__version__.partition("+")[0]]'
    script = EXTENSIONS.replace("EXTENSIONS", 'made("a", "")').replace('version="1"', requires)
    text = pyproject("setuptools.build_meta", '"setuptools", "torch"', project="")
    files = {"pyproject.toml": text, "setup.py": f"import torch\n{script}", "csrc/k.cu": "#include <ATen/ATen.h>\n"}
    written, _ = start(tmp_path, files)
    assert re.search(r"of 2\.\d+ to 2\.\d+, only this; list each that you serve", written.path.read_text())


@pytest.mark.slow
def test_what_only_setup_py_says_is_observed(tmp_path: Path) -> None:
    files = {"pyproject.toml": pyproject("setuptools.build_meta", project=""), "setup.py": SETUP, "fast.c": ""}
    written, request = start(tmp_path, files)
    assert (request.name, request.version, written.starter.version) == ("Demo.Tools", None, "1.5")
    assert platforms_of(request) == EVERYWHERE - {Platform.WINDOWS}
    assert "# windows: its build fails there: RuntimeError: demo does not run on Windows (setup.py:6)" in (
        written.path.read_text()
    )
    assert (request.torch, request.validate.imports) == (None, ("demo",))
    assert [str(python) for python in request.pythons if python.free_threaded] == []
    assert {platform.owner for platform in request.platforms} == {"@your-org/your-team"}


def test_a_project_whose_links_lead_to_folders_beside_it_has_all_of_its_repository_as_its_source(
    tmp_path: Path,
) -> None:
    project = PROJECT.replace("demo", "demo-torch")
    files = {"pyproject.toml": pyproject(project=project), "src/demo/torch/__init__.py": ""}
    root = write(tmp_path / "a", {"lib/CMakeLists.txt": CMAKE}) / "python/one"
    (write(root, files) / "lib").symlink_to("../../lib")
    committed(tmp_path / "a")
    written = starter.write(root, catalog.load(), shared_world())
    request = loader.load(written.path, catalog.load())
    assert (request.source, request.subdirectory) == (PathSource(path="../.."), "python/one")
    assert request.validate.imports == ("demo.torch",)  # and not the torch that it requires


def test_what_only_an_extra_brings_is_installed_for_the_trials(tmp_path: Path) -> None:
    extra = PROJECT.replace('dependencies = ["torch>=2.8"]', 'optional-dependencies = {gpu = ["torch"]}')
    files = {"pyproject.toml": pyproject(project=extra), "demo/__init__.py": "import torch\n"}
    written, request = start(tmp_path, files)
    assert (request.validate.imports, request.validate.requires) == (("demo",), ("torch",))
    assert "# `import demo` needs torch (demo/__init__.py:1), which only the extra gpu has" in written.path.read_text()


SYCL = """\
import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, SyclExtension
on_xpu = [SyclExtension("demo._C", ["a.cpp", "k.{ending}"])] if torch.version.xpu is not None else []
setup(ext_modules=on_xpu, cmdclass={{"build_ext": BuildExtension}})
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["sycl", "cpp"])
def test_sycl_code_brings_xpu_and_a_torch_that_is_there_for_it(ending: str, tmp_path: Path) -> None:
    native = dict.fromkeys(("a.cpp", f"k.{ending}"), "#include <torch/extension.h>\n")
    files = {"pyproject.toml": pyproject("setuptools.build_meta", '"setuptools", "torch"'), **native}
    _, request = start(tmp_path, {**files, "setup.py": SYCL.format(ending=ending)})
    assert platforms_of(request) == {Platform.LINUX_XPU, *EVERYWHERE}
    assert request.torch is not None
    assert request.torch.versions == (Minor(2, 14),)  # of 2.15 no build for XPU was seen


@pytest.mark.slow
def test_a_build_that_fails_everywhere_is_told_in_one_sentence(tmp_path: Path) -> None:
    setup = "raise SystemExit('demo needs LIBDEMO_DIR')\n"
    files = {"pyproject.toml": pyproject("setuptools.build_meta", project=""), "setup.py": setup}
    with pytest.raises(InputError, match=r"no platform can be built: linux-cpu, .*windows: .*demo needs LIBDEMO_DIR"):
        start(tmp_path, files)
    assert not (tmp_path / "demo/fatwheel.yml").exists()


NEWS = "import sys\nif 'sdist' in sys.argv:\n    1\n\n    open('news.txt')\nopen('made.txt', 'w')\nopen('README.md')\n"
HEADERS = {
    "setup.py": """\
from setuptools import Extension, setup
setup(packages=["demo"], ext_modules=[Extension("demo.a", ["csrc/a.c"])])
""",
    "csrc/a.c": '#include "a.h"\n#include "b.h"\n',
    "csrc/a.h": "",
    "b.h": "",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requires", "more", "lines"),
    [
        pytest.param('"setuptools"', {}, "include b.h; recursive-include csrc *.h", id="nothing-packs-them"),
        pytest.param('"setuptools"', {"MANIFEST.in": "graft csrc\ninclude *.h\n"}, "", id="a-manifest"),
        pytest.param('"setuptools"', {"MANIFEST.in": "graft csrc\ninclude *.md # not b.h\n"}, "include b.h",
                     id="a-manifest-that-lacks-one"),
        pytest.param('"setuptools"', {"MANIFEST.in": "global-include *.h\nrecursive-exclude csrc *\n"},
                     "recursive-include csrc *.h", id="a-manifest-that-takes-some-back"),
        pytest.param('"setuptools"', {"MANIFEST.in": "global-include *.h\n", "flags.txt": "-O2", "README.md": "",
                     "setup.py": f"{HEADERS['setup.py']}{NEWS}open('flags.txt')\n", "news.txt": "", "made.txt": ""},
                     "include flags.txt", id="a-file-that-setup-opens"),
        pytest.param('"setuptools", "setuptools-scm"', {}, "", id="a-plugin", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_files_that_an_sdist_would_lack_are_named(
    requires: str, more: dict[str, str], lines: str, tmp_path: Path
) -> None:
    written, request = start(
        tmp_path, {"pyproject.toml": pyproject("setuptools.build_meta", requires), **HEADERS, **more}
    )
    assert written.starter.manifest == lines
    assert request.build.sdist is not bool(lines)


@pytest.mark.slow
def test_headers_of_a_project_in_a_folder_are_those_below_it(tmp_path: Path) -> None:
    files = {"pyproject.toml": pyproject("setuptools.build_meta", '"setuptools"'), **HEADERS, "demo/__init__.py": ""}
    write(tmp_path, {f"part/{name}": text for name, text in files.items()})
    found = starter.write(tmp_path, catalog.load(), shared_world())
    assert found.starter.manifest == "include b.h; recursive-include csrc *.h"


@pytest.mark.slow
def test_a_tag_that_plan_refuses_is_refused_at_once(tmp_path: Path) -> None:
    setup = """\
from setuptools import Extension, setup
setup(ext_modules=[Extension("demo.a", ["a.c"])], options={"bdist_wheel": {"py_limited_api": "cp311"}})
"""
    files = {"pyproject.toml": pyproject("setuptools.build_meta"), "setup.py": setup, "a.c": "#include <Python.h>\n"}
    said = r"setup.py:2: the wheel is tagged cp311-abi3, though a.c:1: includes Python.h, and nothing defines"
    with pytest.raises(InputError, match=said) as caught:
        start(tmp_path, files)
    assert caught.value.hint == "mend that line"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "place"),
    [
        pytest.param({"setup.py": "import os\nprint 'hi'\n"}, "setup.py:2", id="setup-py"),
        pytest.param(
            {"setup.py": "import tools.own\n", "tools/own.py": "\n\nif 1\n"},
            "tools/own.py:3",
            id="a-module",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_line_that_is_no_python_is_named_with_the_python_that_read_it(
    tmp_path: Path, files: dict[str, str], place: str
) -> None:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    text = pyproject("setuptools.build_meta:__legacy__", '"setuptools"', project="")
    with pytest.raises(InputError, match=rf"SyntaxError: .*, says Python {here} \({place}\)\n  hint: mend that line"):
        start(tmp_path, {"pyproject.toml": text, **files})


@pytest.mark.parametrize("files", [{}, {"README.md": ""}, {"pyproject.toml": "[tool.ruff]\n"}])
def test_a_folder_without_a_package_says_what_is_expected(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    with pytest.raises(InputError, match=r"no setup\.py, expected the source of a package\n  hint: go there"):
        starter.write(tmp_path, catalog.load(), world(tmp_path))


def test_a_project_below_is_found(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python/pyproject.toml").write_text(pyproject())
    written = starter.write(tmp_path, catalog.load(), shared_world())
    assert loader.load(written.path, catalog.load()).subdirectory == "python"


def test_a_file_that_tests_break_on_purpose_is_not_read(tmp_path: Path) -> None:
    written, _ = start(tmp_path, {"tests/fixtures/broken/pyproject.toml": "[project\n"})
    assert written.others == ()


def test_one_of_several_packages_is_named(tmp_path: Path) -> None:
    other = pyproject(project=PROJECT.replace("demo", "other"))
    written, request = start(tmp_path, {"plugins/other/pyproject.toml": other}, package="other")
    assert (request.name, request.subdirectory, [str(one) for one in written.others]) == (
        "other",
        "plugins/other",
        ["demo"],
    )


def test_a_version_that_a_table_leaves_out_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": pyproject("hatchling.build", project="[project]\nname = 'demo'\n")})
    with pytest.raises(InputError, match=r"pyproject.toml: the project states no version, and no tool") as asked:
        starter.write(tmp_path, catalog.load(), shared_world())
    assert asked.value.hint.startswith('add `version = "1.2.3"` to its [project], or have a tool')
    assert not (tmp_path / "fatwheel.yml").exists()


@pytest.mark.parametrize(
    "first",
    ["import os", "from pkg_resources import parse_version\nparse_version('2') < parse_version('10') or exit(1)"],
)
def test_a_setup_py_of_old_is_planned_as_it_stands(first: str, tmp_path: Path) -> None:
    write(tmp_path, {"setup.py": f"{first}\nimport setuptools\nsetuptools.setup(name='demo', packages=[])\n"})
    written = starter.write(tmp_path, catalog.load(), shared_world())
    plan = make_plan(written.path, shared_world()).plan
    request = loader.load(written.path, catalog.load())
    assert request.build.requires == (("setuptools<82",) if "pkg_resources" in first else ())
    assert (request.version, plan.warnings, [job.wheel for job in plan.jobs]) == (
        "0.0.0",
        (),
        ["demo-0.0.0-py3-none-any.whl"],
    )


def test_a_setup_py_that_cannot_tell_its_version_is_quoted(tmp_path: Path) -> None:
    script = "import subprocess, setuptools\nsubprocess.check_call(['conda', 'remove', 'demo'])\n"
    write(tmp_path, {"setup.py": f"{script}setuptools.setup(name='demo')\n"})
    with pytest.raises(InputError, match=r"setup.py cannot tell the version: \w+Error: ") as raised:
        starter.write(tmp_path, catalog.load(), shared_world())
    assert "a build runs it in the same way" in raised.value.hint


def test_a_config_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "fatwheel.yml").write_text("mine")
    with pytest.raises(InputError, match="exists already, expected no such file: `fatwheel plan` reads it; or move it"):
        starter.write(tmp_path, catalog.load(), shared_world())
    assert (tmp_path / "fatwheel.yml").read_text() == "mine"


@pytest.mark.parametrize(
    ("project", "message"),
    [
        pytest.param("", "has no pyproject.toml with a project and no setup.py", id="nothing"),
        pytest.param("not [toml", "pyproject.toml:1:5: this is not TOML", id="broken"),
        pytest.param("[project]\nname = 5", "project.name is 5, expected text", id="name-is-a-number"),
        pytest.param("[project]\nname = 'a'\nrequires-python = 5", "project.requires-python is 5, expected text",
                     id="requires-python"),
        pytest.param("[project]\nname = 'a'\nrequires-python = '>4'", "is '>4', expected one that admits some of 3.10",
                     id="no-python"),
        pytest.param(pyproject(project=PROJECT.replace(">=2.8", "<2")),
                     "pyproject.toml:8: torch <2 is required, and the catalog has 2.6 to 2.15", id="no-torch"),
    ],
)  # fmt: skip
def test_a_project_that_cannot_be_is_refused(tmp_path: Path, project: str, message: str) -> None:
    write(tmp_path, {"README": "", **({"pyproject.toml": project} if project else {})})
    with pytest.raises(InputError) as caught:
        starter.write(tmp_path, catalog.load(), world(tmp_path / "elsewhere"))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["yes", "1.10", "null", "3d-tools", "0x10", "a.b_c-d", "1e3"])
@pytest.mark.parametrize("folder", ["", "a: b #/", "[x/", "no/", "a,b/"])
def test_whatever_a_project_is_called_its_config_loads(tmp_path: Path, name: str, folder: str) -> None:
    text = pyproject(project=PROJECT.replace("demo", name))
    write(tmp_path, {f"{folder}pyproject.toml": text, f"{folder}a\n: b.cu": ""})
    written = starter.write(tmp_path, catalog.load(), shared_world())
    request = loader.load(written.path, catalog.load())
    assert (request.name, request.subdirectory) == (name, folder.rstrip("/"))


@pytest.mark.parametrize(
    ("origin", "target"),
    [
        pytest.param("git@github.com:some-org/some.project.git", "github:some-org/some.project", id="ssh"),
        pytest.param("https://github.com/some-org/project", "github:some-org/project", id="https"),
        pytest.param("https://example.org/some-org/project", "github:your-org/your-project", id="elsewhere"),
        pytest.param("", "github:your-org/your-project", id="nowhere"),
    ],
)
def test_a_smart_sdist_has_its_wheels_in_the_repository(tmp_path: Path, origin: str, target: str) -> None:
    git(tmp_path, "init", "--quiet")
    if origin:
        git(tmp_path, "remote", "add", "origin", origin)
    (tmp_path / "pyproject.toml").write_text(pyproject())
    written = starter.write(tmp_path, catalog.load(), world(tmp_path, **os.environ), smart=True)
    request = loader.load(written.path, catalog.load())
    assert (request.publish.pypi, request.publish.targets) == (Route.SMART, (target, "pypi"))


LABELLED = """\
import os
from setuptools import setup

suffix = os.environ.get("VERSION_SUFFIX", "+git123")
setup(name="demo", version="2.0" + suffix, packages=["demo"])
"""


@pytest.mark.slow
def test_a_version_with_a_label_is_built_without_it(tmp_path: Path) -> None:
    files = {"pyproject.toml": pyproject("setuptools.build_meta", project=""), "setup.py": LABELLED}
    written, request = start(tmp_path, files)
    assert (written.starter.version, request.build.env) == ("2.0", (("VERSION_SUFFIX", ""),))


@pytest.mark.slow
def test_a_version_has_no_label_where_the_variable_of_a_release_is_set(tmp_path: Path) -> None:
    """As auto-gptq does it: its version names CUDA unless PYPI_RELEASE is set."""
    script = LABELLED.replace(
        'os.environ.get("VERSION_SUFFIX", "+git123")', '"" if "PYPI_RELEASE" in os.environ else "+cu"'
    )
    files = {"pyproject.toml": pyproject("setuptools.build_meta", project=""), "setup.py": script}
    written, request = start(tmp_path, files)
    assert (written.starter.version, request.build.env) == ("2.0", (("PYPI_RELEASE", "1"),))


@pytest.mark.slow
def test_what_was_tried_to_leave_a_label_away_is_told(tmp_path: Path) -> None:
    label = '"+" + os.environ.get("MY_VERSION", "1") * 0 + ("a" if os.environ.get("RELEASE") else "b")'
    files = {
        "pyproject.toml": pyproject("setuptools.build_meta", project=""),
        "setup.py": LABELLED.replace('os.environ.get("VERSION_SUFFIX", "+git123")', label),
    }
    with pytest.raises(InputError, match=r"with an empty MY_VERSION or RELEASE=1 it stays the same"):
        start(tmp_path, files)


@pytest.mark.slow
def test_a_label_that_no_variable_leaves_away_is_a_persons_to_decide(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": pyproject("setuptools.build_meta", project=""),
        "setup.py": LABELLED.replace('os.environ.get("VERSION_SUFFIX", "+git123")', '"+abc"'),
    }
    with pytest.raises(
        InputError, match=r"the version of the project is 2\.0\+abc, expected one without a label"
    ) as caught:
        start(tmp_path, files)
    assert caught.value.hint == "let it read BUILD_VERSION, where that is set, or say the version without a label"


@pytest.mark.slow
def test_a_label_that_a_file_states_is_named_with_its_line(tmp_path: Path) -> None:
    script = 'from setuptools import setup\nexec(open("demo/version.py").read())\nsetup(name="demo", version=VERSION)\n'
    files = {
        "pyproject.toml": pyproject("setuptools.build_meta", project=""),
        "demo/version.py": '\nVERSION = "2.0.dev0+fast.lin"\n',
        "setup.py": script,
    }
    with pytest.raises(InputError, match=r"expected one without a label") as caught:
        start(tmp_path, files)
    assert caught.value.hint == "write 2.0.dev0 at demo/version.py:2"


SWITCHED = """\
import os
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

built = [CUDAExtension("demo.a", ["a.cu"])] if os.environ.get("DEMO_BUILD_EXTRAS", "OFF") == "ON" else []
setup(name="demo", version="2.0", packages=["demo"], ext_modules=built, cmdclass={"build_ext": BuildExtension})
"""


@pytest.mark.slow
def test_the_variable_that_switches_kernels_on_is_found_and_left_to_a_person(tmp_path: Path) -> None:
    files = {"pyproject.toml": pyproject("setuptools.build_meta", project=""), "setup.py": SWITCHED, "a.cu": ""}
    written, request = start(tmp_path, files)
    (left,) = written.starter.left
    assert left.platform is Platform.LINUX_CUDA
    assert '`build: {env: {DEMO_BUILD_EXTRAS: "ON"}}` (setup.py:5) there is' in left.why
    assert Platform.LINUX_CUDA not in platforms_of(request)
