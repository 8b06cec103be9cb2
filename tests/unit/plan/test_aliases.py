"""Second names of CUDA wheels: those that a setup.py such as FlashAttention's asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.plan.aliases import names_of
from tests.builders.sources import demo, plan_of

FLASH = "cu{cuda_major}torch{torch}cxx11abi{cxx11abi}"
CONFIG = """\
package: demo-attn
python: ["3.12", "3.13", "3.13t"]
torch: [{oldest}"2.10", "2.11"]
platforms:
  linux-cuda: {{ owner: "@demo", native: ["*.cu"], cuda: [{cuda}], archs: ["9.0"] }}
  {other}: {{ owner: "@demo", native: ["*.cu"], cuda: ["13.0"], archs: ["9.0"] }}
release: {{ alias: "{alias}" }}
"""
PYPROJECT = """\
[build-system]
build-backend = "scikit_build_core.build"
[project]
name = "demo-attn"
version = "1.0"
"""
STABLE_ABI = "#define TORCH_TARGET_VERSION 0x020a000000000000\n#include <torch/csrc/stable/library.h>\n"
OWN_ABI = "#include <torch/extension.h>\n"


def config_of(alias: str, *, cuda: str = '"13.0"', other: str = "linux-cuda-aarch64", oldest: str = '"2.6", ') -> str:
    """Return a config that asks for second names."""
    return CONFIG.format(alias=alias, cuda=cuda, other=other, oldest=oldest)


def names(folder: Path, config: str, source: str = OWN_ABI) -> dict[str, str]:
    """Return the second names of a small project's wheels."""
    plan = plan_of(demo(folder / "source", {"fatwheel.yml": config, "pyproject.toml": PYPROJECT, "k.cu": source}))
    return dict(names_of(plan))


def test_each_torch_and_python_has_the_name_that_is_asked_for(tmp_path: Path) -> None:
    found = names(tmp_path, config_of(FLASH))
    x86 = {name: wheel for name, wheel in found.items() if name.endswith("-linux_x86_64.whl")}
    assert {*x86} == {
        f"demo_attn-1.0+cu13torch{torch}cxx11abiTRUE-{python}-{python}-linux_x86_64.whl"
        for torch in ("2.10", "2.11")
        for python in ("cp312", "cp313")
    }
    asked = "demo_attn-1.0+cu13torch2.11cxx11abiTRUE-cp313-cp313-linux_x86_64.whl"
    assert x86[asked] == "demo_attn-1.0+cu130torch2.11-cp313-cp313-manylinux_2_28_x86_64.whl"
    assert {name.replace("aarch64", "x86_64") for name in found} == {*x86}


def test_windows_has_no_such_abi(tmp_path: Path) -> None:
    found = names(tmp_path, config_of(FLASH, other="windows-cuda"))
    windows = [name for name in found if "x86_64" not in name]
    assert "demo_attn-1.0+cu13torch2.11cxx11abiFALSE-cp312-cp312-win_amd64.whl" in windows


def test_of_several_minor_versions_of_cuda_the_oldest_has_the_name(tmp_path: Path) -> None:
    found = names(tmp_path, config_of(FLASH, cuda='"12.8", "12.9", "13.0"'))
    asked = "demo_attn-1.0+cu12torch2.10cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    assert "+cu128torch2.10-" in found[asked]
    exact = names(tmp_path / "exact", config_of("cu{cuda}torch{torch}", cuda='"12.8", "12.9", "13.0"'))
    assert "+cu129torch2.10-" in exact["demo_attn-1.0+cu129torch2.10-cp312-cp312-linux_x86_64.whl"]


def test_a_wheel_for_every_torch_has_a_name_for_each(tmp_path: Path) -> None:
    found = names(tmp_path, config_of(FLASH, oldest=""), STABLE_ABI)
    wheels = {wheel for name, wheel in found.items() if "x86_64" in name and "cp312" in name}
    assert len(wheels) == 1
    assert sum("x86_64" in name and "cp312" in name for name in found) == 2


def test_a_name_of_two_wheels_is_refused_in_the_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'the alias "cu\{cuda_major\}" names both demo_attn-.* and demo_attn-') as no:
        names(tmp_path, config_of("cu{cuda_major}"))
    assert no.value.hint == "let the alias have {torch}"


def test_without_an_alias_there_is_none(tmp_path: Path) -> None:
    plan = plan_of(demo(tmp_path / "source"))
    assert names_of(plan) == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(("{torch}", "{pytorch}"), 'the template names "{pytorch}", did you mean "torch"?', id="field"),
        pytest.param(("{torch}", "{torch"), "this is not a template: ", id="brace"),
        pytest.param(('torch: ["2.6", "2.10", "2.11"]\n', ""), 'and the key "torch" is missing', id="no-torch"),
        pytest.param(('cuda: ["13.0"], archs: ["9.0"]', ""), "and no platform asks for CUDA", id="no-cuda"),
    ],
)
def test_a_wrong_alias_is_named(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    config = config_of(FLASH)
    if "cuda" in change[0]:
        config = config.replace("linux-cuda-aarch64", "linux-aarch64").replace("linux-cuda:", "linux-cpu:")
    folder = demo(tmp_path / "source", {"fatwheel.yml": config.replace(*change), "pyproject.toml": PYPROJECT})
    with pytest.raises(InputError) as no:
        plan_of(folder)
    assert said in str(no.value)
    assert "fatwheel.yml:" in str(no.value)
