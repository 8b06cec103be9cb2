from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.catalog import load
from ci_tools.catalog.accelerators.cuda import CUDA as NVIDIA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.catalog.symbols import is_torch_symbol, missing, tables
from ci_tools.errors import InputError
from ci_tools.machine.context import Silent
from ci_tools.model.files import Finding, Level
from ci_tools.model.plan import Job, JobKind
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Cell, Platform
from ci_tools.model.versions import Minor
from ci_tools.verify.audit import audit
from tests.builders import audited
from tests.builders.wheels import LINUX, library, make
from tests.maintain.torch_table import add
from tests.servers.package_index import index_of

CUDA = NVIDIA
# The arguments of one function that every CUDA extension calls, before 2.10, before 2.14, and since.
CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_"
EARLY, MIDDLE, LATE = f"{CHECK}ib", f"{CHECK}jb", f"{CHECK}jbPNS0_19CUDAErrorLogCaptureE"
SINCE_2_10 = "torch_call_dispatcher"
ALWAYS = "aoti_torch_get_data_ptr"


def torch(text: str) -> Minor:
    return Minor.parse(text)


# ---------------------------------------------------------------- the tables


def test_every_catalogued_release_is_tabled() -> None:
    assert set(tables().releases) == set(load().torch)
    assert [source.patch for source in tables().sources] == [load().torch[one].patch for one in tables().releases]


@pytest.mark.parametrize(
    ("symbol", "first", "last"),
    [
        pytest.param(ALWAYS, "2.6", "2.15", id="always"),
        pytest.param(SINCE_2_10, "2.10", "2.15", id="since-2.10"),
        pytest.param(EARLY, "2.6", "2.9", id="first-signature"),
        pytest.param(MIDDLE, "2.10", "2.13", id="second-signature"),
        pytest.param(LATE, "2.14", "2.15", id="third-signature"),
        pytest.param("_ZN2at6vitals17torchVitalEnabledEv", "2.6", "2.11", id="removed"),
        pytest.param("aoti_torch_no_such", "9.0", "9.0", id="never"),
    ],
)
def test_a_symbol_is_missing_outside_its_releases(symbol: str, first: str, last: str) -> None:
    lacking = {release for release in tables().releases if missing([symbol], release, CUDA)}
    assert lacking == {one for one in tables().releases if not torch(first) <= one <= torch(last)}


@pytest.mark.parametrize(
    ("accelerator", "lacking"),
    [
        pytest.param(CUDA, {"aoti_torch_no_such"}, id="cuda"),
        pytest.param(None, {"aoti_torch_no_such", LATE}, id="none"),
        pytest.param(ROCM, set(), id="rocm-is-not-tabled"),
    ],
)
def test_what_cuda_builds_alone_have_is_missing_elsewhere(
    accelerator: AcceleratorKind | None, lacking: set[str]
) -> None:
    assert missing([ALWAYS, LATE, "aoti_torch_no_such", "malloc"], torch("2.15"), accelerator) == lacking


def test_for_rocm_only_what_other_releases_have_everywhere_can_be_missing() -> None:
    assert missing([SINCE_2_10, MIDDLE], torch("2.9"), ROCM) == {SINCE_2_10}


@pytest.mark.parametrize(
    ("symbol", "is_torchs"),
    [
        pytest.param("_ZN2at6Tensor4sizeEl", True, id="method"),
        pytest.param("_ZNK3c1010TensorImpl5sizesEv", True, id="const-method"),
        pytest.param("_ZNKR3c106IValue13toGenericDictEv", True, id="ref-qualified"),
        pytest.param("_ZTVN5torch8autograd4NodeE", True, id="vtable"),
        pytest.param("_ZTIN3c105ErrorE", True, id="typeinfo"),
        pytest.param("_ZThn16_N5torch3jit6MethodD1Ev", True, id="thunk"),
        pytest.param("_ZGVZN2at13globalContextEvE1c", True, id="guard"),
        pytest.param("_ZN4c10d5StoreD1Ev", True, id="distributed"),
        pytest.param("_Z16THPVariable_WrapRKN2at10TensorBaseE", True, id="python-binding"),
        pytest.param("THPVariableClass", True, id="python-type"),
        pytest.param("torch_call_dispatcher", True, id="c"),
        pytest.param("THP_PyFrame_Clear", False, id="of-one-interpreter"),
        pytest.param("_ZNSt6vectorIN2at6TensorESaIS1_EE9push_backERKS1_", False, id="standard-library"),
        pytest.param("_ZN5atlas3runEv", False, id="another-namespace"),
        pytest.param("_ZN6vision4ops3nmsERKN2at6TensorE", False, id="torch-as-an-argument"),
        pytest.param("cudaMalloc", False, id="cuda"),
        pytest.param("PyObject_Call", False, id="python"),
    ],
)
def test_what_is_torchs_shows_in_its_name(symbol: str, is_torchs: bool) -> None:  # noqa: FBT001
    assert is_torch_symbol(symbol) is is_torchs


# ---------------------------------------------------------------- adding a release


def exporting(*names: str) -> bytes:
    return library("".join(f"void {name}(void) {{}}\n" for name in names))


def torch_wheel(cpu: bytes, cuda: bytes | None) -> bytes:
    """Return a wheel with torch's libraries."""
    libraries = {"libtorch_cpu.so": cpu} | ({"libtorch_cuda.so": cuda} if cuda else {})
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in libraries.items():
                archive.writestr(f"torch/lib/{name}", content)
            for version in ("3.0.1", "3.1.0"):
                archive.writestr(f"torch-{version}.dist-info/RECORD", "")
        return file.getvalue()


def release(version: str, cpu: bytes, cuda: bytes) -> dict[str, bytes]:
    """Return what an index has of a release: two Pythons, and a wheel for Arm."""
    return {
        f"torch-{version}-cp313-cp313-manylinux_2_28_x86_64.whl": b"a later Python's",
        f"torch-{version}-cp310-cp310-manylinux_2_28_x86_64.whl": torch_wheel(cpu, cuda),
        f"torch-{version}-cp310-cp310-manylinux_2_28_aarch64.whl": torch_wheel(exporting("torch_on_arm"), None),
    }


def test_a_release_that_is_not_there_is_said(tmp_path: Path) -> None:
    with (
        index_of("torch", release("3.0.1", b"", b"")) as index,
        pytest.raises(InputError, match=r'did you mean "3\.0\.1"'),
    ):
        add("3.0.0", tmp_path, index=index, reporter=Silent())


# ---------------------------------------------------------------- the rule


def planned(*torches: str, kind: AcceleratorKind | None = CUDA, requires_torch: str = "") -> Job:
    """The plan's job for a wheel that serves those torch releases."""
    accelerator = Accelerator(kind, Minor(13, 0)) if kind else None
    platform = Platform.LINUX_CUDA if kind else Platform.LINUX_CPU
    job = replace(audited.planned(LINUX), kind=JobKind.NATIVE, platform=platform, accelerator=accelerator)
    covers = tuple(Cell(platform, accelerator, torch(one), job.python) for one in torches)
    return replace(job, torch=torch(torches[0]), requires_torch=requires_torch, covers=covers)


def asking(*names: str, weak: bool = False) -> bytes:
    """Return a library that calls functions of those names."""
    attribute = "__attribute__((weak)) " if weak else ""
    declared = [f'extern {attribute}int f{n}(void) __asm__("{name}");' for n, name in enumerate(names)]
    called = " + ".join(f"f{number}()" for number in range(len(names))) or "0"
    return library(f"{''.join(declared)} int ours(void) {{ return {called}; }}")


CPP = """
namespace c10::cuda {
void c10_cuda_check_implementation(int, const char*, const char*, unsigned, bool);
}
void ours() { c10::cuda::c10_cuda_check_implementation(0, "", "", 0, false); }
"""


def looked_at(folder: Path, job: Job | None, **libraries: bytes) -> tuple[Finding, ...]:
    """Return what the rule finds in a wheel with those libraries, where no other finds anything wrong."""
    members = {"demo/__init__.py": b"", **{f"demo/{name}.so": content for name, content in libraries.items()}}
    limits = {"pypi": 10**9, "github": 10**9}
    wheel = make(folder, LINUX, members, f"Requires-Dist: torch{job.requires_torch}\n" if job else "")
    found = audit(wheel, job=job, limits=limits, work=folder / "work")
    assert {one.rule for one in found if one.level is Level.ERROR} <= {"torch-symbols"}
    return tuple(one for one in found if one.rule == "torch-symbols")


@pytest.mark.parametrize(
    ("content", "job", "lacks", "found"),
    [
        pytest.param(asking(SINCE_2_10, ALWAYS), planned("2.9", "2.10"), "2.9", SINCE_2_10, id="a-c-function-too-new"),
        pytest.param(library(CPP, "c++"), planned("2.10"), "2.14, 2.15", MIDDLE, id="a-c++-function-that-changed"),
        pytest.param(
            library(CPP, "c++"),
            planned("2.9", "2.10", requires_torch=">=2.9,<2.11"),
            "2.9",
            MIDDLE,
            id="where-later-torches-are-refused",
        ),
        pytest.param(asking(LATE), planned("2.15", kind=None), "2.15", LATE, id="of-cuda-in-a-wheel-without"),
        pytest.param(
            asking("_ZN3c107nothereEv"), planned("2.15"), "2.15", "_ZN3c107nothereEv", id="in-no-release-at-all"
        ),
    ],
)
def test_a_symbol_that_a_served_torch_lacks_is_an_error(
    content: bytes, job: Job, lacks: str, found: str, tmp_path: Path
) -> None:
    (finding,) = looked_at(tmp_path, job, _C=content)
    assert (finding.level, finding.found) == (Level.ERROR, found)
    assert finding.message == f"demo/_C.so asks for symbols that are not in torch {lacks}"


def test_symbols_that_different_torches_lack_are_told_apart(tmp_path: Path) -> None:
    found = looked_at(tmp_path, planned("2.9"), _C=asking(SINCE_2_10, EARLY))
    assert {(one.found, one.message.partition("torch ")[2]) for one in found} == {
        (SINCE_2_10, "2.9"),
        (EARLY, "2.10, 2.11, 2.12, 2.13, 2.14, 2.15"),
    }


def test_a_weak_symbol_that_is_missing_is_a_warning(tmp_path: Path) -> None:
    (finding,) = looked_at(tmp_path, planned("2.9"), _C=asking(SINCE_2_10, weak=True))
    assert (finding.level, finding.found) == (Level.WARNING, SINCE_2_10)


def test_a_library_that_is_spared_on_older_torches_is_held_to_the_others(tmp_path: Path) -> None:
    job = replace(planned("2.9", "2.10"), spared=(("demo/_C.so", torch("2.10")),))
    assert looked_at(tmp_path, job, _C=asking(SINCE_2_10)) == ()
    (finding,) = looked_at(tmp_path, job, _C=asking(SINCE_2_10, EARLY))
    assert finding.message.endswith("torch 2.10, 2.11, 2.12, 2.13, 2.14, 2.15")


def test_what_another_library_of_the_wheel_defines_is_not_torchs(tmp_path: Path) -> None:
    name = "_ZN5torch8executor3runEv"
    defined = library(f'int run(void) __asm__("{name}"); int run(void) {{ return 1; }}')
    assert looked_at(tmp_path, planned("2.15"), _C=asking(name), runtime=defined) == ()


def test_a_torch_that_is_not_tabled_is_a_warning(tmp_path: Path) -> None:
    (finding,) = looked_at(tmp_path, planned("2.15", "9.0"), _C=asking(ALWAYS))
    assert (finding.level, finding.found) == (Level.WARNING, "9.0")


@pytest.mark.parametrize(
    "job", [pytest.param(None, id="no-job"), pytest.param(replace(planned("2.9"), covers=()), id="no-torch")]
)
def test_without_a_torch_to_serve_nothing_is_asked(job: Job | None, tmp_path: Path) -> None:
    assert looked_at(tmp_path, job, _C=asking("aoti_torch_no_such")) == ()
