"""Which config of a repository a git tag belongs to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.cli.main import main
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.edition import is_named
from ci_tools.plan.claims import find_owner
from ci_tools.plan.make import make_plan
from tests.builders.sources import committed, git, write

CONFIG = 'package: {name}\npython: ["3.12"]\nplatforms: {{ linux-cpu: }}\n'
PROJECT = """\
[build-system]
requires = ["flit_core>=3.9"]
build-backend = "flit_core.buildapi"
[project]
name = "{name}"
version = "{version}"
description = "It."
"""


def owner(
    folder: Path, tag: str, tags: tuple[str, str], *, versions: tuple[str, str] = ("1.0", "2.0"), refused: bool = False
) -> str:
    """Return whose a tag is beside beta/fatwheel.yml, where alpha and beta have these templates and versions."""
    files = {"README.yml": "package: none\n", "broken/fatwheel.yml": "package: [\n"}
    for name, template, version in zip(("alpha", "beta"), tags, versions, strict=True):
        release = f'release: {{ tag: "{template}" }}\n' if template else ""
        files[f"{name}/fatwheel.yml"] = CONFIG.format(name=name) + release
        files[f"{name}/pyproject.toml"] = PROJECT.format(name=name, version=version)
        files[f"{name}/{name}.py"] = "ANSWER = 42\n"
    committed(write(folder, files))
    git(folder, "tag", tag)
    outside = Outside(environ=os.environ, cache=folder.parent / "cache", reporter=Silent())
    takes = (lambda config: make_plan(config, outside, tag=tag)) if refused else None
    return find_owner(folder / "beta/fatwheel.yml", tag, outside, takes)


@pytest.mark.parametrize(
    ("tag", "tags", "whose"),
    [
        pytest.param("alpha-v1.0", ("alpha-v{version}", "beta-v{version}"), "alpha/fatwheel.yml", id="another's"),
        pytest.param("alpha-v9.9", ("{name}-v{version}", "beta-v{version}"), "alpha/fatwheel.yml", id="of-no-version"),
        pytest.param("alpha-v1.0-rc1", ("alpha-v{version}", "b{version}"), "alpha/fatwheel.yml", id="a-candidate"),
        pytest.param("alpha/v1.0", ("alpha/v{version}", "beta/v{version}"), "alpha/fatwheel.yml", id="with-a-slash"),
        pytest.param("beta-v2.0", ("alpha-v{version}", "beta-v{version}"), "", id="its-own"),
        pytest.param("v1.0", ("v{version}", "v{version}"), "", id="of-both"),
        pytest.param("alpha-v1.0", ("alpha-v{version}", ""), "", id="its-tool-may-read-it"),
        pytest.param("gamma-v1.0", ("alpha-v{version}", "beta-v{version}"), "", id="nobody's"),
    ],
)
def test_the_template_says_whose_a_tag_is(tag: str, tags: tuple[str, str], whose: str, tmp_path: Path) -> None:
    assert owner(tmp_path / "source", tag, tags) == whose


@pytest.mark.parametrize(
    ("tag", "tags", "whose"),
    [
        pytest.param("v1.0", ("v{version}", "v{version}"), "alpha/fatwheel.yml", id="the-other's-version"),
        pytest.param("v1.0", ("", ""), "alpha/fatwheel.yml", id="by-default"),
        pytest.param("alpha-v3.0", ("alpha-v{version}", ""), "alpha/fatwheel.yml", id="the-other's-name"),
        pytest.param("v3.0", ("v{version}", "v{version}"), "", id="nobody's"),
    ],
)
def test_a_refused_tag_is_of_the_config_whose_plan_takes_it(
    tag: str, tags: tuple[str, str], whose: str, tmp_path: Path
) -> None:
    assert owner(tmp_path / "source", tag, tags, refused=True) == whose


@pytest.mark.parametrize(
    ("tag", "template", "is_its"),
    [
        pytest.param("v1.0", "v{version}", True, id="a-version"),
        pytest.param("v1.0-rc2", "v{version}", True, id="a-candidate"),
        pytest.param("vision-1.0", "v{version}", False, id="no-version"),
        pytest.param("x-v1.0", "{name}-v{version}", True, id="the-name"),
        pytest.param("xx-v1.0", "{name}-v{version}", False, id="another-name"),
        pytest.param("latest", "latest", True, id="no-field"),
        pytest.param("1.0+a(b", "{version}+a(b", True, id="characters-of-patterns"),
    ],
)
def test_a_tag_is_named_by_a_template_for_some_version(tag: str, template: str, *, is_its: bool) -> None:
    assert is_named(tag, template, "x") is is_its


# ---------------------------------------------------------------- as `fatwheel plan` says it


def plan(folder: Path, monkeypatch: pytest.MonkeyPatch, tag: str, templates: tuple[str, str], option: str) -> int:
    owner(folder, tag, templates)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FATWHEEL_CACHE", str(folder.parent / "cache"))
    return main(["plan", "beta/fatwheel.yml", option, tag, "--format", "github"])


@pytest.mark.parametrize(
    ("tag", "templates"),
    [
        pytest.param("alpha-v1.0", ("alpha-v{version}", "beta-v{version}"), id="by-its-template"),
        pytest.param("v1.0", ("v{version}", "v{version}"), id="by-its-plan"),
    ],
)
def test_a_run_leaves_the_tag_of_another_config_to_it(
    tag: str, templates: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert plan(tmp_path / "source", monkeypatch, tag, templates, "--ref") == 0
    said = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    why = f"the tag {tag} is of alpha/fatwheel.yml, and beta/fatwheel.yml has nothing to release at it"
    assert (said["skipped"], said["any"], said["channel"]) == (why, "false", "none")


def test_a_person_who_names_such_a_tag_is_told_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    templates = ("alpha-v{version}", "beta-v{version}")
    assert plan(tmp_path / "source", monkeypatch, "alpha-v1.0", templates, "--tag") == 2
    assert "hint: it is a tag of alpha/fatwheel.yml" in capsys.readouterr().err
