"""Which releases stay: what others made, drafts and stable ones always do."""

from __future__ import annotations

import pytest

from ci_tools.errors import RejectedInput
from ci_tools.publish.retention.judgement import (
    Asset,
    Judged,
    ReleaseFate,
    Stored,
    describe,
    judge,
    list_excess,
    refuse_idle_patterns,
)
from ci_tools.publish.retention.tags import Naming, Retention

NIGHTLIES = [f"v1.1.dev2026112{day}" for day in (4, 3, 2, 1)]


def naming(keep: tuple[str, ...] = (), nightlies: int = 2, gigabytes: float = 10, assets: int = 1000) -> Naming:
    retention = Retention(nightlies, keep, gigabytes, assets)
    return Naming("demo", "v{version}", "demo", retention)


def stored(tag: str, *, size: int = 1, ours: bool = True, draft: bool = False) -> Stored:
    return Stored(hash(tag), tag, draft, ours, "mark", (Asset("demo-1.0-py3-none-any.whl", size),))


def removed(judged: list[Judged]) -> list[str]:
    return [one.release.tag for one in judged if one.fate is ReleaseFate.REMOVE]


def reason(judged: list[Judged], tag: str) -> str:
    return next(one.reason for one in judged if one.release.tag == tag)


def test_the_newest_nightlies_of_a_series_stay() -> None:
    found = judge([stored(tag) for tag in ("v1.0", *NIGHTLIES)], [naming()])
    assert removed(found) == NIGHTLIES[2:]
    assert reason(found, NIGHTLIES[2]) == "2 nightlies are newer, 2 are kept"


def test_nightlies_of_another_python_are_another_series() -> None:
    house = Naming("demo", "demo-{version}-py{python}", "demo", Retention(nightlies=1))
    tags = [f"demo-1.1.dev2026112{day}-py{python}" for day in (2, 1) for python in ("313", "314t")]
    assert removed(judge([stored(tag) for tag in tags], [house])) == tags[2:]


@pytest.mark.parametrize(
    ("release", "why"),
    [
        pytest.param(stored(NIGHTLIES[3], ours=False), "Fatwheel did not publish it", id="of-others"),
        pytest.param(stored("old", ours=False), "did not publish it, and no template gives this tag", id="misnamed"),
        pytest.param(stored(NIGHTLIES[3], draft=True), "a draft: somebody may be publishing it", id="draft"),
        pytest.param(stored("v0.1"), "a stable release", id="stable"),
        pytest.param(stored("v0.1-rc1"), "a candidate", id="candidate"),
        pytest.param(stored("demo-0.1"), "no template gives this tag", id="of-no-template"),
    ],
)
def test_what_may_not_go_stays_whatever_is_newer(release: Stored, why: str) -> None:
    found = judge([*map(stored, NIGHTLIES[:3]), release], [naming(nightlies=1, gigabytes=1e-9)])
    assert release.tag not in removed(found)
    assert why in reason(found, release.tag)


def test_nightlies_of_others_supersede_none_of_ours() -> None:
    others = [stored(tag, ours=False) for tag in NIGHTLIES[:3]]
    assert removed(judge([*others, stored(NIGHTLIES[3])], [naming(nightlies=1)])) == []


def test_a_keep_list_keeps() -> None:
    found = judge([stored(tag) for tag in NIGHTLIES], [naming(("*.dev20261121",))])
    assert removed(found) == NIGHTLIES[2:3]
    assert reason(found, NIGHTLIES[3]) == 'kept by "*.dev20261121"'


def test_misnamed_releases_go_only_when_asked_and_unless_kept() -> None:
    releases = [stored("demo-0.1"), stored("demo-0.2"), stored("theirs", ours=False)]
    assert removed(judge(releases, [naming()])) == []
    assert removed(judge(releases, [naming(("demo-0.2",))], misnamed=True)) == ["demo-0.1"]


def test_over_the_quota_superseded_releases_go_one_by_one_and_stable_ones_never() -> None:
    tags = ["v1.0", "v1.0-rc1", "v0.9", "v0.9-r1", *NIGHTLIES[:3]]
    releases = [stored(tag, size=10**9) for tag in tags]
    for gigabytes, gone in (
        (7, []),
        (6, [NIGHTLIES[2]]),
        (5, [NIGHTLIES[2], NIGHTLIES[1]]),
        (4, ["v1.0-rc1", NIGHTLIES[2], NIGHTLIES[1]]),
        (1, ["v1.0-rc1", "v0.9", NIGHTLIES[2], NIGHTLIES[1]]),
    ):
        found = judge(releases, [naming(nightlies=3, gigabytes=gigabytes)])
        assert sorted(removed(found)) == sorted(gone)
        assert bool(list_excess(found, [naming(gigabytes=gigabytes)])) == (gigabytes == 1)


def test_the_quota_of_assets_counts_too() -> None:
    (excess,) = list_excess(judge([stored("v1.0"), stored("v2.0")], [naming(assets=1)]), [naming(assets=1)])
    assert describe(excess) == "demo has 2 assets, its quota is 1"


def test_a_keep_list_that_matches_nothing_is_a_mistake() -> None:
    with pytest.raises(RejectedInput, match=r'"v1\.O\*" is the tag of no release'):
        refuse_idle_patterns([stored("v1.0")], [naming(("v1.O*", "v1.*"))])
    refuse_idle_patterns([stored("v1.0")], [naming(("v1.*",))])
