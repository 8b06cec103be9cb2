"""The guard of a package: what it says where torch has changed since the package's wheel was chosen."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from re import fullmatch
from types import ModuleType, SimpleNamespace

import pytest

from ci_tools import install
from ci_tools.install.fatwheel_backend import SETTINGS, _code

FILE = Path(install.__file__).with_name("guard.py")
GUARD = FILE.read_bytes()
ROOT = Path(__file__).parents[3]


def beside(torch: ModuleType) -> ModuleType:
    """Return the guard as a package has it, beside a torch that is only what it asks; the real one takes seconds."""
    spec = importlib.util.spec_from_file_location("guard", FILE)
    assert spec
    assert spec.loader
    guard = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", torch)
        spec.loader.exec_module(guard)
    return guard


torch = ModuleType("torch")
torch.version = SimpleNamespace(hip=None)
torch.cuda = SimpleNamespace(get_device_capability=None)
guard = beside(torch)


@pytest.fixture(autouse=True)
def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.11.0+cu130", raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0", raising=False)


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str, label: str = "", archs: str = "") -> None:
    """Install a wheel's metadata; `label` is what its version has lost, `archs` are those of its GPU code."""
    info = folder / f"my_demo-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: my-demo\nVersion: {version}\n")
    if label:
        (info / "local_version").write_text(label)
    if archs:
        (info / "gpu_archs").write_text(archs)
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("label", "said"),
    [
        pytest.param("cu130", "", id="the-same-cuda"),
        pytest.param("cu132", "", id="the-same-major-version"),
        pytest.param("cu130torch2.11", "", id="the-same-torch"),
        pytest.param("rocm7.1", "", id="no-cuda"),
        pytest.param("", "", id="no-label"),
        pytest.param("cu128", "my-demo is for CUDA 12.8, and torch 2.11.0+cu130 has CUDA 13.0", id="another-cuda"),
        pytest.param("cu130torch2.10", "my-demo is for torch 2.10, and torch 2.11.0+cu130 is here", id="another-torch"),
        pytest.param("cu130torch2.1", "my-demo is for torch 2.1, and torch 2.11.0+cu130 is here", id="the-same-start"),
    ],
)
def test_a_wheel_is_held_against_torch(label: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "1.0", label)
    assert guard.find_mismatch("my-demo") == said


def test_a_wheel_for_cuda_beside_a_torch_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "1.0", "cu128")
    monkeypatch.setattr(torch, "__version__", "2.11.0+cpu")
    monkeypatch.setattr(torch.version, "cuda", None)
    with guard.for_this_torch("my-demo"):  # what it has beside its kernels may serve
        assert guard.find_mismatch("my-demo") == ""
    assert " -C for-torch=2.11.0+cpu my-demo==1.0`" in guard.find_remedy("my-demo")


def test_a_mismatch_ends_the_import_with_both_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "1.0", "cu128")
    with pytest.raises(ImportError) as failed, guard.for_this_torch("my-demo"):
        pytest.fail("the body must not run")
    assert str(failed.value) == (
        "my-demo is for CUDA 12.8, and torch 2.11.0+cu130 has CUDA 13.0. "
        "Choose again: `pip install --force-reinstall --no-deps --no-cache-dir my-demo==1.0`, "
        "or `uv pip install --reinstall --no-deps --no-cache -C for-torch=2.11.0+cu130 my-demo==1.0`."
    )


def test_a_wheel_of_an_index_is_installed_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "1.0+cu128")
    assert guard.find_mismatch("my-demo").startswith("my-demo is for CUDA 12.8, ")
    assert guard.find_remedy("my-demo") == (
        "Choose again, from the index that it came from: "
        "`pip install --force-reinstall --no-deps --no-cache-dir --index-url INDEX/cu130 my-demo==1.0`, "
        "or `uv pip install --reinstall --no-deps --no-cache --index-url INDEX/cu130 my-demo==1.0`."
    )


def test_a_wheel_of_an_index_for_one_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "1.0+cu130torch2.10")
    assert " --index-url INDEX/cu130torch2.11 my-demo==1.0`" in guard.find_remedy("my-demo")


@pytest.mark.parametrize(
    ("rocm", "xpu", "label"), [("7.1.25424", None, "rocm7.1"), (None, "20250302", "xpu"), (None, None, "cpu")]
)
def test_another_torch_is_named_by_what_it_computes_with(
    rocm: str | None, xpu: str | None, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "1.0", f"{label}torch2.10")
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", rocm)
    monkeypatch.setattr(torch.version, "xpu", xpu, raising=False)
    assert f" -C for-torch=2.11.0+{label} " in guard.find_remedy("my-demo")
    assert fullmatch(SETTINGS["for-torch"], f"2.11.0+{label}")


@pytest.mark.parametrize(
    "error",
    [
        ImportError("demo/_C.so: undefined symbol: _ZN3c104impl3cow11cow_deleterEPv"),
        OSError("libcudart.so.12: cannot open shared object file: No such file or directory"),
        ImportError("DLL load failed while importing _C: The specified procedure could not be found."),
    ],
    ids=["symbol", "library", "windows"],
)
def test_a_library_that_does_not_load_is_explained(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "1.0")
    with (
        pytest.raises(ImportError, match="my-demo does not fit the torch here: ") as failed,
        guard.for_this_torch("my-demo"),
    ):
        raise error
    assert str(error) in str(failed.value)
    assert "--no-cache-dir my-demo==1.0`" in str(failed.value)
    assert failed.value.__cause__ is error


def test_another_error_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "1.0", "cu130")
    with pytest.raises(ImportError, match=r"^No module named 'no_such'$"), guard.for_this_torch("my-demo"):
        importlib.import_module("no_such")


def test_a_package_that_runs_from_its_source_is_let_be() -> None:
    with guard.for_this_torch("is-not-installed"):
        assert guard.find_remedy("is-not-installed").endswith(" is-not-installed`.")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Return a function that gives this machine a GPU of a compute capability."""
    guard.has_code.cache_clear()
    return lambda *capability: monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)


def test_no_kernel_for_this_gpu_is_said_once_for_each_kind(
    gpu: Callable[[int, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "1.0", "cu130", "9.0 10.0+PTX")
    said = "compute capability 8.6, but for 9.0 10.0\\+PTX: its generic body serves"
    gpu(8, 6)
    with pytest.warns(UserWarning, match=f"^my-demo has no kernel for this GPU, of {said}$"):
        assert not guard.has_kernel("my-demo")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not guard.has_kernel("my-demo", 1)
    gpu(9, 0)
    assert guard.has_kernel("my-demo")
    gpu(8, 0)
    with pytest.warns(UserWarning, match="compute capability 8.0"):
        assert not guard.has_kernel("my-demo")


@pytest.mark.parametrize("cuda", ["13.0", None], ids=["unknown-archs", "a-torch-without-cuda"])
def test_nothing_is_said_of_a_gpu_about_which_nothing_is_known(
    cuda: str | None, gpu: Callable[[int, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "1.0", archs="" if cuda else "9.0")
    monkeypatch.setattr(torch.version, "cuda", cuda)
    gpu(8, 6)
    assert guard.has_kernel("my-demo")


def test_a_project_can_name_the_architectures_itself(gpu: Callable[[int, int], None]) -> None:
    gpu(8, 6)
    with pytest.warns(UserWarning, match=r"but for 9\.0:"):
        assert not guard.has_kernel("is-not-installed", archs="9.0")


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (10, 3), (12, 0)])
@pytest.mark.parametrize("arch", ["8.0", "8.0+PTX", "9.0a", "9.0a+PTX", "10.0f", "10.0f+PTX", "10.3", "x"])
def test_a_gpu_runs_what_the_choice_of_the_wheel_says_it_runs(arch: str, capability: tuple[int, int]) -> None:
    assert guard.runs_code(arch, capability) == bool(_code(arch, ".".join(map(str, capability))))


def test_our_own_package_has_the_same_file() -> None:
    theirs = ROOT / "package" / "src" / "ao_kernels" / "_guard.py"
    assert theirs.read_bytes() == GUARD
