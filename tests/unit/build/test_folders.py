"""The folders of builds, on systems that differ in what they allow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ci_tools.build.folders import link_or_name, refuse_long_paths, short_folder
from ci_tools.build.sdk.cuda_windows import WINDOWS
from ci_tools.errors import MachineError


@pytest.mark.parametrize(
    ("temporary", "folder"),
    [
        pytest.param(r"C:\Users\RUNNER~1\AppData\Local\Temp", r"C:\fatwheel", id="of-the-user"),
        pytest.param(r"D:\a\_temp", r"D:\fatwheel", id="on-another-drive"),
    ],
)
def test_builds_on_windows_have_a_short_folder(temporary: str, folder: str) -> None:
    assert short_folder(temporary) == folder


def test_a_path_that_is_too_long_for_windows_is_refused() -> None:
    source = Path("C:/fatwheel/fatwheel-demo-1.0-windows-cuda/source")
    refuse_long_paths(source, ["setup.py", "a" * (259 - len(str(source)) - 1)], WINDOWS)
    refuse_long_paths(source, ["a" * 400], "linux-x86_64")
    with pytest.raises(MachineError, match=r"a+ has a path of 260 characters in C:/fatwheel/.*, expected at most 259"):
        refuse_long_paths(source, ["setup.py", "a" * (259 - len(str(source)))], WINDOWS)


def test_a_toolkit_is_linked(tmp_path: Path) -> None:
    place = link_or_name(tmp_path, tmp_path / "cuda_home")
    assert (place, place.readlink()) == (tmp_path / "cuda_home", tmp_path)


def test_a_toolkit_is_used_where_it_lies_if_links_are_not_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "symlink_to", refuse())
    assert link_or_name(tmp_path, tmp_path / "cuda_home") == tmp_path


def refuse() -> Callable[..., None]:
    """Return what Windows does with a link if the user may make none (ERROR_PRIVILEGE_NOT_HELD)."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(1314, "a required privilege is not held by the client")

    return fail
