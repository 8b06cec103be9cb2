"""Tests of toolkits from NVIDIA's archives: what is chosen, and what a server or an archive may do wrong."""

from __future__ import annotations

import functools
import hashlib
import random
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import certifi
import pytest

from ci_tools.build.sdk.redist import MIRROR, fetch_compiler, fetch_parts, read_release
from ci_tools.catalog.accelerators.cuda import Redist
from ci_tools.catalog.providers import cuda_parts
from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.machine.context import Outside
from ci_tools.machine.http.policy import REQUEST
from tests.builders.redist import Component, list_of, pack, pack_files
from tests.builders.sources import world
from tests.servers.package_index import Sent, index_of

X86, SBSA = "linux-x86_64", "linux-sbsa"
RELEASE = "12.9.1"
NVCC_FILE = "cuda_nvcc-linux-x86_64-12.9.86-archive.tar.xz"
LIST = f"redistrib_{RELEASE}.json"
NVCC = b"#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n"
CICC = random.Random(0).randbytes(400_000)  # noqa: S311 - it does not compress
HEADER = b"cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);\n"
# pip is not asked for its settings, which takes a second each time.
ASKED = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CERT": certifi.where()}
CUBLAS = next(part for part in cuda_parts() if part.name == "cuBLAS")


@functools.cache
def components(platform: str = X86) -> tuple[Component, ...]:
    """Return a toolkit's archives: of a compiler as CUDA 12.9 splits it, and a library."""
    return (
        pack_files("cuda_nvcc", "12.9.86", platform, {"LICENSE": b"1", "bin/nvcc": NVCC, "nvvm/bin/cicc": CICC}),
        pack_files("cuda_cudart", "12.9.79", platform, {
            "LICENSE": b"two",
            "include/cuda_runtime.h": b"#pragma once\n",
            "lib/libcudart.so": b"-> libcudart.so.12",
            "lib/libcudart.so.12": b"-> libcudart.so.12.9.79",
            "lib/libcudart.so.12.9.79": b"library",
        }),
        pack_files("cuda_cccl", "12.9.27", platform, {"include/cub/cub.cuh": b"#pragma once\n"}),
        pack_files("libcublas", "12.9.1.4", platform, {
            "include/cublas_v2.h": HEADER,
            "lib/libcublas.so.12": b"-> libcublas.so.12.9.1.4",
            "lib/libcublas.so.12.9.1.4": b"much",
        }),
    )  # fmt: skip


class Site(NamedTuple):
    """A server of archives, and the context of a run that takes it for NVIDIA's."""

    outside: Outside
    sent: list[Sent]
    redist: Redist


@contextmanager
def serving(
    folder: Path,
    made: Sequence[Component],
    files: Mapping[str, bytes] | None = None,
    host: str = "linux-x86_64",
    **faults: Any,  # noqa: ANN401 - those of index_of
) -> Iterator[Site]:
    """Serve archives and their list; `files` replaces some of these, `faults` are the server's."""
    listed, sent = list_of(RELEASE, made), list[Sent]()
    every = {LIST: listed, **{one.path: one.content for one in made}, **(files or {})}
    with index_of("none", every, sent=sent, **faults) as index:
        address = index.url.replace("/simple/", "/files/")
        outside = replace(world(folder, **ASKED, **{MIRROR: address}), host=host)
        yield Site(outside, sent, Redist(RELEASE, hashlib.sha256(listed).hexdigest()))


pytestmark = pytest.mark.usefixtures("at_once")


def fetch(site: Site) -> Path:
    return fetch_compiler(read_release(site.redist, site.outside), site.outside)


def test_a_compiler_is_put_together_from_its_components(tmp_path: Path) -> None:
    with serving(tmp_path, components()) as site:
        home = fetch(site)
    found = {path.relative_to(home).as_posix() for path in home.rglob("*") if not path.is_dir() or path.is_symlink()}
    assert found >= {"bin/nvcc", "nvvm/bin/cicc", "include/cub/cub.cuh", "lib/libcudart.so.12.9.79", "lib64"}
    assert ((home / "lib64/libcudart.so").read_bytes(), "LICENSE" in found) == (b"library", False)
    assert (home / "bin/nvcc").stat().st_mode & 0o111


def test_nothing_is_fetched_twice_or_left_over(tmp_path: Path) -> None:
    with serving(tmp_path, components()) as site:
        first = fetch(site)
    once = len(site.sent)
    assert (fetch(site), len(site.sent)) == (first, once)  # its server is gone
    assert list(tmp_path.rglob("*.tar.xz")) == []


def test_a_server_of_arm_has_other_archives(tmp_path: Path) -> None:
    with serving(tmp_path, components(SBSA), host="linux-aarch64") as site:
        fetch(site)
        assert {one.path.split("/")[3] for one in site.sent if "archive" in one.path} == {SBSA}


def test_components_that_a_newer_cuda_splits_off_or_renames_are_fetched(tmp_path: Path) -> None:
    others = [one for one in components() if one.name != "cuda_cccl"]
    split = [
        pack_files("cccl", "13.3.3", X86, {"include/cccl/cub/cub.cuh": b"\n"}),
        pack_files("libnvvm", "13.3.33", X86, {"nvvm/bin/cicc": b"of nvvm"}),
        pack_files("cuda_crt", "13.3.33", X86, {"include/crt/host_config.h": b"\n"}),
    ]
    with serving(tmp_path, [*others, *split]) as site:
        home = fetch(site)
    assert all((home / name).is_file() for name in ("include/cccl/cub/cub.cuh", "include/crt/host_config.h"))
    assert (home / "nvvm/bin/cicc").read_bytes() == b"of nvvm"


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a linker")
def test_of_a_library_the_headers_stay_and_a_stand_in_to_link_with(tmp_path: Path) -> None:
    with serving(tmp_path, components()) as site:
        (overlay,) = fetch_parts(read_release(site.redist, site.outside), [CUBLAS], site.outside)
    found = sorted(path.relative_to(overlay.folder).as_posix() for path in overlay.folder.rglob("*") if path.is_file())
    assert found == ["include/cublas_v2.h", "lib/libcublas.so", "lib/libcublas.so.12"]
    assert (overlay.identity, b"cublasCreate_v2" in (overlay.folder / "lib/libcublas.so.12").read_bytes()) == (
        "libcublas-12.9.1.4",
        True,
    )


@pytest.mark.parametrize(
    ("faults", "requests"),
    [
        pytest.param({"most": 150_000}, 6, id="bodies-cut-short-are-asked-for-again-from-there"),
        pytest.param({"ranges": "none"}, 4, id="a-server-without-ranges-sends-files-as-a-whole"),
    ],
)
def test_a_compiler_is_complete_where(faults: dict[str, Any], requests: int, tmp_path: Path) -> None:
    with serving(tmp_path, components(), **faults) as site:
        assert (fetch(site) / "nvvm/bin/cicc").read_bytes() == CICC
    assert len(site.sent) == requests


def test_a_server_that_cuts_a_file_it_sends_as_a_whole_is_left_after_some_tries(tmp_path: Path) -> None:
    with (
        serving(tmp_path, components(), most=150_000, ranges="none") as site,
        pytest.raises(MachineError, match=f"{NVCC_FILE} cannot be fetched") as raised,
    ):
        fetch(site)
    assert len(site.sent) == 1 + REQUEST.tries
    assert raised.value.hint == "what came is kept: the same command goes on from there"


def test_a_killed_download_goes_on_in_the_next_run(tmp_path: Path) -> None:
    made = components()
    with serving(tmp_path, made) as site:
        release = read_release(site.redist, site.outside)
        archive = release.archives["cuda_nvcc"]
        place = tmp_path / "cache/toolchains/archives" / f"{archive.sha256}.tar.xz"
        place.parent.mkdir(parents=True)
        place.write_bytes(made[0].content[:100])
        fetch(site)
    assert [one.range for one in site.sent if "cuda_nvcc" in one.path] == ["bytes=100-"]


def escaping(name: str, link: str = "") -> Component:
    member = tarfile.TarInfo(name)
    if link:
        member.type, member.linkname = tarfile.SYMTYPE, link
    return pack("cuda_cudart", "12.9.79", X86, [(member, None if link else b"")])


NVCC_PATH, NVCC_ARCHIVE = components()[0].path, components()[0].content
NVCC_FILE, CUDART_FILE = (
    "cuda_nvcc-linux-x86_64-12.9.86-archive.tar.xz",
    "cuda_cudart-linux-x86_64-12.9.79-archive.tar.xz",
)
OUTSIDE = f"{CUDART_FILE} cannot be unpacked: .*outside"


class Wrong(NamedTuple):
    """What a server has, and the error that it ends in."""

    kind: type[FatwheelError]
    sentence: str
    made: tuple[Component, ...] = components()
    files: Mapping[str, bytes] = MappingProxyType({})


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(
            Wrong(InputError, f"{NVCC_FILE} has the sha256 ", files={NVCC_PATH: NVCC_ARCHIVE[::-1]}), id="other-bytes"
        ),
        pytest.param(
            Wrong(InputError, f"{NVCC_FILE} has the sha256 ", files={NVCC_PATH: NVCC_ARCHIVE[:-40]}),
            id="a-shorter-file",
        ),
        pytest.param(
            Wrong(InputError, f"{NVCC_FILE} has the sha256 ", files={NVCC_PATH: NVCC_ARCHIVE + b"more"}),
            id="a-longer-file",
        ),
        pytest.param(
            Wrong(InputError, f"{LIST} has the sha256 .*, the catalog says ", files={LIST: b"{}"}), id="another-list"
        ),
        pytest.param(
            Wrong(MachineError, f"{LIST} has no cuda_cccl for linux-x86_64, did you mean", components()[:2]),
            id="no-such-component",
        ),
        pytest.param(
            Wrong(MachineError, f"{LIST} has no cuda_nvcc for linux-x86_64", components(SBSA)), id="no-such-platform"
        ),
        pytest.param(
            Wrong(InputError, OUTSIDE, (components()[0], escaping("lib/../../../out"), *components()[2:])),
            id="a-path-that-leads-outside",
        ),
        pytest.param(
            Wrong(InputError, OUTSIDE, (components()[0], escaping("lib/x.so", "../../../../etc"), *components()[2:])),
            id="a-link-that-leads-outside",
        ),
    ],
)
def test_nothing_is_kept_of(wrong: Wrong, tmp_path: Path) -> None:
    with serving(tmp_path, wrong.made, wrong.files) as site, pytest.raises(wrong.kind, match=wrong.sentence):
        fetch(site)
    assert [path.name for path in (tmp_path / "cache/toolchains").glob("cuda-redist*") if path.is_dir()] == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"<html>", "is not a list of NVIDIA's archives: JSONDecodeError", id="no-json"),
        pytest.param(b"[]", "is not a list of NVIDIA's archives: AttributeError", id="a-json-of-another-shape"),
        pytest.param(
            b'{"cuda_nvcc": {"version": "1", "linux-x86_64": {"sha256": "../x", "relative_path": "a", "size": 1}}}',
            "is not a list of NVIDIA's archives: ValueError cuda_nvcc has no sha256",
            id="a-sha256-that-is-a-path",
        ),
    ],
)
def test_a_list_that_only_tls_vouches_for_may_still_be_wrong(content: bytes, sentence: str, tmp_path: Path) -> None:
    with serving(tmp_path, (), {LIST: content}) as site, pytest.raises(InputError, match=sentence):
        read_release(Redist(RELEASE), site.outside)


def test_a_release_that_the_server_lacks_is_named_with_its_address(tmp_path: Path) -> None:
    with (
        serving(tmp_path, ()) as site,
        pytest.raises(MachineError, match=r"there is no http.*/redistrib_12\.9\.7\.json"),
    ):
        read_release(Redist("12.9.7"), site.outside)


def test_a_mirror_has_an_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='FATWHEEL_CUDA_REDIST is "/mnt/cuda"; expected an address such as https://'):
        read_release(Redist(RELEASE), world(tmp_path, **{MIRROR: "/mnt/cuda"}))


def test_a_disk_without_room_is_told_before_anything_is_fetched(tmp_path: Path) -> None:
    with serving(tmp_path, components()) as site:
        release = read_release(site.redist, site.outside)
        large = release.archives | {"cuda_nvcc": release.archives["cuda_nvcc"]._replace(size=1 << 60)}
        before = len(site.sent)
        with pytest.raises(MachineError, match=r"MiB for the compiler of CUDA 12\.9\.1"):
            fetch_compiler(release._replace(archives=large), site.outside)
    assert len(site.sent) == before
