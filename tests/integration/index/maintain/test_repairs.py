"""A bucket whose manifest and directory were restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.index import maintain
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.indexes import LATER, PURE
from tests.builders.releases import item, unit
from tests.builders.wheels import make
from tests.servers.buckets import BUCKET, CREDENTIALS, NO_PROXY, moto

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.machine.context import Outside


pytestmark = pytest.mark.slow


@pytest.mark.long
def test_a_manifest_and_a_directory_that_were_restored_show_again_in_a_bucket(
    tmp_path: Path, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**CREDENTIALS, **NO_PROXY}.items():
        monkeypatch.setenv(name, value)
    with moto() as bucket:
        index, client, folder = index_of(bucket.target(), outside), bucket.client(), "whl/.fatwheel"
        releases.publish(index, unit("demo", item(make(tmp_path, PURE))))
        own = [f"{folder}/index.json", f"{folder}/projects/demo.json"]
        older = [client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in own]
        releases.publish(index, unit("demo", item(make(tmp_path, LATER)), version="1.1"))
        releases.publish(index, unit("other", item(make(tmp_path, "other-1.0-py3-none-any.whl"), "cu130")))
        maintain.yank(index, "demo==1.0", "bad")
        for key, data in zip(own, older, strict=True):
            client.put_object(Bucket=BUCKET, Key=key, Body=data)
        assert "written again" in {flaw.done for flaw in maintain.repair(index, outside)}
        assert maintain.verify(index, outside) == ()  # nobody knows the later wheel any more
        page = client.get_object(Bucket=BUCKET, Key="whl/cu130/demo/")["Body"].read().decode()
        assert PURE in page
        assert LATER not in page
        assert "yanked" not in page
