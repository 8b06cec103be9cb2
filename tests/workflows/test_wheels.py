"""wheels.yml as another repository calls it: what comes of good projects, and of every kind of bad one."""

from __future__ import annotations

import html
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ci_tools.cli.foretold import Foreteller
from ci_tools.doctor.rehearsal.events import Asked
from ci_tools.doctor.rehearsal.rehearse import rehearse
from ci_tools.doctor.workflow_set import read_set
from tests.builders.sources import world
from tests.servers.uploads import PASSWORD, pypiserver
from tests.workflows import harness, repositories
from tests.workflows.harness import Event, Run, World
from tests.workflows.projects import CONFIG, NATIVE, PURE, call, caller, held, plan_all, pypi, ran, say, told
from tests.workflows.repositories import Repository
from tests.workflows.test_rehearsal import row

pytestmark = pytest.mark.slow

MAIN = ".github/workflows/main.yml"
WHEEL, SDIST = "tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"
RECEIPTS = {f"receipts/{name}.json" for name in (WHEEL, SDIST)}
WHEELS = call("wheels", config="fatwheel.yml")
TELL = say("tell", "wheels")
WRONG = NATIVE["csrc/fast.c"].replace("PyLong_FromLong(42)", "missing")


# ---------------------------------------------------------------- a pure project


@pytest.fixture(scope="module")
def released(ours: Repository, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A pure project that is built at its tag, and published to PyPI by the caller's own job."""
    home = tmp_path_factory.mktemp("released")
    with pypiserver(home / "pypi") as index:
        world = World(index=index.upload, index_token=PASSWORD)
        yield ran(home, ours, WHEELS, TELL, pypi("wheels"), world=world, tag="v1.0")


def test_every_job_of_a_good_project_is_green(released: Run) -> None:
    assert released.succeeded, released.log
    validated = "Validate sdist on ubuntu-24.04, Python 3.12 and 1 more"
    names = ["Plan", "Build pure", "Choose the trials", validated, "Gather", "Attest", "Tell", "Pypi", "Wheels"]
    skipped = (
        "Check out private submodules",
        "Fetch compile units",
        "Compile ${{ matrix.name }}",
        "Upload compile units",
    )
    assert released.results == {**dict.fromkeys(skipped, "skipped"), **dict.fromkeys(names, "success")}
    assert released.annotations == ()


def test_the_caller_s_next_job_sees_the_outputs(released: Run) -> None:
    outputs = told(released)
    files = json.loads(outputs.pop("files"))
    (build,) = json.loads(outputs.pop("plan"))["include"]
    assert outputs == {
        "any": "true",
        "changed": "true",
        "channel": "stable",
        "pypi": "true",
        "units": '["core"]',
        "version": "1.0",
        "withheld": "[]",
    }
    assert (build["name"], build["jobs"], build["runner"]) == ("pure", "sdist,pure", "ubuntu-24.04")
    folder = released.artifacts / "fatwheel-release"
    assert {(file["name"], file["size"]) for file in files} == {
        (name, (folder / name).stat().st_size) for name in (WHEEL, SDIST)
    }


def test_its_jobs_are_those_that_a_rehearsal_foretells(released: Run, ours: Repository, tmp_path: Path) -> None:
    folder = released.shared.parents[1] / "caller"
    texts = {MAIN: (folder / MAIN).read_text(encoding="utf-8")}
    known = read_set(texts, lambda _, path, __: "\n".join(ours.files[path].lines), "me/mine")
    found = rehearse(known, Foreteller(folder, world(tmp_path), {}).foretell, Asked.from_words("tag:v1.0", ()))
    ((_, (run,)),) = found.events
    ran_jobs = sorted((job.id, row(job.matrix)) for job in released.jobs if job.result == "success" and job.steps)
    assert sorted((job.job, row(job.row or {})) for job in run.jobs if job.runs) == ran_jobs


@pytest.mark.parametrize(
    ("artifact", "files"),
    [
        pytest.param("fatwheel-plan", {"plan.json"}, id="plan"),
        pytest.param("fatwheel-built-pure", {WHEEL, SDIST, *RECEIPTS}, id="built"),
        pytest.param("fatwheel-receipts-pure", {path.partition("/")[2] for path in RECEIPTS}, id="receipts"),
        pytest.param("fatwheel-release", {WHEEL, SDIST, "plan.json", *RECEIPTS}, id="release"),
        pytest.param("fatwheel-pypi", {WHEEL, SDIST}, id="pypi"),
        pytest.param("fatwheel-attestation", {"attestation.json"}, id="attestation"),
    ],
)
def test_an_artifact_holds_just_what_it_is_for(artifact: str, files: set[str], released: Run) -> None:
    assert held(released, artifact) == files


def test_everything_of_the_release_is_attested(released: Run) -> None:
    statement = json.loads((released.artifacts / "fatwheel-attestation" / "attestation.json").read_text())
    names = {subject["name"] for subject in statement["subject"]}
    assert names == {path.rpartition("/")[2] for path in held(released, "fatwheel-release")}


def test_pypi_gets_the_wheel_and_the_sdist_alone(released: Run) -> None:
    index = released.shared.parents[1] / "pypi"
    assert {path.name for path in index.iterdir() if path.is_file()} == {WHEEL, SDIST}


def test_the_summary_says_what_came_of_it(released: Run) -> None:
    assert "tiny 1.0: 1 wheel serves 1 of 1 combination" in released.summary
    assert "**Ready to publish:** 2 files" in released.job("Gather").summary


# ---------------------------------------------------------------- native code


@pytest.mark.long
def test_an_extension_gets_a_wheel_for_each_python_where_it_is_native(ours: Repository, tmp_path: Path) -> None:
    files = {**NATIVE, "fatwheel.yml": NATIVE["fatwheel.yml"].replace('["3.12"]', '["3.11", "3.12"]')}
    run = ran(tmp_path, ours, WHEELS, TELL, files=files)
    assert run.succeeded, run.log
    rows = json.loads(told(run)["plan"])["include"]
    assert {row["name"]: bool(row["container"]) for row in rows} == {
        "pure": False,
        "linux-cpu": True,  # both Pythons in turn
    }
    optional = "Validate linux-cpu-cp311 on ubuntu-24.04, Python 3.11 and 1 more"  # one runner has both Pythons
    assert {optional, "Validate sdist on windows-2025, Python 3.11 and 2 more"} < {*run.results}
    assert "✅&nbsp;3.11" in run.job("Gather").summary
    assert json.loads(told(run)["units"]) == ["core", "linux-cpu"]
    (wheel,) = (run.artifacts / "fatwheel-release").glob("*cp312*manylinux*.whl")
    assert any(re.fullmatch(r"tiny/fast\.cpython-312-.*\.so", name) for name in zipfile.ZipFile(wheel).namelist())


@pytest.mark.long
def test_jobs_of_a_batch_share_a_runner_and_one_that_fails_stops_no_other(ours: Repository, tmp_path: Path) -> None:
    wrong = NATIVE["csrc/fast.c"].replace("42", "\n#if PY_VERSION_HEX < 0x030b0000\nmissing\n#endif\n42")
    config = NATIVE["fatwheel.yml"].replace('["3.12"]', '["3.10", "3.11", "3.12"]')
    run = ran(tmp_path, ours, WHEELS, files={**NATIVE, "fatwheel.yml": config, "csrc/fast.c": wrong})
    assert run.job("Build linux-cpu").result == "failure"
    assert run.job("Build pure").result == "success"
    wheels = [name for name in held(run, "fatwheel-release") if re.match(r"tiny-1.0-cp3\d+-cp", name)]
    assert {name.split("-")[2] for name in wheels} == {"cp311", "cp312"}
    tried = [job.name for job in run.jobs if job.steps and job.name.startswith("Validate linux-cpu")]
    assert tried == ["Validate linux-cpu-cp311 on ubuntu-24.04, Python 3.11 and 1 more"]


@pytest.mark.long
def test_a_required_platform_that_fails_holds_everything_back(ours: Repository, tmp_path: Path) -> None:
    config = NATIVE["fatwheel.yml"].replace('"@me/speed"', '"@me/speed"\n    required: true')
    run = ran(tmp_path, ours, WHEELS, TELL, files={**NATIVE, "fatwheel.yml": config, "csrc/fast.c": WRONG})
    assert (run.succeeded, run.job("Gather").result) == (False, "failure")
    assert [job.name for job in run.jobs if job.name == "Attest" and job.result != "skipped"] == []
    message = "\n".join(annotation.message for annotation in run.job("Gather").annotations)
    assert "of the job linux-cpu-cp312, is missing" in message
    assert "**Not ready to publish:**" in run.job("Gather").summary
    assert held(run, "fatwheel-attestation") == held(run, "fatwheel-release") == set()


@pytest.mark.long
def test_a_pure_wheel_with_a_stray_binary_is_refused(ours: Repository, tmp_path: Path) -> None:
    stray = "import shutil, sys\n\nshutil.copy(sys.executable, 'tiny/stray.so')\n"
    config = f"{CONFIG}build:\n  before: [python stray.py]\n"
    run = ran(tmp_path, ours, WHEELS, files={**PURE, "fatwheel.yml": config, "stray.py": stray})
    build = run.job("Build pure")
    assert (run.succeeded, build.result) == (False, "failure")
    assert any("stray.so" in annotation.message for annotation in build.annotations), build.log
    assert held(run, "fatwheel-built-pure") == set()
    assert run.job("Attest").result == "skipped"


# ---------------------------------------------------------------- what a caller gets wrong, and nothing to build

MISTAKES = {
    "wrong": {"config": "wrong.yml"},
    "unread": {"config": "unread.yml"},
    "absent": {"config": "fatwhel.yml"},
    "another": {"package-name": "other"},
    "unknown": {"only": "linux-cuda"},
    "tag": {"ref": "refs/tags/v2.0"},
}


@pytest.fixture(scope="module")
def planned(ours: Repository, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What is planned with wrong inputs, each in a way of its own, and a call that finds nothing to build."""
    wrong = {"wrong.yml": CONFIG.replace("linux-cpu", "linux-cpo"), "unread.yml": "package: [\n"}
    nothing = call("wheels", only="linux-cpu", nightly=True)
    home = tmp_path_factory.mktemp("planned")
    return ran(home, ours, plan_all("mistakes", ours, MISTAKES), nothing, TELL, files={**PURE, **wrong}, tag="v2.0")


@pytest.mark.parametrize(
    ("name", "sentence", "place"),
    [
        pytest.param("wrong", '"linux-cpo", did you mean "linux-cpu"?', "wrong.yml:4", id="a-wrong-config"),
        pytest.param("unread", "this is not YAML", "unread.yml:2", id="a-config-that-is-no-yaml"),
        pytest.param("absent", "there is no fatwhel.yml", ":", id="no-config"),
        pytest.param("another", 'the config names "tiny", not "other"', ":", id="the-name-of-another"),
        pytest.param("unknown", 'no platform "linux-cuda", did you mean "linux-cpu"?', ":", id="no-such-platform"),
        pytest.param("tag", "'v2.0' is not a tag of tiny 1.0, expected v1.0", ":", id="the-tag-of-another-version"),
    ],
)
def test_a_mistake_is_annotated_where_it_is(name: str, sentence: str, place: str, planned: Run) -> None:
    mistakes = planned.job("Mistakes")
    (annotation,) = (one for one in mistakes.annotations if sentence in one.message)
    assert f"{annotation.file}:{annotation.line}" == place
    assert (mistakes.step(name).result, len(mistakes.annotations)) == ("failure", len(MISTAKES))


def test_a_plan_with_nothing_to_build_runs_no_other_job_and_is_green(planned: Run) -> None:
    assert [(job.name, job.result) for job in planned.jobs if job.path.startswith("Wheels/") and job.steps] == [
        ("Plan", "success")
    ]
    outputs = told(planned)  # a job after it runs where all of it is green
    assert (outputs["any"], outputs["plan"]) == ("false", '{"include":[]}')
    assert re.fullmatch(r"1\.0\.dev20[0-9]{6}", outputs["version"])
    assert "There is nothing to build." in planned.summary
    assert planned.problems == ()


@pytest.mark.long
def test_a_config_whose_platforms_are_all_off_is_green_and_says_so(ours: Repository, tmp_path: Path) -> None:
    run = ran(tmp_path, ours, WHEELS, TELL, files={**PURE, "fatwheel.yml": OFF})
    assert (run.succeeded, told(run)["any"]) == (True, "false"), run.log
    assert "There is nothing to build." in run.summary
    assert "switched off by `enabled: false`" in unmarked(run.summary)


# ---------------------------------------------------------------- events

OFF = CONFIG.replace("linux-cpu:", "linux-cpu:\n    enabled: false")


def unmarked(page: str) -> str:
    """Return a page's text, as a reader sees it."""
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def proposed(home: Path, ours: Repository, files: Mapping[str, str], changed: Mapping[str, str]) -> Run:
    """Run a pull request that changes files of a project."""
    mine = caller(home / "caller", ours, "pull_request", WHEELS, TELL, files=files)
    base = repositories.commit_change(mine, changed)
    return harness.run("main.yml", Event.pull_request(base=base), home / "run", mine, ours)


def test_a_pull_request_shows_what_it_changes_of_the_plan(ours: Repository, tmp_path: Path) -> None:
    run = proposed(tmp_path, ours, PURE, {"fatwheel.yml": OFF})
    assert (run.succeeded, told(run)["changed"], told(run)["any"]) == (True, "true", "false"), run.log
    page = unmarked(run.job("Plan").summary)
    assert "fatwheel.yml:4 changes enabled of linux-cpu: 1 job became 0." in page
    assert (held(run, "fatwheel-plan"), held(run, "fatwheel-comparison")) == ({"plan.json"}, {"comparison.md"})


@pytest.mark.long
def test_a_pull_request_that_changes_no_wheel_says_so_and_attests_nothing(ours: Repository, tmp_path: Path) -> None:
    config = f"{CONFIG}source:\n  include: [/tiny/, /pyproject.toml]\n"
    run = proposed(tmp_path, ours, {**PURE, "fatwheel.yml": config}, {"README.md": "More words.\n"})
    assert (run.succeeded, told(run)["changed"]) == (True, "false"), run.log
    assert run.job("Attest").result == "skipped"
    assert "fatwheel-attestation" not in {path.name for path in run.artifacts.iterdir()}
    assert "**Ready to publish:**" in run.job("Gather").summary


@pytest.mark.long
def test_a_pull_request_may_bring_the_config(ours: Repository, tmp_path: Path) -> None:
    files = {name: text for name, text in PURE.items() if name != "fatwheel.yml"}
    run = proposed(tmp_path, ours, files, {"fatwheel.yml": CONFIG})
    assert (run.succeeded, told(run)["changed"]) == (True, "true"), run.log
    assert "there is no fatwheel.yml" in unmarked(run.job("Plan").summary)


@pytest.mark.long
def test_a_nightly_has_the_date_of_its_run(ours: Repository, tmp_path: Path) -> None:
    run = ran(tmp_path, ours, call("wheels", nightly=True), TELL, event=Event.schedule("5 4 * * 1"))
    assert run.succeeded, run.log
    outputs = told(run)
    assert re.fullmatch(r"1\.0\.dev20[0-9]{6}", outputs["version"])
    names = {file["name"] for file in json.loads(outputs["files"])}
    assert names == {name.replace("1.0", outputs["version"]) for name in (WHEEL, SDIST)}
    assert (outputs["pypi"], run.job("Attest").result) == ("false", "success")


@pytest.mark.long
@pytest.mark.parametrize(
    ("tag", "channel"), [pytest.param("v1.0", "stable", id="stable"), pytest.param("v1.0-rc2", "test", id="candidate")]
)
def test_a_tag_is_released_as_what_it_stands_for(tag: str, channel: str, ours: Repository, tmp_path: Path) -> None:
    run = ran(tmp_path, ours, WHEELS, TELL, event=Event.push(f"refs/tags/{tag}"))
    assert (run.succeeded, told(run)["version"]) == (True, "1.0"), run.log
    plan = json.loads((run.artifacts / "fatwheel-release" / "plan.json").read_text())
    assert plan["edition"]["channel"] == channel


@pytest.mark.long
def test_another_repository_and_a_branch_of_it_are_built(ours: Repository, tmp_path: Path) -> None:
    other = repositories.make_repository(tmp_path / "other", name="their/other", files=PURE)
    mine = caller(tmp_path / "caller", ours, "push", call("wheels", repository="their/other", ref="main"), TELL)
    run = harness.run("main.yml", Event.push(), tmp_path / "run", mine, ours, other)
    assert (run.succeeded, told(run)["units"]) == (True, '["core"]'), run.log


@pytest.mark.long
def test_private_submodules_are_read_by_one_job_that_runs_nothing_of_the_project(
    ours: Repository, tmp_path: Path
) -> None:
    wheels = call("wheels", private_submodules=True)
    secret = {"secrets": {"checkout-token": "${{ secrets.SUBMODULES }}"}}
    wheels = wheels._replace(text=json.dumps({**json.loads(wheels.text), **secret}))
    run = ran(tmp_path, ours, wheels, TELL, world=World(secrets={"SUBMODULES": "ghp_readsthesubmodules"}), tag="v1.0")
    assert (run.succeeded, told(run)["channel"]) == (True, "stable"), run.log
    readers = [job for job in run.jobs if any(step.name == "Unpack source" for step in job.steps)]
    assert [job.name.partition(" ")[0] for job in readers] == ["Plan", "Build", "Validate"]
    assert {step.result for job in readers for step in job.steps if step.name == "Unpack source"} == {"success"}
    assert held(run, "fatwheel-source") == {"source.tar"}
    with tarfile.open(run.artifacts / "fatwheel-source/source.tar") as archive:
        assert {"./tiny/__init__.py", "./.git/HEAD"} <= {*archive.getnames()}


@pytest.mark.long
def test_private_submodules_of_a_public_repository_are_refused(ours: Repository, tmp_path: Path) -> None:
    event = Event(name="push", payload={**Event.push().payload, "repository": {"visibility": "public"}})
    run = ran(tmp_path, ours, call("wheels", private_submodules=True), event=event)
    assert run.job("Check out private submodules").result == "failure"
    assert "fatwheel-source" not in {path.name for path in run.artifacts.iterdir()}
