"""Times that a bucket's server writes are read as botocore reads them."""

from __future__ import annotations

import pytest
from botocore.utils import parse_timestamp

from ci_tools.index.objects.bucket_reader import parse_time


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-26T19:24:52.000Z",
        "2026-11-26T19:24:52Z",
        "2026-11-26T19:24:52.1Z",
        "2026-11-26T19:24:52.123456+02:00",
        "2026-11-26T19:24:52",
        "Thu, 26 Nov 2026 19:24:52 GMT",
        "2026-11-26 19:24:52",
        "1795721092",
    ],
)
def test_every_form_of_a_time_is_the_one_that_botocore_reads(text: str) -> None:
    found, known = parse_time(text), parse_timestamp(text)
    assert (found, found.utcoffset()) == (known, known.utcoffset())


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid timestamp"):
        parse_time("2026-11-26Tsoon")
