"""The index in a bucket: what a server can refuse, and what a user is told of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.formats import receipts
from ci_tools.machine.context import Silent
from ci_tools.plan.plan_file import SCHEMA_VERSION
from ci_tools.publish import transaction
from ci_tools.publish.targets.addresses import index_of
from tests.builders.bucket_parts import PURE, Here
from tests.builders.releases import item, receipt, unit
from tests.builders.wheels import make
from tests.integration.conftest import CommandLine
from tests.servers.buckets import CREDENTIALS, Bucket
from tests.servers.faults import Event, Fault, Proxy, proxy
from tests.servers.uploads import free_port
from tests.unit.index.test_units import JOBS, SDIST, plan

pytestmark = pytest.mark.slow


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A folder with a release that is ready to be published."""
    folder = tmp_path / "dist"
    folder.mkdir()
    table = {**plan(), "schema": SCHEMA_VERSION}
    (job,) = table["jobs"] = table["jobs"][:1]
    table["covered"] = [cell for cell in table["covered"] if cell["job"] == job["name"]]
    table["validate"] = [site for site in table["validate"] if job["wheel"] in site["files"]]
    (folder / "plan.json").write_text(json.dumps(table))
    (folder / SDIST).write_bytes(b"sdist")
    for path in (make(folder, PURE), folder / SDIST):
        receipts.save(path, receipt(path, JOBS[path.name]))
    return folder


NOBODY = {
    **dict.fromkeys(CREDENTIALS, ""),
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def ran(fatwheel: CommandLine, dist: Path, target: str, **env: str) -> tuple[int, str]:
    """Publish, which is refused, and return what is said; nothing is left that says that it has begun."""
    done = fatwheel("publish", dist, "--to", target, **{**CREDENTIALS, **env})
    assert "Traceback" not in done.stderr
    assert not (dist / "journals").exists()
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in done.stderr + done.stdout
    return done.status, done.stderr


@pytest.mark.parametrize(
    ("fault", "status", "sentences"),
    [
        (Fault.UNKNOWN, 2, ("the credentials are refused", "renew them")),
        (Fault.DENIED, 2, ("these credentials may not GetObject", "allow them s3:GetObject and s3:ListBucket there")),
        (Fault.SKEWED, 3, ("this machine's clock is wrong", "set it and run the same command again")),
    ],
)
def test_what_the_server_says_is_told_with_what_to_do(
    fault: Fault,
    status: int,
    sentences: tuple[str, ...],
    fatwheel: CommandLine,
    dist: Path,
    here: Here,
) -> None:
    with proxy(here.bucket.port) as between:
        between.begin(fault, 1)
        said = ran(fatwheel, dist, here.target(between.server_port))
    assert (said[0], [sentence for sentence in sentences if sentence not in said[1]]) == (status, []), said
    assert here.held() == set()


@pytest.mark.parametrize(
    ("target", "status", "sentence"),
    [
        pytest.param("s3://nowhere/whl?endpoint={}", 2, "there is no such bucket", id="no-such-bucket"),
        pytest.param("s3://bucket/whl?endpoint=http://127.0.0.1:{free}", 3, "Could not connect", id="no-network"),
        pytest.param("s3://bucket/whl?endpoint=here", 2, 'endpoint is "here"', id="no-endpoint"),
        pytest.param("s3://BUCKET!/whl?endpoint={}", 2, "Invalid bucket name", id="no-bucket-name"),
        pytest.param("s3://bucket/whl?endpont={}", 2, 'did you mean "endpoint"?', id="no-setting"),
        pytest.param("s3://bucket/whl?timeout=soon", 2, "expected whole seconds such as 60", id="no-timeout"),
        pytest.param("s3:///whl", 2, "names no bucket, expected s3://BUCKET/PREFIX", id="no-bucket"),
        pytest.param("s3://bucket/../whl", 2, "names no bucket", id="a-way-out"),
    ],
)
def test_a_target_that_cannot_be_reached_is_told(
    target: str, status: int, sentence: str, fatwheel: CommandLine, dist: Path, bucket: Bucket
) -> None:
    said = ran(fatwheel, dist, target.replace("{free}", str(free_port())).replace("{}", bucket.endpoint))
    assert (said[0], sentence in said[1]) == (status, True), said


def test_who_has_no_credentials_is_told_where_they_are_looked_for(
    fatwheel: CommandLine, dist: Path, here: Here
) -> None:
    status, said = ran(fatwheel, dist, here.target(), **NOBODY)
    assert (status, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE" in said) == (2, True), said


def drop_conditions(_: str, headers: dict[str, str]) -> None:
    """Let a server overwrite whatever the condition says."""
    for name in ("If-None-Match", "If-Match"):
        headers.pop(name, None)


def refuse_conditions(headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Answer as a server that knows that it does not know conditions."""
    return (501, "NotImplemented") if {"If-None-Match", "If-Match"} & set(headers) else None


@pytest.mark.parametrize(
    ("attribute", "wrong", "what"),
    [
        pytest.param("edit", drop_conditions, "ignores", id="ignored"),
        pytest.param("denied", refuse_conditions, "does not know", id="not-implemented"),
    ],
)
def test_a_server_without_conditional_writes_is_published_to_by_a_lock_and_that_is_said(
    attribute: str, wrong: object, what: str, fatwheel: CommandLine, dist: Path, here: Here
) -> None:
    with proxy(here.bucket.port) as between:
        setattr(between, attribute, wrong)
        done = fatwheel("publish", dist, "--to", here.target(between.server_port), **CREDENTIALS)
    said = f"this server {what} If-None-Match or If-Match; its publishers wait for each other by a lock"
    assert (done.status, done.stderr.count(said)) == (0, 1), done.stderr
    assert here.flaws() == []


def test_a_denial_in_the_middle_of_the_switch_keeps_the_journal(here: Here, tmp_path: Path) -> None:
    release = unit("demo", item(make(tmp_path, PURE)))
    with proxy(here.bucket.port) as between:
        target = index_of(here.target(between.server_port), here.outside)
        target.check(release)
        target.stage(release)
        between.hook = lambda event: _deny_pages(between, event)
        with pytest.raises(InputError, match="may not PutObject"):
            transaction.publish(release, [target], tmp_path / "journals", Silent())
        assert (tmp_path / "journals/core.json").exists()
        with pytest.raises(InputError, match=r"it cannot be finished without s3://.*endpoint="):  # at another server
            transaction.publish(release, [here.index()], tmp_path / "journals", Silent())
        between.hook = lambda _: None
        transaction.publish(release, [target], tmp_path / "journals", Silent())
    assert here.flaws() == []


def _deny_pages(between: Proxy, event: Event) -> None:
    """Let the first page be denied that is written."""
    if event.what == "PUT" and event.where.endswith("/cpu/demo/") and between.fault is None:
        between.fault, between.at = Fault.DENIED, len(between.events) + 1
