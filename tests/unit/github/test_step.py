from __future__ import annotations

import pytest

from ci_tools.cli.dispatch import parse
from ci_tools.cli.verbs import parser_of
from ci_tools.errors import InputError
from ci_tools.github import step as steps

TODAY = "20261121"


def line(name: str, environ: dict[str, str]) -> list[str]:
    return list(steps.step_of(name, environ, TODAY, parser_of).arguments)


@pytest.mark.parametrize(
    ("name", "environ", "expected"),
    [
        pytest.param(
            "plan",
            {"WITH_CONFIG": "fatwheel.yml", "WITH_OUT": "plan.json", "WITH_ONLY": ""},
            ["plan", "--out=plan.json", "--trust-source", "--ask-targets", "--format", "github", "--", "fatwheel.yml"],
            id="plan",
        ),
        pytest.param(
            "update",
            {"WITH_CONFIG": "package/fatwheel.yml", "WITH_INDEX": "http://127.0.0.1/one http://127.0.0.1/other"},
            [
                *("catalog", "update", "--index=http://127.0.0.1/one", "--index=http://127.0.0.1/other"),
                *("--", "package/fatwheel.yml"),
            ],
            id="update",
        ),
        pytest.param("update", {"WITH_INDEX": ""}, ["catalog", "update"], id="update-without-a-variable"),
        pytest.param(
            "plan",
            {"WITH_REF": "v1.0", "WITH_TORCH": "2.14 2.15", "WITH_GPU_RUNNER": "linux-cuda=self-hosted,h100"},
            [
                "plan",
                "--torch=2.14",
                "--torch=2.15",
                "--gpu-runner=linux-cuda=self-hosted,h100",
                "--ref=v1.0",
                "--trust-source",
                "--ask-targets",
                "--format",
                "github",
            ],
            id="a-torch-to-add",
        ),
        pytest.param(
            "plan",
            {"WITH_NIGHTLY": "true"},
            ["plan", "--nightly=20261121", "--trust-source", "--ask-targets", "--format", "github"],
            id="a-nightly",
        ),
        pytest.param(
            "plan",
            {"GITHUB_REF": "refs/tags/v1.0", "WITH_NIGHTLY": "false"},
            ["plan", "--ref=refs/tags/v1.0", "--trust-source", "--ask-targets", "--format", "github"],
            id="a-run-of-a-tag",
        ),
        pytest.param(
            "plan",
            {"GITHUB_REF": "refs/heads/main", "WITH_REF": "refs/tags/v1.0"},
            ["plan", "--ref=refs/tags/v1.0", "--trust-source", "--ask-targets", "--format", "github"],
            id="a-tag-that-the-caller-names",
        ),
        pytest.param(
            "plan",
            {"GITHUB_REF": "refs/tags/v1.0", "GITHUB_REPOSITORY": "me/mine", "WITH_REPOSITORY": "you/yours"},
            ["plan", "--trust-source", "--ask-targets", "--format", "github"],
            id="another-repository-in-a-run-of-a-tag",
        ),
        pytest.param(
            "plan",
            {"GITHUB_EVENT_NAME": "schedule", "GITHUB_REF": "refs/heads/main"},
            ["plan", "--nightly=20261121", "--trust-source", "--ask-targets", "--format", "github"],
            id="a-schedule-is-a-nightly",
        ),
        pytest.param(
            "plan",
            {"GITHUB_REF": "refs/tags/v1.0", "WITH_REF": "main"},
            ["plan", "--ref=main", "--trust-source", "--ask-targets", "--format", "github"],
            id="a-branch-that-the-caller-names-in-a-run-of-a-tag",
        ),
        pytest.param(
            "plan",
            {"GITHUB_EVENT_NAME": "pull_request", "WITH_BASE": "abc"},
            ["plan", "--untagged", "--against=abc", "--trust-source", "--ask-targets", "--format", "github"],
            id="a-pull-request",
        ),
        pytest.param(
            "plan",
            {"GITHUB_EVENT_NAME": "push", "WITH_BASE": "abc"},
            ["plan", "--trust-source", "--ask-targets", "--format", "github"],
            id="a-push-has-no-base",
        ),
        pytest.param(
            "plan",
            {"GITHUB_EVENT_NAME": "push", "WITH_EVENT": "pull_request", "WITH_BASE": "abc"},
            ["plan", "--untagged", "--against=abc", "--trust-source", "--ask-targets", "--format", "github"],
            id="an-event-that-the-caller-names",
        ),
        pytest.param(
            "build",
            {"WITH_JOB": "sdist,pure", "WITH_PLAN": "p.json", "WITH_OUT": "dist"},
            ["build", "--plan=p.json", "--job=sdist,pure", "--out=dist", "--trust-source"],
            id="build",
        ),
        pytest.param(
            "validate",
            {"WITH_SITE": "pure on ubuntu-24.04, Python 3.12", "WITH_SITES": "3 4", "WITH_FILES": "a.whl b.whl"},
            [
                *("validate", "--site=pure on ubuntu-24.04, Python 3.12", "--site=3", "--site=4"),
                *("--trust-source", "--", "a.whl", "b.whl"),
            ],
            id="one-site-and-several",
        ),
        pytest.param(
            "gather",
            {"WITH_FOLDERS": "built tried", "WITH_PLAN": "p", "WITH_OUT": "dist"},
            ["ci", "gather", "--plan=p", "--out=dist", "--format", "github", "--", "built", "tried"],
            id="several-folders",
        ),
        pytest.param(
            "publish",
            {"WITH_FOLDER": "dist", "WITH_TO": "dir:a\ns3://b/c", "WITH_DRY_RUN": "true", "WITH_PYPI": "true"},
            ["publish", "--to=dir:a", "--to=s3://b/c", "--dry-run", "--also=pypi", "--released", "--", "dist"],
            id="publish",
        ),
    ],
)
def test_a_step_is_the_command_line_that_a_person_would_type(
    name: str, environ: dict[str, str], expected: list[str]
) -> None:
    assert line(name, environ) == expected


HOSTILE = [
    "--out=/etc/passwd",
    "-h",
    "a; rm -rf x",
    "$(touch x)",
    "`touch x`",
    "a\nWITH_OUT=b",
    "${{ secrets.TOKEN }}",
    "::set-output name=a::b",
    "../../etc",
    "é\u202e\x1b[31m",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_person_typed_stays_one_value(text: str) -> None:
    step = steps.step_of("build", {"WITH_CONFIG": text, "WITH_JOB": text, "WITH_OUT": text}, TODAY, parser_of)
    options = parse(step.arguments)
    assert (str(options.config), options.job, str(options.out)) == (text, text, text)
    assert options.trust_source


@pytest.mark.parametrize("name", steps.VERBS)
def test_every_input_goes_to_an_option_that_the_verb_has(name: str) -> None:
    verb = steps.VERBS[name]
    flags = {action.dest for action in parser_of(verb.command(name))._actions if action.nargs == 0}  # noqa: SLF001
    flags.add("--also=pypi")
    environ = {f"WITH_{key.upper()}": "true" if one in flags else "7" for key, one in verb.inputs.items()}
    exclusive = {"audit": "WITH_CONFIG", "gather": ""}.get(name, "")
    environ.pop(exclusive, None)
    parse(steps.step_of(name, environ, TODAY, parser_of).arguments)


@pytest.mark.parametrize(
    ("name", "environ", "said"),
    [
        pytest.param("plam", {}, 'there is no step "plam", did you mean "plan"', id="no-such-verb"),
        pytest.param("plan", {"WITH_CONFG": "x"}, '`plan` has no input "confg", did you mean', id="no-such-input"),
        pytest.param("plan", {"WITH_JOB": "x"}, '`plan` has no input "job"', id="another-verb-s-input"),
        pytest.param("plan", {"WITH_NIGHTLY": "yes"}, 'nightly: "yes" is neither true nor false', id="no-boolean"),
    ],
)
def test_what_no_verb_takes_is_refused(name: str, environ: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as refused:
        steps.step_of(name, environ, TODAY, parser_of)
    assert said in refused.value.message


def test_an_input_that_is_empty_is_none() -> None:
    assert line("plan", {"WITH_JOB": " ", "WITH_CONFIG": ""}) == [
        "plan",
        "--trust-source",
        "--ask-targets",
        "--format",
        "github",
    ]


def test_outputs_and_pages_go_to_the_files_that_github_names() -> None:
    assert steps.step_of("plan", {}, TODAY, parser_of).files == ("GITHUB_OUTPUT",)
    assert steps.step_of("summary", {"WITH_FOLDER": "dist"}, TODAY, parser_of).files == ("GITHUB_STEP_SUMMARY",)
    assert steps.step_of("compare", {"WITH_COPY": "page.md"}, TODAY, parser_of).files == (
        "GITHUB_STEP_SUMMARY",
        "WITH_COPY",
    )
    assert steps.step_of("build", {}, TODAY, parser_of).files == ()


PRIVATE = {"WITH_PRIVATE": "true", "GITHUB_EVENT_NAME": "push"}


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({**PRIVATE, "WITH_ATTEST": "always"}, id="on-the-plan-that-can"),
        pytest.param({**PRIVATE, "WITH_ATTEST": "never"}, id="without-an-attestation"),
        pytest.param({**PRIVATE, "WITH_ATTEST": "public", "WITH_PRIVATE": "false"}, id="public"),
        pytest.param({**PRIVATE, "WITH_ATTEST": "public", "WITH_PRIVATE": ""}, id="not-known"),
        pytest.param({**PRIVATE, "GITHUB_EVENT_NAME": "pull_request"}, id="a-pull-request-signs-nothing"),
    ],
)
def test_a_repository_that_chose_is_planned(environ: dict[str, str]) -> None:
    assert line("plan", environ)[0] == "plan"


@pytest.mark.parametrize("step", ["plan", "due"])
def test_a_private_repository_has_to_choose_before_anything_is_built(step: str) -> None:
    with pytest.raises(InputError, match="the repository is private, and GitHub attests private ones") as refused:
        line(step, {**PRIVATE, "WITH_ATTEST": "public"})
    assert "`attest: never`, for publish.yml as well" in refused.value.hint


def test_another_word_than_the_three_is_refused() -> None:
    with pytest.raises(InputError, match='attest: "false" is not one of public, always, never'):
        line("plan", {"WITH_ATTEST": "false"})
