"""What tags say by the templates of configs; those of the seed to the letter."""

from __future__ import annotations

import pytest

from ci_tools.publish.retention.tags import Naming, Retention, read_tag

PLAIN = Naming("demo", "v{version}", "demo", Retention())
HOUSE = Naming("cupy-cuda13x", "{package}-v{version}-py{python}-torch{torch}-cu{cuda}", "CuPy", Retention())
TWICE = Naming("two", "{package}-{python}-{python}-{version}", "two", Retention())


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        pytest.param("v1.2.0", ("demo", "1.2.0", 0, 0, {}), id="stable"),
        pytest.param("v1.2.0-rc2", ("demo", "1.2.0", 2, 0, {}), id="candidate"),
        pytest.param("v1.2.0-r3", ("demo", "1.2.0", 0, 3, {}), id="rebuild"),
        pytest.param("v1.2.0.dev20261121", ("demo", "1.2.0.dev20261121", 0, 0, {}), id="nightly"),
        pytest.param(
            "cupy-cuda13x-v14.0.0rc1-py314t-torch2.10.0-cu130",
            ("cupy-cuda13x", "14.0.0rc1", 0, 0, {"python": "314t", "torch": "2.10.0", "cuda": "130"}),
            id="of-the-seed",
        ),
        pytest.param("two-313-313-1.0", ("two", "1.0", 0, 0, {"python": "313"}), id="a-field-twice"),
    ],
)
def test_a_tag_is_read_by_its_template(tag: str, said: tuple[str, str, int, int, dict[str, str]]) -> None:
    found = read_tag(tag, [PLAIN, HOUSE, TWICE])
    assert found
    assert (found.project, str(found.version), found.candidate, found.rebuild, dict(found.series)) == said


@pytest.mark.parametrize(
    "tag",
    [
        pytest.param("cupy-cuda13x-v13.6.0-py314-cu130", id="without-torch"),
        pytest.param("nunchaku-v1.0.2-py313-torch2.10.0-cu130", id="of-another-package"),
        pytest.param("1.2.0", id="without-v"),
        pytest.param("v1.2.0-final", id="with-more"),
        pytest.param("vnext", id="no-version"),
        pytest.param("v1.2.0\n", id="line-end"),
        pytest.param("two-313-314-1.0", id="a-field-with-two-values"),
        pytest.param("", id="empty"),
    ],
)
def test_another_tag_is_of_no_template(tag: str) -> None:
    assert read_tag(tag, [PLAIN, HOUSE, TWICE]) is None
