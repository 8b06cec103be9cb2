"""Whether users of a smart sdist can fetch its wheels: seen at publishing, not when they install."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.index.units import Unit
from ci_tools.index.wheel_index import explain_refusal
from ci_tools.machine.context import Silent
from ci_tools.machine.http.policy import REQUEST
from ci_tools.model.request import Route
from ci_tools.publish import transaction
from ci_tools.publish.targets.addresses import targets_of
from ci_tools.publish.targets.reach import refuse_private
from tests.builders import github_units
from tests.builders.releases import Words, item, unit
from tests.builders.sources import world
from tests.builders.wheels import make
from tests.servers.assets import assets
from tests.servers.buckets import Bucket
from tests.servers.github import github_server
from tests.servers.uploads import pypiserver, sdist

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bucket_variables")]


@pytest.fixture
def smart(tmp_path: Path) -> Unit:
    """A release that goes to PyPI as a smart sdist."""
    made = item(sdist(tmp_path))._replace(made=None), item(make(tmp_path, "demo-1.0-py3-none-any.whl"))
    return replace(unit("demo", *made), route=Route.SMART)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("403", "answers 403 without credentials"), ("401", "answers 401"), ("", ""), ("404", "404")],
)
def test_an_answer_without_credentials_decides(
    answer: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("bytes")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with assets(tmp_path, answer) as server:
        said = explain_refusal(f"{server.url}/file")
        assert (expected in said, bool(said)) == (True, bool(answer))
        assert server.asked == [("/file", "bytes=0-0", "")]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("answer", ["503", "429", "nonsense"])
def test_a_server_that_fails_each_time_decides_nothing(answer: str, tmp_path: Path) -> None:
    with assets(tmp_path, *[answer] * REQUEST.tries) as server, pytest.raises(MachineError, match="answer"):
        explain_refusal(f"{server.url}/file")


def test_wheels_that_nobody_can_read_are_refused_before_anything_is_public(
    bucket: Bucket, smart: Unit, tmp_path: Path
) -> None:
    words = Words()
    with assets(tmp_path / "empty", *["403"] * 9) as private, pypiserver(tmp_path / "pypi") as index:
        outside = world(tmp_path, **index.environ)
        closed = bucket.target("closed", public=f"{private.url}/whl")
        targets = targets_of([closed, f"pypi:{index.upload}"], outside)
        with pytest.raises(InputError, match=r"whl/demo-1\.0\.tar\.gz answers 403 without credentials") as refused:
            transaction.publish(smart, targets, tmp_path / "journals", words)
        assert "so far: demo 1.0 (core, 2 files) is public nowhere yet" in refused.value.standing
        transaction.publish(replace(smart, route=Route.NONE), targets[:1], tmp_path / "journals", words)
        with pytest.raises(InputError, match="answers 403"):  # now it is known before anything is built
            refuse_private(replace(smart, items=(), drafts=smart.items[:1]), targets_of([closed], outside), words.say)
        transaction.publish(smart, targets_of([closed, bucket.target("open")], outside), tmp_path / "other", words)
    assert not [*(tmp_path / "pypi").iterdir()]
    assert any(line.startswith("warning: ") and "from one of its places" in line for line in words.lines)


@pytest.mark.parametrize("is_private", [True, False], ids=["private", "public"])
def test_a_private_repository_is_refused_before_anything_is_built(
    is_private: bool,  # noqa: FBT001
    smart: Unit,
) -> None:
    with github_server() as hub:
        hub.is_private = is_private
        core, target = replace(smart, items=(), drafts=smart.items[:1]), github_units.target(hub.url, Silent())
        if not is_private:
            refuse_private(core, [target], print)
            return
        with pytest.raises(InputError, match="octo/demo is a private repository") as refused:
            refuse_private(core, [target], print)
        assert "add a target where everybody can" in refused.value.hint
