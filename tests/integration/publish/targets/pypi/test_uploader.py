"""Names of indexes, sections of .pypirc and uploaders that there are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.publish.targets.pypi import PyPITarget
from tests.builders.sources import world

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("nowhere", 'there is no index "nowhere"', id="no-such-section"),
        pytest.param("https://me:hunter2@localhost/", "names a user or a password", id="a-password"),
        pytest.param("https://me:hunter2/x@localhost/", "has no address to upload to", id="a-password-with-a-slash"),
        pytest.param("ftp://localhost/", "has no address to upload to", id="no-web-address"),
        pytest.param("http://[/", "has no address to upload to", id="no-address"),
    ],
)
def test_an_index_that_is_none_is_said_at_once(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said) as caught:
        PyPITarget(name, world(tmp_path))
    assert "hunter2" not in str(caught.value)


def test_a_pypirc_that_cannot_be_read_shows_nothing_of_itself(tmp_path: Path) -> None:
    (tmp_path / ".pypirc").write_text("hunter2")
    with pytest.raises(InputError, match="cannot be read") as caught:
        PyPITarget("pypi", world(tmp_path))
    assert "hunter2" not in str(caught.value)


def test_an_uploader_that_is_none_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='did you mean "twine"'):
        PyPITarget("", world(tmp_path), uploader="twin")
