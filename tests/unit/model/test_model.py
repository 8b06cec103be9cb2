"""What a specifier admits: one answer for requirements of Python and of torch, wherever it is asked."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from ci_tools.model.versions import Minor, admits


@pytest.mark.parametrize(
    ("specifier", "version", "expected"),
    [
        pytest.param("", "3.11", True, id="anything"),
        pytest.param("==3.11.9", "3.11", True, id="one-patch-release"),
        pytest.param("==3.11.9", "3.12", False, id="one-patch-release-of-another"),
        pytest.param(">3.11.4,<3.11.6", "3.11", True, id="between-two"),
        pytest.param(">3.11.4,<3.11.5", "3.11", False, id="between-neighbours"),
        pytest.param("<=3.11.0", "3.11", True, id="the-oldest"),
        pytest.param(">=3.11.70", "3.11", True, id="only-the-newest"),
        pytest.param("!=3.11.*", "3.11", False, id="excluded"),
        pytest.param("!=3.11.0,!=3.11.999", "3.11", True, id="neither-end"),
        pytest.param("~=3.10", "3.15", True, id="compatible"),
        pytest.param(">=3.15.0rc1", "3.15", True, id="from-a-candidate-on"),
        pytest.param("<3.15", "3.15", False, id="below"),
        pytest.param("==2.14.0", "2.14", True, id="torch"),
        pytest.param("==2.14.0+xpu", "2.14", True, id="torch-of-a-label"),
        pytest.param("==2.14.0+xpu", "2.13", False, id="another-torch-of-a-label"),
    ],
)
def test_a_specifier_admits_a_minor_version(specifier: str, version: str, *, expected: bool) -> None:
    assert admits(SpecifierSet(specifier), Minor.parse(version)) is expected


def test_a_nightly_of_torch_is_one_release_before_the_final_one() -> None:
    nightly, release = Minor.parse_torch("2.16.0.dev20261125"), Minor.parse_torch("2.16")
    assert (str(nightly), nightly.requirement) == ("2.16.0.dev20261125", "==2.16.0.dev20261125")
    assert (str(release), release.requirement) == ("2.16", ">=2.16,<2.17")
    assert (nightly != release, nightly > Minor(2, 15), nightly.next) == (True, True, Minor(2, 17))
    admitted = {text: admits(SpecifierSet(text), nightly) for text in (">=2.15", ">=2.16", "<2.16", "==2.16.*", "")}
    assert admitted == {">=2.15": True, ">=2.16": False, "<2.16": False, "==2.16.*": True, "": True}


@pytest.mark.parametrize("text", ["2.16.0", "2.16.dev20261125", "2.16.1.dev20261125", "2.16.0.dev1", "2.16.0.dev", "x"])
def test_another_text_is_no_torch(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        Minor.parse_torch(text)
