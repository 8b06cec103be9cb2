"""The rows that a project adds to the catalog: where they may be written, what they may say, and who sees them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.rocm import ROCM as AMD
from ci_tools.catalog.accelerators.xpu import OneApi
from ci_tools.config import loader
from ci_tools.errors import InputError
from ci_tools.model.versions import Minor, Python
from ci_tools.plan import make, plan_file, plan_reader
from tests.builders.sources import demo, plan_of, world, write

CONFIG = """\
package: demo
python: ["3.12"]
torch: ["2.15", "2.16"]
platforms:
  linux-cpu: { owner: us, native: ["*.cpp"] }
"""
HEADERS = f"""\
[torch.release.headers]
file = "torch-2.16.0-cp312-none-macosx_11_0_arm64.whl"
sha256 = "{"a" * 64}"
size = 1000
"""
TORCH = f"""\
[[torch.release]]
version = "2.16"
patch = "2.16.0"
[torch.release.pythons]
linux-x86_64 = ["3.12", "3.16"]
[torch.release.cuda]
linux-x86_64 = ["13.6"]
{HEADERS}"""
CUDA = """\
[[cuda.release]]
version = "13.6"
archs = ["9.0", "10.0"]
arch_specific = ["9.0"]
family_specific = []
driver = "600.10"
sass_driver = "580"
"""
ROCM = """\
[[rocm.release]]
version = "8.0"
archs = ["gfx942"]
generic = []
"""
PYTHON = '[python]\nreleases = ["3.16", "3.16t"]\n'
FILE = "fatwheel.catalog.toml"
EXTENSION = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools", "torch"]\nbuild-backend = "setuptools.build_meta"\n',
    "a.cpp": "#include <torch/csrc/stable/library.h>\n",
    "setup.py": """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
flags = ["-DTORCH_TARGET_VERSION=0x020a000000000000"]
made = CppExtension("demo._C", ["a.cpp"], extra_compile_args={"cxx": flags})
setup(name="demo", version="1.0", py_modules=["demo"], ext_modules=[made], cmdclass={"build_ext": BuildExtension})
""",
}


BOUND = {
    **EXTENSION,
    "a.cpp": "#include <torch/extension.h>\n",
    "setup.py": EXTENSION["setup.py"].replace('"-DTORCH_TARGET_VERSION=0x020a000000000000"', ""),
}


def known(folder: Path, files: dict[str, str]) -> Catalog:
    """Return the catalog with what a project of these files adds."""
    return catalog.load(loader.load(demo(folder, files) / "fatwheel.yml", catalog.load()).catalog)


def mistakes(folder: Path, rows: str, config: str = CONFIG) -> list[str]:
    with pytest.raises(InputError) as caught:
        known(folder, {"fatwheel.yml": config, FILE: rows})
    assert caught.value.status == 2
    return caught.value.message.replace(f"{folder}/", "").splitlines()


# ---------------------------------------------------------------- where rows are


def test_without_rows_it_is_our_catalog(tmp_path: Path) -> None:
    assert known(tmp_path, {}) is catalog.load()


def test_a_file_beside_the_config_adds_a_torch_a_cuda_a_rocm_and_a_python(tmp_path: Path) -> None:
    found = known(tmp_path, {"fatwheel.yml": CONFIG, FILE: f"{PYTHON}{CUDA}{ROCM}{TORCH}"})
    assert (max(found.torch), max(found.cuda), max(found.stacks[AMD])) == (Minor(2, 16), Minor(13, 6), Minor(8, 0))
    assert found.pythons[-2:] == (Python(Minor(3, 16)), Python(Minor(3, 16), free_threaded=True))
    assert found.torch[Minor(2, 16)].where == f"{FILE}:{f'{PYTHON}{CUDA}{ROCM}'.count(chr(10)) + 1}"
    assert {one: found.torch[one] for one in catalog.load().torch} == dict(catalog.load().torch)
    assert found.sha256 != catalog.load().sha256


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"fatwheel.yml": f"{CONFIG}catalog: ci/new.toml\n", "ci/new.toml": TORCH}, id="a-file-it-names"),
        pytest.param(
            {"fatwheel.yml": f'{CONFIG}catalog:\n  torch:\n    release:\n      - {{ version: "2.16" }}\n'}, id="tables"
        ),
    ],
)
def test_the_config_names_a_file_or_has_the_tables(files: dict[str, str], tmp_path: Path) -> None:
    assert max(known(tmp_path, files).torch) == Minor(2, 16)


def test_a_table_of_pyproject_has_them_too(tmp_path: Path) -> None:
    text = (
        '[build-system]\nbuild-backend = "flit_core.buildapi"\n[project]\nname = "demo"\nversion = "1.0"\n'
        '[tool.fatwheel]\npackage = "demo"\npython = ["3.12"]\ntorch = ["2.16"]\nplatforms.linux-cpu = {}\n'
        '[[tool.fatwheel.catalog.torch.release]]\nversion = "2.16"\n'
    )
    folder = write(tmp_path, {"pyproject.toml": text, "demo.py": ""})
    (row,) = loader.load(folder / "pyproject.toml", catalog.load()).catalog
    assert (row.title, row.where) == ("torch 2.16", "pyproject.toml:11")


def test_a_torch_for_xpu_names_its_oneapi_which_may_be_new_as_well(tmp_path: Path) -> None:
    torch = '[[torch.release]]\nversion = "2.15"\nxpu = {machines = ["linux-x86_64"], oneapi = "2026.3"}\n'
    oneapi = '[[xpu.release]]\nversion = "2026.3"\nsycl = 9\n'
    found = known(tmp_path, {FILE: torch + oneapi}).find_oneapi(Minor(2, 15))
    assert found == OneApi(Minor(2026, 3), 9)


def test_a_oneapi_without_the_number_of_its_runtime_is_not_complete(tmp_path: Path) -> None:
    (said,) = mistakes(tmp_path, '[[xpu.release]]\nversion = "2026.3"\n')
    assert said == f'{FILE}:1:1: oneAPI 2026.3: the key "sycl" is missing, and no other row says it'


# ---------------------------------------------------------------- what they may say


def test_a_row_that_says_the_same_as_ours_changes_nothing(tmp_path: Path) -> None:
    ours = '[[cuda.release]]\nversion = "13.0"\ndriver = "580.65.06"\n'
    assert known(tmp_path, {FILE: ours}).sha256 == catalog.load().sha256


def test_a_row_adds_to_a_release_of_ours(tmp_path: Path) -> None:
    ours = catalog.load().torch[Minor(2, 15)]
    more = '[[torch.release]]\nversion = "2.15"\n[torch.release.rocm]\nlinux-x86_64 = ["8.0"]\n'
    found = known(tmp_path, {FILE: more}).torch[Minor(2, 15)]
    assert found.accelerators.keys() - ours.accelerators.keys() == {("linux-x86_64", "rocm")}
    assert (found.patch, found.headers, found.where) == (ours.patch, ours.headers, "")


def test_a_newer_patch_release_takes_the_place_of_ours(tmp_path: Path) -> None:
    newer = f'[[torch.release]]\nversion = "2.15"\npatch = "2.15.7"\n{HEADERS.replace("2.16.0", "2.15.7")}'
    found = known(tmp_path, {FILE: newer}).torch[Minor(2, 15)]
    assert found.headers
    assert (found.patch, found.headers.size) == ("2.15.7", 1000)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param(
            '[[cuda.release]]\nversion = "13.0"\ndriver = "1.0"\n',
            f'{FILE}:3:10: CUDA 13.0: "driver" is "580.65.06" in the catalog, not "1.0": expected the same, or no such '
            "key",
            id="another-value",
        ),
        pytest.param(
            '[[torch.release]]\nversion = "2.15"\n[torch.release.cuda]\nlinux-x86_64 = ["13.6"]\n',
            f'{FILE}:4:16: torch 2.15: the catalog has "13.2" in "cuda.linux-x86_64" as well: expected all of its '
            "values, and what is new",
            id="a-list-without-ours",
        ),
        pytest.param(
            '[[torch.release]]\nversion = "2.15"\npatch = "2.14.0"\n',
            f'{FILE}:3:9: torch 2.15: "patch" is "2.15.0" in the catalog, not "2.14.0": expected the same, or no such '
            "key",
            id="an-older-patch",
        ),
        pytest.param(
            f"{CUDA}{CUDA.replace('600.10', '601.0')}",
            f'{FILE}:13:10: CUDA 13.6: "driver" is "600.10" in the catalog, not "601.0": expected the same, or no such '
            "key",
            id="a-row-of-its-own",
        ),
        pytest.param(
            CUDA.replace('driver = "600.10"\n', ""),
            f'{FILE}:1:1: CUDA 13.6: the key "driver" is missing, and no other row says it',
            id="a-missing-key",
        ),
        pytest.param(
            '[[torch.release]]\nversion = "2.16"\npatch = "2.16.0"\n',
            f'{FILE}:1:1: torch 2.16: the key "pythons" is missing, and no other row says it',
            id="half-a-torch",
        ),
        pytest.param(
            CUDA.replace("sass_driver", "sas_driver"),
            f'{FILE}:7:1: unknown key "sas_driver", did you mean "sass_driver"?',
            id="an-unknown-key",
        ),
        pytest.param(
            CUDA.replace("cuda.release", "cude.release"),
            f'{FILE}:1:1: unknown key "cude", did you mean "cuda"?',
            id="an-unknown-table",
        ),
        pytest.param(
            CUDA.replace('"580"', "580"),
            f"{FILE}:7:15: 580 is not allowed, expected the oldest Linux driver branch that runs its machine code, "
            'such as "580"',
            id="a-number-for-a-text",
        ),
        pytest.param(
            TORCH.replace('linux-x86_64 = ["3.12"', 'linux-x86-64 = ["3.12"'),
            f'{FILE}:5:1: unknown key "linux-x86-64", did you mean "linux-x86_64"?',
            id="an-unknown-machine",
        ),
        pytest.param(
            TORCH.replace("a" * 64, "a" * 63),
            f'{FILE}:10:10: "{"a" * 59}…" is not allowed, expected 64 hex digits, the wheel\'s sha256',
            id="half-a-hash",
        ),
        pytest.param("[[torch.release\n", f"{FILE}:1:16: this is not TOML", id="no-toml"),
    ],
)
def test_a_wrong_row_is_said_with_its_place(rows: str, message: str, tmp_path: Path) -> None:
    assert mistakes(tmp_path, rows)[0].startswith(message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param("ci/gone.toml", "fatwheel.yml:6:10: ci/gone.toml cannot be read: No such file", id="no-file"),
        pytest.param("../up.toml", 'fatwheel.yml:6:10: "../up.toml" is not allowed, expected a path inside', id="up"),
        pytest.param("[torch]", "fatwheel.yml:6:10: a list is not allowed, expected the torch, CUDA", id="a-list"),
    ],
)
def test_a_wrong_value_of_the_key_is_said(value: str, message: str, tmp_path: Path) -> None:
    assert mistakes(tmp_path, "", f"{CONFIG}catalog: {value}\n")[0].startswith(message)


def test_a_file_that_leads_out_of_the_source_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"elsewhere.toml": TORCH, "a/x": ""})
    (tmp_path / "a" / FILE).symlink_to(tmp_path / "elsewhere.toml")
    assert "leads out of the source" in mistakes(tmp_path / "a", "", f"{CONFIG}catalog: {FILE}\n")[0]


# ---------------------------------------------------------------- who sees them


def test_the_planner_plans_a_cell_of_a_new_torch(tmp_path: Path) -> None:
    plan = plan_of(demo(tmp_path / "a", {"fatwheel.yml": CONFIG, **BOUND, FILE: TORCH}))
    assert [str(job.torch) for job in plan.jobs] == ["2.15", "2.16"]


def test_a_plan_has_the_rows_for_machines_without_the_file(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {"fatwheel.yml": CONFIG, "a.cpp": "", FILE: TORCH, ".gitignore": "*.toml\n"})
    plan, pinned = plan_of(folder), tmp_path / "plan.json"
    pinned.write_text(plan_file.dumps(plan))
    assert plan_reader.read(pinned) == plan
    assert catalog.load(plan_reader.read(pinned).request.catalog).torch[Minor(2, 16)].patch == "2.16.0"
    copy = shutil.copytree(folder, tmp_path / "b")
    (copy / FILE).unlink()
    shutil.copy(folder / "pyproject.toml", copy)
    with pytest.raises(InputError, match="source_sha256"):  # the file is a part of the source
        make.make_plan(copy / "fatwheel.yml", world(tmp_path), pinned=pinned)


def test_a_machine_without_the_file_plans_with_the_rows_of_the_plan(tmp_path: Path) -> None:
    files = {f"source/{name}": text for name, text in BOUND.items()} | {"source/demo.py": ""}
    config = f"{CONFIG}source: {{ path: ../source }}\n"
    folder = write(tmp_path / "a", {**files, "recipe/fatwheel.yml": config, f"recipe/{FILE}": TORCH}) / "recipe"
    planned = make.make_plan(folder / "fatwheel.yml", world(tmp_path))
    pinned = tmp_path / "plan.json"
    pinned.write_text(plan_file.dumps(planned.plan))
    (folder / FILE).unlink()
    again = make.make_plan(folder / "fatwheel.yml", world(tmp_path), pinned=pinned)
    assert (again.plan, again.catalog.torch) == (planned.plan, planned.catalog.torch)
    assert [str(job.torch) for job in again.plan.jobs] == ["2.15", "2.16"]


def test_a_plan_is_refused_once_the_rows_say_otherwise(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {"fatwheel.yml": CONFIG, "a.cpp": "", FILE: TORCH})
    pinned = tmp_path / "plan.json"
    pinned.write_text(plan_file.dumps(plan_of(folder)))
    write(folder, {FILE: TORCH.replace('"13.6"', '"13.7"')})
    with pytest.raises(InputError, match=r"request\.catalog"):
        make.make_plan(folder / "fatwheel.yml", world(tmp_path), pinned=pinned)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"table": "torches"}, 'unknown key "torches", did you mean "torch"', id="table"),
        pytest.param({"content": "{"}, "plan.request.catalog has no row of a catalog", id="broken"),
        pytest.param({"content": "[]"}, "plan.request.catalog has no row of a catalog", id="list"),
        pytest.param({"content": '{"patch": 7}'}, "7 is not allowed, expected its newest patch release", id="value"),
        pytest.param({"content": '{"patch": "2.16.0"}'}, 'the key "pythons" is missing', id="half"),
        pytest.param({"table": 7}, "expected a text, found a whole number", id="type"),
    ],
)
def test_a_damaged_row_of_a_plan_is_said(change: dict[str, object], message: str, tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {"fatwheel.yml": CONFIG, FILE: TORCH})
    data = json.loads(plan_file.dumps(plan_of(folder)))
    data["request"]["catalog"][0].update(change)
    with pytest.raises(InputError, match=message):
        plan_reader.plan_of(data)


# ---------------------------------------------------------------- a torch that nobody has seen


def test_the_stable_abi_serves_a_torch_that_nobody_has_seen(tmp_path: Path) -> None:
    rows = '[[torch.release]]\nversion = "2.16"\n'
    plan = plan_of(demo(tmp_path / "a", {"fatwheel.yml": CONFIG, **EXTENSION, FILE: rows}))
    reasons = {str(cell.torch): reason for cell, _, reason in plan.covered}
    assert reasons.keys() == {"2.15", "2.16"}
    assert reasons["2.16"] == (
        f"{reasons['2.15']}; for torch 2.16 ({FILE}:1) promised, not checked: no symbols of it are known"
    )
    assert [str(job.torch) for job in plan.jobs] == ["2.15"]


def test_without_the_stable_abi_nobody_can_build_for_it(tmp_path: Path) -> None:
    rows = '[[torch.release]]\nversion = "2.16"\n'
    plan = plan_of(demo(tmp_path / "a", {"fatwheel.yml": CONFIG, **BOUND, FILE: rows}))
    assert [why for _, why in plan.skipped] == [f"nobody has published torch 2.16 yet ({FILE}:1)"]


def test_a_python_with_a_wheel_of_its_own_is_built_with_a_torch_that_there_is(tmp_path: Path) -> None:
    rows = f'{PYTHON}[[torch.release]]\nversion = "2.16"\n'
    config = CONFIG.replace('["3.12"]', '["3.16"]')
    plan = plan_of(demo(tmp_path / "a", {"fatwheel.yml": config, **EXTENSION, FILE: rows}))
    assert [(str(job.python), str(job.torch)) for job in plan.jobs] == [("3.16", "2.15")]


def test_a_build_without_a_torch_of_its_own_never_sees_it(tmp_path: Path) -> None:
    found = known(tmp_path, {FILE: '[[torch.release]]\nversion = "9.1"\n'})
    assert (max(found.torch), found.newest_torch) == (Minor(9, 1), max(catalog.load().torch))


def test_alone_in_a_request_it_is_skipped(tmp_path: Path) -> None:
    rows = '[[torch.release]]\nversion = "2.16"\n'
    config = CONFIG.replace('"2.15", ', "")
    plan = plan_of(demo(tmp_path / "a", {"fatwheel.yml": config, **EXTENSION, FILE: rows}))
    assert (plan.jobs, len(plan.skipped)) == ((), 1)
