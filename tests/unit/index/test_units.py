from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_tools.errors import InputError, RejectedInput
from ci_tools.formats import receipts
from ci_tools.index.units import CORE, Offer, ReleasePlan, Unit, units_of
from ci_tools.model.files import Finding, Level, Outcome, Receipt, Trial, Validated
from ci_tools.model.platforms import Platform
from ci_tools.plan import plan_reader
from ci_tools.publish.release_plan import release_of
from tests.builders.plans import job_of, plan_json
from tests.builders.releases import SOURCE, TRIED, receipt
from tests.builders.wheels import make

PURE, CUDA, ROCM = (f"demo-1.0{local}-py3-none-any.whl" for local in ("", "+cu130", "+rocm7.1"))
SDIST = "demo-1.0.tar.gz"
JOBS = {PURE: "pure", CUDA: "linux-cuda-cu130", ROCM: "linux-rocm-rocm7.1", SDIST: "sdist"}
BAD_TRIAL = (*TRIED, Validated("macos-arm64", "", (Trial("demo.run()", Outcome.FAILED, "exit status 1"),)))
ERROR, WARNING = (
    Finding("demo", "rule", level, "it is wrong", "found", "expected") for level in (Level.ERROR, Level.WARNING)
)


PLAN = plan_json(
    SOURCE,
    (job_of(PURE), job_of(CUDA, Platform.LINUX_CUDA, "9.0"), job_of(ROCM, Platform.LINUX_ROCM, "gfx942")),
    {Platform.LINUX_CUDA: True, Platform.LINUX_ROCM: False, Platform.MACOS_ARM64: False},
)
FIRST = PLAN["jobs"][0]


def plan(**changes: object) -> dict[str, Any]:
    """Return what a plan.json of a core and one optional platform holds."""
    return {**PLAN, **changes}


def parse(data: dict[str, Any]) -> ReleasePlan:
    return release_of(plan_reader.plan_of(data))


Found = dict[str, "tuple[Path, Receipt | None]"]


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """Every file of the plan, built, audited and validated."""
    for name in (PURE, CUDA, ROCM):
        make(tmp_path, name)
    (tmp_path / SDIST).write_bytes(b"sdist")
    return {name: (tmp_path / name, receipt(tmp_path / name, JOBS[name])) for name in (PURE, CUDA, ROCM, SDIST)}


def changed(found: Found, name: str, **fields: object) -> Found:
    path, known = found[name]
    assert known
    return {**found, name: (path, dataclasses.replace(known, **fields))}  # type: ignore[arg-type]


def without(found: Found, name: str) -> Found:
    return {other: what for other, what in found.items() if other != name}


def names(units: tuple[Unit, ...]) -> dict[str, list[str]]:
    return {unit.name: [item.name for item in unit.items] for unit in units}


def test_the_core_is_all_that_is_required_and_each_optional_platform_is_a_unit_of_its_own(found: Found) -> None:
    units, left = units_of(parse(plan()), found)
    assert names(units) == {CORE: [SDIST, PURE, CUDA], "linux-rocm": [ROCM]}
    assert left == ()


def test_a_unit_says_what_its_targets_need(found: Found) -> None:
    core = units_of(parse(plan()), found)[0][0]
    assert (core.tag, core.title, core.commit) == ("v1.0", "demo 1.0", "c" * 40)
    assert [(item.folder, item.made and item.made.job) for item in core.items] == [
        ("", None),
        ("", "pure"),
        ("cu130", "linux-cuda-cu130"),
    ]
    assert core.offers == (
        Offer("linux-cuda", "cu130", "2.10", "3.12", CUDA, "built for it"),
        Offer("linux-rocm", "rocm7.1", "2.10", "3.12", ROCM, "built for it"),
        Offer("linux-cuda", "cu130", "2.10", "3.9", "", "too old"),
    )


BROKEN: list[Any] = [
    pytest.param(without, "is missing", id="missing"),
    pytest.param(
        lambda found, name: {**found, name: (found[name][0], None)}, "no receipt of its present bytes", id="no-receipt"
    ),
    pytest.param(lambda found, name: changed(found, name, audited=False), "was not audited", id="unaudited"),
    pytest.param(lambda found, name: changed(found, name, source="6" * 64), "another source", id="another-source"),
    pytest.param(lambda found, name: changed(found, name, version="1.1"), "another version", id="another-version"),
    pytest.param(
        lambda found, name: changed(found, name, findings=(ERROR,)), "it was rejected: it is wrong", id="a-finding"
    ),
    pytest.param(lambda found, name: changed(found, name, validated=()), "was not validated", id="not-validated"),
    pytest.param(
        lambda found, name: changed(found, name, validated=BAD_TRIAL),
        r"it was rejected: demo\.run\(\): exit status 1",
        id="a-failed-trial",
    ),
]


@pytest.mark.parametrize(("damage", "sentence"), BROKEN)
def test_the_core_refuses_to_exist(damage: Callable[[Found, str], Found], sentence: str, found: Found) -> None:
    with pytest.raises(RejectedInput, match=sentence) as refused:
        units_of(parse(plan()), damage(found, CUDA))
    assert "finish what is missing" in refused.value.hint
    assert CUDA in str(refused.value)


@pytest.mark.parametrize(("damage", "sentence"), BROKEN)
def test_an_optional_platform_is_withheld_and_the_core_does_not_wait(
    damage: Callable[[Found, str], Found], sentence: str, found: Found
) -> None:
    units, left = units_of(parse(plan()), damage(found, ROCM))
    assert names(units) == {CORE: [SDIST, PURE, CUDA]}
    assert [withheld.name for withheld in left] == ["linux-rocm"]
    with pytest.raises(RejectedInput, match=sentence):
        units_of(parse(plan()), damage(found, ROCM), only="linux-rocm")


def test_a_warning_keeps_nothing_back(found: Found) -> None:
    assert len(units_of(parse(plan()), changed(found, CUDA, findings=(WARNING,)))[0]) == 2


def test_an_sdist_needs_no_trial_but_an_audit(found: Found) -> None:
    with pytest.raises(RejectedInput, match="was not audited"):
        units_of(parse(plan()), changed(found, SDIST, audited=False))


def test_every_problem_is_said_at_once(found: Found) -> None:
    with pytest.raises(RejectedInput) as refused:
        units_of(parse(plan()), changed(without(found, PURE), CUDA, audited=False))
    assert len(refused.value.problems) == 2


def test_a_wheel_with_other_bytes_than_its_receipt_has_none(found: Found) -> None:
    path, known = found[CUDA]
    assert known
    receipts.save(path, known)
    assert receipts.load(path) == known
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(RejectedInput, match="no receipt of its present bytes"):
        units_of(parse(plan()), {**found, CUDA: (path, receipts.load(path))})


# ---------------------------------------------------------------- one part alone


def test_an_optional_platform_can_be_published_alone_later(found: Found) -> None:
    units, left = units_of(parse(plan()), without(found, PURE), only="linux-rocm")
    assert (names(units), left) == ({"linux-rocm": [ROCM]}, ())


def test_the_core_can_be_published_alone(found: Found) -> None:
    units, left = units_of(parse(plan()), without(found, ROCM), only=CORE)
    assert (names(units), left) == ({CORE: [SDIST, PURE, CUDA]}, ())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("linux-cuda", "--only: linux-cuda is a part of the core, which is required whole"),
        ("macos-arm64", "--only: macos-arm64 is served by the core's wheels"),
        ("linux-cudda", '--only: the release has no part "linux-cudda", did you mean "linux-cuda"'),
    ],
)
def test_a_platform_without_wheels_of_its_own_is_no_part(name: str, sentence: str, found: Found) -> None:
    with pytest.raises(InputError, match=sentence):
        units_of(parse(plan()), found, only=name)


def project(**changes: str) -> dict[str, Any]:
    return {"project": {**PLAN["project"], **changes}}


def first(**changes: object) -> dict[str, Any]:
    return {"jobs": [{**FIRST, **changes}, *PLAN["jobs"][1:]]}


def request(**changes: object) -> dict[str, Any]:
    return {"request": {**PLAN["request"], **changes}}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        pytest.param(
            {"request": None}, "plan.request is not a request: expected an object, found null", id="no-request"
        ),
        pytest.param({"jobs": [{}]}, "plan.jobs[0]: the key 'accelerator' is missing", id="a-job-without-fields"),
        pytest.param(
            {"edition": {"channel": "weekly", "candidate": None, "date": None}},
            'plan.edition.channel: "weekly" is unknown, known: nightly, stable, test',
            id="an-unknown-channel",
        ),
        pytest.param(
            project(name="../demo"),
            'plan.project.name: found "../demo", expected the name of a project',
            id="a-name-that-is-a-path",
        ),
        pytest.param(
            project(version="1.0/../x"),
            'plan.project.version: found "1.0/../x", expected a version such as',
            id="a-version-that-is-a-path",
        ),
        pytest.param(
            project(version="banana"),
            'plan.project.version: found "banana", expected a version such as 1.0',
            id="a-version-that-is-none",
        ),
        pytest.param(project(version="\x1b[31m1.0"), "plan.project.version: found ", id="a-version-with-an-escape"),
        pytest.param(project(version="1.0\n"), "plan.project.version: found ", id="a-version-with-a-line-feed"),
        pytest.param(
            {"sdist": "other-1.0.tar.gz"},
            'plan.sdist: found "other-1.0.tar.gz", expected a file of demo 1.0',
            id="another-project-s-sdist",
        ),
        pytest.param({"sdist": "demo-2.0.tar.gz"}, "plan.sdist: found", id="another-version-s-sdist"),
        pytest.param({"jobs": 5}, "plan.jobs: expected a list, found a whole number", id="jobs-that-are-a-number"),
        pytest.param(first(toolchain=None), "plan.jobs[0].toolchain: expected a text, found null", id="no-toolchain"),
        pytest.param(
            first(name=5),
            "plan.jobs[0].name: expected a text, found a whole number",
            id="a-job-s-name-that-is-a-number",
        ),
        pytest.param(first(name="<b>"), '"<b>" is not the name of a job', id="a-job-of-markup"),
        pytest.param(first(owner="@me\x9b2J"), "plan.jobs[0].owner: found ", id="an-owner-that-moves-the-cursor"),
        pytest.param(first(owner="\udcff"), "plan.jobs[0].owner: found ", id="an-owner-of-half-a-character"),
        pytest.param(
            first(wheel="../../x.whl"), '"../../x.whl" is not the name of a file', id="a-wheel-that-leads-out"
        ),
        pytest.param(
            first(wheel="demo-1.0-py3-none-any.exe"), "expected the name of a wheel", id="a-wheel-that-is-none"
        ),
        pytest.param(
            first(platform="../../x"), 'plan.jobs[0].platform: "../../x" is unknown', id="a-platform-that-is-a-path"
        ),
        pytest.param(
            first(folder="../x"), 'plan.jobs[0].folder: found "../x", expected ""', id="a-folder-that-leads-out"
        ),
        pytest.param(
            {"covered": [{"cell": "all"}]},
            "plan.covered[0]: the key 'accelerator' is missing",
            id="a-cell-without-parts",
        ),
        pytest.param(
            {"skipped": [{**PLAN["skipped"][0], "reason": "a\u0085b"}]},
            "plan.skipped[0].reason: found",
            id="a-reason-with-a-control-character",
        ),
        pytest.param(
            {"skipped": [{**PLAN["skipped"][0], "reason": "a" * 10_001}]},
            "plan.skipped[0].reason: found",
            id="a-reason-of-a-book",
        ),
        pytest.param({"pins": {**PLAN["pins"], "source_sha256": "x"}}, "expected 64 hex digits", id="no-hash"),
        pytest.param(
            request(release={"tag": "{version:>9999999999}", "title": "x"}),
            "plan.request.release.tag: found",
            id="a-template-that-fills-the-memory",
        ),
        pytest.param(
            request(release={"tag": "{name.__class__}", "title": "x"}),
            "expected a template of {name} and {version}",
            id="a-template-that-looks-into-python",
        ),
        pytest.param(
            request(run={"torch": ["2.15; rm"], "gpu_runner": []}),
            'plan.request.run.torch[0]: found "2.15; rm", expected a version of torch',
            id="a-torch-that-is-none",
        ),
        pytest.param(
            request(publish={"targets": ["dir:a\nb"]}), "plan.request.publish.targets[0]", id="a-target-of-lines"
        ),
    ],
)
def test_what_is_no_plan_is_said_to_be_none(broken: dict[str, Any], said: str) -> None:
    with pytest.raises(RejectedInput) as refused:
        parse(plan(**broken))
    assert said in refused.value.message
    assert refused.value.message.startswith("plan.json: ")
    assert refused.value.hint.startswith("`fatwheel plan --out plan.json` writes one")


def test_nothing_is_no_plan() -> None:
    with pytest.raises(RejectedInput, match=r"plan\.json: the key 'request' is missing"):
        parse({})


# ---------------------------------------------------------------- a trial on a GPU, and wheels that are added

GPU_COMMAND = {"commands": [{"run": "demo --gpu", "needs_gpu": True}], "gpu_trial": "required"}
DEVICE = "NVIDIA H200, driver 580.65.06"


def tried(
    outcome: Outcome = Outcome.PASSED, what: str = "demo --gpu", gpu: str | None = DEVICE
) -> tuple[Validated, ...]:
    return (*TRIED, Validated("cuda on self-hosted h100", "", (Trial(what, outcome),), gpu))


def asking(edition: str = "stable", **more: object) -> dict[str, Any]:
    candidate = 1 if edition == "test" else None
    asked = {**plan()["request"], "validate": GPU_COMMAND, **more}
    date = "20261121" if edition == "nightly" else None
    return plan(request=asked, edition={"channel": edition, "candidate": candidate, "date": date})


@pytest.mark.parametrize(
    "places",
    [
        pytest.param(TRIED, id="elsewhere"),
        pytest.param(tried(gpu=None), id="by-the-label-of-a-runner-alone"),
        pytest.param(tried(Outcome.NOT_EXERCISED), id="not-exercised"),
        pytest.param(tried(what="import demo"), id="only-imported"),
    ],
)
@pytest.mark.parametrize("edition", ["stable", "test"])
def test_a_release_that_waits_for_a_gpu_is_refused_without_a_trial_on_one(
    found: Found, places: tuple[Validated, ...], edition: str
) -> None:
    with pytest.raises(RejectedInput, match=f"{CUDA.replace('+', '.')}: it was not tried on a GPU: the config's"):
        units_of(parse(asking(edition)), changed(found, CUDA, validated=places))


def test_a_command_that_passed_where_a_driver_answers_is_a_trial(found: Found) -> None:
    units, _ = units_of(parse(asking()), changed(found, CUDA, validated=tried()))
    words = {item.name: item.gpu for unit in units for item in unit.items}
    assert words == {CUDA: f"tried on {DEVICE}", ROCM: "not tried on a GPU", PURE: "", SDIST: ""}


def test_a_nightly_does_not_wait_and_says_so(found: Found) -> None:
    units, _ = units_of(parse(asking("nightly")), found)
    assert {item.gpu for item in units[0].items if item.name == CUDA} == {"not tried on a GPU"}


def test_wheels_of_a_torch_are_parts_of_their_own_of_a_release_that_there_is(found: Found) -> None:
    native = [job for job in PLAN["jobs"] if job["platform"]]
    asked = {**plan()["request"], "run": {"torch": ["2.15"], "gpu_runner": []}}
    units, _ = units_of(parse(plan(request=asked, sdist=None, jobs=native)), found)
    assert names(units) == {"core-torch2.15": [CUDA], "linux-rocm-torch2.15": [ROCM]}
    assert {unit.tag for unit in units} == {"v1.0"}


def test_no_other_plan_goes_without_an_sdist() -> None:
    with pytest.raises(RejectedInput, match=r"plan\.sdist: found null, expected a file; only a run with --torch and"):
        parse(plan(sdist=None))
