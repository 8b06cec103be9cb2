"""The stand-ins for what is not installed where a project is asked for its version."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ci_tools.config.project import BLANK
from ci_tools.errors import InputError
from ci_tools.observe.versions import ask
from ci_tools.observe.versions.inside import StandIns
from ci_tools.source.files import tree_at
from ci_tools.source.project_file import ProjectFile
from tests.builders.sources import write


@pytest.fixture
def package() -> Any:  # noqa: ANN401 - a stand-in takes the place of anything
    stand_ins = StandIns(["packer"], "2.10.0")
    spec = stand_ins.find_spec("packer")
    assert spec
    module = stand_ins.create_module(spec)
    stand_ins.exec_module(module)
    return module


class Passed:
    def __init__(self, value: Any) -> None:  # noqa: ANN401 - see above
        self.value = value

    def __repr__(self) -> str:
        return self.value.get_include()  # type: ignore[no-any-return]

    __str__ = __fspath__ = __repr__

    def __len__(self) -> int:
        return self.value.count  # type: ignore[no-any-return]


def test_what_a_stand_in_answers_may_be_a_text_a_path_or_a_number(package: Any) -> None:  # noqa: ANN401 - see above
    passed = Passed(package)
    assert os.fspath(passed) == os.devnull
    assert "".join([repr(passed)]) == os.devnull
    assert len(passed) == 0
    assert isinstance(str(passed), str)


def test_a_stand_in_is_empty_and_says_no_version(package: Any) -> None:  # noqa: ANN401 - see above
    assert not package.has_gpu()
    assert [*package.names, *package.list()] == []
    assert package.path + "x" == "x" + package.path == "x"
    assert (str(package.version), package.__version__) == ("not installed here", "2.10.0")
    assert not hasattr(package, "__wrapped__")


def test_a_project_may_change_a_stand_in(package: Any) -> None:  # noqa: ANN401 - see above
    package.builder.flag = package.builder.versions["10.2"] = 1
    assert not package.builder.flag
    assert not package.__config__.show()


def test_a_version_that_is_made_of_torch_s_is_refused(tmp_path: Path) -> None:
    project = ProjectFile(BLANK, tree_at(write(tmp_path, {"setup.py": ""}), os.environ))
    for version, is_refused in (("2.15.999.1", True), ("1.0.999", False), ("1.0+torch2.15.999", False)):
        found = {"said": {"all": {"version": version}}, "uses_git": False, "torch": "2.15.999"}
        with pytest.raises(InputError, match="has torch's in it") if is_refused else nullcontext():
            ask._judge(project, found, is_shallow=False)  # noqa: SLF001
