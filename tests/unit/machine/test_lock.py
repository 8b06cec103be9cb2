"""The lock that workflows install from has all that the toolkit needs, each by its hashes, and names no host."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[3]
SETUP = ROOT / ".github" / "actions" / "setup"
LOCK = (SETUP / "requirements.txt").read_text(encoding="utf-8")
LOCKS = [LOCK, (SETUP / "uv.txt").read_text(encoding="utf-8")]  # the second is of what installs the first
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
SYSTEMS = (
    ("linux", "Linux", "x86_64"),
    ("linux", "Linux", "aarch64"),
    ("darwin", "Darwin", "arm64"),
    ("win32", "Windows", "AMD64"),
)


def locked(lock: str = LOCK) -> list[tuple[Requirement, list[str]]]:
    """Return each package of the lock, with what stands behind it."""
    entries = [entry.split() for entry in re.sub(r"\\\n", "", lock).splitlines() if entry.strip()]
    ends = [next((n for n, word in enumerate(words) if word.startswith("--")), len(words)) for words in entries]
    return [(Requirement(" ".join(words[:end])), words[end:]) for words, end in zip(entries, ends, strict=True)]


def environments() -> list[dict[str, str]]:
    """Return the markers of every machine that a workflow may run on."""
    return [
        {
            "python_version": python,
            "python_full_version": f"{python}.1",
            "sys_platform": system,
            "platform_system": name,
            "platform_machine": machine,
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }
        for python in PYTHONS
        for system, name, machine in SYSTEMS
    ]


def applies(requirement: Requirement, environment: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment)


@pytest.mark.parametrize("dependency", PROJECT["dependencies"], ids=lambda text: re.split(r"[>=\[; ]", text)[0])
def test_a_dependency_is_locked_at_one_version_that_it_allows(dependency: str) -> None:
    wanted = Requirement(dependency)
    named = [entry for entry, _ in locked() if canonicalize_name(entry.name) == canonicalize_name(wanted.name)]
    for environment in environments():
        if applies(wanted, environment):
            versions = [str(entry.specifier) for entry in named if applies(entry, environment)]
            assert len(versions) == 1, environment
            assert wanted.specifier.contains(versions[0].removeprefix("=="))


@pytest.mark.parametrize("lock", LOCKS, ids=["requirements", "uv"])
def test_each_package_is_locked_to_one_version_by_its_hashes(lock: str) -> None:
    for entry, behind in locked(lock):
        assert re.fullmatch(r"==[\w.!+]+", str(entry.specifier)), entry
        assert behind, entry
        assert [word for word in behind if not HASH.fullmatch(word)] == [], entry


@pytest.mark.parametrize("lock", LOCKS, ids=["requirements", "uv"])
def test_the_lock_names_no_host(lock: str) -> None:
    assert [entry.name for entry, _ in locked(lock) if entry.url] == []
    assert re.findall(r"://|--\w*(?:index|find-links|trusted)[\w-]*", lock) == []


def test_every_package_has_a_name_in_its_normal_form_and_once_for_a_machine() -> None:
    names = [entry.name for entry, _ in locked()]
    assert names == sorted(map(canonicalize_name, names))
    for environment in environments():
        applied = [entry.name for entry, _ in locked() if applies(entry, environment)]
        assert len(applied) == len(set(applied))
