"""`fatwheel plan --against` and `fatwheel ci summary`, in real repositories with real commits."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.builders.sources import SCIKIT, committed, demo, git, write
from tests.integration.conftest import CommandLine, write_project

pytestmark = pytest.mark.slow

CONFIG = """\
package: demo
python: ["3.11", "3.12", "3.13"]
torch: ["2.10", "2.11", "2.12", "2.13"]
platforms:
  linux-cuda:
    owner: "@team/cuda"
    native: ["*.cu"]
    cuda: ["12.9", "13.0"]
    archs: ["9.0"]
"""
PROJECT = f'{SCIKIT}[tool.scikit-build]\nwheel.py-api = "py3"\n'
FILES = {
    "fatwheel.yml": CONFIG,
    "pyproject.toml": PROJECT,
    "CMakeLists.txt": "project(demo)\nadd_library(k k.cu)\n",
    "k.cu": "// a kernel\n__global__ void twice(float* x) { *x *= 2; }\n",
}
BOUND = "// a kernel\n__global__ void twice(float* x) { *x *= 2; }\n#include <torch/extension.h>\n"
SENTENCE = "`k.cu:3` turned 2 jobs into 24."


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose second commit binds its kernel to one torch and one Python."""
    root = demo(tmp_path / "demo", FILES)
    committed(root)
    git(root, "tag", "before")
    committed(write(root, {"k.cu": BOUND}))
    return root


# ---------------------------------------------------------------- the sentence, in every form


def test_one_line_of_a_kernel_turns_2_jobs_into_24(repository: Path, fatwheel: CommandLine) -> None:
    ran = fatwheel("plan", "--against", "HEAD^1", cwd=repository)
    assert ran.status == 0, ran.stderr
    assert SENTENCE in ran.stdout
    assert "one per torch: not the stable ABI (k.cu:3: includes torch/extension.h)" in ran.stdout
    assert git(repository, "status", "--porcelain") == ""


def test_the_json_has_the_plan_and_what_changed(repository: Path, fatwheel: CommandLine) -> None:
    ran = fatwheel("plan", "--against", "before", "--format", "json", cwd=repository)
    whole = json.loads(ran.stdout)
    assert len(whole["jobs"]) == 24
    assert whole["comparison"]["sentences"] == [SENTENCE]
    assert whole["comparison"]["against"] == "before"


def test_a_comment_starts_with_the_sentence(repository: Path, fatwheel: CommandLine) -> None:
    ran = fatwheel("plan", "--against", "before", "--format", "markdown", cwd=repository)
    assert ran.stdout.startswith(
        "## demo 1.0: 24 wheels serve 24 of 24 combinations\n\n**<code>k.cu&#58;3</code> turned"
    )
    assert "| <code>linux-cuda</code> | 2 → **24** | 24 |" in ran.stdout


def test_what_is_not_committed_is_compared_too(repository: Path, fatwheel: CommandLine) -> None:
    write(repository, {"k.cu": FILES["k.cu"]})
    ran = fatwheel("plan", "--against", "HEAD", cwd=repository)
    assert "`k.cu:3`, which is gone, turned 24 jobs into 2." in ran.stdout
    assert "No job changes." in fatwheel("plan", "--against", "before", cwd=repository).stdout


def test_a_config_below_the_root_reads_the_source_that_it_had(tmp_path: Path, fatwheel: CommandLine) -> None:
    config = {"ci/fatwheel.yml": f"{CONFIG}source: {{path: ..}}\n"}
    root = write(
        tmp_path / "demo", {**{name: text for name, text in FILES.items() if name != "fatwheel.yml"}, **config}
    )
    committed(root)
    write(root, {"k.cu": BOUND, **{name: text.replace('"3.13"]', '"3.13", "3.14"]') for name, text in config.items()}})
    ran = fatwheel("plan", "fatwheel.yml", "--against", "HEAD", cwd=root / "ci")
    assert SENTENCE in ran.stdout, ran.stderr
    assert "fatwheel.yml:2` adds Python 3.14: 24 jobs became 32." in ran.stdout


def test_submodules_are_taken_from_the_checkout_as_they_were(tmp_path: Path, fatwheel: CommandLine) -> None:
    part = write(tmp_path / "part", {"part.cuh": "int part();\n"})
    committed(part)
    root = demo(tmp_path / "demo", {**FILES, "k.cu": '#include "part/part.cuh"\n'})
    git(root, "init", "--quiet")
    git(root, "submodule", "--quiet", "add", part.as_uri(), "part")
    committed(root)
    shutil.rmtree(part)
    write(root / "part", {"part.cuh": f"\n{BOUND}"})
    git(root / "part", "commit", "--quiet", "--all", "--message", "x")
    git(root, "commit", "--quiet", "--all", "--message", "x")
    ran = fatwheel("plan", "--against", "HEAD^1", cwd=root)
    assert "`part/part.cuh:4` turned 2 jobs into 24." in ran.stdout, ran.stderr
    assert git(root, "status", "--porcelain") == ""


def test_plans_and_folders_are_compared_without_any_repository(
    repository: Path, tmp_path: Path, fatwheel: CommandLine
) -> None:
    shutil.copytree(repository, tmp_path / "earlier")
    git(tmp_path / "earlier", "checkout", "--quiet", "before")
    (tmp_path / "dist").mkdir()
    before, after = tmp_path / "dist" / "plan.json", tmp_path / "after.json"
    assert fatwheel("plan", "--out", before, cwd=tmp_path / "earlier").status == 0
    assert fatwheel("plan", "--out", after, cwd=repository).status == 0
    for against in (before, before.parent):
        assert SENTENCE in fatwheel("plan", "--against", against, cwd=repository).stdout
        ran = fatwheel("ci", "summary", after, "--against", against, cwd=tmp_path)
        assert "**<code>k.cu&#58;3</code> turned 2 jobs into 24.**" in ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("files", "changed"),
    [
        pytest.param({}, "false", id="nothing"),
        pytest.param({"k.cu": BOUND.replace("2;", "3;")}, "true", id="another kernel and the same plan"),
        pytest.param({"k.cu": FILES["k.cu"]}, "true", id="another plan"),
    ],
)
def test_a_workflow_is_told_whether_anything_changed(
    repository: Path, fatwheel: CommandLine, files: dict[str, str], changed: str
) -> None:
    write(repository, files)
    ran = fatwheel("plan", "--against", "HEAD", "--format", "github", cwd=repository)
    assert f"changed={changed}" in ran.stdout.splitlines()


# ---------------------------------------------------------------- what cannot be compared


@pytest.mark.parametrize(
    ("against", "expected"),
    [
        pytest.param("befor", 'has no revision "befor", did you mean "before"?', id="a misspelt tag"),
        pytest.param("0" * 40, f'has no revision "{"0" * 40}"', id="a commit that is not there"),
        pytest.param("HEAD:k.cu", 'has no revision "HEAD:k.cu"', id="a file"),
        pytest.param("HEAD^9", 'has no revision "HEAD^9"', id="a parent that is not there"),
        pytest.param("--output=owned", 'has no revision "--output=owned"', id="an option of git"),
        pytest.param("$(touch owned)", 'has no revision "$(touch owned)"', id="a command"),
        pytest.param("x\n::error::y", "has no revision", id="a second line"),
    ],
)
def test_a_revision_that_is_not_there_is_one_sentence(
    repository: Path, fatwheel: CommandLine, against: str, expected: str
) -> None:
    ran = fatwheel("plan", f"--against={against}", cwd=repository)
    assert (ran.status, ran.stdout) == (2, "")
    assert expected in ran.stderr
    assert not (repository / "owned").exists()


def test_a_shallow_checkout_says_how_to_fetch_more(repository: Path, tmp_path: Path, fatwheel: CommandLine) -> None:
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), "shallow")
    ran = fatwheel("plan", "--against", "HEAD^1", cwd=tmp_path / "shallow")
    assert ran.status == 2
    assert 'this checkout is shallow and has no revision "HEAD^1"' in ran.stderr
    assert "fetch-depth: 0" in ran.stderr


def test_a_shallow_checkout_with_the_revision_is_enough(
    repository: Path, tmp_path: Path, fatwheel: CommandLine
) -> None:
    git(tmp_path, "clone", "--quiet", "--depth=2", repository.as_uri(), "shallow")
    assert SENTENCE in fatwheel("plan", "--against", "HEAD^1", cwd=tmp_path / "shallow").stdout


def test_what_is_no_repository_has_no_revisions(repository: Path, fatwheel: CommandLine) -> None:
    shutil.rmtree(repository / ".git")
    ran = fatwheel("plan", "--against", "main", cwd=repository)
    assert ran.status == 2
    assert "is in no git repository" in ran.stderr


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param({"pyproject.toml": PROJECT}, "there is no fatwheel.yml, expected a config", id="no config yet"),
        pytest.param({**FILES, "fatwheel.yml": "package: demo\nplatform: x\n"}, "fatwheel.yml:2:1", id="its config"),
        pytest.param({**FILES, "pyproject.toml": "[project"}, "pyproject.toml", id="its project"),
        pytest.param(
            {**FILES, "fatwheel.yml": f"{CONFIG}source: {{path: ../..}}\n"},
            "outside of its repository",
            id="its source",
        ),
    ],
)
def test_what_was_broken_before_is_no_error_of_the_change(
    tmp_path: Path, fatwheel: CommandLine, before: dict[str, str], expected: str
) -> None:
    root = write(tmp_path / "demo", before)
    committed(root)
    demo(root, FILES)
    ran = fatwheel("plan", "--against", "HEAD", cwd=root)
    assert ran.status == 0, ran.stderr
    assert "No plan can be made at `HEAD`, so there is nothing to compare these 2 jobs with." in ran.stdout
    assert expected in ran.stdout
    assert "cache" not in ran.stdout


@pytest.mark.parametrize("option", ["--prove", "--only=linux-cuda"])
def test_a_comparison_is_of_whole_plans(repository: Path, fatwheel: CommandLine, option: str) -> None:
    ran = fatwheel("plan", "--against", "before", option, cwd=repository)
    assert (ran.status, "--against compares whole plans" in ran.stderr) == (2, True)


# ---------------------------------------------------------------- the page of a release


@pytest.mark.parametrize("name", ["nowhere", "fatwheel.yml", "."])
def test_what_is_no_plan_has_no_page(repository: Path, fatwheel: CommandLine, name: str) -> None:
    ran = fatwheel("ci", "summary", name, cwd=repository)
    assert (ran.status, ran.stdout) == (2, "")
    assert "plan" in ran.stderr


@pytest.mark.long
@pytest.mark.slow
def test_a_release_has_a_page_with_its_sizes_and_what_was_tried(tmp_path: Path, fatwheel: CommandLine) -> None:
    project = write_project(tmp_path / "tiny")
    first = fatwheel("release", "--to", f"dir:{tmp_path / 'index'}", "--out", "../first", cwd=project)
    assert first.status == 0, first.stderr
    (project / "tiny" / "__init__.py").write_text(
        f'"""Tiny."""\n\nANSWER = 42\nWORDS = {list(map(str, range(9999)))}\n'
    )
    (project / "pyproject.toml").write_text((project / "pyproject.toml").read_text().replace("1.0", "1.1"))
    second = fatwheel("release", "--to", f"dir:{tmp_path / 'index'}", "--out", "../second", cwd=project)
    assert second.status == 0, second.stderr
    page = fatwheel("ci", "summary", "second", "--against", "first", cwd=tmp_path).stdout
    assert "✅ **Ready to publish:** 2 files" in page
    assert "**No job changes.**" in page
    assert re.search(r"\| <code>any</code> \| 1 \| 1 \| [\d.]+ k?B → \*\*[\d.]+ kB\*\* \|", page)
    assert "nvidia-smi" in page
    assert Path(tmp_path / "second" / "plan.json").is_file()


def test_a_row_that_the_project_adds_to_the_catalog_is_named(repository: Path, fatwheel: CommandLine) -> None:
    headers = f'file = "torch-9.1.0-cp312-none-macosx_11_0_arm64.whl"\nsha256 = "{"a" * 64}"\nsize = 7\n'
    rows = (
        '[[torch.release]]\nversion = "9.1"\npatch = "9.1.0"\n[torch.release.pythons]\nlinux-x86_64 = ["3.12"]\n'
        f'[torch.release.cuda]\nlinux-x86_64 = ["13.0"]\n[torch.release.headers]\n{headers}'
    )
    write(repository, {"fatwheel.yml": CONFIG.replace('["2.10", "2.11", "2.12", "2.13"]', '{ lowest: "2.13" }')})
    committed(repository)
    git(repository, "tag", "without")
    committed(write(repository, {"fatwheel.catalog.toml": rows}))
    added = fatwheel("plan", "--against", "without", cwd=repository)
    assert "`fatwheel.catalog.toml:1` adds torch 9.1 to the catalog: " in added.stdout, added.stderr
    git(repository, "tag", "with")
    git(repository, "checkout", "without")
    dropped = fatwheel("plan", "--against", "with", cwd=repository)
    assert "`fatwheel.catalog.toml:1` drops torch 9.1 from the catalog: " in dropped.stdout, dropped.stderr
