from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.model.files import Finding, Level
from ci_tools.model.plan import Job, Library
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Cell, Platform
from ci_tools.model.versions import Minor, Python
from ci_tools.verify.audit import audit, device_images
from tests.builders import audited
from tests.builders.sycl import Embedded, archive, machine_code, sycl_library
from tests.builders.wheels import LINUX, MACHINE, PTX, SASS, edited, entry, library, linked, make, unit, with_section

LIMITS = {"pypi": 10**9, "github": 10**9}
PLAIN = library("extern void *malloc(unsigned long); void *ours(void) { return malloc(1); }")
A, F = 0x100000, 0x200000
FILE_OF_PTX = b".version 9.0\n.target sm_100\n.address_size 64\n.visible .entry scale() { ret; }\n"


def planned(*archs: str, libraries: tuple[Library, ...] = (), kind: AcceleratorKind = CUDA) -> Job:
    """The plan's job for a wheel with device code."""
    job = replace(audited.planned(LINUX, *archs), accelerator=Accelerator(kind, Minor(13, 0)), libraries=libraries)
    return replace(job, covers=(Cell(Platform.LINUX_CUDA, job.accelerator, None, job.python),))


def fatbinary(*entries: bytes) -> bytes:
    return with_section(".nv_fatbin", unit(*entries))


def looked_at(wheel: Path, job: Job | None) -> tuple[Finding, ...]:
    """Return what the rules about device code find, which are the only ones that find anything."""
    found = audit(wheel, job=job, limits=LIMITS, work=wheel.parent / "work")
    ours = ("fatbinary", "kernels")
    assert {one.rule for one in found if one.level is Level.ERROR} <= set(ours)
    return tuple(one for one in found if one.rule in ours)


def linux(folder: Path, **members: bytes) -> Path:
    """Write a wheel with the members of package `demo`, `_` in their names standing for a dot."""
    return make(
        folder, LINUX, {"demo/__init__.py": b"", **{f"demo/{n.replace('_', '.')}": m for n, m in members.items()}}
    )


HOPPER, BLACKWELL = fatbinary(entry(SASS, 90, A)), fatbinary(entry(SASS, 100), entry(PTX, 120))
TORCHAO = (
    Library("demo/hopper.so", ("sm_90a",)),
    Library("demo/blackwell.so", ("sm_100", "compute_120")),
    Library("demo/plain.so"),
)


# ---------------------------------------------------------------- each library its images


def test_libraries_of_one_wheel_each_have_their_own_images(tmp_path: Path) -> None:
    wheel = linux(tmp_path, hopper_so=HOPPER, blackwell_so=BLACKWELL, plain_so=PLAIN)
    assert looked_at(wheel, planned("9.0a", "10.0", "12.0+PTX", libraries=TORCHAO)) == ()


@pytest.mark.parametrize(
    ("member", "content", "found", "expected"),
    [
        pytest.param("demo/hopper.so", fatbinary(entry(SASS, 90)), "sm_90", "sm_90a", id="another-variant"),
        pytest.param("demo/hopper.so", PLAIN, "none", "sm_90a", id="no-device-code"),
        pytest.param(
            "demo/blackwell.so", fatbinary(entry(SASS, 100)), "sm_100", "compute_120, sm_100", id="ptx-forgotten"
        ),
        pytest.param(
            "demo/blackwell.so",
            fatbinary(entry(SASS, 90, A), entry(SASS, 100), entry(PTX, 120)),
            "compute_120, sm_100, sm_90a",
            "compute_120, sm_100",
            id="one-more",
        ),
        pytest.param("demo/plain.so", HOPPER, "sm_90a", "none", id="a-library-that-is-to-have-none"),
    ],
)
def test_a_library_with_other_images_than_its_own_is_found(
    member: str, content: bytes, found: str, expected: str, tmp_path: Path
) -> None:
    good = linux(tmp_path, hopper_so=HOPPER, blackwell_so=BLACKWELL, plain_so=PLAIN)
    job = planned("10.0", libraries=TORCHAO)
    (finding,) = looked_at(edited(good, {member: content}), job)
    assert (finding.rule, finding.found, finding.expected) == ("fatbinary", found, expected)
    assert (finding.message, finding.level) == (f"{member} is not for the planned architectures", Level.ERROR)


@pytest.mark.parametrize(
    ("archs", "unserved"),
    [
        pytest.param(("9.0a", "10.0", "12.0+PTX"), "", id="all-served"),
        pytest.param(("10.3",), "", id="later-of-the-same-major"),
        pytest.param(("12.1", "13.0"), "", id="by-ptx"),
        pytest.param(("8.0", "9.0a"), "8.0", id="too-old"),
        pytest.param(("9.0a", "8.0", "11.0"), "11.0, 8.0", id="two"),
    ],
)
def test_an_architecture_that_no_library_serves_is_a_warning(
    archs: tuple[str, ...], unserved: str, tmp_path: Path
) -> None:
    wheel = linux(tmp_path, hopper_so=HOPPER, blackwell_so=BLACKWELL, plain_so=PLAIN)
    found = looked_at(wheel, planned(*archs, libraries=TORCHAO))
    assert [(one.rule, one.level, one.expected) for one in found] == (
        [("fatbinary", Level.WARNING, unserved)] if unserved else []
    )


@pytest.mark.parametrize(
    ("image", "arch", "runs"),
    [
        pytest.param(entry(SASS, 80), "8.6", True, id="machine-code-on-a-later-minor"),
        pytest.param(entry(SASS, 86), "8.0", False, id="machine-code-on-an-earlier-minor"),
        pytest.param(entry(SASS, 80), "9.0", False, id="machine-code-on-a-later-major"),
        pytest.param(entry(SASS, 100, A), "10.3", False, id="of-one-chip"),
        pytest.param(entry(SASS, 100, F), "10.3", True, id="of-a-family"),
        pytest.param(entry(SASS, 100, F), "12.0", False, id="of-another-family"),
        pytest.param(entry(PTX, 80), "12.0", True, id="ptx"),
        pytest.param(entry(PTX, 90, A), "10.0", False, id="ptx-of-one-chip"),
        pytest.param(entry(PTX, 100, F), "10.3", True, id="ptx-of-a-family"),
        pytest.param(entry(PTX, 100, F), "12.0", False, id="ptx-of-another-family"),
    ],
)
def test_what_an_image_runs_on(image: bytes, arch: str, runs: bool, tmp_path: Path) -> None:  # noqa: FBT001
    content = fatbinary(image)
    wheel = linux(tmp_path, one_so=content)
    name = looked_at(wheel, planned("1.0"))[0].found
    found = looked_at(wheel, planned(arch, libraries=(Library("demo/one.so", (name,)),)))
    assert (found == ()) is runs


def test_libraries_that_are_to_hold_no_device_code_need_none(tmp_path: Path) -> None:
    wheel = linux(tmp_path, plain_so=PLAIN)
    found = looked_at(wheel, planned("9.0", libraries=(Library("demo/plain.so"),)))
    assert [(one.message, one.level) for one in found] == [
        ("no library serves an architecture asked for", Level.WARNING)
    ]


# ---------------------------------------------------------------- device code in other files


def test_a_file_of_device_code_may_be_for_one_architecture(tmp_path: Path) -> None:
    both = fatbinary(entry(SASS, 90), entry(SASS, 100), entry(PTX, 100))
    wheel = linux(tmp_path, one_so=both, kernel_ptx=FILE_OF_PTX)
    assert looked_at(wheel, planned("9.0", "10.0+PTX")) == ()


def test_files_of_device_code_together_are_for_all(tmp_path: Path) -> None:
    wheel = linux(tmp_path, one_so=PLAIN, kernel_ptx=FILE_OF_PTX, kernel_fatbin=unit(entry(SASS, 90)))
    assert looked_at(wheel, planned("9.0"))[0].message == "demo/kernel.ptx is not for the planned architectures"
    (finding,) = looked_at(wheel, planned("9.0", "10.0+PTX"))
    assert (finding.found, finding.expected) == ("compute_100, sm_90", "compute_100, sm_100, sm_90")


def test_a_library_of_another_project_is_not_judged(tmp_path: Path) -> None:
    good = linux(tmp_path, one_so=fatbinary(entry(SASS, 90)))
    wheel = edited(good, {"demo.libs/libnvjpeg-4a0b5c81.so.13": fatbinary(entry(SASS, 75))})
    assert looked_at(wheel, planned("9.0")) == ()


# ---------------------------------------------------------------- AMD


def bundle(*targets: str) -> bytes:
    """Return a library with an AMD offload bundle for those targets, its code objects empty."""
    rows = b""
    for name in ("host-x86_64-unknown-linux-gnu-", *(f"hipv4-amdgcn-amd-amdhsa--{target}" for target in targets)):
        rows += struct.pack("<QQQ", 0, 0, len(name)) + name.encode()
    content = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 1 + len(targets)) + rows
    return with_section(".hip_fatbin", content)


@pytest.mark.parametrize(
    ("targets", "found"),
    [
        pytest.param(("gfx90a", "gfx942"), [], id="as-planned"),
        pytest.param(("gfx942",), ["gfx942"], id="one-missing"),
        pytest.param(("gfx90a", "gfx942", "gfx1100"), ["gfx1100, gfx90a, gfx942"], id="one-more"),
    ],
)
def test_amd_device_code_is_for_the_planned_targets(targets: tuple[str, ...], found: list[str], tmp_path: Path) -> None:
    job = planned("gfx90a", "gfx942", kind=ROCM)
    wheel = linux(tmp_path, one_so=bundle(*targets))
    assert [(one.rule, one.found) for one in looked_at(wheel, job)] == [("fatbinary", said) for said in found]


@pytest.mark.parametrize(
    ("targets", "arch", "runs"),
    [
        pytest.param(("gfx90a",), "gfx90a:xnack+", True, id="whatever-the-feature"),
        pytest.param(("gfx90a:xnack-",), "gfx90a:xnack+", False, id="the-feature-off"),
        pytest.param(("gfx90a:xnack+",), "gfx90a", False, id="the-feature-on-alone"),
        pytest.param(("gfx9-4-generic",), "gfx942", True, id="generic"),
        pytest.param(("gfx9-4-generic",), "gfx90a", False, id="generic-for-others"),
        pytest.param(("gfx942",), "gfx9-4-generic", False, id="one-of-the-generic"),
        pytest.param(("gfx942", "amdgcnspirv"), "gfx1100", False, id="what-is-no-architecture"),
    ],
)
def test_what_amd_device_code_runs_on(targets: tuple[str, ...], arch: str, runs: bool, tmp_path: Path) -> None:  # noqa: FBT001
    job = planned(arch, libraries=(Library("demo/one.so", targets),), kind=ROCM)
    found = looked_at(linux(tmp_path, one_so=bundle(*targets)), job)
    assert [(one.level, one.expected) for one in found] == ([] if runs else [(Level.WARNING, arch)])


# ---------------------------------------------------------------- Intel


def sycl(*devices: str, spirv: bool = True) -> bytes:
    """Return a library with SPIR-V, and with machine code whose members have those names."""
    code = archive(**{f"x64_{name.replace('.', '_')}": b"" for name in devices})
    images = [Embedded("spir64_gen", code)] if devices else []
    return sycl_library(*images, *([Embedded()] if spirv else []))


def for_xpu(*archs: str, libraries: tuple[Library, ...] = ()) -> Job:
    return planned(*archs, libraries=libraries, kind=XPU)


@pytest.mark.parametrize(
    ("archs", "library", "found"),
    [
        pytest.param((), sycl(), [], id="spirv-alone"),
        pytest.param(("pvc", "bmg"), sycl("12.60.7", "bmg"), [], id="as-planned"),
        pytest.param(("xe-lpg",), sycl("12.70.4", "12.71.4"), [], id="a-name-for-two"),
        pytest.param(("xe-lpg", "mtl-h"), sycl("12.70.4", "12.71.4"), [], id="two-names-for-one"),
        pytest.param(("xe-lpg",), sycl("12.70.4"), ["spir64, spir64_gen:12.70.4"], id="one-of-the-two"),
        pytest.param(("pvc", "bmg"), sycl("12.60.7"), ["spir64, spir64_gen:pvc"], id="one-missing"),
        pytest.param((), sycl("12.60.7"), ["spir64, spir64_gen:12.60.7"], id="machine-code-that-is-not-asked-for"),
        pytest.param(("pvc",), sycl("12.60.7", spirv=False), ["spir64_gen:pvc"], id="no-spirv"),
        pytest.param((), PLAIN, ["none"], id="no-device-code"),
        pytest.param(
            ("bmg",),
            sycl_library(Embedded(), Embedded("spir64_gen", machine_code(20 << 22 | 1 << 14))),
            [],
            id="a-family-by-its-member",
        ),
    ],
)
def test_sycl_code_is_for_the_planned_gpus(
    archs: tuple[str, ...], library: bytes, found: list[str], tmp_path: Path
) -> None:
    wheel = linux(tmp_path, one_so=library)
    assert [(one.rule, one.level, one.found) for one in looked_at(wheel, for_xpu(*archs))] == [
        ("fatbinary", Level.ERROR, said) for said in found
    ]


def test_a_library_of_sycl_code_has_the_images_that_its_build_was_seen_to_ask_for(tmp_path: Path) -> None:
    wheel = linux(tmp_path, one_so=sycl("12.60.7", spirv=False), plain_so=PLAIN)
    libraries = (Library("demo/one.so", ("spir64_gen:pvc",)), Library("demo/plain.so"))
    assert looked_at(wheel, for_xpu("pvc", libraries=libraries)) == ()
    (finding,) = looked_at(wheel, for_xpu("pvc", "bmg", libraries=libraries))
    assert (finding.level, finding.expected) == (Level.WARNING, "bmg")


@pytest.mark.parametrize(
    ("needs", "torches", "expected"),
    [
        pytest.param("libsycl.so.8", ["2.10", "2.12"], [], id="that-of-its-torches"),
        pytest.param("libsycl.so.9", ["2.13"], [], id="that-of-a-newer-torch"),
        pytest.param("libsycl.so.9", ["2.12"], ["libsycl.so.8"], id="another"),
        pytest.param("libsycl.so.8", ["2.12", "2.13"], ["libsycl.so.8, libsycl.so.9"], id="torches-of-two"),
        pytest.param("libsycl.so.8", ["2.15"], [], id="a-torch-whose-oneapi-is-not-known"),
        pytest.param("libother.so.8", ["2.13"], [], id="none"),
    ],
)
def test_a_library_is_linked_with_the_runtime_of_sycl_of_its_torches(
    needs: str, torches: list[str], expected: list[str], tmp_path: Path
) -> None:
    cells = tuple(Cell(Platform.LINUX_XPU, None, Minor.parse(torch), Python(Minor(3, 10))) for torch in torches)
    job = replace(for_xpu(libraries=(Library("demo/one.so"),)), covers=cells)
    wheel = linux(tmp_path, one_so=linked("int ours;", needs=needs))
    found = audit(wheel, job=job, limits=LIMITS, work=tmp_path / "work", only=["sycl-runtime"])
    assert [(one.level, one.found, one.expected) for one in found] == [(Level.ERROR, needs, said) for said in expected]


def test_the_libraries_of_torch_for_xpu_may_be_needed_from_outside(tmp_path: Path) -> None:
    name = f"demo-1.0-py3-none-manylinux2014_{MACHINE}.manylinux_2_17_{MACHINE}.whl"
    needed = ("libsycl.so.9", "libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so", "libze_loader.so.1")
    members = {f"demo/{number}.so": linked(f"int one{number};", needs=one) for number, one in enumerate(needed)}
    wheel = make(tmp_path, name, {"demo/__init__.py": b"", **members})
    assert audit(wheel, job=for_xpu(), limits=LIMITS, work=tmp_path / "work", only=["platform"]) == ()


def test_a_kernel_of_sycl_that_one_gpu_lacks_is_a_warning(tmp_path: Path) -> None:
    both, one = ("_ZTS5scale", "_ZTS5shift"), ("_ZTS5scale",)
    code = sycl_library(Embedded(kernels=both), Embedded("spir64_gen", archive(x64_bmg=b""), one))
    (finding,) = looked_at(linux(tmp_path, one_so=code), None)
    assert (finding.rule, finding.level, finding.expected) == ("kernels", Level.WARNING, "also _ZTS5shift")
    assert finding.message == "demo/one.so lacks kernels for spir64_gen:bmg that it has for others (SYCL)"


# ---------------------------------------------------------------- kernels


def ptx(arch: int, *kernels: str) -> bytes:
    """Return PTX with those kernels, as an image."""
    text = "".join(f".visible .entry {name}() {{ ret; }}\n" for name in kernels).encode()
    text = text.ljust(len(text) + -len(text) % 8)  # as nvcc pads it
    return entry(PTX, arch, size=len(text)).replace(b"\2" * len(text), text)


GOOD = unit(ptx(90, "scale", "shift"), ptx(100, "scale", "shift"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(GOOD, [], id="all-there"),
        pytest.param(GOOD + unit(ptx(90)), [], id="a-source-file-without-kernels"),
        pytest.param(
            unit(ptx(90, "scale", "shift"), ptx(100, "scale")),
            [("for compute_100 that it has for others (.nv_fatbin, unit 1)", "also shift")],
            id="one-lacks-a-kernel",
        ),
        pytest.param(
            unit(ptx(90, "narrow"), ptx(100, "wide")),
            [("for compute_90 that", "also wide"), ("for compute_100 that", "also narrow")],
            id="each-lacks-the-others",
        ),
    ],
)
def test_a_kernel_that_an_architecture_lacks_is_a_warning(
    content: bytes, said: list[tuple[str, str]], tmp_path: Path
) -> None:
    wheel = linux(tmp_path, one_so=with_section(".nv_fatbin", content))
    found = sorted(looked_at(wheel, None), key=lambda one: one.message, reverse=True)
    assert [(one.rule, one.level, one.expected) for one in found] == [
        ("kernels", Level.WARNING, expected) for _, expected in said
    ]
    assert all(part in one.message for one, (part, _) in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("second", "said"),
    [
        pytest.param(unit(entry(SASS, 90, A), ptx(90, "other")), [], id="for-the-same"),
        pytest.param(unit(entry(SASS, 90, A)), [], id="without-kernels-that-are-known"),
        pytest.param(unit(ptx(90, "other")), [("other", "also for compute_100, sm_90a")], id="for-some-alone"),
    ],
)
def test_a_source_file_for_some_architectures_alone_is_a_warning(
    second: bytes, said: list[tuple[str, str]], tmp_path: Path
) -> None:
    first = unit(entry(SASS, 90, A), ptx(90, "one"), ptx(100, "one"))
    found = looked_at(linux(tmp_path, one_so=with_section(".nv_fatbin", first + second)), None)
    assert [(one.rule, one.level, one.found, one.expected) for one in found] == [
        ("kernels", Level.WARNING, *each) for each in said
    ]


def test_an_image_that_is_damaged_is_a_finding(tmp_path: Path) -> None:
    wheel = linux(tmp_path, one_so=fatbinary(entry(SASS, 90, 0x8000)))
    (finding,) = looked_at(wheel, None)
    assert (finding.rule, finding.found) == ("kernels", "unreadable")
    assert finding.message.startswith("demo/one.so cannot be read: ")


def test_the_device_images_of_a_wheel_are_told_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    code = fatbinary(entry(PTX, 90), entry(SASS, 100), entry(SASS, 90))
    wheel = linux(tmp_path, a_so=code, b_so=fatbinary(entry(SASS, 80)), c_so=PLAIN)
    assert device_images(wheel, tmp_path / "work") == ("sm_80", "sm_90", "sm_100", "compute_90")
    assert device_images(linux(tmp_path / "other", a_so=PLAIN), tmp_path / "work") == ()
