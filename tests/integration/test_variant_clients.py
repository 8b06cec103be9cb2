"""Wheel variants under real clients: a uv that knows them takes the one for the machine, everybody else what they took.

uv knows by itself what NVIDIA's provider would say of a machine, so that none has to be installed; it takes the driver
and the GPU from the provider's variables.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools import catalog
from ci_tools.index import maintain
from ci_tools.index.units import Unit
from ci_tools.index.variants import variants_of
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.addresses import index_of
from tests.builders.installers import run_client, run_program
from tests.builders.releases import folder_index, item, publish, unit
from tests.builders.wheels import edited, hexdigest, make
from tests.servers.buckets import CREDENTIALS, moto
from tests.servers.package_index import over_http
from tests.servers.prepared import Called
from tests.servers.uploads import UV

pytestmark = pytest.mark.slow

PURE = "demo-1.0-py3-none-any.whl"
CUDA12, CUDA13 = (f"demo-1.0+{label}-py3-none-any.whl" for label in ("cu129", "cu130"))
VARIANT12, VARIANT13 = (f"demo-1.0-py3-none-any-{label}_sm90_sm100_ptx100.whl" for label in ("cu129", "cu130"))
OLD_PIPS = ("pip-21.3.1", "pip-23.0.1")  # both older than any that our documents name
PIP = ("install", "--no-cache-dir", "--disable-pip-version-check", "--no-warn-conflicts")
PLAIN = (UV, "pip", "install", "--no-config", "--no-cache", "--python", sys.executable)
KNOWING = (*PLAIN, "--preview-features", "wheel-variants")
DRIVER, GPU = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "NV_VARIANT_PROVIDER_FORCE_SM_ARCH"


class Installed(NamedTuple):
    """How an installation ended: which wheel came, and what was said."""

    wheel: str
    said: str


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    """A release of a pure wheel and of two CUDA versions, with their variants."""
    folder = tmp_path_factory.mktemp("made")
    pure, *cuda = (make(folder, name, {"demo.py": f"where = {name!r}\n".encode()}) for name in (PURE, CUDA12, CUDA13))
    items = (item(pure), item(cuda[0], "cu129"), item(cuda[1], "cu130"))
    variants = variants_of(items, folder / "variants", catalog.load(), Silent().say)
    assert [one.name for one in variants] == [VARIANT12, VARIANT13]
    return replace(unit("demo", *items), variants=variants)


@pytest.fixture(scope="module")
def root(release: Unit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "whl"
    publish(folder_index(folder), release)
    return folder


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with over_http(root) as found:
        yield found


@pytest.fixture(scope="module")
def bucket_address(release: Unit) -> Iterator[str]:
    """The same release in a bucket."""
    with moto() as bucket, pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        outside = Outside(environ=os.environ, cache=Path(os.devnull), reporter=Silent())
        target = index_of(bucket.target(), outside)
        publish(target, release)
        assert maintain.verify(target, outside) == ()
        yield bucket.url("whl")


def run(command: tuple[str, ...], folder: Path, *arguments: str, client: str = "pip", **env: str) -> Called:
    """Run a command of a uv, or the pip of a client."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "NV_VARIANT"))}
    settings = {"PIP_CONFIG_FILE": os.devnull, "no_proxy": "127.0.0.1", "UV_LINK_MODE": "copy"}  # else uv warns
    environ = {**kept, **settings, **env}
    whole = [*command, "--target", str(folder / "there"), *arguments]
    return run_client(client, whole, environ) if command is PIP else run_program(whole, environ)


def install(command: tuple[str, ...], folder: Path, index: str, *, client: str = "pip", **env: str) -> Installed:
    """Install as a user does."""
    done = run(command, folder, "--index-url", index, "demo", client=client, **env)
    assert done.returncode == 0, done.stderr
    (wheel,) = {PURE, CUDA12, CUDA13} & {(folder / "there" / "demo.py").read_text().split("'")[1]}
    is_variant = list((folder / "there").glob("demo-*.dist-info/variant.json"))
    said = "".join(line for line in done.stderr.splitlines() if "as the 'root' user" not in line)  # an old Python's pip
    return Installed(f"variant of {wheel}" if is_variant else wheel, done.stdout + said)


def machine(driver: str, gpu: str) -> Mapping[str, str]:
    return {DRIVER: driver, GPU: gpu}


# ---------------------------------------------------------------- who knows variants


@pytest.mark.parametrize(
    ("driver", "gpu", "wheel"),
    [
        pytest.param("13.0", "9.0", f"variant of {CUDA13}", id="its-very-driver"),
        pytest.param("13.2", "10.0", f"variant of {CUDA13}", id="a-newer-driver"),
        pytest.param("13.2", "10.3", f"variant of {CUDA13}", id="a-newer-gpu-of-its-generation"),
        pytest.param("12.9", "9.0", f"variant of {CUDA12}", id="an-older-driver"),
        pytest.param("12.8", "9.0", PURE, id="too-old-a-driver"),
        pytest.param("13.0", "8.6", PURE, id="a-gpu-that-no-wheel-has-code-for"),
    ],
)
def test_a_uv_that_knows_variants_takes_the_one_for_the_machine(
    driver: str, gpu: str, wheel: str, address: str, tmp_path: Path
) -> None:
    assert install(KNOWING, tmp_path, f"{address}/variants", **machine(driver, gpu)).wheel == wheel


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a driver")
def test_a_uv_that_knows_variants_takes_the_pure_wheel_where_no_driver_is(address: str, tmp_path: Path) -> None:
    assert install(KNOWING, tmp_path, f"{address}/variants").wheel == PURE


@pytest.mark.parametrize(("folder", "wheel"), [("cu130", CUDA13), ("cu129", CUDA12), ("cpu", PURE)])
def test_a_uv_that_knows_variants_takes_what_a_named_index_is_for(
    folder: str, wheel: str, address: str, tmp_path: Path
) -> None:
    assert install(KNOWING, tmp_path, f"{address}/{folder}", **machine("13.0", "9.0")).wheel == wheel


def test_a_bucket_serves_variants_as_a_folder_does(bucket_address: str, tmp_path: Path) -> None:
    wheel = install(KNOWING, tmp_path, f"{bucket_address}/variants/", **machine("13.0", "9.0")).wheel
    assert wheel == f"variant of {CUDA13}"


def test_a_variant_is_installed_by_its_hash_and_no_other(root: Path, address: str, tmp_path: Path) -> None:
    asked = tmp_path / "requirements.txt"
    arguments = ("--index-url", f"{address}/variants", "--require-hashes", "-r", str(asked))
    asked.write_text(f"demo==1.0 --hash=sha256:{hexdigest(root / 'variants' / VARIANT13)}\n")
    assert run(KNOWING, tmp_path, *arguments, **machine("13.0", "9.0")).returncode == 0
    asked.write_text(f"demo==1.0 --hash=sha256:{'0' * 64}\n")
    refused = run(KNOWING, tmp_path / "again", *arguments, **machine("13.0", "9.0"))
    assert (refused.returncode != 0, "ash" in refused.stderr) == (True, True), refused.stderr


def test_a_variant_with_other_bytes_than_the_page_says_is_refused(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "whl")
    edited(tmp_path / "whl" / "variants" / VARIANT13, {"demo.py": b"where = 'elsewhere'\n"})
    with over_http(tmp_path / "whl") as address:
        done = run(KNOWING, tmp_path, "--index-url", f"{address}/variants", "demo", **machine("13.0", "9.0"))
    assert (done.returncode != 0, "Hash mismatch" in done.stderr) == (True, True), done.stderr


# ---------------------------------------------------------------- who does not


@pytest.mark.parametrize(
    ("client", "folder", "wheel"),
    [
        *((client, "variants", PURE) for client in ("pip", "uv", *OLD_PIPS)),
        *((client, "cu130", CUDA13) for client in ("pip", "uv")),
        *((client, "cpu", PURE) for client in ("pip", "uv")),
    ],
)
def test_who_does_not_know_variants_takes_what_it_took_and_hears_nothing(
    client: str, folder: str, wheel: str, address: str, tmp_path: Path
) -> None:
    command = PLAIN if client == "uv" else PIP
    installed = install(command, tmp_path, f"{address}/{folder}", client=client, **machine("13.0", "9.0"))
    assert (installed.wheel, "warn" in installed.said.lower()) == (wheel, False), installed.said


def test_a_bucket_s_variants_are_harmless_too(bucket_address: str, tmp_path: Path) -> None:
    assert install(PIP, tmp_path / "pip", f"{bucket_address}/variants/").wheel == PURE
    assert install(PLAIN, tmp_path / "uv", f"{bucket_address}/variants/").wheel == PURE
