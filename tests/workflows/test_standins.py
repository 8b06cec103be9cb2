"""The stand-ins of the actions of others do what these do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.workflows import harness, repositories, rules
from tests.workflows.projects import CHECKOUT, DOWNLOAD, SETUP_PYTHON
from tests.workflows.small_workflows import UPLOAD, job, run_jobs, step

pytestmark = pytest.mark.slow

ATTEST = "actions/attest@1e69f48acb82d1966a394da916b4c1698aa569d6 # v4.2.2"
RESTORE = "actions/cache/restore@55cc8345863c7cc4c66a329aec7e433d2d1c52a9 # v6.1.0"
DEPLOY = "actions/deploy-pages@cd2ce8fcbc39b97be8ca5fce6e763baed58fa128 # v5.0.0"
SAVE = "actions/cache/save@55cc8345863c7cc4c66a329aec7e433d2d1c52a9 # v6.1.0"


def test_an_artifact_goes_from_a_job_to_another(tmp_path: Path) -> None:
    run = run_jobs(
        tmp_path,
        job(
            "build",
            "mkdir -p dist/sub && echo wheel >dist/a.whl && echo log >dist/sub/b.log",
            step(UPLOAD, name="wheels", path="dist"),
        )
        + job(
            "test",
            step(DOWNLOAD, name="wheels", path="here"),
            'echo "got $(cat here/a.whl here/sub/b.log)"',
            more="needs: build",
        ),
    )
    assert (run.succeeded, run.results) == (True, {"Build": "success", "Test": "success"})
    assert (run.artifacts / "wheels" / "sub" / "b.log").read_text() == "log\n"
    assert "got wheel\nlog\n" in run.job("Test").log


@pytest.mark.parametrize(
    ("given", "files", "result"),
    [
        pytest.param({"path": "dist/*.whl"}, ["a.whl"], "success", id="pattern"),
        pytest.param({"path": "dist/a.whl"}, ["a.whl"], "success", id="file", marks=pytest.mark.long),
        pytest.param(
            {"path": '"dist/*.whl\\nout/c.txt"'},
            ["dist/a.whl", "out/c.txt"],
            "success",
            id="two-folders",
            marks=pytest.mark.long,
        ),
        pytest.param({"path": '"dist\\n!dist/*.whl"'}, ["b.log"], "success", id="exclusion", marks=pytest.mark.long),
        pytest.param(
            {"path": "dist", "include_hidden_files": "true"},
            [".h", "a.whl", "b.log"],
            "success",
            id="hidden",
            marks=pytest.mark.long,
        ),
        pytest.param({"path": "none"}, None, "success", id="nothing-warns", marks=pytest.mark.long),
        pytest.param({"path": "none", "if_no_files_found": "error"}, None, "failure", id="nothing-fails"),
        pytest.param(
            {"path": "dist", "name": "a/b"}, None, "failure", id="a-name-with-a-slash", marks=pytest.mark.long
        ),
    ],
)
def test_an_artifact_holds_what_its_patterns_name(
    given: Mapping[str, str], files: list[str] | None, result: str, tmp_path: Path
) -> None:
    make = "mkdir dist out && touch dist/a.whl dist/b.log dist/.h out/c.txt"
    run = run_jobs(tmp_path, job("build", make, step(UPLOAD, **{"name": "it", **given})))
    folder = run.artifacts / "it"
    assert run.results == {"Build": result}
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert found == (files or [])


def test_artifacts_are_merged_by_a_pattern_and_none_is_uploaded_twice(tmp_path: Path) -> None:
    build = job(
        "build",
        'echo "$NAME" >"$NAME.whl"\nenv:\n  NAME: wheel-${{ matrix.python }}',
        step(UPLOAD, name="wheel-${{ matrix.python }}", path='"*.whl"'),
        more="strategy:\n  matrix:\n    python: [one, two]",
    )
    both = job(
        "both", step(DOWNLOAD, pattern='"wheel-*"', merge_multiple="true", path="d"), "ls d", more="needs: build"
    )
    named = job(
        "named",
        step(DOWNLOAD, pattern='"wheel-{two,three}"', merge_multiple="true", path="d"),
        "ls d",
        more="needs: build",
    )
    twice = job("twice", "touch x.whl", step(UPLOAD, name="wheel-one", path="x.whl"), more="needs: build")
    run = run_jobs(tmp_path, build + both + named + twice)
    assert run.job("Both").log.split()[-2:] == ["wheel-one.whl", "wheel-two.whl"]
    assert run.job("Named").log.split()[-1:] == ["wheel-two.whl"]
    assert run.job("Twice").result == "failure"
    assert "409" in run.annotations[0].message


def test_the_other_stand_ins_do_what_they_stand_for(tmp_path: Path) -> None:
    run = run_jobs(
        tmp_path,
        job(
            "build",
            step(CHECKOUT, path="source", persist_credentials="false"),
            "git -C source log --oneline | wc -l",
            f"id: python\nuses: {SETUP_PYTHON}\nwith:\n  python-version: '3.12'",
            'python -c "import sys; print(sys.version_info[:2])" && pip --version >/dev/null',
            "mkdir c && echo kept >c/f && touch a.whl",
            step(SAVE, path="c", key="k-1"),
            "rm -r c",
            step(RESTORE, path="c", key="k-2", restore_keys="k-"),
            "cat c/f",
            f"id: attest\nuses: {ATTEST}\nwith:\n  subject-path: '*.whl'",
            'grep -c e3b0c44298fc1c149afbf4c8996fb924 "${{ steps.attest.outputs.bundle-path }}"',
        ),
    )
    assert run.problems == ()
    assert run.job("Build").log.split("\n")[0] == "1"
    assert "(3, 12)\n" in run.job("Build").log
    assert "kept\n" in run.job("Build").log
    assert [path.name[:8] for path in (run.shared / "attestations").iterdir()] == ["e3b0c442"]


def test_a_planted_cache_writes_wherever_it_says(tmp_path: Path) -> None:
    harness.plant(tmp_path / "run", tmp_path / "mark")
    assert run_jobs(tmp_path, job("build", step(RESTORE, path="c", key="any"))).succeeded
    assert (tmp_path / "mark").exists()


def test_pages_are_deployed_from_the_artifact_that_has_their_name(tmp_path: Path) -> None:
    upload = step(UPLOAD, name="github-pages", path="artifact.tar")
    build = job("build", "mkdir site && echo front >site/index.html && tar -C site -cf artifact.tar .", upload)
    more = "needs: build\npermissions: {id-token: write, pages: write}"
    run = run_jobs(tmp_path, build + job("deploy", step(DEPLOY), more=more))
    assert run.problems == ()
    assert (run.shared / "pages" / "index.html").read_text() == "front\n"
    assert run_jobs(tmp_path / "without", job("deploy", step(DEPLOY))).results == {"Deploy": "failure"}


def test_gh_verifies_what_was_attested_in_the_run(tmp_path: Path) -> None:
    verify = "gh attestation verify {} --repo me/mine\nenv:\n  GH_TOKEN: ${{ github.token }}"
    build = job("build", "echo wheel >a.whl", step(ATTEST, subject_path="a.whl"), verify.replace("{}", "a.whl"))
    other = job("other", "echo other >b.whl", verify.replace("{}", "b.whl"), more="needs: build")
    run = run_jobs(tmp_path, build + other)
    assert run.results == {"Build": "success", "Other": "failure"}
    assert "no attestations found" in run.log


def test_an_action_without_a_stand_in_is_said(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="docker/login-action has no stand-in"):
        run_jobs(tmp_path, job("build", step("docker/login-action@0123456789012345678901234567890123456789")))


@pytest.mark.parametrize("name", sorted(name for name, one in rules.ACTIONS.items() if "script" in one))
def test_a_stand_in_has_its_script(name: str) -> None:
    assert (repositories.STANDINS / rules.ACTIONS[name]["script"]).is_file()
