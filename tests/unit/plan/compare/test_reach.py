"""Whom a published wheel serves: by its tags, its local version and its requirements."""

from __future__ import annotations

import pytest
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from ci_tools import catalog
from ci_tools.model.cell import Cell
from ci_tools.model.names import FileName
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Platform
from ci_tools.model.published import PublishedWheel
from ci_tools.model.versions import Minor, Python
from ci_tools.plan.compare.reach import Reach, System, list_pythons, rank_python, reach_of, systems_of

CATALOG = catalog.load()
TORCHES = (Minor(2, 9), Minor(2, 10), Minor(2, 11))
CUDA = AcceleratorKind.CUDA


def reach(name: str, *requires: str, requires_python: str = "") -> Reach:
    _, version, _, tags = parse_wheel_filename(name)
    wheel = PublishedWheel(
        FileName(name), version.local or "", tags, requires_python=requires_python, requires=requires
    )
    return reach_of(wheel, TORCHES, CATALOG)


def pythons(name: str, requires_python: str = "") -> str:
    return " ".join(map(str, reach(name, requires_python=requires_python).pythons))


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        pytest.param("cp312-cp312", "3.12", id="one"),
        pytest.param("cp313-cp313t", "3.13t", id="free-threaded"),
        pytest.param("cp312-abi3", "3.12 3.13 3.14 3.15", id="the limited API, not free-threaded"),
        pytest.param("cp315-abi3.abi3t", "3.15 3.15t", id="both limited APIs"),
        pytest.param("py3-none", "3.8 3.9 3.10 3.11 3.12 3.13 3.13t 3.14 3.14t 3.15 3.15t", id="every Python"),
        pytest.param("py2.py3-none", "3.8 3.9 3.10 3.11 3.12 3.13 3.13t 3.14 3.14t 3.15 3.15t", id="and 2"),
        pytest.param("py314-none", "3.14 3.14t 3.15 3.15t", id="from one up"),
        pytest.param("pp311-pypy311_pp73", "", id="PyPy"),
    ],
)
def test_tags_say_the_pythons(tags: str, expected: str) -> None:
    assert pythons(f"demo-1.0-{tags}-manylinux_2_28_x86_64.whl") == expected


def test_metadata_narrows_the_pythons() -> None:
    assert pythons("demo-1.0-cp310-abi3-win_amd64.whl", ">=3.12,!=3.13.*") == "3.12 3.14 3.15"
    assert pythons("demo-1.0-cp314-abi3-win_amd64.whl", "no specifier") == "3.14 3.15"


@pytest.mark.parametrize("python", list_pythons(CATALOG), ids=str)
def test_a_python_takes_the_tags_that_packaging_lists(python: Python) -> None:
    version, own = tuple(python.version), python.interpreter_tag
    tags = dict.fromkeys((*cpython_tags(version, [python.abi_tag], ["any"]), *compatible_tags(version, own, ["any"])))
    ranks = [rank_python(python, [tag]) for tag in tags]
    assert ranks == sorted(filter(lambda rank: rank is not None, ranks))
    assert rank_python(python, parse_wheel_filename("demo-1-cp27-cp27mu-linux_x86_64.whl")[3]) is None


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        pytest.param("manylinux_2_28_x86_64", [System("linux", "x86_64", Minor(2, 28))], id="a level"),
        pytest.param("manylinux2014_aarch64", [System("linux", "aarch64", Minor(2, 17))], id="a level of old"),
        pytest.param("linux_x86_64", [System("linux", "x86_64")], id="no level"),
        pytest.param("macosx_10_9_x86_64", [System("macos", "x86_64", Minor(10, 9))], id="an Intel Mac"),
        pytest.param(
            "macosx_10_9_universal2",
            [System("macos", "arm64", Minor(11, 0)), System("macos", "x86_64", Minor(10, 9))],
            id="both Macs",
        ),
        pytest.param("win_amd64", [System("windows", "amd64")], id="Windows"),
        pytest.param("musllinux_1_2_x86_64", [], id="another C library"),
        pytest.param("any", [], id="any"),
    ],
)
def test_a_platform_tag_says_its_machines(tag: str, expected: list[System]) -> None:
    assert list(systems_of(tag)) == expected


@pytest.mark.parametrize(
    ("tags", "platforms", "elsewhere"),
    [
        pytest.param(
            "manylinux_2_28_x86_64",
            {Platform.LINUX_CUDA, Platform.LINUX_ROCM, Platform.LINUX_XPU, Platform.LINUX_CPU},
            (),
            id="one machine",
        ),
        pytest.param("macosx_11_0_universal2", {Platform.MACOS_ARM64}, ("macos x86_64",), id="one of two"),
        pytest.param("musllinux_1_2_x86_64", set(), ("musllinux_1_2_x86_64",), id="none"),
        pytest.param("any", set(Platform), (), id="all"),
    ],
)
def test_a_wheel_serves_the_platforms_of_its_machines(
    tags: str, platforms: set[Platform], elsewhere: tuple[str, ...]
) -> None:
    found = reach(f"demo-1.0-py3-none-{tags}.whl")
    assert (found.platforms, found.elsewhere) == (platforms, elsewhere)


@pytest.mark.parametrize(
    ("label", "requires", "stack", "torches"),
    [
        pytest.param("", [], "None", None, id="nothing is said"),
        pytest.param("cu130", [], "CUDA 13.0", None, id="CUDA"),
        pytest.param("cu12torch2.10cxx11abiTRUE", [], "CUDA 12", {Minor(2, 10)}, id="a major version and torch"),
        pytest.param("pt29cu126", [], "CUDA 12.6", {Minor(2, 9)}, id="digits only"),
        pytest.param("cu92", [], "CUDA 9.2", None, id="an old CUDA"),
        pytest.param("cuda12.6", [], "CUDA 12.6", None, id="in full"),
        pytest.param("rocm6.3", [], "ROCM 6.3", None, id="ROCm"),
        pytest.param("rocm63.torch2.9.1", [], "ROCM 6.3", {Minor(2, 9)}, id="ROCm in digits"),
        pytest.param("cpu", ["torch==2.11.0"], "CPU", {Minor(2, 11)}, id="CPU, and a requirement"),
        pytest.param("xpu", ["torch>=2.10,<3"], "XPU", {Minor(2, 10), Minor(2, 11)}, id="XPU"),
        pytest.param("git5f2a", ["torch"], "None", set(TORCHES), id="any torch"),
        pytest.param("", ["nvidia-cublas-cu12", "nvidia-cuda-runtime-cu12==12.8.90"], "CUDA 12", None, id="libraries"),
        pytest.param(
            "",
            ["nvidia-cublas-cu12; platform_system == 'Linux' and python_version < '3.13'"],
            "CUDA 12",
            None,
            id="here",
        ),
        pytest.param("", ["nvidia-cublas-cu12; sys_platform == 'darwin'"], "None", None, id="for another system"),
        pytest.param("", ["nvidia-cublas-cu12; python_version < '3.8'"], "None", None, id="for another Python"),
        pytest.param("", ["nvidia-cublas-cu12; platform_machine == 'x86_64'"], "CUDA 12", None, id="for its machine"),
        pytest.param("", ["torch==2.9 ; extra == 'all'", "not a requirement!"], "None", None, id="an extra"),
    ],
)
def test_a_local_version_or_a_requirement_says_accelerator_and_torch(
    label: str, requires: list[str], stack: str, torches: set[Minor] | None
) -> None:
    name = f"demo-1.0{f'+{label}' if label else ''}-py3-none-manylinux_2_28_x86_64.whl"
    found = reach(name, *requires)
    assert (str(found.stack), found.torches) == (stack, torches)


@pytest.mark.parametrize(
    ("label", "version", "serves"),
    [
        pytest.param("cu130", Minor(13, 0), True, id="the same"),
        pytest.param("cu130", Minor(13, 1), False, id="another minor version"),
        pytest.param("cu13", Minor(13, 1), True, id="any of a major version"),
        pytest.param("cu12", Minor(13, 0), False, id="another major version"),
        pytest.param("rocm6.3", Minor(13, 0), False, id="another accelerator"),
        pytest.param("cpu", Minor(13, 0), False, id="none"),
        pytest.param("", Minor(13, 0), True, id="not said"),
    ],
)
def test_a_wheel_serves_the_cells_of_its_accelerator(label: str, version: Minor, serves: bool) -> None:  # noqa: FBT001 - a parameter
    found = reach(f"demo-1.0{f'+{label}' if label else ''}-cp312-cp312-manylinux_2_28_x86_64.whl")
    cell = Cell(Platform.LINUX_CUDA, Accelerator(CUDA, version), TORCHES[1], Python(Minor(3, 12)))
    assert found.serves(cell) is serves
    assert found.serves(cell._replace(platform=Platform.LINUX_CPU, accelerator=None)) is (label in {"", "cpu"})
    assert not found.serves(cell._replace(python=Python(Minor(3, 13))))


def test_a_wheel_that_requires_cuda_is_installed_without_a_gpu_too() -> None:
    found = reach("demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", "nvidia-cublas-cu13")
    cell = Cell(Platform.LINUX_CPU, None, TORCHES[1], Python(Minor(3, 12)))
    assert found.serves(cell)
    rocm = Accelerator(AcceleratorKind.ROCM, Minor(7, 1))
    assert not found.serves(cell._replace(platform=Platform.LINUX_ROCM, accelerator=rocm))
