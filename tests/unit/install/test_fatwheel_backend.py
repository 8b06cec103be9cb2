"""The choice of the backend in a smart sdist: for machines that are not here, by their facts."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from packaging.tags import Tag, parse_tag

from ci_tools.install import fatwheel_backend as backend
from ci_tools.install.fatwheel_backend import Facts
from ci_tools.install.lock import BuildSystem, LockedWheel, write_lock
from ci_tools.model.names import FileName, Sha256

NO_HASH = Sha256("0" * 64)
PURE = "demo-1.0-py3-none-any.whl"


def wheel(name: str, **known: Any) -> LockedWheel:  # noqa: ANN401 - the fields of a LockedWheel
    """Return a wheel of the lock."""
    return LockedWheel(file=FileName(name), urls=(f"https://host/{name}",), sha256=NO_HASH, size=1, **known)


def cuda(version: str, archs: str = "8.0 9.0 10.0+PTX", machine: str = "x86_64", **known: Any) -> LockedWheel:  # noqa: ANN401
    """Return a CUDA wheel, with the drivers that the catalog has for 12.9 and 13.0."""
    floors = {"12.9": ("525", "575.51.03"), "13.0": ("580", "580.65.06")}[version]
    name = f"demo-1.0+cu{version.replace('.', '')}-cp310-abi3-manylinux_2_28_{machine}.whl"
    own: dict[str, Any] = {"torch": ("2.10", None), "serves": (version,), **known}
    return wheel(name, cuda=version, archs=tuple(archs.split()), driver_sass=floors[0], driver_ptx=floors[1], **own)


def lock_of(*wheels: LockedWheel) -> backend.Lock:
    """Return a lock as the backend reads it."""
    text = write_lock("demo", "1.0", FileName("demo-1.0.tar.gz"), BuildSystem(("setuptools",), "x"), wheels)
    lock: backend.Lock = json.loads(text)
    return lock


USUAL = lock_of(cuda("12.9"), cuda("13.0"), wheel(PURE))
LINUX = Facts(libc="glibc 2.36")
CU128 = LINUX._replace(torch="2.10.0+cu128", torch_cuda="12.8", cxx11abi=True)
CU130 = LINUX._replace(torch="2.10.0+cu130", torch_cuda="13.0", cxx11abi=True)


def test_a_lock_says_the_same_in_any_order_and_is_read_back(tmp_path: Path) -> None:
    wheels = [cuda("12.9"), cuda("13.0"), wheel(PURE)]
    assert lock_of(*wheels) == lock_of(*reversed(wheels))
    path = tmp_path / backend.LOCK
    path.write_text(json.dumps(lock_of(*wheels)))
    assert backend.read_lock(path) == lock_of(*wheels)


@pytest.mark.parametrize(
    ("facts", "taken", "why"),
    [
        pytest.param(CU130, "+cu130", "", id="torch-cu130"),
        pytest.param(CU128, "+cu129", "", id="same-major"),
        pytest.param(LINUX, PURE, "CUDA is never guessed", id="no-torch-no-driver"),
        pytest.param(LINUX._replace(driver="580.65.06", driver_cuda="13.0"), "+cu130", "", id="driver-alone"),
        pytest.param(
            LINUX._replace(driver="560.28.03", driver_cuda="12.6"),
            "+cu129",
            "the driver, of CUDA 12.6",
            id="older-driver-alone",
        ),
        pytest.param(
            CU128._replace(driver="550.54.14", driver_cuda="12.4", gpus=("9.0",)), "+cu129", "", id="old-driver-sass"
        ),
        pytest.param(
            CU128._replace(driver="550.54.14", driver_cuda="12.4", gpus=("12.0",)),
            PURE,
            "CUDA 12.9 needs driver 575.51.03 or newer, since it has only PTX for the GPU here, 12.0; driver 550.54.14",
            id="old-driver-ptx",
        ),
        pytest.param(
            CU128._replace(driver="576.0", driver_cuda="12.9", gpus=("12.0",)), "+cu129", "", id="new-driver-ptx"
        ),
        pytest.param(
            CU130._replace(driver="550.54.14", driver_cuda="12.4", gpus=("9.0",)),
            PURE,
            "CUDA 13.0 needs driver 580 or newer; driver 550.54.14 is here",
            id="driver-of-another-major",
        ),
        pytest.param(
            CU130._replace(gpus=("7.5",)),
            PURE,
            "it has no kernel for the GPU here, 7.5, but for 8.0 9.0 10.0+PTX",
            id="gpu-too-old",
        ),
        pytest.param(CU130._replace(gpus=("8.6",)), "+cu130", "", id="later-gpu-of-a-major"),
        pytest.param(
            LINUX._replace(torch="2.10.0+cpu", driver_cuda="13.0"),
            PURE,
            "torch 2.10.0+cpu is a build without CUDA",
            id="cpu-torch-on-a-gpu-machine",
        ),
        pytest.param(
            LINUX._replace(torch="2.10.0+rocm7.1", torch_rocm="7.1"),
            PURE,
            "torch 2.10.0+rocm7.1 is a build without CUDA",
            id="rocm-torch",
        ),
        pytest.param(
            CU130._replace(torch="2.9.1+cu130"),
            PURE,
            "it is for torch 2.10 or newer, and torch 2.9.1+cu130 is here",
            id="torch-too-old",
        ),
        pytest.param(CU130._replace(torch="2.15.0.dev20261120+cu130"), "+cu130", "", id="nightly-torch"),
        pytest.param(
            CU130._replace(free_threaded=True, python="3.14"), PURE, "and this is cpython 3.14t", id="free-threaded"
        ),
        pytest.param(
            LINUX._replace(driver_cuda="13.0", gpus=("12.0",)), "+cu130", "", id="wsl-has-a-library-and-no-module"
        ),
        pytest.param(CU130._replace(libc="musl 1.2"), PURE, "linux_x86_64 with musl 1.2", id="musl"),
        pytest.param(CU130._replace(libc="glibc 2.17"), PURE, "glibc 2.17", id="old-glibc"),
        pytest.param(CU130._replace(platform="linux_aarch64"), PURE, "and this is linux_aarch64", id="arm"),
        pytest.param(CU130._replace(platform="win_amd64", libc=""), PURE, "and this is win_amd64", id="windows"),
        pytest.param(
            Facts(platform="macosx_14_0_arm64", torch="2.10.0"), PURE, "and this is macosx_14_0_arm64", id="macos"
        ),
        pytest.param(CU130._replace(implementation="pypy"), PURE, "and this is pypy 3.12", id="pypy"),
        pytest.param(CU130._replace(asked_cuda="none"), PURE, "you asked for none", id="asked-for-none"),
        pytest.param(LINUX._replace(asked_cuda="13.0"), "+cu130", "what you asked for has CUDA 13.0", id="asked"),
    ],
)
def test_the_choice(facts: Facts, taken: str, why: str) -> None:
    choice = backend.choose(USUAL, facts)
    assert choice.wheel
    assert taken in choice.wheel["file"]
    shown = backend.explain(USUAL, facts, choice)
    assert why in shown
    assert shown.count("\n  * ") == 1


def test_a_jetson_and_a_server_take_different_wheels_of_one_tag() -> None:
    both = lock_of(
        cuda("13.0", "10.0", machine="aarch64"),
        cuda("12.9", "8.7", machine="aarch64")._replace(serves=("12.9", "13.0")),
    )
    arm = LINUX._replace(platform="linux_aarch64", asked_cuda="13.0")
    server = backend.choose(both, arm._replace(gpus=("10.0",))).wheel
    jetson = backend.choose(both, arm._replace(asked_cuda="12.9", gpus=("8.7",))).wheel
    assert server
    assert jetson
    assert (server["archs"], jetson["archs"]) == (["10.0"], ["8.7"])
    assert backend.choose(both, arm._replace(gpus=("8.7",))).wheel is None


def test_of_several_for_one_torch_each_the_right_one_is_taken() -> None:
    tags = "cp312-cp312-manylinux_2_28_x86_64.whl"
    each = lock_of(
        *(
            cuda("13.0")._replace(
                file=FileName(f"demo-1.0+cu130torch2.{minor}-{tags}"),
                torch=(f"2.{minor}", f"2.{minor + 1}"),
                cxx11abi=minor != 10,
            )
            for minor in (10, 11, 12)
        )
    )
    found = {minor: backend.choose(each, CU130._replace(torch=f"2.{minor}.0+cu130")) for minor in (10, 11, 13)}
    assert found[10].wheel is None
    assert (
        "_GLIBCXX_USE_CXX11_ABI=0, and this one has _GLIBCXX_USE_CXX11_ABI=1"
        in dict(found[10].rows)[f"demo-1.0+cu130torch2.10-{tags}"]
    )
    assert found[11].wheel
    assert "torch2.11" in found[11].wheel["file"]
    assert found[13].wheel is None
    assert {why.partition(",")[0] for _, why in found[13].rows} == {
        f"it is for torch from 2.{minor} to below 2.{minor + 1}" for minor in (10, 11, 12)
    }


def test_code_for_one_chip_runs_on_that_chip_alone() -> None:
    special = lock_of(cuda("13.0", "9.0a 10.0f"))
    fits = {
        gpu
        for gpu in ("8.9", "9.0", "10.0", "10.3", "12.0")
        if backend.choose(special, CU130._replace(gpus=(gpu,))).wheel
    }
    assert fits == {"9.0", "10.0", "10.3"}


PYTHONS = [(3, minor) for minor in range(9, 16)]
MACHINES = {
    "linux_x86_64": ("glibc 2.28", "glibc 2.36", "musl 1.2"),
    "linux_aarch64": ("glibc 2.34",),
    "win_amd64": ("",),
    "macosx_13_0_x86_64": ("",),
    "macosx_14_0_arm64": ("",),
}
TAGS = st.sampled_from(
    [
        *(f"cp3{minor}-{abi}" for minor in range(9, 16) for abi in (f"cp3{minor}", f"cp3{minor}t", "abi3", "none")),
        "py3-none", "py2.py3-none", "py312-none", "py2-none",
    ]
)  # fmt: skip
PLATFORMS = st.sampled_from(
    [
        "any", "manylinux_2_17_x86_64.manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64",
        "manylinux_2_28_aarch64", "manylinux1_x86_64", "musllinux_1_1_x86_64", "musllinux_1_2_x86_64", "linux_x86_64",
        "win_amd64", "win32", "macosx_11_0_arm64", "macosx_14_0_arm64", "macosx_15_0_arm64", "macosx_10_9_x86_64",
        "macosx_11_0_universal2",
    ]
)  # fmt: skip


@given(TAGS, PLATFORMS, st.sampled_from(PYTHONS), st.booleans(), st.sampled_from([*MACHINES]), st.data())
def test_a_wheel_fits_where_pip_would_install_it(
    tag: str,
    platforms: str,
    python: tuple[int, int],
    threads: bool,  # noqa: FBT001 - hypothesis draws it
    machine: str,
    data: st.DataObject,
) -> None:
    assume(platforms != "any" or tag.endswith("-none"))  # what is bound to an ABI is bound to a system
    threads = threads and python >= (3, 13)
    libc = data.draw(st.sampled_from(MACHINES[machine]))
    facts = Facts(python="{}.{}".format(*python), free_threaded=threads, platform=machine, libc=libc)
    found = backend.choose(lock_of(wheel(f"demo-1.0-{tag}-{platforms}.whl")), facts).wheel
    assert bool(found) == bool(parse_tag(f"{tag}-{platforms}") & supported(facts, python))


def supported(facts: Facts, python: tuple[int, int]) -> set[Tag]:
    """Return the tags that a machine of these facts supports, by packaging."""
    from packaging import tags  # noqa: PLC0415 - its functions read this machine, so each gets what it would read

    name, _, version = facts.libc.partition(" ")
    if facts.platform.startswith("macosx"):
        _, major, minor, machine = facts.platform.split("_", 3)
        platforms = [*tags.mac_platforms((int(major), int(minor)), machine)]
    elif name == "glibc":
        machine, newest = facts.platform[len("linux_") :], int(version.split(".")[1])
        platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(5, newest + 1)] + [facts.platform]
        platforms += [f"{old}_{machine}" for old in ("manylinux1", "manylinux2010", "manylinux2014")]
    elif name == "musl":
        machine = facts.platform[len("linux_") :]
        platforms = [f"musllinux_1_{minor}_{machine}" for minor in range(int(version.split(".")[1]) + 1)]
        platforms += [facts.platform]
    else:
        platforms = [facts.platform]
    abi = f"cp{python[0]}{python[1]}{'t' if facts.free_threaded else ''}"
    return {
        *tags.cpython_tags(python, [abi], platforms),
        *tags.compatible_tags(python, f"cp{python[0]}{python[1]}", platforms),
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda lock: lock.update(format=2), "its format is 2, and this backend knows 1", id="newer"),
        pytest.param(lambda lock: lock.pop("wheels"), "KeyError: 'wheels'", id="no-wheels"),
        pytest.param(lambda lock: lock["wheels"][0].update(file="../evil.whl"), "file is '../evil.whl'", id="path"),
        pytest.param(lambda lock: lock["wheels"][0].update(sha256="x"), "sha256 is 'x'", id="hash"),
        pytest.param(lambda lock: lock["wheels"][0].update(size=-1), "size is -1", id="size"),
        pytest.param(lambda lock: lock["wheels"][0].update(urls=[1]), "1 is not a text", id="address"),
        pytest.param(lambda lock: lock.update(wheels=1), "TypeError", id="no-list"),
        pytest.param(
            lambda lock: lock["wheels"][0].update(compiling={"sources": 0, "seconds": 9}),
            "compiling is {'sources': 0, 'seconds': 9}",
            id="no-sources",
        ),
        pytest.param(
            lambda lock: lock["wheels"][0].update(torch="2.10"),
            "demo-1.0+cu130-cp310-abi3-manylinux_2_28_x86_64.whl has a text where a list belongs",
            id="a-text-for-a-list",
        ),
    ],
)
def test_what_is_no_lock_is_refused(tmp_path: Path, change: Any, said: str) -> None:  # noqa: ANN401 - any change
    lock: Any = lock_of(cuda("13.0"))
    change(lock)
    path = tmp_path / backend.LOCK
    path.write_text(json.dumps(lock))
    with pytest.raises(SystemExit) as refused:
        backend.read_lock(path)
    assert str(refused.value).strip().startswith(f"{path} is not a lock: {said}")


def test_a_setting_goes_before_its_variable() -> None:
    environ = {"AO_KERNELS_NO_COMPILE": "1", "AO_KERNELS_FOR_CUDA": "12.9"}
    wishes = backend.Wishes("ao-kernels", {"for-cuda": ["13.0", "13.2"], "no-compile": "0"}, environ)
    assert (wishes.get("for-cuda"), wishes.on("no-compile"), wishes.get("wheels")) == ("13.2", False, "")
    assert backend.Wishes("ao-kernels", None, environ).on("no-compile")


@pytest.mark.parametrize(
    ("settings", "variables", "said"),
    [
        pytest.param({"for-cudda": "13.0"}, {}, "no setting for-cudda, did you mean for-cuda?", id="setting"),
        pytest.param({"FOR_CUDA": "13.0"}, {}, "no setting FOR_CUDA, did you mean for-cuda?", id="as-a-variable"),
        pytest.param({}, {"AO_KERNELS_NO_COMPIL": "1"}, "did you mean AO_KERNELS_NO_COMPILE?", id="variable"),
        pytest.param({"wheel.cmake": "1"}, {"AO_KERNELS_FORCE_CUDA": "1", "AO_KERNELS_FOR_GPU": "9.0"}, "", id="none"),
    ],
)
def test_a_setting_that_is_almost_one_of_ours_installs_nothing(
    settings: dict[str, str], variables: dict[str, str], said: str
) -> None:
    wishes = backend.Wishes("ao-kernels", settings, variables)
    with pytest.raises(SystemExit, match=re.escape(said)) if said else nullcontext():
        wishes.refuse_mistakes()


def test_torch_is_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = tmp_path / "torch"
    (torch / "share/cmake/Torch").mkdir(parents=True)
    (torch / "share/cmake/Torch/TorchConfig.cmake").write_text('set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")\n')
    lines = ["from typing import Optional", "__version__ = '2.10.0+cu130'", "debug = False"]
    lines += ["cuda: Optional[str] = '13.0'", "hip: Optional[str] = None", "xpu: Optional[str] = None"]
    (torch / "version.py").write_text("\n".join(lines))
    (torch / "__init__.py").write_text("raise SystemExit('torch must not be imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(backend.sysconfig, "get_path", lambda _, **__: str(tmp_path))
    found = backend.find_facts(backend.Wishes("demo", {}, {}))
    assert (found.torch, found.torch_cuda, found.torch_rocm, found.cxx11abi) == ("2.10.0+cu130", "13.0", None, True)
    named = backend.find_facts(backend.Wishes("demo", {"for-torch": "2.11.0+rocm7.1", "for-gpu": "9.0, 10.0"}, {}))
    assert (named.torch_cuda, named.torch_rocm, named.gpus) == (None, "7.1", ("9.0", "10.0"))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025\n", "580.65.06", id="closed"
        ),
        pytest.param(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: 12\n",
            "570.86.15",
            id="open",
        ),
        pytest.param("something else\n", None, id="neither"),
    ],
)
def test_the_driver_is_read_from_what_its_kernel_module_says(text: str, version: str | None) -> None:
    assert backend._version_of_module(text) == version  # noqa: SLF001 - this machine has no such file


def test_the_table_of_the_docs_is_what_is_printed() -> None:
    page = Path(__file__).parents[3] / "docs/how-to/install-from-pypi.md"
    (shown,) = re.findall(r"```\n(ao-kernels .*?)\n```", page.read_text(encoding="utf-8"), re.DOTALL)
    tags = "py3-none-manylinux_2_28_x86_64.whl"
    named = [
        cuda(version, "9.0 10.0+PTX")._replace(file=FileName(f"ao_kernels-0.1.0+{label}-{tags}"))
        for version, label in (("12.9", "cu129"), ("13.0", "cu130"))
    ]
    text = write_lock(
        "ao-kernels", "0.1.0", FileName("ao_kernels-0.1.0.tar.gz"), BuildSystem((), "x"),
        [*named, wheel("ao_kernels-0.1.0-py3-none-any.whl")],
    )  # fmt: skip
    facts = CU128._replace(driver="580.65.06", driver_cuda="13.0", gpus=("9.0",))
    lock = json.loads(text)
    assert shown == backend.explain(lock, facts, backend.choose(lock, facts))


@pytest.mark.parametrize(
    ("sources", "seconds", "cores", "expected"),
    [
        pytest.param(1, 30, 8, "about a minute on 1 core, going by its 1 source file", id="one-file"),
        pytest.param(4, 400, 2, "about 3 minutes on 2 cores, going by its 4 source files", id="minutes"),
        pytest.param(31, 9600, 8, "about 20 minutes on 8 cores", id="in-steps-of-five"),
        pytest.param(100, 360_000, 8, "about 12 hours on 8 cores", id="hours"),
        pytest.param(2, 1200, 64, "about 10 minutes on 2 cores", id="no-more-cores-than-files"),
    ],
)
def test_it_is_said_how_long_compiling_takes(sources: int, seconds: int, cores: int, expected: str) -> None:
    said = backend.tell_time({"sources": sources, "seconds": seconds}, cores)
    assert said.startswith(f"compiling takes {expected}")


@pytest.mark.parametrize("most", ["", "0", "x", "1", "1000000"])
def test_no_more_compilers_run_than_max_jobs_allows(most: str) -> None:
    cores = backend.count_cores({})
    assert backend.count_cores({"MAX_JOBS": most}) == (1 if most == "1" else cores)
