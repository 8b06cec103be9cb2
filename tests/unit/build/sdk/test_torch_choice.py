"""Tests of the build torch: which one is chosen, how it is fetched, and what a server may do wrong."""

from __future__ import annotations

import io
import json
import platform
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import certifi
import pytest
from packaging.specifiers import SpecifierSet
from rich.console import Console

from ci_tools import catalog
from ci_tools.build.sdk import torch_parts
from ci_tools.build.sdk.link_stubs import exports_of
from ci_tools.build.sdk.torch_choice import Wanted, find_torch
from ci_tools.build.sdk.torch_parts import TorchParts
from ci_tools.catalog.symbols import tables
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.machine.context import Outside
from tests.builders.sources import world
from tests.builders.wheels import edited, linked, make
from tests.servers.package_index import Sent, index_of

MACHINE = platform.machine()
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
FILLER = random.Random(0).randbytes(400_000)  # noqa: S311 - a library that does not compress: a gap between others
VERSION = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '{version}'
debug = False
cuda: Optional[str] = {cuda}
git_version = 'abc'
hip: Optional[str] = None
xpu: Optional[str] = None
"""
INTERNALS = "__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__"


@pytest.fixture(autouse=True)
def _few_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give stand-ins ten of the catalog's symbols each: the thousands of a torch take a second to assemble."""
    whole = tables()
    few = whole._replace(
        **{kind: dict(islice(getattr(whole, kind).items(), 10)) for kind in ("every_build", "standard", "cuda_builds")}
    )
    monkeypatch.setattr(torch_parts, "tables", lambda: few)


def name_of(version: str, python: str = PYTHON) -> str:
    return f"torch-{version}-{python}-{python}-manylinux_2_28_{MACHINE}.whl"


def torch_wheel(folder: Path, version: str = "2.8.0", cuda: str = "", label: str = "") -> Path:
    """Write a wheel with the parts of a torch that builds need, and much that they do not."""
    said = VERSION.format(version=f"{version}{label}", cuda=f"'{cuda}'" if cuda else None)
    members = {
        "torch/lib/libtorch_cpu.so": FILLER,
        "torch/include/torch/extension.h": b"#pragma once\n",
        "torch/include/ATen/ATen.h": b"#pragma once\n",
        "torch/lib/libtorch_cuda.so": FILLER,
        "torch/lib/libc10.so": linked("int c10_one; int c10_two(void) { return 1; }"),
        "torch/lib/libtorch_python.so": linked(f'const char *name = "{INTERNALS}";'),
        "torch/nn/__init__.py": b"raise SystemExit\n",
        "torch/__init__.py": b"raise SystemExit\n",
        "torch/version.py": said.encode(),
        "torch/torch_version.py": b"class TorchVersion(str): pass\n",
        "torch/utils/cpp_extension.py": b"import torch\nCUDA = torch.version.cuda\n",
        "torch/share/cmake/Torch/TorchConfig.cmake": b'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")\n',
    }
    fields = "Requires-Dist: typing-extensions\nRequires-Dist: sympy\nRequires-Dist: setuptools>=70\n"
    return make(folder, name_of(f"{version}{label}"), members, fields)


def wanted(version: str = "==2.8.*", label: str = "cpu", python: str = PYTHON) -> Wanted:
    return Wanted(SpecifierSet(version), label, python)


def find(outside: Outside, torch: Wanted) -> TorchParts:
    return find_torch(torch, catalog.load(), outside, outside.environ)


def outside_of(folder: Path, url: str) -> Outside:
    links = str(folder / "none")
    return world(folder, PIP_INDEX_URL=url, PIP_FIND_LINKS=links, PIP_EXTRA_INDEX_URL=url, PIP_CERT=certifi.where())


def asked(torch: TorchParts, code: str) -> str:
    """Run code in a Python that imports that torch; return what it printed, or its last line of complaint."""
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(torch.site)!r}); {code}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return (ended.stdout or ended.stderr).strip().rpartition("\n")[2]


def test_the_parts_are_fetched_in_few_requests(tmp_path: Path) -> None:
    wheel, sent = torch_wheel(tmp_path), list[Sent]()
    with index_of("torch", {wheel.name: wheel.read_bytes()}, sent=sent) as index:
        torch = find(outside_of(tmp_path, index.url), wanted())
    assert (torch.version, torch.label, torch.requires) == ("2.8.0", "cpu", ("typing-extensions", "setuptools>=70"))
    assert (torch.site / "torch/include/torch/extension.h").is_file()
    assert not (torch.site / "torch/nn").exists()
    assert len([one for one in sent if one.range]) == torch.requests + 1 < 8  # its label was asked for first


def test_the_parts_of_a_file_on_this_machine_are_said_to_be_read(tmp_path: Path) -> None:
    said, wheel = io.StringIO(), torch_wheel(tmp_path)
    reporter = TerminalReporter(lambda: Console(file=said, width=200))
    outside = replace(world(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path)), reporter=reporter)
    assert find(outside, wanted()).requests == 0
    assert f"fetch the build parts of {wheel.name}: read from this machine (" in said.getvalue()


def test_with_a_warm_cache_no_server_is_asked(tmp_path: Path) -> None:
    wheel = torch_wheel(tmp_path)
    with index_of("torch", {wheel.name: wheel.read_bytes()}) as index:
        first = find(outside_of(tmp_path, index.url), wanted())
    assert find(outside_of(tmp_path, "http://127.0.0.1:9/simple/"), wanted()) == first


@pytest.mark.usefixtures("at_once")
def test_a_cold_cache_without_a_network_is_said(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"torch cannot be read from the package index: .*Connection refused"):
        find(outside_of(tmp_path, "http://127.0.0.1:9/simple/"), wanted())


@pytest.mark.usefixtures("at_once")
def test_a_torch_that_an_index_without_an_answer_may_have_is_not_said_to_be_nowhere(tmp_path: Path) -> None:
    outside = outside_of(torch_wheel(tmp_path).parent, "http://127.0.0.1:9/simple/")
    known = {**outside.environ, "PIP_FIND_LINKS": str(tmp_path)}
    with pytest.raises(MachineError, match=r"refused; elsewhere, where pip looks there is no torch==2\.9\.\*") as said:
        find_torch(wanted("==2.9.*"), catalog.load(), outside, known)
    assert "check the network" in said.value.hint


def test_a_server_without_ranges_sends_the_whole_file(tmp_path: Path) -> None:
    wheel = torch_wheel(tmp_path)
    with index_of("torch", {wheel.name: wheel.read_bytes()}, ranges="none", hashes=True) as index:
        torch = find(outside_of(tmp_path, index.url), wanted())
    assert torch.fetched == wheel.stat().st_size


def refuse(wheel: Path, torch: Wanted, message: str, *, error: type[FatwheelError] = InputError, **faults: int) -> None:
    """Assert that a wheel on an index is refused, with a message."""
    with (
        index_of("torch", {wheel.name: wheel.read_bytes()}, **faults) as index,  # type: ignore[arg-type]  # one of each
        pytest.raises(error, match=message),
    ):
        find(outside_of(wheel.parent, index.url), torch)


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        pytest.param({"ranges": "others"}, r"cannot be read|has the digest|Bad magic", id="other-bytes-than-it-says"),
        pytest.param({"changes": 4}, r"was replaced on the server while it was read", id="another-file-meanwhile"),
    ],
)
def test_what_a_server_does_wrong_is_said_and_nothing_is_kept(
    tmp_path: Path, faults: dict[str, int], message: str
) -> None:
    refuse(torch_wheel(tmp_path), wanted(), message, error=FatwheelError, **faults)
    assert not list((tmp_path / "cache/torch-parts").rglob("site"))


def test_a_member_that_is_not_what_record_says_is_refused(tmp_path: Path) -> None:
    wheel = edited(torch_wheel(tmp_path), {"torch/include/ATen/ATen.h": b"#pragma twice\n"}, record=False)
    refuse(wheel, wanted(), r"torch/include/ATen/ATen\.h has the digest .*, its RECORD says")


def test_a_known_wheel_with_another_record_is_refused(tmp_path: Path) -> None:
    name = next(name for name in catalog_records() if "2.8.0" in name and MACHINE in name)
    wheel = torch_wheel(tmp_path).rename(tmp_path / name)
    refuse(wheel, wanted(python=name.split("-")[2]), r"has a RECORD with the sha256 \w+, the catalog says \w+")


@pytest.mark.parametrize(
    ("torch", "message"),
    [
        pytest.param(wanted("==2.9.*"), r"no torch==2\.9\.\* for Linux on \w+; there is 2\.8\.0\b", id="version"),
        pytest.param(wanted(python="cp39"), rf"torch 2\.8\.0 is not for Python cp39; it is for {PYTHON}", id="python"),
        pytest.param(wanted(label="cu126"), r"would get torch 2\.8\.0 for cu128, expected 2\.8 for cu126", id="cuda"),
    ],
)
def test_a_torch_that_is_not_there_is_said_with_those_that_are(tmp_path: Path, torch: Wanted, message: str) -> None:
    refuse(torch_wheel(tmp_path, cuda="12.8"), torch, message, error=FatwheelError)


def catalog_records() -> list[str]:
    from ci_tools.catalog.symbols import records  # noqa: PLC0415 - beside its only use

    return list(records())


@pytest.fixture(scope="module")
def cuda_torch(tmp_path_factory: pytest.TempPathFactory) -> TorchParts:
    """A build torch with every symbol of the catalog: fixtures of a module come before `_few_symbols`."""
    folder = tmp_path_factory.mktemp("torch")
    torch_wheel(folder / "links", cuda="12.8", label="+cu128")
    outside = world(folder, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder / "links"))
    return find(outside, wanted(label="cu128"))


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        pytest.param("print(torch.__version__, torch.version.cuda)", "2.8.0+cu128 12.8", id="version"),
        pytest.param("print(torch.cuda.is_available(), torch.cuda.device_count())", "False 0", id="no-gpu"),
        pytest.param("torch.cuda.get_device_capability()", "RuntimeError: No CUDA GPUs are available", id="capability"),
        pytest.param("print(torch.compiled_with_cxx11_abi())", "False", id="abi"),
        pytest.param("print(torch._C._PYBIND11_BUILD_ABI, torch._C._PYBIND11_STDLIB)", "_cxxabi1011 _libstdcpp",
                     id="pybind11"),
        pytest.param("from torch.utils import cpp_extension as e; print(e.CUDA)", "12.8", id="cpp-extension"),
        pytest.param("print(torch.utils.cmake_prefix_path.endswith('torch/share/cmake'))", "True", id="cmake"),
        pytest.param("print(torch.backends.cuda.is_built(), torch.xpu._is_compiled())", "True False", id="backends"),
        pytest.param("print(hasattr(torch, 'zeros'))", "torch._fatwheel.NotInBuildTorch: the build asks for "
                     "torch.zeros, which the build torch does not have: set `build: {torch: full}` in the config to "
                     "build with an installed torch", id="what-is-not-there"),
        pytest.param("import torch.nn", "torch._fatwheel.NotInBuildTorch: the build asks for torch.nn, which the build "
                     "torch does not have: set `build: {torch: full}` in the config to build with an installed torch",
                     id="module"),
        pytest.param("import torch.never", "ModuleNotFoundError: No module named 'torch.never'", id="no-module"),
    ],
)  # fmt: skip
def test_the_build_torch_answers_as_that_build_without_a_gpu(cuda_torch: TorchParts, code: str, answer: str) -> None:
    assert asked(cuda_torch, f"import torch; {code}") == answer


def test_stand_ins_have_the_names_and_symbols_of_the_libraries(cuda_torch: TorchParts) -> None:
    libraries = {path.name: exports_of(path) for path in (cuda_torch.site / "torch/lib").iterdir()}
    of_c10 = {name: data for name, data in libraries["libc10.so"].items() if name.startswith("c10")}
    assert of_c10 == {"c10_one": True, "c10_two": False}
    assert "torch_get_stable" not in libraries["libtorch_cpu.so"]
    assert len(libraries["libtorch_cpu.so"]) > 10_000


def test_a_folder_of_the_cache_that_changed_is_not_used(tmp_path: Path) -> None:
    wheel = torch_wheel(tmp_path)
    with index_of("torch", {wheel.name: wheel.read_bytes()}) as index:
        torch = find(outside_of(tmp_path, index.url), wanted())
        (torch.site / "torch/version.py").write_text("other")
        again = find(outside_of(tmp_path, index.url), wanted())
    assert (again.site / "torch/version.py").read_text() != "other"
    assert json.loads((again.site / "torch/_fatwheel.json").read_text())["torch"] == "2.8.0"
    shutil.rmtree(again.site)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(">=2.8", "2.8.0", id="never-by-itself"),
        pytest.param("", "2.8.0", id="never-for-any-torch"),
        pytest.param("==9.9.0.dev20261125", "9.9.0.dev20261125", id="by-its-name"),
        pytest.param("==9.9.*", None, id="not-for-its-release"),
    ],
)
def test_a_nightly_is_taken_by_its_name_alone(tmp_path: Path, said: str, expected: str | None) -> None:
    wheels = [torch_wheel(tmp_path), torch_wheel(tmp_path, "9.9.0.dev20261125")]
    with index_of("torch", {wheel.name: wheel.read_bytes() for wheel in wheels}) as index:
        outside = outside_of(tmp_path, index.url)
        if expected:
            assert find(outside, wanted(said)).version == expected
        else:
            with pytest.raises(InputError, match=r"there is no torch==9\.9\.\* for Linux"):
                find(outside, wanted(said))


def test_what_torch_2_14_imports_to_compile_is_there_and_locks_nothing(tmp_path: Path) -> None:
    code = (
        "from ._filelock import FileLock\nfrom torch._utils_internal import get_file_path\n"
        "HERE = get_file_path('torch')\ndef load():\n    FileLock('lock')\n"
    )
    changes = {"torch/utils/cpp_extension.py": code.encode(), "torch/utils/_filelock.py": b"import filelock\n"}
    wheel = edited(torch_wheel(tmp_path), changes)
    with index_of("torch", {wheel.name: wheel.read_bytes()}) as index:
        torch = find(outside_of(tmp_path, index.url), wanted())
    run = "from torch.utils import cpp_extension as found; print(found.HERE); found.load()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", run],
        env={"PYTHONPATH": str(torch.site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{torch.site / 'torch'}\n"
    assert "NotInBuildTorch: the build asks for torch.utils._filelock.FileLock" in done.stderr


def test_windows_gets_the_import_libraries_of_its_own_wheel(tmp_path: Path) -> None:
    linux = torch_wheel(tmp_path)
    content = VERSION.format(version="2.8.0+cpu", cuda=None).replace("\n", "\r\n")  # as in upstream's wheels
    libraries = {
        "torch/lib/c10.lib": b"!<arch>\n",
        "torch/lib/torch_cpu.dll": FILLER,
        "torch/version.py": content.encode(),
    }
    name = name_of("2.8.0").replace(f"manylinux_2_28_{MACHINE}", "win_amd64")
    wheel = edited(linux, {**libraries, "torch/lib/libc10.so": None}, name=name)
    files = {path.name: path.read_bytes() for path in (torch_wheel(tmp_path), wheel)}
    with index_of("torch", files) as index:
        torch = find(replace(outside_of(tmp_path, index.url), host="windows-amd64"), wanted())
    assert (torch.wheel, torch.version, torch.label) == (wheel.name, "2.8.0+cpu", "cpu")
    assert [path.name for path in (torch.site / "torch/lib").iterdir()] == ["c10.lib", "libtorch_python.so"]
    assert asked(torch, "import torch; print(torch.__version__, torch.compiled_with_cxx11_abi())") == "2.8.0+cpu False"


def test_a_torch_that_states_no_version_is_refused(tmp_path: Path) -> None:
    wheel = edited(torch_wheel(tmp_path), {"torch/version.py": b"from torch.own import __version__\n"})
    with index_of("torch", {wheel.name: wheel.read_bytes()}) as index, pytest.raises(InputError, match="no version"):
        find(outside_of(tmp_path, index.url), wanted())
