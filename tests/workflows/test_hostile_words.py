"""Names, values, inputs and a build's own words that are full of shell, commands and expressions: none does anything.

Each would make a file `pwned` if any shell read it, show a secret if any expression did, and set an output, mask a
word or make an annotation if GitHub took it for a command.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from ci_tools.formats.markdown import code
from tests.workflows import harness, repositories
from tests.workflows.harness import Event, Run, World
from tests.workflows.projects import (
    CONFIG,
    NATIVE,
    PURE,
    below,
    call,
    caller,
    held,
    plan_all,
    ran,
    steps,
    worked,
    workflow,
)
from tests.workflows.records import Annotation
from tests.workflows.repositories import Repository

pytestmark = pytest.mark.slow

SECRET = "hunter2-and-nothing-else"  # noqa: S105 - it opens nothing
SHELL = "$(touch {0})`touch {0}`;touch {0}&&touch {0}|touch {0};#';touch {0};#\";touch {0};#"  # in quotes or none
EXPRESSION = "${{ secrets.TOKEN }}${{ github.token }}"
COMMANDS = """
::set-output name=any::false
::set-output name=version::6.6.6
::error file=x,line=1::forged
::warning file=x,line=1::forged
::notice file=x,line=1::forged
::add-mask::tiny
::save-state name=isPost::true
::add-path::/pwned
::set-env name=PATH::/pwned
##[error]forged
##[set-output name=any]false
::stop-commands::pwned
any=false
<script>alert(1)</script> @everyone [x](javascript:alert(1))
"""
ESCAPES = "\x1b]0;pwned\x07\x1b[2J\u202e"
LONG = "x" * 100_000


def evil(home: Path) -> str:
    """Return a text of all of them; no config may hold a terminal's escapes."""
    return SHELL.format(home / "pwned") + EXPRESSION + COMMANDS


def no_trace(run: Run, home: Path) -> None:
    """Assert that nothing was run, shown or forged."""
    assert list(home.rglob("pwned")) == []
    assert run.problems == ()
    assert forged(run) == []
    assert "\x1b" not in "".join(annotation.message for annotation in run.annotations)
    assert not any("pwned" in path for path in re.findall("::add-path:: (.*)", run.log))


def forged(run: Run) -> list[Annotation]:
    """Return the annotations that are not ours; of others' actions, these are what the stand-ins say."""
    others = ("Unable to download artifact(s)", "The process git failed", "Repository not found")
    return [one for one in run.annotations if one.title != "Fatwheel" and not one.message.startswith(others)]


# ---------------------------------------------------------------- what a person types, and what a config says

DISPATCH = "workflow_dispatch:\n    inputs:\n      evil:\n        type: string\n  push"
CONFIGS = {
    "package": "package: EVIL\npython: ['3.12']\nplatforms:\n  linux-cpu:\n",
    "python": "package: tiny\npython: [EVIL]\nplatforms:\n  linux-cpu:\n",
    "platform": "package: tiny\npython: ['3.12']\nplatforms:\n  EVIL:\n",
    "key": f"{CONFIG}EVIL: 1\n",
    "runner": CONFIG.replace("linux-cpu:", "linux-cpu: {runner: EVIL}"),
    "owner": CONFIG.replace("linux-cpu:", "linux-cpu: {owner: EVIL}"),
    "title": f"{CONFIG}release: {{title: EVIL}}\n",
    "env": CONFIG.replace("linux-cpu:", "linux-cpu: {env: {EVIL: x}}"),
    "include": CONFIG.replace("linux-cpu:", "linux-cpu: {include: EVIL}"),
    "template": f"{CONFIG}release: {{tag: 'v{{version.__class__}}'}}\n",
    "target": f"{CONFIG}release: {{tag: 5}}\n",
    "subdirectory": f"{CONFIG}source: {{subdirectory: ../../EVIL}}\n",
    "git": f"{CONFIG}source: {{git: 'ext::sh -c touch% pwned', ref: --upload-pack=x}}\n",
    "escapes": CONFIG.replace("linux-cpu:", f"linux-cpu: {{owner: {json.dumps(ESCAPES)}}}"),
    "long": f"{CONFIG}{LONG}: 1\n",
}
TYPED = ("artifacts", "attest", "config", "gpu_runner", "only", "package_name", "to", "torch", "trigger_event")
ENDS = {"at-plan": (), "before-plan": ("ref",), "without-source": ("repository",)}  # calls, with their other inputs
SENTENCES = {
    "config": "there is no ",
    "only": "the request has no platform",
    "package-name": 'the config names "tiny", not',
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def refused(ours: Repository, home: Path) -> Run:
    """A person's inputs, all of them in calls that end before the plan or at it, and one by one beside the configs."""
    typed = "${{ inputs.evil }}"
    calls = [call(name, **dict.fromkeys((*TYPED, *more), typed)) for name, more in ENDS.items()]
    calls += [call("published", "publish.yml", run_id=typed, to=typed, only=typed)]
    each = {name: {name: typed} for name in SENTENCES} | {name: {"config": f"{name}.yml"} for name in CONFIGS}
    text = json.dumps(evil(home))
    files = {f"{name}.yml": config.replace("EVIL", text) for name, config in CONFIGS.items()}
    mine = caller(home / "caller", ours, DISPATCH, *calls, plan_all("plans", ours, each), files={**PURE, **files})
    event, world = Event.dispatch(evil=evil(home) + ESCAPES), World(secrets={"TOKEN": SECRET})
    return harness.run("main.yml", event, home / "run", mine, ours, world=world)


def test_the_text_would_leave_every_trace(tmp_path: Path) -> None:
    """In a workflow as ours must not be, what the other tests look for is there."""
    printed = 'run: echo "$EVIL"\nenv:\n  EVIL: ${{ inputs.evil }}'
    text = workflow(DISPATCH, steps("mine", printed, "run: |\n  echo ${{ inputs.evil }}"))
    mine = repositories.make_repository(tmp_path / "mine", name="me/mine", files={".github/workflows/main.yml": text})
    run = harness.run("main.yml", Event.dispatch(evil=evil(tmp_path)), tmp_path / "run", mine)
    assert list(tmp_path.rglob("pwned")) != []
    assert {annotation.message for annotation in forged(run)} == {"forged"}
    assert run.job("Mine").outputs["any"] == "false"


def test_no_input_and_no_config_leaves_a_trace(refused: Run, home: Path) -> None:
    no_trace(refused, home)


@pytest.mark.parametrize("name", SENTENCES)
def test_an_input_is_refused_in_a_sentence(name: str, refused: Run) -> None:
    plans = refused.job("Plans")
    (annotation,) = (one for one in plans.annotations if SENTENCES[name] in one.message)
    assert (plans.step(name).result, annotation.file) == ("failure", "")
    assert len([one for one in plans.annotations if not one.file]) == len(SENTENCES)
    assert len(annotation.message) < 5000


def test_whatever_is_typed_ends_at_the_plan(refused: Run) -> None:
    (plan,) = (job for job in below(refused, "At-Plan").jobs if job.steps)
    assert (plan.step("Plan").result, len(plan.annotations)) == ("failure", 1)
    assert len(plan.annotations[0].message) < 5000


@pytest.mark.parametrize("name", ["Before-Plan", "Without-Source"])
def test_what_there_is_no_source_for_ends_before_the_plan(name: str, refused: Run) -> None:
    (plan,) = (job for job in below(refused, name).jobs if job.steps)
    assert {step.name: step.result for step in plan.steps}["Check out source"] == "failure"
    assert plan.step("Check out source") == plan.steps[-1]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_refused_where_it_is_wrong(name: str, refused: Run) -> None:
    plans = refused.job("Plans")
    annotations = [annotation for annotation in plans.annotations if annotation.file == f"{name}.yml"]
    assert (plans.step(name).result, annotations != [], "exit status 2" in refused.log) == ("failure", True, True)
    assert all(len(annotation.message) < 5000 for annotation in annotations)


def test_no_config_is_blamed_for_another(refused: Run) -> None:
    named = {annotation.file for annotation in refused.job("Plans").annotations}
    assert named == {"", *(f"{name}.yml" for name in CONFIGS)}


def test_publishing_takes_no_input_for_anything_else(refused: Run) -> None:
    job = worked(below(refused, "Published"), "Publish")
    assert (job.result, job.step("Download release").result) == ("failure", "failure")


# ---------------------------------------------------------------- branches, tags and pull requests

BRANCH = "$(touch${IFS}pwned)`touch${IFS}pwned`;touch${IFS}pwned;'\"&&${{secrets.TOKEN}}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        pytest.param(Event.push(f"refs/heads/{BRANCH}"), "", id="branch"),
        pytest.param(Event.push(f"refs/tags/v1.0{BRANCH}"), "is not a tag of tiny 1.0, expected v1.0", id="tag"),
        pytest.param(Event.pull_request(branch=BRANCH, title=f"{BRANCH}{COMMANDS}", fork=True), "", id="pull-request"),
    ],
)
def test_a_name_in_git_does_nothing(event: Event, sentence: str, ours: Repository, tmp_path: Path) -> None:
    mine = caller(tmp_path / "caller", ours, event.name, call("wheels", only="linux-cpu"))
    run = harness.run("main.yml", event, tmp_path / "run", mine, ours, world=World(secrets={"TOKEN": SECRET}))
    no_trace(run, tmp_path)
    assert run.job("Plan").result == ("failure" if sentence else "success"), run.log
    assert all(sentence in annotation.message for annotation in run.annotations)


@pytest.mark.long
def test_our_own_release_takes_a_config_for_a_path(ours: Repository, tmp_path: Path) -> None:
    event = Event.dispatch(config=evil(tmp_path), nightly=True, dry_run=True)
    run = harness.run("release.yml", event, tmp_path / "run", ours, world=World(secrets={"TOKEN": SECRET}))
    no_trace(run, tmp_path)
    assert "there is no " in run.annotations[0].message


@pytest.mark.long
def test_a_label_of_a_runner_stays_one_label(ours: Repository, tmp_path: Path) -> None:
    label = SHELL.format("pwned")  # an expression in it act would evaluate once more
    config = CONFIG.replace("linux-cpu:", f"linux-cpu:\n    runner: {json.dumps(label)}")
    run = ran(
        tmp_path, ours, call("wheels"), files={**PURE, "fatwheel.yml": config}, world=World(secrets={"TOKEN": SECRET})
    )
    assert list(tmp_path.rglob("pwned")) == []
    assert [problem for problem in run.problems if "no runner" not in problem] == []
    (row,) = json.loads(run.job("Plan").outputs["builds"])["include"]
    assert row["runner"] == label


# ---------------------------------------------------------------- a project's own words

OWNER = SHELL.format("pwned") + EXPRESSION
FAILED = "linux-cpu-cp312"
SETUP = """\
import os, sys
from setuptools import Extension, setup

with open("words.txt", encoding="utf-8") as file:
    words = file.read()
print(words, flush=True)
print(words, file=sys.stderr, flush=True)
for name, value in os.environ.items():
    print("the build sees", name, flush=True)
for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"):
    if os.environ.get(name):
        with open(os.environ[name], "a") as file:
            file.write("any=false\\nwithheld=pwned\\n/pwned\\n")
fast = [Extension("tiny.fast", ["csrc/fast.c"])] if os.environ.get("TINY_FAST") else []
setup(name="tiny", version="1.0", license="MIT", python_requires=">=3.10", packages=["tiny"], ext_modules=fast)
"""


@pytest.fixture(scope="module")
def spoken(ours: Repository, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A project that says and names such things wherever it can, with an optional platform that fails to build."""
    home = tmp_path_factory.mktemp("spoken")
    words, line = evil(home), OWNER
    config = {
        "package": "tiny",
        "python": ["3.12"],
        "platforms": {
            "linux-cpu": {
                "owner": line,
                "native": ["csrc/*.c", line],
                "env": {"TINY_FAST": "1", "WORDS": words},
            },
            "windows": None,
        },
        "build": {"before": [f"python say.py {shlex.quote(words)}"]},
        "validate": {"imports": ["tiny"], "commands": ["python say.py"]},
        "release": {"tag": "v{version}" + SHELL.format("pwned"), "title": "{name}" + SHELL.format("pwned")},
    }
    files = {
        **NATIVE,
        "fatwheel.yml": json.dumps(config),
        "setup.py": SETUP,
        "MANIFEST.in": "graft csrc\ninclude words.txt say.py\n",
        "say.py": "import pathlib, sys\n\nwords = pathlib.Path(__file__).with_name('words.txt')\n"
        "print(words.read_text(encoding='utf-8'), *sys.argv)\n",
        "words.txt": f"{words}{ESCAPES}{LONG}\n",
        "csrc/fast.c": f"#error {SHELL.format(home / 'pwned')}\n",
        "tiny/__init__.py": f"print({words + ESCAPES!r})\n",
    }
    return ran(home, ours, call("wheels"), files=files, world=World(secrets={"TOKEN": SECRET})), home


def test_a_project_s_own_words_leave_no_trace(spoken: tuple[Run, Path]) -> None:
    no_trace(*spoken)


def test_a_build_s_words_set_no_output(spoken: tuple[Run, Path]) -> None:
    run, _ = spoken
    plan, gather = run.job("Plan").outputs, run.job("Gather").outputs
    assert (plan["any"], plan["version"], gather["units"], gather["withheld"]) == (
        "true",
        "1.0",
        '["core"]',
        '["linux-cpu"]',
    )
    assert all("any" not in job.outputs for job in run.jobs if job.name.startswith(("Build", "Validate", "Gather")))


def test_a_build_s_words_mask_nothing(spoken: tuple[Run, Path]) -> None:
    run, _ = spoken
    assert "tiny-1.0.tar.gz" in run.job("Gather").outputs["files"]
    assert "***" not in run.job("Build pure").log.replace("//***@", "")


def test_commands_are_heard_after_a_build_that_would_stop_them(spoken: tuple[Run, Path]) -> None:
    run, _ = spoken
    assert {annotation.title for annotation in run.job(f"Build {FAILED}").annotations} == {"Fatwheel"}
    tokens = re.findall("::stop-commands::(.*)", run.log)
    assert len(tokens) == len(set(tokens)) > 10
    assert "pwned" not in tokens


def test_a_compiler_s_last_words_are_annotated_for_the_platform_s_owner(spoken: tuple[Run, Path]) -> None:
    run, _ = spoken
    (annotation,) = run.job(f"Build {FAILED}").annotations
    assert "error: #error $(touch" in annotation.message
    assert f"{OWNER} looks after linux-cpu\n" in annotation.message  # after what mends it


def test_a_build_sees_no_file_that_speaks_to_its_runner(spoken: tuple[Run, Path]) -> None:
    run, _ = spoken
    log = (run.artifacts / f"fatwheel-logs-{FAILED}" / f"{FAILED}.log").read_text(errors="replace")
    seen = set(re.findall("^the build sees (.*)$", log, re.MULTILINE))
    assert "PATH" in seen
    assert [name for name in seen if name.startswith(("GITHUB_", "ACTIONS_", "RUNNER_", "WITH_", "GH_"))] == []
    assert "error: #error" in log


def test_the_summary_shows_words_as_words(spoken: tuple[Run, Path]) -> None:
    run, _ = spoken
    summary = run.job("Gather").summary
    assert f"**linux-cpu failed**, owned by {code(OWNER)}: there is no wheel of {FAILED}" in summary
    assert "**Ready to publish without linux-cpu.**" in summary
    for markup in ("<script>", "@everyone", "](javascript", "\x1b", "\u202e"):
        assert markup not in run.summary


def test_a_wheel_that_failed_starts_no_trial(spoken: tuple[Run, Path]) -> None:
    run, _ = spoken
    assert [job.name for job in run.jobs if job.steps and "linux-cpu" in job.name] == [f"Build {FAILED}"]
    (annotation,) = run.job("Choose the trials").annotations
    assert annotation.message == f"there is no wheel of {FAILED}, so none of its trials is started"
    assert re.search(rf"{FAILED}.*everything.*Python 3\.12.*it is not built", run.job("Gather").summary)


def test_an_optional_platform_that_fails_holds_nothing_back(spoken: tuple[Run, Path]) -> None:
    run, _ = spoken
    assert (run.succeeded, run.status) == (True, 1), run.log  # act does not know jobs that may fail
    outputs = run.job("Gather").outputs
    assert (outputs["units"], outputs["withheld"]) == ('["core"]', '["linux-cpu"]')
    files = {"tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"}
    assert held(run, "fatwheel-release") == {*files, "plan.json", *(f"receipts/{name}.json" for name in files)}
    assert run.job("Attest").result == "success"
