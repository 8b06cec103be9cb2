"""A setup.py that runs cmake: its extension modules count, and what they bind to is read in the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.model.evidence import Binding, CellEvidence, Extensions
from tests.builders.sources import evidence_of, plan_of, write

pytestmark = pytest.mark.slow  # many real processes

CONFIG = """\
package: demo
version: "1.0"
python: ["3.12", "3.13"]
torch: ["2.10", "2.11"]
platforms:
  linux-cpu: {owner: "@demo/cpu"}
"""
WINDOWS = '  windows: {owner: "@demo/windows"}\n'
# As in pybind11's example of CMake in setup.py.
SETUP = """\
import os, subprocess, sys
from pathlib import Path
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class Build(build_ext):
    def build_extension(self, ext):
        folder = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        said = subprocess.check_output(["cmake", "--version"], text=True)
        assert said.startswith("cmake version 4."), said
        build = Path(self.build_temp, ext.name)
        build.mkdir(parents=True, exist_ok=True)
        arguments = [os.getcwd(), f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={folder}", *MORE]
        subprocess.run(["cmake", *arguments], cwd=build, check=True)
        subprocess.run(["cmake", "--build", str(build), "-j", str(os.cpu_count())], check=True)
        AFTER

setup(name="demo", version="1.0", packages=["demo"], ext_modules=[Extension("demo.a", [])],
      cmdclass={"build_ext": Build})
"""
CMAKE = "find_package(pybind11 REQUIRED)\npybind11_add_module(a a.cpp)\n"
FILES = {"demo/__init__.py": "", "a.cpp": "#include <pybind11/pybind11.h>\n", "CMakeLists.txt": CMAKE}


def shown(folder: Path, more: str = "[]", after: str = "", **files: str) -> CellEvidence:
    """Return the evidence of a project for Linux without CUDA."""
    script = SETUP.replace("MORE", more).replace("AFTER", after)
    given = {name.replace("_", "."): text for name, text in files.items()}
    return (
        evidence_of(write(folder / "a", {"fatwheel.yml": CONFIG, "setup.py": script, **FILES, **given}))
        .platforms[0]
        .shown
    )


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("", id="it-takes-what-is-there"),
        pytest.param("os.stat(build / self.get_ext_filename(ext.name))", id="it-looks-for-the-library"),
        pytest.param("other = build / 'other'; other.mkdir(); subprocess.run(['cmake', '--build', '.'], cwd=other);"
                     "os.stat(other / self.get_ext_filename(ext.name))", id="it-names-no-folder"),
        pytest.param("os.makedirs('x'); os.system('cd x && cmake --build .');"
                     "os.stat('x/' + self.get_ext_filename(ext.name))", id="it-starts-a-shell"),
        pytest.param("self.copy_file(str(build / os.path.basename(self.get_ext_filename(ext.name))), str(folder))",
                     id="it-copies-the-library"),
    ],
)  # fmt: skip
def test_what_cmake_builds_serves_one_python_and_every_torch(after: str, tmp_path: Path) -> None:
    found = shown(tmp_path, after=after)
    assert (found.extensions, found.extensions_where) == (Extensions.SOME, "setup.py:14: its build runs cmake")
    assert (found.python_api.kind, found.torch_abi.kind) == (Binding.FULL, Binding.NONE)
    assert (found.built, found.members) == ((), None)


def test_a_source_that_includes_torch_binds_to_one_torch(tmp_path: Path) -> None:
    assert shown(tmp_path, a_cpp="#include <torch/extension.h>\n").torch_abi.kind is Binding.FULL


def test_windows_has_evidence_of_its_own(tmp_path: Path) -> None:
    script = SETUP.replace("MORE", "[]").replace("AFTER", "")
    other = "if(WIN32)\ntarget_sources(a PRIVATE other.cpp)\nendif()"
    files = {"fatwheel.yml": CONFIG + WINDOWS, "setup.py": script, **FILES, "CMakeLists.txt": lists(other)}
    texts = {"a.cpp": "", "other.cpp": "#include <torch/extension.h>\n"}
    found = evidence_of(write(tmp_path / "a", {**files, **texts})).platforms
    assert [one.shown.torch_abi.kind for one in found] == [Binding.NONE, Binding.FULL]
    assert {one.shown.extensions_where for one in found} == {"setup.py:14: its build runs cmake"}


def test_a_build_that_imports_torch_and_includes_none_of_it_is_not_known(tmp_path: Path) -> None:
    found = shown(tmp_path, more="[__import__('torch').utils.cmake_prefix_path]")
    assert found.torch_abi.kind is Binding.UNKNOWN


@pytest.mark.parametrize(
    ("after", "what"),
    [
        pytest.param("open(build / 'made-by-cmake.txt')", "it fails after it ran cmake", id="it-needs-another-file"),
        pytest.param(
            "subprocess.run(['cmake', '-P', 'a.cmake'])", "it runs cmake, whose answer", id="it-runs-a-script"
        ),
        pytest.param("subprocess.run(['cmake', '-E', 'sha256sum', 'a'])", "it runs cmake, whose answer", id="it-asks"),
        pytest.param(
            "subprocess.run([sys.executable, '-c', 'import os; os.system(\"cmake .\")'])",
            "compiles in a separate Python",
            id="another-python-runs-it",
        ),
    ],
)
def test_what_cmake_alone_could_answer_is_not_known(after: str, what: str, tmp_path: Path) -> None:
    found = shown(tmp_path, after=after)
    assert found.extensions is Extensions.UNKNOWN
    assert what in found.extensions_where or what.removeprefix("it ") in found.extensions_where


@pytest.mark.parametrize(
    ("more", "after"),
    [
        pytest.param("['-DPYTHON=' + sys.version[:4]]", "", id="an-argument"),
        pytest.param("[]", "os.environ['CXXFLAGS'] = '-DPYTHON=' + sys.version[:4]; subprocess.run(['cmake', '.'])",
                     id="a-variable-of-its-own"),
        pytest.param("[]", "subprocess.run(['cmake', '.'], env={**os.environ, 'CXXFLAGS': sys.version[:4]})",
                     id="a-variable-of-cmake"),
        pytest.param("[]", "Path('version.cmake').write_text(f'set(PYTHON {sys.version[:4]})')", id="a-file"),
        pytest.param("[]", "Path('CMakeLists.txt').write_text(f'set(PYTHON {sys.version[:4]})')", id="a-changed-file"),
    ],
)  # fmt: skip
def test_what_cmake_is_given_is_part_of_the_build(more: str, after: str, tmp_path: Path) -> None:
    """The wheels for two Pythons have no other difference."""
    script = SETUP.replace("MORE", more).replace("AFTER", after)
    platform = evidence_of(write(tmp_path / "a", {"fatwheel.yml": CONFIG, "setup.py": script, **FILES})).platforms[0]
    builds = [platform.shown, *platform.apart.values()]
    assert len({one.recipe for one in builds}) == 2
    assert len({(one.configured, one.written) for one in builds}) == 2


GPU = "-DWITH_CUDA={'ON' if torch.cuda.is_available() else 'OFF'}"
FORCED = "-DWITH_CUDA={'ON' if torch.cuda.is_available() or os.getenv('FORCE_CUDA', '0') == '1' else 'OFF'}"
NAMED = "-DWITH_GPU:BOOL={os.getenv('DEMO_WITH_CUDA', 'OFF')}"
ADDED = "-D{'WITH_CUDA=ON' if os.getenv('DEMO_WITH_CUDA') == '1' else 'OTHER=1'}"
ADDED_BY_GPU = "-D{'WITH_CUDA=ON' if torch.cuda.is_available() else 'OTHER=1'}"
UNNAMED = "-DWITH_EXTRAS={os.getenv('DEMO_WITH_EXTRAS', 'OFF')}"


@pytest.mark.parametrize(
    ("argument", "switches", "unsupported"),
    [
        pytest.param(FORCED, (("FORCE_CUDA", "1"),), None, id="a-gpu-or-a-variable"),
        pytest.param(NAMED, (("DEMO_WITH_CUDA", "1"),), None, id="a-variable-that-names-the-hardware"),
        pytest.param(UNNAMED, (), None, id="another-variable"),
        pytest.param(ADDED, (("DEMO_WITH_CUDA", "1"),), None, id="a-variable-that-adds-it"),
        pytest.param(ADDED_BY_GPU, (), "without a GPU its build gives cmake no -DWITH_CUDA=ON, and no switch for that "
                     "is known (setup.py:14)", id="a-gpu-adds-it"),
        pytest.param(GPU, (), "without a GPU its build gives cmake -DWITH_CUDA=OFF, and no switch for that is known "
                     "(setup.py:14)", id="a-gpu"),
    ],
)  # fmt: skip
def test_cmake_is_told_to_compile_kernels_though_the_builder_has_no_gpu(
    argument: str, switches: tuple[tuple[str, str], ...], unsupported: str | None, tmp_path: Path
) -> None:
    """As pyg-lib 0.9 does it: its wheels were planned without kernels."""
    script = f"import torch\n{SETUP.replace('MORE', f'[f{argument!r}]').replace('AFTER', '')}"
    cuda = 'linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0"]}'
    config = f"{CONFIG.partition('platforms:')[0]}platforms:\n  {cuda}\n  linux-cpu: {{owner: '@demo/cpu'}}\n"
    files = {"fatwheel.yml": config, "setup.py": script, **FILES, "a.cu": ""}
    for_cuda, plain = evidence_of(write(tmp_path / "a", files)).platforms
    assert (for_cuda.shown.switches, for_cuda.shown.unsupported) == (switches, unsupported)
    assert plain.shown.switches == ()


# ---------------------------------------------------------------- what its configure step shows

LISTS = """\
cmake_minimum_required(VERSION 3.26)
project(demo LANGUAGES CXX)
add_library(a MODULE a.cpp)
MORE
"""
TORCH = {"a_cpp": "", "other_cpp": "#include <torch/extension.h>\n"}


def lists(more: str = "") -> str:
    """Return a CMakeLists.txt that cmake can read, with more lines."""
    return LISTS.replace("MORE", more)


@pytest.mark.parametrize(
    ("more", "lines", "kind"),
    [
        pytest.param("[]", "", Binding.NONE, id="no-target-compiles-it"),
        pytest.param("['-DWITH_OTHER=ON']", "if(WITH_OTHER)\ntarget_sources(a PRIVATE other.cpp)\nendif()",
                     Binding.FULL, id="an-argument-adds-it"),
        pytest.param("['-D', 'WITH_OTHER:BOOL=OFF']", "if(WITH_OTHER)\ntarget_sources(a PRIVATE other.cpp)\nendif()",
                     Binding.NONE, id="an-argument-leaves-it-out"),
        pytest.param("['-DOTHER=' + os.path.abspath('other.cpp')]", "target_sources(a PRIVATE ${OTHER})", Binding.FULL,
                     id="an-argument-names-it"),
        pytest.param("[]", "if(DEFINED SKBUILD)\ntarget_sources(a PRIVATE other.cpp)\nendif()", Binding.NONE,
                     id="it-is-not-scikit-build-core"),
    ],
)  # fmt: skip
def test_what_setup_py_has_cmake_compile_binds_its_wheels(more: str, lines: str, kind: Binding, tmp_path: Path) -> None:
    found = shown(tmp_path, more=more, CMakeLists_txt=lists(lines), **TORCH)
    assert (found.torch_abi.kind, found.warnings) == (kind, ())
    assert [one.member for one in found.built] == ["liba.so"]
    assert found.extensions_where == "setup.py:14: its build runs cmake"


@pytest.mark.parametrize(
    ("change", "files"),
    [
        pytest.param(("[Extension('demo.a', [])", "[Extension('demo.b', ['other.cpp']), Extension('demo.a', [])"), {},
                     id="setup-py-compiles-as-well"),
        pytest.param(("packages=['demo']", "packages=['demo'], package_data={'demo': ['*.so']}"),
                     {"demo/b.so": b"\x7fELF" + bytes(200)}, id="a-compiled-file-is-shipped"),
    ],
)  # fmt: skip
def test_what_cmake_does_not_compile_binds_a_wheel_all_the_same(
    change: tuple[str, str], files: dict[str, bytes], tmp_path: Path
) -> None:
    script = SETUP.replace("MORE", "[]").replace("AFTER", "").replace('"', "'").replace(*change)
    script = script.replace("def build_extension(self, ext):", "def build_extension(self, ext):\n"
                            "        if ext.sources:\n            return super().build_extension(ext)")  # fmt: skip
    made = {**FILES, "a.cpp": "", "other.cpp": "#include <torch/extension.h>\n", "CMakeLists.txt": lists()}
    root = write(tmp_path / "a", {"fatwheel.yml": CONFIG, "setup.py": script, **made, **files})
    assert evidence_of(root).platforms[0].shown.torch_abi.kind in {Binding.FULL, Binding.UNKNOWN}


def test_a_source_that_setup_py_writes_is_one_that_cmake_compiles(tmp_path: Path) -> None:
    script = SETUP.replace("MORE", "[]").replace("AFTER", "")
    script = script.replace(
        "        build = ", "        Path('made.cpp').write_text('#include <torch/all.h>')\n        build = "
    )
    files = {**FILES, "a.cpp": "", "CMakeLists.txt": lists("target_sources(a PRIVATE made.cpp)")}
    found = evidence_of(write(tmp_path / "a", {"fatwheel.yml": CONFIG, "setup.py": script, **files})).platforms[0].shown
    assert (found.torch_abi.kind, found.torch_abi.where) == (Binding.FULL, "made.cpp:1: includes torch/all.h")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        pytest.param("['cmake', '--preset', 'x'], cwd='.'", "setup.py calls cmake with --preset, which is not followed",
                     id="a-preset"),
        pytest.param("['cmake', '-S', '.', '-B', 'b', '-DCMAKE_TOOLCHAIN_FILE=x.cmake']",
                     "setup.py calls cmake with -DCMAKE_TOOLCHAIN_FILE, which is not followed", id="a-toolchain"),
        pytest.param("['cmake', '..'], cwd='b'", "", id="a-folder-named-from-where-it-starts"),
        pytest.param("['cmake', '-B', 'b']", "", id="no-folder"),
        pytest.param("['cmake', 'demo']", "setup.py has cmake configure demo, which has no CMakeLists.txt",
                     id="a-folder-without-it"),
        pytest.param("['cmake', '.', '-DX=1']); subprocess.run(['cmake', '.', '-DX=2']",
                     "setup.py configures 2 builds of cmake, expected one", id="two-calls"),
    ],
)  # fmt: skip
def test_a_call_of_cmake_is_followed_or_a_doubt_that_names_it(call: str, said: str, tmp_path: Path) -> None:
    script = (
        SETUP.partition("        said =")[0]
        + f"        os.makedirs('b', exist_ok=True)\n        subprocess.run({call})\n\nsetup"
        + SETUP.partition("\nsetup")[2]
    )
    files = {**FILES, "a.cpp": "", "other.cpp": "#include <torch/all.h>\n", "CMakeLists.txt": lists()}
    found = evidence_of(write(tmp_path / "a", {"fatwheel.yml": CONFIG, "setup.py": script, **files})).platforms[0].shown
    assert found.torch_abi.kind is (Binding.FULL if said else Binding.NONE)
    assert found.warnings == ((f"{said}: every file of the source counts as compiled",) if said else ())


KERNELS = """\
option(USE_CUDA "" OFF)
if(USE_CUDA)
  enable_language(CUDA)
  target_sources(a PRIVATE a.cu)
endif()"""
OF_CUDA = 'linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0"]}'


@pytest.mark.parametrize(
    ("more", "said", "way_out"),
    [
        pytest.param("os.getenv('CMAKE_ARGS', '').split()", "with CMAKE_ARGS=-DUSE_CUDA=ON, which no cell sets",
                     '`linux-cuda: {env: {CMAKE_ARGS: "-DUSE_CUDA=ON"}}`', id="by-a-variable"),
        pytest.param("[]", "with -DUSE_CUDA=ON, which its setup.py does not give cmake",
                     "have setup.py pass on CMAKE_ARGS", id="by-none"),
    ],
)  # fmt: skip
def test_kernels_that_cmake_leaves_off_end_the_plan(more: str, said: str, way_out: str, tmp_path: Path) -> None:
    config = f"{CONFIG.partition('platforms:')[0]}platforms:\n  {OF_CUDA}\n"
    script = SETUP.replace("MORE", f"*{more}").replace("AFTER", "").replace("**", "*")
    files = {
        **FILES,
        "fatwheel.yml": config,
        "setup.py": script,
        "a.cpp": "",
        "a.cu": "",
        "CMakeLists.txt": lists(KERNELS),
    }
    with pytest.raises(InputError) as caught:
        plan_of(write(tmp_path / "a", files))
    assert (
        caught.value.message
        == f"CMakeLists.txt:5: a.cu is compiled only {said}, so every wheel of linux-cuda would lack it"
    )
    assert way_out in caught.value.hint


@pytest.mark.parametrize(
    ("argument", "archs"),
    [
        pytest.param("-DDEMO_CUDA_ARCH_LIST=90a-real", ("9.0a",), id="of-one-chip"),
        pytest.param("-DDEMO_CUDA_ARCH_LIST=80-real;90-real;90-virtual", ("8.0", "9.0+PTX"), id="several"),
        pytest.param("-DDEMO_CUDA_ARCH_LIST=90-real", (), id="those-that-are-asked-for"),
        pytest.param("-DDEMO_CUDA_ARCH_LIST=80", (), id="a-notation-of-its-own"),
        pytest.param("-DDEMO_LEVELS=80-real", (), id="another-list"),
    ],
)
def test_a_wheel_is_for_the_architectures_that_setup_py_tells_cmake(
    argument: str, archs: tuple[str, ...], tmp_path: Path
) -> None:
    """As NATTEN 0.21 does it: its wheels for 9.0 have code for 9.0a only."""
    script = SETUP.replace("MORE", f"[{argument!r}]").replace("AFTER", "")
    cuda = 'linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0"]}'
    config = f"{CONFIG.partition('platforms:')[0]}platforms:\n  {cuda}\n"
    folder = write(tmp_path / "a", {"fatwheel.yml": config, "setup.py": script, **FILES, "a.cu": ""})
    (found,) = evidence_of(folder).platforms
    assert found.shown.archs == archs
    said = f"observed by running setup.py: it gives cmake {argument}, and not 9.0 of the request"
    assert (said in found.shown.warnings) == bool(archs)
