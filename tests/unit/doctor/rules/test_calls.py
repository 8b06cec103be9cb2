"""What follows from how a repository calls our workflows: their grants, targets and platforms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci_tools.doctor.configs import read_config, read_included
from ci_tools.doctor.report import RepositoryFacts, Unseen
from ci_tools.doctor.rules import diagnose
from ci_tools.errors import InputError
from tests.builders.repository_facts import FACTS, NEW, found, with_job, workflow

CALL = f"uses: octo/fatwheel/.github/workflows/publish.yml@{'a' * 40}"
CHOSEN = "${{ needs.wheels.outputs.channel != 'nightly' && 'release' || '' }}"


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        pytest.param(f'with: {{environment: "{CHOSEN}"}}', set(), id="what-the-guide-shows"),
        pytest.param(
            "with: {environment: \"${{ github.event_name == 'push' && 'release' || '' }}\"}",
            {"environment-by-event"},
            id="no-approval-by-hand",
        ),
        pytest.param("if: github.ref_type == 'tag'", {"published-by-event"}, id="every-tag"),
        pytest.param(
            "if: github.event_name != 'pull_request' && needs.wheels.outputs.channel != 'none'", set(), id="channel-too"
        ),
    ],
)
def test_what_is_released_hangs_on_no_event(written: str, rules: set[str]) -> None:
    said = {rule for rule, _ in found(with_job(f"\n    {CALL}\n    {written}"))}
    assert said & {"environment-by-event", "published-by-event"} == rules


def test_the_environment_of_all_but_nightlies_is_looked_for_by_its_name() -> None:
    facts = with_job(f'\n    {CALL}\n    with: {{environment: "{CHOSEN}"}}', environments={})
    assert [finding.what for finding in diagnose(facts) if finding.rule == "environment"] == [
        'there is no environment "release"'
    ]


# -- what is published, and from where

PINNED = "octo-tools/fatwheel/.github/workflows/{}.yml@" + NEW
PUBLISH = workflow("on: workflow_call\njobs:\n  publish: {steps: []}\n", ".github/workflows/publish.yml")
PLATFORM = workflow(
    "on: workflow_call\njobs:\n  tell: {permissions: {issues: write}}\n"
    "  publish: {uses: $/.github/workflows/publish.yml}\n",
    ".github/workflows/platform.yml",
)
WHEELS = workflow(
    "on: workflow_call\njobs:\n  attest: {permissions: {id-token: write}}\n", ".github/workflows/wheels.yml"
)
NAMED = {"publish": PUBLISH, "platform": PLATFORM, "wheels": WHEELS}
CONFIG = """\
platforms:
  linux-cpu:
  linux-rocm: { own-workflow: true }
  linux-xpu: { enabled: false, own-workflow: true }
publish: { targets: ["s3://wheels/whl", "github:octo/demo"] }
"""


def calling(*jobs: str, config: str = CONFIG, **more: object) -> RepositoryFacts:
    """Return the facts of a repository with jobs that call Fatwheel: each a workflow's name, and the rest in YAML."""
    lines = [
        f"  j{number}: {{uses: {PINNED.format(name)}, {rest}}}"
        for number, (name, _, rest) in enumerate(text.partition(" ") for text in jobs)
    ]
    made = workflow("on: push\njobs:\n" + "\n".join(lines))
    called = {("octo-tools/fatwheel", f"/.github/workflows/{name}.yml", NEW): one for name, one in NAMED.items()}
    configs = {"fatwheel.yml": read_config(config, "fatwheel.yml")}
    return replace(FACTS, workflows=(made,), called=called, configs=configs, **more)  # type: ignore[arg-type]


BUILDS = "wheels permissions: {id-token: write}"
ROCM = "platform permissions: {id-token: write, issues: write}, with: {platform: linux-rocm}"


@pytest.mark.parametrize(
    ("job", "rules"),
    [
        pytest.param("permissions: {attestations: read, contents: write}", [], id="by-the-config"),
        pytest.param("permissions: {attestations: read}, with: {to: s3://x}", [], id="keys"),
        pytest.param(
            "permissions: {attestations: read, id-token: write}, with: {to: s3://x, aws-role: arn}", [], id="a-role"
        ),
        pytest.param("permissions: {}, with: {to: s3://x, attest: never}", ["attestation-differs"], id="unsigned"),
        pytest.param(
            "permissions: {actions: read, attestations: read}, with: {to: s3://x, run-id: 7}", [], id="another-run"
        ),
        pytest.param("permissions: {attestations: read}, with: {to: 'github:o/r'}", ["permissions"], id="no-release"),
        pytest.param("permissions: {contents: write}, with: {to: 'github:o/r'}", ["permissions"], id="no-attestation"),
        pytest.param(
            "permissions: {attestations: read, contents: write}, with: {to: s3://x}", ["permissions-in-vain"], id="more"
        ),
        pytest.param(
            "permissions: {attestations: read, contents: write}, with: {to: '${{ vars.X }}'}", [], id="not-known"
        ),
        pytest.param("permissions: {attestations: read}, with: {to: 'dir:x s3://x'}", ["folder"], id="a-folder"),
    ],
)
def test_publishing_is_granted_what_its_targets_need(job: str, rules: list[str]) -> None:
    assert [rule for rule, _ in found(calling(BUILDS, ROCM, f"publish {job}, secrets: inherit"))] == rules


@pytest.mark.parametrize(
    ("login", "rules"),
    [
        pytest.param("with: {to: s3://x}", ["bucket-login"], id="none"),
        pytest.param("with: {to: s3://x}, secrets: {aws-access-key-id: x}", ["bucket-login"], id="half-a-key"),
        pytest.param("with: {to: s3://x, aws-role: '${{ vars.ROLE }}'}", [], id="a-role"),
        pytest.param(
            "with: {to: s3://x}, secrets: {AWS-access-key-id: x, aws-secret-access-key: y}",
            ["permissions-in-vain"],
            id="a-key",
        ),
    ],
)
def test_a_bucket_is_published_to_with_a_role_or_a_key(login: str, rules: list[str]) -> None:
    job = f"publish permissions: {{attestations: read, id-token: write}}, {login}"
    assert [rule for rule, _ in found(calling(BUILDS, ROCM, job))] == rules


@pytest.mark.parametrize(
    ("attest", "organization", "rules"),
    [
        pytest.param("", True, ["attestation"], id="not-chosen"),
        pytest.param("always", True, [], id="on-the-plan-that-can"),
        pytest.param("always", False, ["attestation"], id="no-person-has-that-plan"),
        pytest.param("never", False, [], id="without"),
        pytest.param("${{ vars.ATTEST }}", True, [], id="not-known"),
    ],
)
def test_a_private_repository_has_to_choose_whether_it_attests(
    attest: str,
    organization: bool,  # noqa: FBT001 - a table's column
    rules: list[str],
) -> None:
    job = f"{BUILDS}, with: {{attest: '{attest}'}}"
    facts = calling(job, config="platforms: {linux-cpu: }", is_private=True, is_organization=organization)
    assert [rule for rule, _ in found(facts)] == rules
    assert found(replace(facts, is_private=False)) == []


@pytest.mark.parametrize(
    ("config", "jobs", "rules"),
    [
        pytest.param(CONFIG, (BUILDS, ROCM), [], id="each-once"),
        pytest.param(CONFIG, (BUILDS,), ["own-workflow"], id="built-by-nobody"),
        pytest.param(CONFIG.replace("own-workflow: true", ""), (BUILDS, ROCM), ["built-twice"], id="built-twice"),
        pytest.param(CONFIG.replace("own-workflow: true", ""), (ROCM,), [], id="alone"),
        pytest.param(CONFIG, (BUILDS, ROCM.replace("linux-rocm", "'${{ matrix.x }}'")), [], id="not-known"),
    ],
)
def test_a_platform_is_built_by_one_workflow(config: str, jobs: tuple[str, ...], rules: list[str]) -> None:
    assert [rule for rule, _ in found(calling(*jobs, config=config))] == rules


def test_a_config_that_cannot_be_read_is_not_called_good() -> None:
    facts = replace(calling(BUILDS), configs={"fatwheel.yml": Unseen("what fatwheel.yml asks for", "YAML")})
    assert found(facts) == [("unseen", "not seen")]


def test_a_config_in_pyproject_has_the_same_outline() -> None:
    text = (
        '[tool.fatwheel]\npublish.targets = ["s3://a/b"]\n[tool.fatwheel.platforms]\nlinux-rocm.own-workflow = true\n'
    )
    outline = read_config(text, "pyproject.toml")
    assert (outline.targets, outline.platforms) == (("s3://a/b",), {"linux-rocm": True})


def test_the_table_of_a_platform_may_lie_in_a_file_of_its_own() -> None:
    outline = read_config("platforms: {linux-rocm: {include: ci/rocm.yml}}", "fatwheel.yml")
    assert (outline.platforms, outline.included) == ({"linux-rocm": False}, {"linux-rocm": "ci/rocm.yml"})
    assert read_included("own-workflow: true\n", "ci/rocm.yml")


def test_a_pyproject_without_the_table_is_no_config() -> None:
    with pytest.raises(InputError, match=r"^pyproject.toml has no table \[tool.fatwheel\], expected a config there"):
        read_config("[project]\nname = 'fatwheel-plugin'\n", "pyproject.toml")
