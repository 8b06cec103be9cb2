from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci_tools.model.files import Finding, Level
from ci_tools.model.plan import Job
from ci_tools.verify.audit import audit
from tests.builders.wheels import ABI3, LINUX, library, make

pytestmark = pytest.mark.slow

LIMITS = {"pypi": 100_000, "github": 200_000}
PLAIN = library("extern void *malloc(unsigned long); void *ours(void) { return malloc(1); }")
LIMITED, UNLIMITED, LATER = "void *PyModule_Create2(void)", "int _PyLong_Sign(void)", "void *PyType_FromMetaclass(void)"


@contextmanager
def opened_below(folder: Path) -> Iterator[list[str]]:
    """Note every file that Python opens below a folder; the hook stays for good (PEP 578), and is silent afterwards."""
    opened: list[str] = []
    watched = [f"{folder}{os.sep}"]

    def note(event: str, details: tuple[object, ...]) -> None:
        if event == "open" and watched and str(details[0]).startswith(watched[0]):
            opened.append(str(details[0]))

    sys.addaudithook(note)
    yield opened
    watched.clear()


def findings(wheel: Path, job: Job | None = None) -> tuple[Finding, ...]:
    return audit(wheel, job=job, limits=LIMITS, work=wheel.parent / "work")


def extension(calls: str, name: str = "_C") -> bytes:
    """Return an extension module of that name that calls a function of Python, declared as in C."""
    function = calls.partition("(")[0].split()[-1].lstrip("*")
    return library(f"extern {calls}; void *PyInit_{name}(void) {{ return (void *)(long){function}(); }}")


def linux(folder: Path, content: bytes = PLAIN, name: str = LINUX) -> Path:
    return make(folder, name, {"demo/__init__.py": b"", "demo/_C.abi3.so": content})


def test_a_good_abi3_wheel_has_no_findings(tmp_path: Path) -> None:
    assert findings(linux(tmp_path, extension(LIMITED), ABI3)) == ()


def test_two_thousand_empty_members_take_no_files_of_their_own(tmp_path: Path) -> None:
    wheel = make(tmp_path, files={f"demo/m{number}.txt": b"" for number in range(2_000)})
    with opened_below(tmp_path / "work") as opened:
        assert {finding.rule for finding in findings(wheel)} == {"size"}
    assert len(opened) < 100


def test_each_library_keeps_to_the_limited_api_of_its_tag(tmp_path: Path) -> None:
    calls = {"_never": UNLIMITED, "_from_3_12": LATER, "_always": LIMITED}
    files = {f"demo/{name}.abi3.so": extension(called, name) for name, called in calls.items()}
    found = findings(make(tmp_path, ABI3, {"demo/__init__.py": b"", **files}))
    assert {(one.rule, one.message.partition(" ")[0], one.found, one.expected) for one in found} == {
        ("abi3", "demo/_never.abi3.so", "_PyLong_Sign", "the limited API of Python 3.10"),
        ("abi3", "demo/_from_3_12.abi3.so", "PyType_FromMetaclass", "the limited API of Python 3.10"),
    }


@pytest.mark.parametrize(("admitted", "level"), [(">=3.12", Level.WARNING), (">=3.11", Level.ERROR)])
def test_a_tag_below_what_a_library_uses_is_a_warning_if_no_admitted_python_lacks_that(
    admitted: str, level: Level, tmp_path: Path
) -> None:
    files = {"demo/__init__.py": b"", "demo/_C.abi3.so": extension(LATER)}
    wheel = make(tmp_path, ABI3, files, f"Requires-Python: {admitted}\n")
    assert [(one.rule, one.level) for one in findings(wheel)] == [("abi3", level)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # readme_renderer's; threads share what is to be ignored
def test_two_runs_share_no_report_and_leave_none(tmp_path: Path) -> None:
    wheel = linux(tmp_path, extension(LIMITED), ABI3)
    with ThreadPoolExecutor() as pool:
        assert [*pool.map(findings, [wheel] * 2)] == [()] * 2
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["sweep"]  # a lock


def test_an_abi3_library_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    found = findings(linux(tmp_path, PLAIN[:300], ABI3))
    assert {"abi3", "platform"} <= {finding.rule for finding in found}
