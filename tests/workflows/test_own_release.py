"""release.yml and publish.yml, as a tag, a person and the clock start them, and the check that ci.yml ends with."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from ci_tools import __version__
from ci_tools.machine.context import Outside, Silent
from ci_tools.plan.make import make_plan
from tests.servers import buckets
from tests.servers.uploads import PASSWORD, pypiserver
from tests.workflows import harness, repositories, rules
from tests.workflows.harness import Event, Run, World
from tests.workflows.projects import PURE, WORKFLOWS, below, call, steps, worked, workflow
from tests.workflows.repositories import ROOT, Repository
from tests.workflows.startup import Refused, refusals

pytestmark = pytest.mark.slow

WHEEL, SDIST = "tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"
TAG = Event.push("refs/tags/ao-kernels-v1.0")
DRY_RUN = Event.dispatch(TAG.payload["ref"], config="package/fatwheel.yml", nightly=False, dry_run=True)
NIGHTLY = Event.dispatch(config="package/fatwheel.yml", nightly=True, dry_run=False)
CLOCK = Event.schedule("17 4 * * 1")
# A project that is built in seconds takes the place of the reference package.
SAMPLE = {
    "package/fatwheel.yml": """\
package: tiny
source: { path: sample }
python: ["3.12"]
platforms:
  linux-cpu:
publish:
  pypi: wheels
release:
  tag: "ao-kernels-v{version}"
""",
    **{f"package/sample/{name}": text for name, text in PURE.items() if name != "fatwheel.yml"},
}


def files(folder: Path) -> set[str]:
    """Return the wheels and sdists below a folder."""
    return {path.name for path in folder.rglob("*") if path.name.endswith((".whl", ".tar.gz"))}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- by a tag


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("release")


@pytest.fixture(scope="module")
def published(home: Path, sampled: Repository) -> Iterator[Run]:
    """A release by a tag, to a folder and to PyPI."""
    with pypiserver(home / "pypi") as index:
        targets = {"FATWHEEL_TARGETS": f"dir:{home}/index"}
        world = World(variables=targets, index=index.upload, index_token=PASSWORD)
        harness.plant(home / "run", home / "mark")
        yield harness.run("release.yml", TAG, home / "run", sampled, world=world)


def test_a_tag_publishes_everywhere_and_to_pypi_last(published: Run, home: Path) -> None:
    assert published.succeeded, published.log
    assert [job.name for job in published.jobs if job.steps][-2:] == ["Publish", "Publish to PyPI"]
    assert files(home / "index") == {WHEEL, SDIST}
    assert files(home / "pypi") == {WHEEL, SDIST}


def test_no_job_of_a_release_restores_a_cache(published: Run, home: Path) -> None:
    assert published.succeeded, published.log
    assert not (home / "mark").exists()


def test_what_is_published_is_what_was_attested(published: Run, home: Path) -> None:
    (wheel,) = (home / "index").rglob(WHEEL)
    assert wheel.read_bytes() == (published.artifacts / "fatwheel-release" / WHEEL).read_bytes()
    assert "verified" not in worked(published, "Publish").summary
    assert (
        f"verify dist/{WHEEL}" in worked(published, "Publish").log
        or f"verify {WHEEL}" in worked(published, "Publish").log
    )


# ---------------------------------------------------------------- by hand and by the clock


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Our repository with the small project, for runs that change none of its files."""
    return repositories.copy_ours(tmp_path_factory.mktemp("sampled"), files=SAMPLE)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        pytest.param(Event.dispatch(nightly="edge"), "nightly is edge, expected true or false", id="nightly"),
        pytest.param(Event.dispatch(only="windows"), "only is windows, expected one of", id="platform"),
        pytest.param(Event.dispatch(dry_run="maybe"), "dry-run is maybe, expected true or false", id="dry-run"),
        pytest.param(Event.dispatch(force="x"), "takes no force", id="undeclared"),
        pytest.param(Event.pull_request(), "is not started by pull_request", id="event"),
    ],
)
def test_what_the_release_does_not_offer_is_refused(
    event: Event, reason: str, sampled: Repository, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=reason):
        harness.run("release.yml", event, tmp_path / "run", sampled)


@pytest.mark.parametrize("event", [TAG, DRY_RUN, NIGHTLY, CLOCK], ids=["tag", "dry-run", "nightly", "clock"])
def test_github_starts_the_release_on_what_the_tests_below_start_it_with(event: Event) -> None:
    release = rules.project(ROOT)[".github/workflows/release.yml"]
    refusals(release, event.name, event.payload.get("inputs", {}), {})


def released(home: Path, event: Event, **changed: str) -> Run:
    """Run our release on an event, with a folder as its target."""
    ours = repositories.copy_ours(home / "ours", files={**SAMPLE, **changed})
    world = World(variables={"FATWHEEL_TARGETS": f"dir:{home}/index"})
    return harness.run("release.yml", event, home / "run", ours, world=world)


@pytest.mark.long
def test_a_dry_run_by_hand_changes_nothing(tmp_path: Path) -> None:
    run = released(tmp_path, DRY_RUN)
    assert run.succeeded, run.log
    assert run.job("Publish to PyPI").result == "skipped"
    assert not (tmp_path / "index").exists()
    assert "add" in worked(run, "Publish").log


@pytest.mark.long
@pytest.mark.parametrize(
    "event",
    [
        pytest.param(NIGHTLY, id="by-hand"),
        pytest.param(CLOCK, id="by-the-clock"),
    ],
)
def test_a_nightly_is_published_to_its_own_channel(event: Event, tmp_path: Path) -> None:
    run = released(tmp_path, event)
    assert run.succeeded, run.log
    assert {name.split("-")[1][:7] for name in files(tmp_path / "index")} == {"1.0.dev"}
    assert (tmp_path / "index" / "nightly").is_dir()
    assert run.job("Publish to PyPI").result == "skipped"


@pytest.mark.long
def test_a_tag_of_the_toolkit_releases_what_the_config_at_the_root_says(tmp_path: Path) -> None:
    config = SAMPLE["package/fatwheel.yml"].replace("path: sample", "path: package/sample").replace("ao-kernels-", "")
    ours = repositories.copy_ours(tmp_path / "ours", files={**SAMPLE, "fatwheel.yml": config})
    with pypiserver(tmp_path / "pypi") as index:
        world = World(variables={"FATWHEEL_TARGETS": f"dir:{tmp_path}/index"}, index=index.upload, index_token=PASSWORD)
        run = harness.run("release.yml", Event.push("refs/tags/v1.0"), tmp_path / "run", ours, world=world)
    assert run.succeeded, run.log
    assert files(tmp_path / "index") == {WHEEL, SDIST}
    assert files(tmp_path / "pypi") == {WHEEL, SDIST}
    signed = json.loads((run.artifacts / "fatwheel-attestation" / "attestation.json").read_text())["subject"]
    assert {WHEEL, SDIST} <= {subject["name"] for subject in signed}


@pytest.mark.long
def test_the_first_release_is_the_toolkit_itself(tmp_path: Path) -> None:
    """The config at the root as it stands, but for the Pythons and the systems that are not here."""
    config = re.sub(r"(?m)^python: .*$", 'python: ["3.11"]', (ROOT / "fatwheel.yml").read_text(encoding="utf-8"))
    config = re.sub(r"(?m)^  (linux-aarch64|macos-arm64|windows):\n", "", config)
    ours = repositories.copy_ours(tmp_path / "ours", files={"fatwheel.yml": config, "ci_tools/py.typed": ""})
    with pypiserver(tmp_path / "pypi") as index:
        world = World(variables={"FATWHEEL_TARGETS": f"dir:{tmp_path}/index"}, index=index.upload, index_token=PASSWORD)
        run = harness.run("release.yml", Event.push(f"refs/tags/v{__version__}"), tmp_path / "run", ours, world=world)
    assert run.succeeded, run.log
    wheel = f"fatwheel-{__version__}-py3-none-any.whl"
    assert files(tmp_path / "index") == files(tmp_path / "pypi") == {wheel, f"fatwheel-{__version__}.tar.gz"}
    python = tmp_path / "environment/bin/python"
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", next((tmp_path / "pypi").rglob(wheel))], check=True)
    assert subprocess.check_output([python.with_name("fatwheel"), "--version"], text=True).split()[-1] == __version__


def test_the_toolkit_is_one_pure_wheel(tmp_path: Path) -> None:
    outside = Outside(environ=os.environ, cache=tmp_path, reporter=Silent())
    plan = make_plan(ROOT / "fatwheel.yml", outside).plan
    assert [job.name for job in plan.jobs] == ["pure"]
    assert (plan.project.name, plan.project.version) == ("fatwheel", __version__)


@pytest.mark.long
def test_the_reference_package_is_released_with_its_kernels(tmp_path: Path) -> None:
    """All of package/fatwheel.yml that can be built here: nvcc 12.9 cannot be had, nor every Python."""
    text = (ROOT / "package" / "fatwheel.yml").read_text()
    platforms, rest = (
        text.split("  linux-cpu:\n")[0],
        text.split('    native: ["kernels/**/*.metal"')[1].partition("\n")[2],
    )
    text = f"{platforms}  linux-cpu:\n{rest}".replace('["12.9", "13.0"]', '["13.0"]')
    text = re.sub(r"(?m)^python: .*$", 'python: ["3.11"]', text)
    ours = repositories.copy_ours(tmp_path / "ours", files={"package/fatwheel.yml": text})
    version = re.search('(?m)^version = "(.*)"', (ROOT / "package" / "pyproject.toml").read_text())
    assert version is not None
    with pypiserver(tmp_path / "pypi") as index, buckets.moto() as bucket:
        # a smart sdist names addresses that everybody can reach
        target = bucket.target(public="https://wheels.example.com/whl")
        targets = {"FATWHEEL_TARGETS": target, "FATWHEEL_AWS_ROLE": "arn:aws:iam::1:role/fatwheel"}
        world = World(variables=targets, aws=bucket.environ, index=index.upload, index_token=PASSWORD)
        event = Event.push(f"refs/tags/ao-kernels-v{version[1]}")
        run = harness.run("release.yml", event, tmp_path / "run", ours, world=world)
        kept = buckets.keys(bucket.client())
    assert run.succeeded, run.log
    assert {"Build pure", "Build linux-cuda-cu130"} <= {*run.results}
    assert files(tmp_path / "pypi") == {f"ao_kernels-{version[1]}.tar.gz"}
    (sdist,) = (tmp_path / "pypi").rglob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        lock = archive.extractfile(f"ao_kernels-{version[1]}/wheels.lock")
        assert lock is not None
        urls = {url for wheel in json.load(lock)["wheels"] for url in wheel["urls"]}
    assert {f"whl/{url.removeprefix('https://wheels.example.com/whl/')}".replace("%2B", "+") for url in urls} <= {*kept}
    assert any("+cu130" in key for key in kept)


# ---------------------------------------------------------------- the artifacts of another run


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


TAMPERED: dict[str, Callable[[Path], object]] = {
    "wheel": lambda run: changed(run / "fatwheel-release" / WHEEL),
    "plan": lambda run: changed(run / "fatwheel-release" / "plan.json"),
    "receipt": lambda run: changed(run / "fatwheel-release" / "receipts" / f"{WHEEL}.json"),
    "stranger": lambda run: (run / "fatwheel-release" / "evil-1.0-py3-none-any.whl").write_bytes(b"PK"),
    "bundle": lambda run: changed(run / "fatwheel-attestation" / "attestation.json"),
    "bundles": lambda run: (run / "fatwheel-attestation" / "more.json").write_text("{}"),
}


@pytest.fixture(scope="module")
def republished(published: Run, home: Path) -> Run:
    """What is published by runs that take the artifacts of the first: as they are, and tampered with in between."""
    runs = {"whole": published.artifacts}
    for name, tamper in TAMPERED.items():
        runs[name] = shutil.copytree(published.artifacts, home / name / "artifacts")
        shutil.copytree(published.shared / "attestations", home / name / "attestations")
        tamper(runs[name])
    calls = [call(name, "publish.yml", run_id=name, to=f"dir:{home}/to-{name}") for name in runs]
    calls += [
        call("dry", "publish.yml", run_id="whole", to=f"dir:{home}/to-dry", dry_run=True),
        call("again", "publish.yml", run_id="whole", to=f"dir:{home}/index"),
        call("part", "publish.yml", run_id="whole", to=f"dir:{home}/to-part", only="linux-rocm"),
        call("nowhere", "publish.yml", run_id="whole", to="ftp://nowhere"),
        call("gone", "publish.yml", run_id="999", to=f"dir:{home}/to-gone"),
        call("unsigned", "publish.yml", run_id="whole", to=f"dir:{home}/to-unsigned", attest="never"),
        call("swapped", "publish.yml", run_id="wheel", to=f"dir:{home}/to-swapped", attest="never"),
    ]
    text = (
        workflow("push", *calls)
        .replace("PIN", "x")
        .replace(f"{WORKFLOWS}/publish.yml@x", "$/.github/workflows/publish.yml")
    )
    ours = repositories.copy_ours(home / "again", files={**SAMPLE, ".github/workflows/again.yml": text})
    return harness.run("again.yml", Event.push(), home / "second", ours, world=World(runs=runs))


def test_the_release_of_another_run_is_published(republished: Run, home: Path) -> None:
    assert files(home / "to-whole") == {WHEEL, SDIST}, republished.log
    assert below(republished, "Whole").job("Publish").result == "success"


def test_publishing_again_changes_nothing(republished: Run, home: Path) -> None:
    assert below(republished, "Again").job("Publish").result == "success"
    assert files(home / "index") == {WHEEL, SDIST}


def test_a_dry_run_shows_what_would_change_and_changes_nothing(republished: Run, home: Path) -> None:
    dry = below(republished, "Dry").job("Publish")
    assert (dry.result, WHEEL in dry.log, (home / "to-dry").exists()) == ("success", True, False)


def test_a_release_that_nobody_signed_is_published_and_says_so(republished: Run, home: Path) -> None:
    job = below(republished, "Unsigned").job("Publish")
    assert (job.result, files(home / "to-unsigned")) == ("success", {WHEEL, SDIST}), job.log
    assert "⚠️ **Not attested:** 2 files" in job.summary
    assert [it.level for it in job.annotations if "is attested: each is only compared" in it.message] == ["notice"]


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_not_attested_is_not_published(name: str, republished: Run, home: Path) -> None:
    job = below(republished, name.title()).job("Publish")
    assert {step.name: step.result for step in job.steps}["Verify attestation"] == "failure"
    assert "Publish" not in {step.name for step in job.steps if step.result == "success"}
    assert not (home / f"to-{name}").exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("wheel", f"{WHEEL}: it is not attested", id="wheel"),
        pytest.param("plan", "plan.json: it is not attested", id="plan"),
        pytest.param("receipt", f"{WHEEL}.json: it is not attested", id="receipt"),
        pytest.param("stranger", "evil-1.0-py3-none-any.whl: it is not attested", id="stranger"),
        pytest.param("bundles", "has 2 attestations, expected the one bundle of a run", id="two-bundles"),
        pytest.param("part", 'no part "linux-rocm", did you mean "linux-cpu"?', id="no-such-part"),
        pytest.param("swapped", f"{WHEEL}: it has no receipt of its present bytes", id="unsigned-and-swapped"),
        pytest.param("nowhere", '"ftp://nowhere" is not a target', id="no-target"),
        pytest.param("gone", "there is no run 999", id="no-such-run"),
    ],
)
def test_why_nothing_was_published_is_annotated(name: str, sentence: str, republished: Run) -> None:
    messages = [annotation.message for annotation in below(republished, name.title()).annotations]
    assert any(sentence in message for message in messages), messages


# ---------------------------------------------------------------- the check that a branch's protection asks for


@pytest.mark.parametrize(
    ("lint", "test", "passed"),
    [
        pytest.param("run: 'true'", "", "success", id="all-good"),
        pytest.param("run: 'false'", "", "failure", id="one-failed"),
        pytest.param("run: 'true'", "if: false", "failure", id="one-skipped"),
    ],
)
def test_the_check_passes_where_all_that_it_needs_did(lint: str, test: str, passed: str, tmp_path: Path) -> None:
    real = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["passed"]
    assert set(real["needs"]) == {"lint", "test", "elsewhere", "wheels"}
    jobs = (steps("lint", lint), steps("test", "run: 'true'", more=test))
    jobs += tuple(steps(name, "run: 'true'") for name in ("elsewhere", "wheels"))
    text = f"{workflow('push', *jobs)}  passed: {json.dumps(real)}\n"
    mine = repositories.make_repository(tmp_path / "mine", name="me/mine", files={".github/workflows/main.yml": text})
    run = harness.run("main.yml", Event.push(), tmp_path / "run", mine)
    assert run.job("Passed").result == passed, run.log
