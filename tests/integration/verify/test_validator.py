from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.formats import receipts
from ci_tools.model.files import BuiltWith, Outcome, Trial
from ci_tools.model.platforms import Accelerator
from ci_tools.model.request import Command, Validation
from ci_tools.model.versions import Minor, Python
from ci_tools.verify.accelerated_torch import foresee_torch, lend_accelerated_torch
from ci_tools.verify.files import Here, validate_files
from ci_tools.verify.modules import own_imports
from ci_tools.verify.validator import Validator, own_python
from tests.builders import releases
from tests.builders.sources import demo, request_of, world
from tests.builders.wheels import linked, make


@pytest.mark.parametrize(
    ("wheel", "python"),
    [
        pytest.param("demo-1.0-cp312-cp312-linux_x86_64.whl", Python(Minor(3, 12)), id="one"),
        pytest.param("demo-1.0-7-cp314-cp314t-win_amd64.whl", Python(Minor(3, 14), free_threaded=True), id="threads"),
        pytest.param("demo-1.0-cp312-cp312-a_x86_64.b_x86_64.whl", Python(Minor(3, 12)), id="two-platforms"),
        pytest.param("demo-1.0-cp312.cp313-cp312-linux_x86_64.whl", None, id="two-pythons"),
        pytest.param("demo-1.0-cp310-abi3-linux_x86_64.whl", None, id="abi3"),
        pytest.param("demo-1.0-cp399-abi3-linux_x86_64.whl", Python(Minor(3, 99)), id="abi3-of-a-newer-python"),
        pytest.param("demo-1.0-py3-none-any.whl", None, id="pure"),
        pytest.param("demo.whl", None, id="no-wheel-name"),
    ],
)
def test_a_wheel_s_own_python_is_that_of_its_tags(wheel: str, python: Python | None) -> None:
    assert own_python(wheel) == python


@pytest.mark.slow
def test_what_another_machine_says_was_tried_at_a_site_is_tried_there(tmp_path: Path) -> None:
    config = "package: demo\npython: ['3.12']\nplatforms:\n  linux-cpu:\nvalidate: {imports: [demo]}\n"
    request = request_of(demo(tmp_path / "source", {"fatwheel.yml": config}))
    wheel = make(tmp_path / "out", files={"demo/__init__.py": b"raise ImportError('no, it does not')"})
    receipts.save(wheel, releases.receipt(wheel, "pure"))
    tried = [validate_files([wheel], request, Here(where="a site"), world(tmp_path))]
    found = receipts.load(wheel)
    place = found and found.at("a site")
    assert found
    assert place
    receipts.save(wheel, found.add_place(place._replace(trials=(Trial("import demo", Outcome.PASSED),))))
    tried.append(validate_files([wheel], request, Here(where="a site"), world(tmp_path)))
    assert [Outcome.FAILED in {trial.outcome for trial in trials[wheel.name]} for trials in tried] == [True, True]


# ---------------------------------------------------------------- where torch comes from


@pytest.mark.slow
def test_torch_comes_from_its_index_alone(tmp_path: Path) -> None:
    for version in ("9.0", "9.0+other"):
        wheel = make(tmp_path, f"torch-{version}-py3-none-any.whl", {"torch.py": f"own = {version == '9.0'}".encode()})
        root = tmp_path / f"index-{version}"
        releases.publish(releases.folder_index(root), releases.unit("torch", releases.item(wheel)))
    command = Command(run="python -c 'import torch; assert torch.own'")
    trying = Validator(
        validation=Validation(torch="9.0", torch_index=(tmp_path / "index-9.0/cpu").as_uri(), commands=(command,)),
        interpreter=Path(sys.executable), logs=tmp_path / "logs", gpu=False,
        outside=world(tmp_path, PIP_EXTRA_INDEX_URL=(root / "cpu").as_uri(), PIP_NO_INDEX="1"),
    )  # fmt: skip
    trials = trying.install_from_file(make(tmp_path))
    assert [trial.outcome for trial in trials] == [Outcome.PASSED] * 2, trials
    assert "--index-url" not in (tmp_path / "logs/validate-demo-1.0-py3-none-any.whl.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_what_an_index_has_now_is_tried_and_not_what_was_kept(tmp_path: Path, installer: str) -> None:
    index = (tmp_path / "index").as_uri()
    trying = Validator(
        validation=Validation(), interpreter=Path(sys.executable), logs=tmp_path / "logs", gpu=False, project="demo",
        outside=world(tmp_path, FATWHEEL_INSTALLER=installer, PIP_INDEX_URL=index),
    )  # fmt: skip
    for module in ("one", "other"):
        wheel = make(tmp_path / "index/demo", files={f"{module}.py": b""})
        (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
        asked = replace(trying, validation=Validation(imports=(module,)))
        assert [trial.outcome for trial in asked.install_from_index("demo==1.0", index)] == [Outcome.PASSED] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cuda", "toolkit", "outcome"),
    [
        pytest.param("13.0", "CUDA 13.0", Outcome.PASSED, id="offered"),
        pytest.param("12.8", "CUDA 13.0", Outcome.NOT_EXERCISED, id="of-another-cuda", marks=pytest.mark.long),
        pytest.param("", "CUDA 13.0", Outcome.NOT_EXERCISED, id="not-offered"),
        pytest.param("13.0", "", Outcome.FAILED, id="a-wheel-for-cpus"),
    ],
)
def test_a_wheel_that_is_linked_with_torch_for_cuda_is_tried_with_it_where_it_is_offered(
    cuda: str, toolkit: str, outcome: Outcome, tmp_path: Path
) -> None:
    for version, says in (("9.0+cpu", "None"), *((("9.0", f"'{cuda}'"),) if cuda else ())):
        files = {"torch/__init__.py": b"from torch import version as version\nfrom torch.version import __version__"}
        files["torch/version.py"] = f"__version__ = '{version}'\ncuda = {says}\n".encode()
        make(tmp_path / "links", f"torch-{version}-py3-none-any.whl", files)
    missing = b"libcudart.so.13: cannot open shared object file"
    lacking = b"import torch\nif torch.version.cuda != '13.0': raise ImportError('%b')" % missing
    files = {"demo/__init__.py": lacking, "demo/_C.so": linked("int x;", needs="libcudart.so.13")}
    wheel = make(tmp_path, files=files)
    trying = Validator(
        validation=Validation(torch="9.0", imports=("demo",)), interpreter=Path(sys.executable), logs=tmp_path / "logs",
        outside=world(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path / "links")), gpu=False,
    )  # fmt: skip
    receipts.save(wheel, replace(releases.receipt(wheel, "job"), built_with=BuiltWith(toolkit=toolkit)))
    lent = lend_accelerated_torch(trying, wheel)
    # What begins to be installed beside the build is what the finished wheel is tried with.
    assert foresee_torch(trying, Accelerator(CUDA, Minor(13, 0)) if toolkit else None).torch_build == lent.torch_build
    assert foresee_torch(trying, Accelerator(ROCM, Minor(7, 1))).torch_build == ""
    trial = lent.install_from_file(wheel)[-1]
    is_told = "the torch of this trial, 9.0+cpu, has no CUDA 13: `validate: {torch-index: …}`" in trial.detail
    assert (trial.outcome, is_told) == (outcome, outcome is Outcome.NOT_EXERCISED), trial


# ---------------------------------------------------------------- what is imported, and what that needs


@pytest.mark.slow
@pytest.mark.parametrize("requires", [(), ("helper",)], ids=["lacking", "required"])
def test_the_modules_of_a_wheel_are_imported_with_what_the_config_requires(
    requires: tuple[str, ...], tmp_path: Path
) -> None:
    make(tmp_path / "links", "helper-1.0-py3-none-any.whl", {"helper.py": b""})
    wheel = make(tmp_path, files={"demo/__init__.py": b"import helper", "more.py": b"", "tests/__init__.py": b"1 / 0"})
    trying = Validator(
        validation=Validation(requires=requires), own=own_imports(wheel), interpreter=Path(sys.executable),
        logs=tmp_path / "logs", outside=world(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path / "links")),
        gpu=False,
    )  # fmt: skip
    trials = {trial.what: trial for trial in trying.install_from_file(wheel)}
    assert [*trials][1:] == ["import demo", "import more"]
    assert trials["import demo"].outcome is (Outcome.PASSED if requires else Outcome.FAILED)
    assert ("`validate: {requires: [helper]}`" in trials["import demo"].detail) == (not requires)


@pytest.mark.slow
@pytest.mark.parametrize(("imports", "why"), [(None, "neither"), (("space",), "only a namespace")], ids=["own", "told"])
def test_an_import_that_runs_nothing_is_no_trial(imports: tuple[str, ...] | None, why: str, tmp_path: Path) -> None:
    wheel = make(tmp_path, files={"space/_C.so": b"no init function"})
    trying = Validator(
        validation=Validation(imports=imports), own=own_imports(wheel), interpreter=Path(sys.executable),
        logs=tmp_path / "logs", outside=world(tmp_path, PIP_NO_INDEX="1"), gpu=False,
    )  # fmt: skip
    trial = trying.install_from_file(wheel)[-1]
    assert (trial.outcome, why in trial.detail) == (Outcome.NOT_EXERCISED, True)


@pytest.mark.slow
def test_a_module_that_is_linked_with_torch_or_a_driver_is_tried_as_its_users_import_it(tmp_path: Path) -> None:
    torch = make(tmp_path, "torch-9.0-py3-none-any.whl", {"torch.py": b""})
    linked = (
        b"import sys\nif 'torch' not in sys.modules: raise ImportError('libc10.so: cannot open shared object file')"
    )
    files = {"linked.py": linked, "of_driver.py": b"raise ImportError('libcuda.so.1: cannot open shared object file')"}
    wheel = make(tmp_path, files=files)
    trying = Validator(
        validation=Validation(requires=(str(torch),)), own=own_imports(wheel), interpreter=Path(sys.executable),
        logs=tmp_path / "logs", outside=world(tmp_path, PIP_NO_INDEX="1"), gpu=False,
    )  # fmt: skip
    found = [(trial.what, trial.outcome) for trial in trying.install_from_file(wheel)[1:]]
    assert found == [("import torch, linked", Outcome.PASSED), ("import of_driver", Outcome.NOT_EXERCISED)]
