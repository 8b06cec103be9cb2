"""The modules that a wheel's own files name, and what is said of one that a trial does not find."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.verify.modules import explain_missing, needs_driver, needs_torch, own_imports
from tests.builders.wheels import make

NOTHING = b""
SO = "cpython-312-x86_64-linux-gnu.so"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"demo/__init__.py": NOTHING, "demo/sub/__init__.py": NOTHING}, ("demo",), id="a-package"),
        pytest.param({"demo/__init__.py": NOTHING, "more.py": NOTHING}, ("demo", "more"), id="package-and-module"),
        pytest.param(
            {"demo/__init__.py": NOTHING, "tests/__init__.py": NOTHING, "_x.py": NOTHING}, ("demo",), id="more"
        ),
        pytest.param({"space/one/__init__.py": NOTHING}, ("space.one",), id="a-namespace"),
        pytest.param({"demo/__init__.py": NOTHING, "data/of/__init__.py": NOTHING}, ("demo",), id="package-and-data"),
        pytest.param({"demo.py": NOTHING, "class.py": NOTHING, "my-script.py": NOTHING}, ("demo",), id="no-names"),
        pytest.param({f"fast.{SO}": b"..PyInit_fast..", "data.bin": NOTHING}, ("fast",), id="a-library"),
        pytest.param({"fast.abi3.so": b"PyInit_fast", "op.so": b"no init"}, ("fast",), id="another-library"),
        pytest.param({f"ns/_C.{SO}": b"PyInit__C", "ns/op.so": b"no init"}, ("ns._C",), id="only-an-extension"),
        pytest.param({f"demo/__init__.{SO}": b"PyInit_demo"}, ("demo",), id="a-compiled-package"),
        pytest.param({"demo-1.0.data/platlib/demo/__init__.py": NOTHING}, ("demo",), id="platlib"),
        pytest.param({"demo-1.0.data/scripts/run.py": NOTHING, "_demo.py": NOTHING}, ("_demo",), id="only-private"),
        pytest.param({"demo-stubs/__init__.pyi": NOTHING}, (), id="stubs"),
    ],
)
def test_a_wheel_names_its_modules(files: dict[str, bytes], expected: tuple[str, ...], tmp_path: Path) -> None:
    assert own_imports(make(tmp_path, files=files)) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ModuleNotFoundError: No module named 'torch.nn'", "`validate: {requires: [torch]}` installs torch beside it"),
        ("E   ModuleNotFoundError: No module named 'yaml'", "`validate: {requires: [pyyaml]}`"),
        ("ModuleNotFoundError: No module named 'pkg_resources'", '`validate: {requires: ["setuptools<82"]}`'),
        ("/env/bin/python3: No module named pytest", "`validate: {requires: [pytest]}`"),
        ("ModuleNotFoundError: No module named 'demo._C'", "the wheel has no module demo._C"),
        ("ModuleNotFoundError: No module named 'imp'", "the standard library of this Python has no module imp"),
        ("ImportError: libcuda.so.1: cannot open shared object file", ""),
    ],
    ids=["torch", "other-name", "pinned", "by-m", "own", "standard-library", "no-module"],
)
def test_a_module_that_is_missing_is_answered_by_its_cause(said: str, expected: str) -> None:
    found = explain_missing(f"Traceback\n{said}", ("demo",), "demo")
    assert (expected in found, bool(found)) == (True, bool(expected))


def test_libraries_of_a_driver_and_of_torch_are_told_apart() -> None:
    driver = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"
    torch = driver.replace("libcuda.so.1", "libc10_cuda.so")
    assert (needs_driver(driver), needs_torch(driver)) == ("libcuda.so.1", False)
    assert (needs_driver(torch), needs_torch(torch)) == ("", True)
