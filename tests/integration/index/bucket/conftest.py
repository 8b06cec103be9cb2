"""A bucket, and a part of it for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.bucket_parts import Here, part_of
from tests.servers.buckets import CREDENTIALS, Bucket


@pytest.fixture(scope="module", autouse=True)
def credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.fixture
def here(bucket: Bucket, tmp_path: Path) -> Here:
    return part_of(bucket, tmp_path)
