"""fatwheel doctor in a checkout: without a token, without network, with what git has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest

from ci_tools.cli.main import main
from tests.builders.flawed_callers import CALLERS, FLAWS, RELEASE, files_of
from tests.builders.sources import committed, git

CALLED = """\
on: { workflow_call: { inputs: { days: { type: number } } } }
jobs: { a: { runs-on: ubuntu-latest, steps: [{ run: x }] } }
"""
CALL = "on: push\njobs:\n  a:\n    uses: {}\n    with: {{ days: many }}\n"
WHERE = ".github/workflows/called.yml"


@pytest.fixture(autouse=True)
def without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GH_TOKEN", "GITHUB_TOKEN", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def rules(root: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[str]]:
    status = main(["doctor", str(root), "--format", "json", *more])
    return status, [one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]]


def test_a_good_caller_is_good_from_any_folder_of_its_checkout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path / "demo", {RELEASE: CALLERS["cibuildwheel"], "src/a.c": ""})
    committed(root)
    assert rules(root / "src", capsys) == (0, [])
    monkeypatch.chdir(root)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out == "demo: nothing is wrong\n\n"


def test_the_workflow_that_init_writes_lacks_only_whose_fatwheel_it_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = 'package: demo\npython: ["3.11"]\nplatforms: {linux-cpu: }\nrelease: {tag: "demo-v{version}"}\n'
    project = '[build-system]\nrequires = []\nbuild-backend = "flit_core.buildapi"\n[project]\nname = "demo"\n'
    root = write(tmp_path, {"pkg/fatwheel.yml": config, "pkg/pyproject.toml": f'{project}version = "1.0"\n'})
    git(root, "init", "--quiet")
    monkeypatch.chdir(root / "pkg")
    assert (main(["init", "--workflow"]), main(["init", "--workflow"])) == (0, 2)
    assert capsys.readouterr().out == f"{root / '.github/workflows/wheels.yml'}\n"
    committed(root)
    assert rules(root, capsys) == (1, ["placeholder"])


def test_a_pull_request_is_annotated_at_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(tmp_path, files_of("cibuildwheel", FLAWS["a-runner-misspelt"]))
    assert main(["doctor", str(root), "--format", "github"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"::error title=runner-unknown,file={RELEASE},line=")
    assert 'did you mean "ubuntu-24.04"?' in said


def test_what_another_repository_has_at_a_commit_is_read_from_a_clone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = write(tmp_path / "clones" / "them+theirs", {WHERE: CALLED})
    commit = committed(clone)
    git(clone, "rm", "-q", WHERE)
    root = write(tmp_path / "demo", {RELEASE: CALL.format(f"them/theirs/{WHERE}@{commit}")})
    assert rules(root, capsys) == (0, ["not-looked-at"])
    clones = ("--clones", str(tmp_path / "clones"))
    assert rules(root, capsys, *clones) == (1, ["input-type"])
    write(root, {RELEASE: CALL.format(f"them/theirs/{WHERE}x@{commit}")})
    assert rules(root, capsys, *clones) == (1, ["not-there"])
    write(root, {RELEASE: CALL.format(f"them/theirs/{WHERE}@--output=x")})
    assert rules(root, capsys, *clones) == (0, ["not-looked-at"])


def test_the_clone_that_fatwheel_was_installed_from_has_its_other_commits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = write(tmp_path / "a clone", {WHERE: CALLED})
    commit = committed(clone)
    root = write(tmp_path / "demo", {RELEASE: CALL.format(f"them/fatwheel/{WHERE}@{commit}")})
    assert main(["doctor", str(root)]) == 0
    assert "--clones FOLDER" in capsys.readouterr().out
    installed = metadata.distribution("pytest")
    address = json.dumps({"url": clone.as_uri(), "dir_info": {}})
    monkeypatch.setattr(type(installed), "read_text", lambda *_: address)
    assert rules(root, capsys) == (1, ["input-type"])


def test_its_own_older_commit_is_read_from_its_own_git(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(tmp_path / "demo", {WHERE: CALLED})
    commit = committed(root)
    git(root, "remote", "add", "origin", "https://github.com/me/demo.git")
    write(root, {WHERE: CALLED.replace("number", "string"), RELEASE: CALL.format(f"me/demo/{WHERE}@{commit}")})
    assert rules(root, capsys) == (1, ["input-type"])


@pytest.mark.parametrize(
    ("files", "more", "words"),
    [
        pytest.param({"a.txt": ""}, [], "writes one, once `fatwheel init` has written", id="no-workflows"),
        pytest.param({"fatwheel.yml": ""}, [], "hint: `fatwheel init --workflow` writes one\n", id="a-config-without"),
        pytest.param({RELEASE: "on: push\njobs: { a: {} }\n"}, ["--fix"], "is a folder, expected OWNER/REPO", id="fix"),
        pytest.param({RELEASE: "on: push\njobs: { a: {} }\n"}, ["--clones", "no"], "is not a folder", id="clones"),
    ],
)
def test_what_cannot_be_looked_at_is_one_sentence(
    files: dict[str, str], more: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(write(tmp_path, files)), *more]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("on: push\njobs: [\n", id="broken"),
        pytest.param("", id="empty"),
        pytest.param("on: push\njobs: &a { x: *a }\n", id="an-alias-of-itself"),
        pytest.param("on: push\n" + "# x\n" * 300_000 + "jobs: {}\n", id="huge"),
        pytest.param("[1, 2]\n", id="a-list"),
    ],
)
def test_a_file_that_is_no_workflow_is_named(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rules(write(tmp_path, {RELEASE: text}), capsys) == (1, ["broken"])
