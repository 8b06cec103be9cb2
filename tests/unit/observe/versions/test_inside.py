"""The stand-ins for what is not installed where a project is asked for its version."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ci_tools.observe.versions.inside import StandIns


@pytest.fixture
def package() -> Any:  # noqa: ANN401 - a stand-in takes the place of anything
    stand_ins = StandIns(["packer"])
    spec = stand_ins.find_spec("packer")
    assert spec
    return stand_ins.create_module(spec)


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
