"""A ROCm platform from its config to its job: what may be asked for, what setup.py shows, and which hipcc builds."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.build.sdk.installed import InstalledCompilers
from ci_tools.build.toolchain import Toolchains
from ci_tools.catalog.accelerators.rocm import ROCM, Rocm, gfx_facts
from ci_tools.errors import InputError
from ci_tools.model.plan import Job, Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.versions import GfxArch, Minor
from tests.builders.sources import PROJECT, plan_of, request_of, world, write

KNOWN = catalog.load()
CONFIG = """\
package: demo
version: "1.0"
python: ["3.12"]
torch: ["2.10"]
platforms:
  linux-rocm: {{{rocm}}}
  linux-cuda: {{owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0"]}}
  linux-cpu:
"""
ASKED = 'owner: "@demo/rocm", rocm: ["7.1"], archs: [gfx90a, "gfx942:xnack+"]'
HIP = {"pyproject.toml": PROJECT, "demo.py": "", "k.hip": ""}


def written(folder: Path, rocm: str, files: dict[str, str]) -> Path:
    return write(folder / "demo", {"fatwheel.yml": CONFIG.format(rocm=rocm), **files})


def native(folder: Path, rocm: str) -> Plan:
    """Return the plan of a project with one file for ROCm."""
    return plan_of(written(folder, f'native: ["*.hip"], {rocm}', HIP))


def rocm_job(plan: Plan) -> Job:
    (job,) = (job for job in plan.jobs if job.platform is Platform.LINUX_ROCM)
    return job


# ---------------------------------------------------------------- the catalog


def test_every_rocm_that_a_torch_ships_has_its_row() -> None:
    shipped = {
        version
        for torch in KNOWN.torch.values()
        for (_, kind), versions in torch.accelerators.items()
        if kind is ROCM
        for version in versions
    }
    assert shipped <= KNOWN.stacks[ROCM].keys()


@pytest.mark.parametrize("rocm", KNOWN.stacks[ROCM].values(), ids=lambda rocm: str(rocm.version))
def test_a_row_names_architectures_as_compilers_do(rocm: Rocm) -> None:
    parsed = {GfxArch.parse(arch) for arch in rocm.architectures}
    assert {str(arch) for arch in parsed} == rocm.architectures
    assert {*rocm.torch} <= rocm.architectures
    generic = {arch for arch in rocm.architectures if arch.endswith("-generic")}
    assert generic <= gfx_facts().runs_on.keys()


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        pytest.param("gfx90a", "9.0", id="a-letter"),
        pytest.param("gfx942", "9.4", id="three-digits"),
        pytest.param("gfx1100", "11.0", id="four-digits"),
        pytest.param("gfx9-4-generic", "9.4", id="generic"),
        pytest.param("gfx12-generic", "12.0", id="a-whole-family"),
    ],
)
def test_what_torch_says_of_a_gpu(text: str, capability: str) -> None:
    assert str(GfxArch.parse(text).capability) == capability


@pytest.mark.parametrize("text", ["gfx9", "gfx90g", "gfx90a:xnack", "gfx90a:", "sm_90", "gfx10000", "gfx942\n"])
def test_what_is_no_architecture(text: str) -> None:
    with pytest.raises(ValueError, match="is not an architecture such as gfx942"):
        GfxArch.parse(text)


# ---------------------------------------------------------------- the config


@pytest.mark.parametrize(
    ("rocm", "archs", "said"),
    [
        pytest.param(
            '["7.3"]',
            "[gfx942]",
            'there is no ROCm "7.3" in the catalog, known: 5.2, 6.1, 6.2, 6.3, 6.4, 7.0, 7.1, 7.2, 7.14',
            id="no-release",
        ),
        pytest.param(
            '["7.1"]',
            "[gfx90b]",
            'hipcc of ROCm 7.1 does not know the architecture "gfx90b", did you mean "gfx950"?',
            id="nearest-name",
        ),
        pytest.param(
            '["6.3", "7.1"]',
            "[gfx9-4-generic]",
            ('hipcc of ROCm 6.3 does not know the architecture "gfx9-4-generic", did you mean "gfx942"?'),
            id="too-new-for-one-of-two",
        ),
        pytest.param(
            '["7.2"]',
            "[gfx940]",
            'hipcc of ROCm 7.2 does not know the architecture "gfx940", did you mean "gfx950"?',
            id="dropped",
        ),
        pytest.param(
            '["7.1"]',
            '["gfx1100:xnack+"]',
            'gfx1100 has no feature "xnack", expected gfx1100',
            id="no-such-feature",
        ),
        pytest.param(
            '["7.1"]',
            '["gfx942:xnack+:xnack-"]',
            '"gfx942:xnack+:xnack-" names the feature "xnack" twice, expected it once',
            id="on-and-off",
        ),
        pytest.param(
            '["7.1"]',
            '["gfx90a:xnack+", gfx90a]',
            (
                '"gfx90a:xnack+" and "gfx90a" cannot be in one library, expected each target of gfx90a '
                "to name the same features"
            ),
            id="with-and-without",
        ),
        pytest.param(
            '["7.1"]',
            '["gfx90a:xnack+:sramecc-", "gfx90a:sramecc-:xnack+"]',
            (
                '"gfx90a:sramecc-:xnack+" and "gfx90a:sramecc-:xnack+" cannot be in one library, expected '
                "each target of gfx90a to name the same features"
            ),
            id="one-twice",
        ),
        pytest.param(
            '["7.1"]',
            '["9.0"]',
            ('"9.0" is not allowed, expected an architecture such as gfx942, gfx9-4-generic or gfx90a:xnack+'),
            id="cuda's",
        ),
        pytest.param(
            '["7.1"]',
            '["gfx90a:wave64+"]',
            (
                '"gfx90a:wave64+" is not allowed, expected an architecture such as gfx942, '
                "gfx9-4-generic or gfx90a:xnack+"
            ),
            id="no-feature-of-any",
        ),
    ],
)
def test_what_may_not_be_asked_for(tmp_path: Path, rocm: str, archs: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        request_of(written(tmp_path, f"rocm: {rocm}, archs: {archs}", HIP))
    assert refused.value.message.partition(" ")[2] == said


@pytest.mark.parametrize("archs", ['["gfx90a:xnack+", "gfx90a:xnack-"]', "[gfx9-4-generic, gfx942]", "[gfx1201]"])
def test_what_may_be_asked_for(tmp_path: Path, archs: str) -> None:
    assert request_of(written(tmp_path, f'rocm: ["7.0", "7.14"], archs: {archs}', HIP))


def test_features_are_in_the_order_of_compilers(tmp_path: Path) -> None:
    request = request_of(written(tmp_path, 'rocm: ["7.1"], archs: ["gfx90a:xnack+:sramecc-"]', HIP))
    assert request.platforms[0].archs == ("gfx90a:sramecc-:xnack+",)


def test_without_archs_those_of_upstream_s_torch_are_meant(tmp_path: Path) -> None:
    one, several = (written(tmp_path / name, f"rocm: {asked}", HIP) for name, asked in RELEASES.items())
    assert request_of(one).platforms[0].archs == KNOWN.stacks[ROCM][Minor(7, 1)].torch
    assert request_of(several).platforms[0].archs == KNOWN.stacks[ROCM][Minor(7, 14)].torch  # what both are built for


RELEASES = {"one": '["7.1"]', "several": '["7.1", "7.14"]'}


@pytest.mark.parametrize(
    ("rocm", "said"),
    [
        pytest.param("owner: x", "no version of ROCm, expected those to serve as a list at the key `rocm`", id="none"),
        pytest.param('owner: x, rocm: ["6.4"]', "no architectures, expected something like `archs: [gfx90a, gfx942]`",
                     id="a-release-whose-torch-was-not-seen"),
    ],
)  # fmt: skip
def test_native_code_needs_what_it_is_compiled_for(tmp_path: Path, rocm: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        native(tmp_path, rocm)
    assert refused.value.message == f"fatwheel.yml:6:1: linux-rocm has native code (k.hip) and {said}"


def test_a_platform_without_native_code_needs_nothing(tmp_path: Path) -> None:
    files = {"pyproject.toml": PROJECT, "demo.py": ""}
    assert [job.name for job in plan_of(written(tmp_path, "", files)).jobs] == ["pure"]


def test_a_native_job_says_its_rocm_and_its_architectures(tmp_path: Path) -> None:
    plan = native(tmp_path, ASKED)
    job = rocm_job(plan)
    assert (job.name, job.archs) == ("linux-rocm-rocm7.1-cp312", ("gfx90a", "gfx942:xnack+"))
    assert job.wheel == "demo-1.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl"
    reasons = {item.reason for item in plan.covered if item.job == job.name}
    assert all("one fatbinary for gfx90a gfx942:xnack+" in reason for reason in reasons)


# ---------------------------------------------------------------- what setup.py shows


def reason(plan: Plan) -> str:
    (found,) = {item.reason for item in plan.covered if item.job == rocm_job(plan).name}
    return found


# ---------------------------------------------------------------- as torch translates


# ---------------------------------------------------------------- the toolchain


def machine(folder: Path, **versions: str) -> dict[str, str]:
    """Return the variables of a machine with a C++ compiler and a hipcc of each version, in folders of those names."""
    for name, version in versions.items():
        hipcc = folder / name / "bin" / "hipcc"
        hipcc.parent.mkdir(parents=True)
        hipcc.write_text(f"#!/bin/sh\necho HIP version: {version}\necho for $HIP_PLATFORM\n")
        hipcc.chmod(0o755)
    programs = folder / "programs"
    programs.mkdir()
    for name in ("c++", "sh"):
        (programs / name).symlink_to(shutil.which(name) or "")
    return {"PATH": str(programs)}


def missing(folder: Path, environ: dict[str, str], toolchain: str = "auto") -> str:
    """Return why the ROCm job of a plan for this Python cannot be built on such a machine."""
    source = written(folder, f'native: ["*.hip"], {ASKED}, toolchain: {toolchain}', HIP)
    config = source / "fatwheel.yml"
    config.write_text(config.read_text().replace("3.12", f"{sys.version_info[0]}.{sys.version_info[1]}"))
    return Toolchains(KNOWN, world(folder, **environ)).missing(rocm_job(plan_of(source)))


PLACES = "no ROCm 7.1 is installed (ROCM_HOME, ROCM_PATH, /opt/rocm-7.1, /opt/rocm, hipcc on PATH)"


@pytest.mark.parametrize("variable", ["ROCM_HOME", "ROCM_PATH", "PATH"])
def test_the_very_version_is_taken_wherever_it_is(tmp_path: Path, variable: str) -> None:
    environ = machine(tmp_path, rocm="7.1.25424-4179531dcd")
    path = f"{environ['PATH']}{os.pathsep}{tmp_path / 'rocm/bin'}"
    named = {"PATH": path} if variable == "PATH" else {**environ, variable: str(tmp_path / "rocm")}
    assert missing(tmp_path, named) == ""


def test_another_version_is_named_with_its_place(tmp_path: Path) -> None:
    environ = {**machine(tmp_path, rocm="7.14.1-0"), "ROCM_HOME": str(tmp_path / "rocm")}
    assert missing(tmp_path, environ) == f"{PLACES}; found 7.14 in {tmp_path / 'rocm'}"


def test_none_is_named_by_where_it_was_looked_for(tmp_path: Path) -> None:
    assert missing(tmp_path, machine(tmp_path)) == PLACES


def test_no_compiler_of_rocm_can_be_fetched(tmp_path: Path) -> None:
    said = missing(tmp_path, machine(tmp_path), "pypi")
    assert said == "no hipcc can be fetched: `toolchain: system` takes an installed one"


def test_it_is_asked_as_it_will_be_run(tmp_path: Path) -> None:
    environ = {**machine(tmp_path, rocm="7.1.1"), "ROCM_HOME": str(tmp_path / "rocm")}
    assert "for amd" in InstalledCompilers(ROCM, KNOWN, environ).says(tmp_path / "rocm")
