"""A tree by hand in a bucket of s3rver, which knows no conditional writes: adopted, and published into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.index.foreign import adoption
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.foreign_indexes import upload_tree
from tests.builders.hand_made_index import by_hand
from tests.builders.index_listing import listed, lost
from tests.builders.wheels import make
from tests.integration.test_careless_bucket import bucket, credentials
from tests.servers.bucket_site import website
from tests.servers.buckets import Bucket

__all__ = ["bucket", "credentials"]  # fixtures


@pytest.mark.slow
def test_a_tree_is_adopted_and_published_into_under_the_lock(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    upload_tree(bucket, "whl", by_hand(tmp_path / "tree", tmp_path / "elsewhere", mount="/whl"))
    outside = Outside(environ=os.environ, cache=tmp_path / "cache", reporter=Silent())
    wheel = make(tmp_path / "made", "demo-3.0-py3-none-any.whl")
    with website(bucket) as site:
        before = listed(f"{site}/whl", "cu118", "cu121")
        adoption.adopt(index_of(bucket.target(), outside), (), outside)
        releases.publish(index_of(bucket.target(), outside), releases.unit("demo", releases.item(wheel), version="3.0"))
        after = listed(f"{site}/whl", "cu118", "cu121")
    assert lost(before, after) == []
    assert ("demo/", "demo-3.0-py3-none-any.whl") in after
