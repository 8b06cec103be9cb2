"""What is refused before a parser takes the square of its length."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest

from ci_tools.errors import Rejected
from ci_tools.formats.pypi_rules import Archive, UploadRelease, classifier_problems, description_problems, strangers
from ci_tools.formats.wheel import read_headers

START = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
TOO_LARGE = (
    pytest.param("Description-Content-Type: " + "(a;" * 500_000, "description-content-type has over", id="nested"),
    pytest.param("Description-Content-Type: text/x\n" + " ;a=b\n" * 1000, "-content-type has over 1,000", id="folded"),
    pytest.param("Requires-Dist: " + "torch or " * 20_000, "requires-dist has over 65,536", id="a-long-requirement"),
    pytest.param("\n".join(f"X-{number}: a" for number in range(30_000)), "it has 30,003 fields", id="many-names"),
    pytest.param("Classifier: a\n" * 100_000, "it has 100,003 lines", id="many-lines"),
)


@pytest.mark.parametrize(("more", "said"), TOO_LARGE)
def test_headers_that_no_project_has_are_refused_soon(more: str, said: str) -> None:
    started = time.process_time()
    with pytest.raises(Rejected, match=said):
        read_headers(START + more, "METADATA")
    content = (START + more).encode()
    release = UploadRelease("demo", "1.0", None, datetime.now(timezone.utc))
    assert said in str(strangers([Archive("demo-1.0-py3-none-any.whl", 1000, content, ())], release))
    assert not [*description_problems(content), *classifier_problems(content)]
    assert time.process_time() - started < 3.0


def test_a_long_description_and_a_licence_are_read() -> None:
    content = f"{START}License: {'a ' * 90_000}\nRequires-Dist: torch\n\n{'Requires-Dist: x' * 90_000}"
    assert read_headers(content, "METADATA").get_all("Requires-Dist") == ["torch"]
