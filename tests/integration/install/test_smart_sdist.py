"""A smart sdist: which wheel of its release is installed, or that it is compiled, and what is said.

`tests/proof/installers.py` has what each installer does with one; here, most call the hooks as installers do.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ci_tools.formats.tar import tarfile
from ci_tools.install.lock import Compiling, LockedWheel, write_lock
from ci_tools.install.smart_sdist import make_smart
from ci_tools.model.names import FileName, Sha256
from tests.builders.hooks import call_hooks
from tests.builders.installers import options_of, run_client
from tests.builders.smart_sdists import CUDA, environ_of, install, plain_sdist, release
from tests.servers.assets import assets

pytestmark = pytest.mark.slow

OWN_BACKEND = """
import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    own, name = "demo-1.0.dist-info/", "demo-1.0-py3-none-any.whl"
    kind = [os.environ.get("DEMO_CUDA"), os.environ.get("DEMO_OTHER"), config_settings]
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("demo.py", "kind = " + repr(kind))
        wheel.writestr(own + "METADATA", "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n")
        wheel.writestr(own + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(own + "RECORD", "")
    return name
"""
IN_TREE = """[build-system]
requires = []
build-backend = "own"
backend-path = ["tools"]
"""
OWN = {"pyproject.toml": IN_TREE, "tools/own.py": OWN_BACKEND}


def kind(tmp_path: Path) -> str:
    """Return what was installed: prebuilt or compiled."""
    return str(runpy.run_path(str(tmp_path / "there" / "demo.py"))["kind"])


def test_the_wheel_that_fits_is_installed_by_an_old_pip(tmp_path: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, cuda="13.0", torch=("2.10", None))
        done = install("pip-21.3.1", made.sdist, tmp_path, DEMO_FOR_TORCH="2.10.0+cu130")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert kind(tmp_path) == "prebuilt"
    assert said.count("which wheel fits here?") == 1  # once, although three hooks decide
    assert len(server.asked) == 1  # which share one download
    record = (tmp_path / "there/demo-1.0.dist-info/RECORD").read_text()
    assert "demo-1.0.dist-info/METADATA" in record
    assert "cu130" not in record
    assert "setuptools" not in said  # nothing was needed to compile


def test_a_wheel_from_the_cache_is_taken_without_asking_for_it(tmp_path: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, cuda="13.0")
        for folder in ("first", "second"):
            found = call_hooks(made.sdist, tmp_path / folder, DEMO_FOR_CUDA="13.0", XDG_CACHE_HOME=str(tmp_path))
            assert (found.requires, found.read("demo.py")) == ([], "kind = 'prebuilt'\n")
        assert len(server.asked) == 1


def test_it_is_compiled_where_no_wheel_fits(tmp_path: Path) -> None:
    needs = {"pyproject.toml": IN_TREE.replace("[]", '["flit_core>=3.9"]')}
    made = release(tmp_path, "http://127.0.0.1:9", files={**OWN, **needs}, cuda="13.0", torch=("2.10", None))
    found = call_hooks(made.sdist, tmp_path, DEMO_FOR_TORCH="2.10.0+cpu")
    assert (found.requires, found.read("demo.py")) == (["flit_core>=3.9"], "kind = [None, None, {}]"), found.said
    assert "it is for CUDA 13.0: torch 2.10.0+cpu is a build without CUDA" in found.said
    assert "demo: no wheel fits, so it is compiled" in found.said


def test_build_makes_the_wheel_and_packs_the_sdist_again(tmp_path: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, cuda="13.0")
        with tarfile.open(made.sdist) as archive:
            archive.extractall(tmp_path / "unpacked", filter="data")
        build = [
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--sdist",
            "--outdir",
            tmp_path,
            tmp_path / "unpacked/demo-1.0",
        ]
        done = subprocess.run(
            build, env=environ_of(tmp_path, {"DEMO_FOR_CUDA": "13.0"}), capture_output=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(tmp_path / "demo-1.0-py3-none-any.whl") as wheel:
        assert wheel.read("demo.py") == b"kind = 'prebuilt'\n"
    with tarfile.open(tmp_path / "demo-1.0.tar.gz") as again, tarfile.open(made.sdist) as first:
        assert {*again.getnames()} == {*first.getnames(), "demo-1.0/_fatwheel"}


def test_other_bytes_end_an_installation_although_it_could_be_compiled(tmp_path: Path) -> None:
    with assets(tmp_path / "assets", *["tampered"] * 4) as server:
        made = release(tmp_path, server.url)
        done = install("pip", made.sdist, tmp_path)
    assert done.returncode
    assert "Nothing is installed." in done.stdout + done.stderr
    assert "Traceback" not in (done.stdout + done.stderr).partition("error: subprocess-exited")[0]
    assert not (tmp_path / "there").exists()


def nvcc_in(folder: Path, version: str) -> Path:
    """Write an nvcc that says its version."""
    nvcc = folder / "bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.88'\n")
    nvcc.chmod(0o755)
    return nvcc


@pytest.mark.parametrize(
    ("wheel", "asked"), [pytest.param("13.0", "13.0", id="the-wheels"), pytest.param("13.2", "13.0", id="the-users")]
)
def test_a_wheel_that_cannot_be_fetched_is_compiled_by_an_nvcc_of_its_version_or_the_users(
    wheel: str, asked: str, tmp_path: Path
) -> None:
    nvcc = nvcc_in(tmp_path / "cuda", "13.0")
    variables = {"DEMO_FOR_CUDA": asked, "MAX_JOBS": "1", "CUDA_HOME": str(nvcc.parents[1])}
    with assets(tmp_path / "assets", *["404"] * 3) as server:  # a refusal: an address without a server is tried again
        made = release(tmp_path, server.url, cuda=wheel, files=OWN, compiling=Compiling(2, 80))
        found = call_hooks(made.sdist, tmp_path, **variables)
    assert found.read("demo.py") == "kind = [None, None, {}]"
    assert f"so demo is compiled with {nvcc}, of CUDA 13.0\n" in found.said
    assert "demo: compiling takes about a minute on 1 core, going by its 2 source files; MAX_JOBS" in found.said


@pytest.mark.long  # each hook waits 7.5 s between its tries
def test_it_is_compiled_where_no_server_answers(tmp_path: Path) -> None:
    nvcc = nvcc_in(tmp_path / "cuda", "13.0")
    made = release(tmp_path, "http://127.0.0.1:9", cuda="13.0", files=OWN)
    found = call_hooks(made.sdist, tmp_path, DEMO_FOR_CUDA="13.0", CUDA_HOME=str(nvcc.parents[1]))
    assert found.read("demo.py") == "kind = [None, None, {}]"
    assert "again in 4 s" in found.said


@pytest.mark.parametrize(
    ("nvcc", "wheel", "more", "reason"),
    [
        pytest.param("13.0", "13.0", {"DEMO_NO_COMPILE": "1"}, "compiling is off", id="off"),
        pytest.param("13.0", "13.2", {}, "there is no nvcc of CUDA 13.2 to compile it with, but ", id="another-minor"),
        pytest.param("12.9", "13.0", {}, "there is no nvcc of CUDA 13.0 to compile it with, but ", id="another-major"),
    ],
)
def test_a_wheel_that_can_neither_be_fetched_nor_compiled_ends_the_installation(
    nvcc: str, wheel: str, more: dict[str, str], reason: str, tmp_path: Path
) -> None:
    home = nvcc_in(tmp_path / "cuda", nvcc).parents[1]
    with assets(tmp_path / "assets", "403") as server:
        made = release(tmp_path, server.url, cuda=wheel, files=OWN)
        found = call_hooks(made.sdist, tmp_path, CUDA_HOME=str(home), DEMO_FOR_CUDA=wheel, **more)
    assert found.wheel is None
    assert f"{CUDA} fits, but it cannot be fetched, and {reason}" in found.said
    assert f"{server.url}/{CUDA}: HTTP 403 Forbidden" in found.said
    assert "DEMO_WHEELS=https://" in found.said
    assert "DEMO_WHEELS=FOLDER pip install" in found.said
    assert ("DEMO_NO_PREBUILT=1 takes that nvcc" in found.said) == (not more)


@pytest.mark.parametrize(
    ("wheel", "torch", "asked"),
    [
        pytest.param("13.0", None, "13.2", id="cannot-be-fetched-for-another-minor"),
        pytest.param("12.8", None, "13.2", id="no-wheel-fits-another-minor"),
        pytest.param("13.2", ("9.9", None), "12.9", id="no-wheel-fits-another-major"),
    ],
)
def test_nothing_is_compiled_for_another_cuda_than_the_user_asks_for(
    wheel: str, torch: tuple[str, None] | None, asked: str, tmp_path: Path
) -> None:
    nvcc = nvcc_in(tmp_path / "cuda", "13.0")
    with assets(tmp_path / "assets", "404") as server:
        made = release(tmp_path, server.url, cuda=wheel, torch=torch, files=OWN)
        options = {"DEMO_FOR_CUDA": asked, "DEMO_FOR_TORCH": "2.10.0", "CUDA_HOME": str(nvcc.parents[1])}
        found = call_hooks(made.sdist, tmp_path, **options)
    assert found.wheel is None
    assert f"there is no nvcc of CUDA {asked} to compile it with, but {nvcc} of CUDA 13.0" in found.said
    assert "DEMO_NO_PREBUILT=1 takes that nvcc all the same" in found.said


def test_it_is_compiled_for_another_cuda_if_the_user_wants_no_prebuilt_wheel(tmp_path: Path) -> None:
    nvcc = nvcc_in(tmp_path / "cuda", "13.0")
    made = release(tmp_path, "http://127.0.0.1:9", cuda="13.2", files=OWN)
    options = {"DEMO_FOR_CUDA": "13.2", "DEMO_NO_PREBUILT": "1", "CUDA_HOME": str(nvcc.parents[1])}
    found = call_hooks(made.sdist, tmp_path, **options)
    said = f"is compiled with {nvcc}, of CUDA 13.0, not of CUDA 13.2 (what you asked for)\n"
    assert found.said.count(f"demo: DEMO_NO_PREBUILT is set, so it {said}") == 1  # although three hooks decide


@pytest.mark.parametrize(
    ("torch", "how"),
    [
        ("2.10.0+cu132", ", of CUDA 13.0, not of CUDA 13.2 (torch 2.10.0+cu132)"),
        ("2.10.0+cu130", ", of CUDA 13.0"),
        ("2.10.0+cpu", ", of CUDA 13.0, although torch 2.10.0+cpu is a build without CUDA"),
    ],
)
def test_a_fallback_is_one_line_with_its_nvcc(torch: str, how: str, tmp_path: Path) -> None:
    nvcc = nvcc_in(tmp_path / "cuda", "13.0")
    made = release(tmp_path, "http://127.0.0.1:9", cuda="13.0", torch=("9.9", None), files=OWN)
    found = call_hooks(made.sdist, tmp_path, DEMO_FOR_TORCH=torch, CUDA_HOME=str(nvcc.parents[1]))
    assert found.said.count(f"demo: no wheel fits, so it is compiled with {nvcc}{how}\n") == 1


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_an_installer_shows_without_v_that_it_would_compile_for_another_cuda(client: str, tmp_path: Path) -> None:
    made = release(tmp_path, "http://127.0.0.1:9", cuda="12.8", files=OWN)
    home = nvcc_in(tmp_path / "cuda", "13.0").parents[1]
    environ = environ_of(tmp_path, {"DEMO_FOR_CUDA": "13.2", "CUDA_HOME": str(home)})
    words = [word for word in options_of(client) if word != "--quiet"]
    done = run_client(client, [*words, "--target", tmp_path / "there", made.sdist], environ)
    assert done.returncode
    said = " ".join((done.stdout + done.stderr).split())  # uv wraps its lines, wherever the folder's name ends
    assert "there is no nvcc of CUDA 13.2 to compile it with, but" in said


def test_it_is_compiled_with_the_variables_of_its_wheel_and_no_setting_of_ours(tmp_path: Path) -> None:
    entry = LockedWheel(
        file=FileName(CUDA), urls=(), sha256=Sha256("0" * 64), size=1, cuda="13.0", torch=("2.10", None),
        env={"DEMO_CUDA": "1", "DEMO_OTHER": "2"},
    )  # fmt: skip
    plain = plain_sdist(tmp_path / "plain", OWN)
    path = tmp_path / plain.name
    with path.open("wb") as sink:
        make_smart(plain, sink, lambda system: write_lock("demo", "1.0", FileName(plain.name), system, [entry]))
    options = ("-Cno-prebuilt=1", "-Cfor-cuda=13.2", "-Cdebug=1")
    done = install("pip", path, tmp_path, *options, DEMO_OTHER="mine")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert kind(tmp_path) == "['1', 'mine', {'debug': '1'}]"
    assert f"demo: built with DEMO_CUDA=1, as {CUDA} was" in said


def test_a_misspelt_setting_ends_the_installation_of_whatever_kind(tmp_path: Path) -> None:
    made = release(tmp_path, "http://127.0.0.1:9", files=OWN)
    for words in (["-Cfor-cudda=13.2"], ["-Cfor-cudda=13.2", "-Cno-prebuilt=1"]):
        done = install("pip", made.sdist, tmp_path, *words)
        assert done.returncode
        assert "there is no setting for-cudda, did you mean for-cuda?" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("CUDA", "cu130", "13.0, or none"), ("TORCH", "new", "2.10.0+cu130"), ("GPU", "sm_90", "9.0")],
)
def test_a_wrong_setting_ends_the_installation(name: str, value: str, expected: str, tmp_path: Path) -> None:
    made = release(tmp_path, "http://127.0.0.1:9")
    found = call_hooks(made.sdist, tmp_path, **{f"DEMO_FOR_{name}": value})
    assert found.wheel is None
    assert f'DEMO_FOR_{name} is "{value}", expected {expected}' in found.said


def test_prebuilt_wheels_can_be_switched_off(tmp_path: Path) -> None:
    made = release(tmp_path, "http://127.0.0.1:9", files=OWN)
    found = call_hooks(made.sdist, tmp_path, DEMO_NO_PREBUILT="1")
    assert found.read("demo.py") == "kind = [None, None, {}]"
    both = call_hooks(made.sdist, tmp_path, DEMO_NO_PREBUILT="1", DEMO_NO_COMPILE="1")
    assert both.wheel is None
    assert "DEMO_NO_PREBUILT and DEMO_NO_COMPILE are both set" in both.said
