"""What a smart sdist says of the time that compiling takes."""

from __future__ import annotations

import pytest

from ci_tools import catalog
from ci_tools.index.units import JobEntry
from ci_tools.install.lock import Compiling
from ci_tools.model.request import Globs
from ci_tools.publish.smart import estimate

FILES = ("setup.py", "csrc/a.cpp", "csrc/a.cu", "csrc/b.cu", "csrc/b.cuh", "csrc/tests/t.cu", "vendor/c.cu")
RATE = catalog.SourceSeconds(host=10, device=5)


def made(include: tuple[str, ...], exclude: tuple[str, ...] = (), subdirectory: str = "", archs: int = 2) -> JobEntry:
    """Return a wheel that is built from the files that patterns name."""
    job = JobEntry("x", "native", "linux-cuda", "3.10", "", "cu130", ("9.0",) * archs, "pypi", "", ())
    return job._replace(native=Globs(include, exclude), subdirectory=subdirectory)


@pytest.mark.parametrize(
    ("wheel", "expected"),
    [
        pytest.param(made(("csrc/**/*.cu",)), Compiling(3, 3 * 10 + 3 * 2 * 5), id="device-code-for-each-architecture"),
        pytest.param(made(("csrc/**",), ("csrc/tests/",)), Compiling(3, 3 * 10 + 2 * 2 * 5), id="no-headers-no-tests"),
        pytest.param(made(("*.cpp",), archs=0), Compiling(1, 10), id="no-device-code"),
        pytest.param(made(("pkg/csrc/*.cu",), subdirectory="pkg"), Compiling(2, 2 * 10 + 2 * 2 * 5), id="subdirectory"),
        pytest.param(made(("kernels/*.hip",)), None, id="none-in-the-sdist"),
        pytest.param(made(()), None, id="pure"),
    ],
)
def test_compiling_is_estimated_from_the_files_of_the_sdist(wheel: JobEntry, expected: Compiling | None) -> None:
    assert estimate(wheel, FILES, RATE) == expected


def test_the_catalog_has_a_rate() -> None:
    rate = catalog.load().source_seconds
    assert rate.host > 0 < rate.device
