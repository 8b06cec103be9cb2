from __future__ import annotations

import time

import pytest

from ci_tools.errors import InputError
from ci_tools.formats.toml import parse_toml, raise_requires_python, set_py_api
from ci_tools.model.versions import Minor


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("x = ", "a.toml:1:5: this is not TOML", id="no-value"),
        pytest.param(
            f"x = {'9' * 5000}", "a.toml: this is not TOML: Exceeds the limit", id="more-digits-than-python-reads"
        ),
        pytest.param(f"x = {'[' * 100_000}", "a.toml: this is not TOML", id="nested-too-deep"),
        pytest.param(f"{'a.' * 50_000}a = 1", "a.toml: a key has more dotted parts", id="a-key-of-many-parts"),
        pytest.param("#" * (5 << 20), "a.toml has 5,242,880 characters", id="too-long"),
    ],
)
def test_what_is_not_toml_is_one_sentence(text: str, said: str) -> None:
    started = time.process_time()
    with pytest.raises(InputError, match=said):
        parse_toml(text, "a.toml")
    assert time.process_time() - started < 3


def test_versions_and_addresses_may_have_dots() -> None:
    assert parse_toml('x = ["1.2.3", "a.b"]\n[a.b.c]\nd = "https://example.org/v1.0"', "a.toml")["a"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("[tool.scikit-build]\n", '[tool.scikit-build]\nwheel.py-api = "cp310"\n', id="its-table"),
        pytest.param(
            "[tool.scikit-build.wheel]\na = 1", '[tool.scikit-build.wheel]\npy-api = "cp310"\na = 1', id="the-wheels"
        ),
        pytest.param("[project]", '[project]\n\n[tool.scikit-build]\nwheel.py-api = "cp310"\n', id="no-table"),
        pytest.param('[tool.scikit-build]\nwheel.py-api = ""\n', None, id="set-already"),
        pytest.param('a = """\n[tool.scikit-build]\n"""\n', None, id="a-table-in-a-text"),
    ],
)  # fmt: skip
def test_py_api_is_put_into_a_pyproject(before: str, after: str | None) -> None:
    assert set_py_api(before, "cp310") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('[project]\nrequires-python = ">=3.9"', '[project]\nrequires-python = ">=3.12"', id="the-oldest"),
        pytest.param("[project]\n", '[project]\nrequires-python = ">=3.12"\n', id="none-is-named"),
        pytest.param('[project]\nrequires-python = ">=3.9,<3.14"', None, id="others-are-named-too"),
        pytest.param('[project]\ndynamic = ["requires-python"]', None, id="the-build-names-it"),
        pytest.param("[tool.x]\n", None, id="no-project"),
        pytest.param('[tool.x]\na = """\n[project]\n"""\n', None, id="a-table-in-a-text"),
    ],
)  # fmt: skip
def test_a_newer_python_is_asked_for(before: str, after: str | None) -> None:
    assert raise_requires_python(before, Minor(3, 12)) == after
