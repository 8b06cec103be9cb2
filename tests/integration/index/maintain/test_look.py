"""What looks like an index in a bucket, and is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import InputError
from ci_tools.index import maintain
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.indexes import CUDA
from tests.builders.releases import item, unit
from tests.builders.wheels import make
from tests.servers.buckets import CREDENTIALS, NO_PROXY, keys, moto

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.machine.context import Outside


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("prefix", [pytest.param("", marks=pytest.mark.long), "whl/cu130"])
def test_a_bucket_around_an_index_or_a_folder_of_it_is_no_index(
    prefix: str, tmp_path: Path, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**CREDENTIALS, **NO_PROXY}.items():
        monkeypatch.setenv(name, value)
    with moto() as bucket:
        releases.publish(index_of(bucket.target(), outside), unit("demo", item(make(tmp_path, CUDA), "cu130")))
        before = keys(bucket.client())
        with pytest.raises(InputError, match="there is no index at s3://bucket"):
            maintain.repair(index_of(bucket.target(prefix), outside), outside, remove_unlisted=True)
        assert keys(bucket.client()) == before
