"""The version that a project's own tool gives, asked in a copy of a real repository, with the tools of the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_tools import catalog
from ci_tools.config import loader, starter
from ci_tools.errors import InputError, MachineError
from ci_tools.machine.context import Outside
from ci_tools.observe import laboratory
from ci_tools.observe.versions import ask
from ci_tools.plan import plan_file
from ci_tools.plan.make import make_plan
from ci_tools.source.files import tree_at
from ci_tools.source.project_file import ProjectFile
from tests.builders.sources import git, write
from tests.builders.tagged import CONFIG, TOOLS, ask_plan, commit, repository, tagged_world

pytestmark = pytest.mark.slow
QUICK = ("hatch-vcs",)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    return tagged_world(tmp_path_factory.mktemp("world"))


def release_of(plan: dict[str, Any]) -> tuple[str, str | None, str]:
    """Return a plan's version, channel and the template of its tag."""
    return plan["project"]["version"], plan["edition"]["channel"], plan["request"]["release"]["tag"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in TOOLS]
)
def test_each_commit_has_the_version_that_its_tool_gives(name: str, tmp_path: Path, outside: Outside) -> None:
    files, later = TOOLS[name]
    folder = repository(tmp_path / "demo", files, "v1.2.0")
    assert release_of(ask_plan(folder, outside)) == ("1.2.0", "stable", "v{version}")
    commit(folder, "demo/second.py")
    assert release_of(ask_plan(folder, outside)) == (later, None, "v{version}")


def test_a_backend_without_the_hook_for_metadata_says_the_version_in_its_sdist(
    tmp_path: Path, outside: Outside
) -> None:
    made = "import io, tarfile\n\ndef build_sdist(folder, settings=None):\n    text = b'Version: 3.1'\n"
    made += "    about = tarfile.TarInfo('demo-3.1/PKG-INFO')\n    about.size = len(text)\n"
    made += "    with tarfile.open(f'{folder}/demo-3.1.tar.gz', 'w:gz') as sdist:\n"
    made += "        sdist.addfile(about, io.BytesIO(text))\n    return 'demo-3.1.tar.gz'\n"
    text = '[build-system]\nrequires = []\nbuild-backend = "maker"\nbackend-path = ["."]\n'
    text += '[project]\nname = "demo"\ndynamic = ["version"]\n'
    folder = repository(tmp_path / "demo", {**TOOLS["hatch-vcs"][0], "pyproject.toml": text, "maker.py": made}, "v3.1")
    assert ask_plan(folder, outside)["project"]["version"] == "3.1"


def test_a_tag_of_another_version_than_the_files_is_named_as_such(tmp_path: Path, outside: Outside) -> None:
    files, _ = TOOLS["scikit-build-core"]
    regex = files["pyproject.toml"].replace("metadata.setuptools_scm", "metadata.regex").partition("[tool.setup")[0]
    text = f"{regex}metadata.version.input = 'v.h'\nmetadata.version.regex = 'V (?P<value>.+)'\n"
    folder = repository(tmp_path / "demo", {"pyproject.toml": text, "v.h": "#define V 2.0.0\n"})
    with pytest.raises(InputError, match=r"'v2.0.1' is not a tag of demo 2.0.0") as refused:
        ask_plan(folder, outside, tag="v2.0.1")
    assert refused.value.hint == "the tag and the project's version change together"
    assert ask_plan(folder, outside, tag="v2.0.0")["edition"]["channel"] == "stable"


def monorepo(folder: Path) -> Path:
    """Return a repository of two packages with tags of their own, as cuda-python has it (its pull request 2424)."""
    for name in ("alpha", "beta"):
        text = TOOLS["setuptools-scm"][0]["pyproject.toml"].replace('"demo"\n', f'"dup-{name}"\n')
        match = f'["git", "describe", "--dirty", "--tags", "--long", "--match", "{name}-v*"]'
        text += f'root = ".."\ntag_regex = "^{name}-v(?P<version>[0-9.]+)$"\ngit_describe_command = {match}\n'
        own = {"pyproject.toml": text, "fatwheel.yml": CONFIG.replace("demo", f"dup-{name}"), "demo/__init__.py": ""}
        write(folder / name, own)
    git(folder, "init", "--quiet")
    for tag in ("beta-v3.0", "alpha-v1.2"):
        commit(folder, tag)
        git(folder, "tag", tag)
    return folder


def test_a_package_of_a_monorepo_has_the_version_of_its_own_tags(tmp_path: Path, outside: Outside) -> None:
    folder = monorepo(tmp_path / "all")
    assert release_of(ask_plan(folder / "alpha", outside)) == ("1.2", "stable", "alpha-v{version}")
    assert release_of(ask_plan(folder / "beta", outside)) == ("3.1.dev1", None, "v{version}")
    with pytest.raises(InputError, match=r"takes no version from alpha-v1.2: with it, setuptools-scm says 3.1.dev1"):
        ask_plan(folder / "beta", outside, tag="alpha-v1.2")


@pytest.mark.long
def test_a_tag_that_is_yet_to_be_made_fixes_the_version(tmp_path: Path, outside: Outside) -> None:
    folder = monorepo(tmp_path / "all")
    assert release_of(ask_plan(folder / "alpha", outside, tag="alpha-v2.0.1.7")) == (
        "2.0.1.7", "stable", "alpha-v{version}",
    )  # fmt: skip


def test_a_shallow_clone_is_refused_unless_it_has_the_tag(tmp_path: Path, outside: Outside) -> None:
    folder = monorepo(tmp_path / "all")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{folder}", "shallow")
    assert ask_plan(tmp_path / "shallow" / "alpha", outside)["project"]["version"] == "1.2"
    with pytest.raises(InputError, match="this checkout is shallow") as refused:
        ask_plan(tmp_path / "shallow" / "beta", outside)
    assert refused.value.hint == "`git fetch --unshallow --tags`, or `fetch-depth: 0` for actions/checkout"


@pytest.mark.parametrize("folder", [pytest.param("alpha", id="a-tag"), pytest.param("beta", id="past-a-tag")])
def test_a_commit_of_a_repository_elsewhere_has_the_version_of_its_history(
    folder: str, tmp_path: Path, outside: Outside
) -> None:
    root = monorepo(tmp_path / "all")
    source = f"source: {{git: {root}, ref: {git(root, 'rev-parse', 'HEAD')}, subdirectory: {folder}}}\n"
    config = CONFIG.replace("demo", f"dup-{folder}")
    write(tmp_path / "recipe", {"fatwheel.yml": config + source})
    planned = make_plan(tmp_path / "recipe/fatwheel.yml", outside)
    assert planned.plan.project.version == {"alpha": "1.2", "beta": "3.1.dev1"}[folder]
    assert planned.tree.root.name.endswith("-whole") == (folder == "beta")


@pytest.mark.long
def test_a_label_is_left_out_and_that_is_said(tmp_path: Path, outside: Outside) -> None:
    folder = repository(tmp_path / "demo", TOOLS["hatch-vcs"][0], "v1.2.0")
    commit(folder, "demo/second.py")
    told = ask_plan(folder, outside)["project"]["told"]
    assert told.startswith("hatch-vcs says 1.2.1.dev1+g")
    assert told.endswith("; its label is left out, as each wheel gets its own")


@pytest.mark.long
def test_only_what_is_modified_makes_a_checkout_dirty(tmp_path: Path, outside: Outside) -> None:
    folder = repository(tmp_path / "demo", TOOLS["hatch-vcs"][0], "v1.2.0")
    write(folder, {"demo/new.py": "", "release.log": ""})
    assert ask_plan(folder, outside)["project"]["version"] == "1.2.0"
    (folder / "demo/first.py").write_text("x = 1\n")
    assert ask_plan(folder, outside)["project"]["version"] == "1.2.1.dev0"


def test_a_runner_without_the_tags_makes_the_same_plan(tmp_path: Path, outside: Outside) -> None:
    folder = monorepo(tmp_path / "all")
    (tmp_path / "plan.json").write_text(plan_file.dumps(make_plan(folder / "beta/fatwheel.yml", outside).plan))
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{folder}", "shallow")
    again = make_plan(tmp_path / "shallow/beta/fatwheel.yml", outside, pinned=tmp_path / "plan.json").plan
    assert json.loads(plan_file.dumps(again)) == json.loads((tmp_path / "plan.json").read_text())


@pytest.mark.long
def test_a_version_in_the_config_that_is_not_the_tools_is_refused(tmp_path: Path, outside: Outside) -> None:
    files = {**TOOLS["hatch-vcs"][0], "fatwheel.yml": f'version: "1.1.0"\n{CONFIG}'}
    with pytest.raises(
        InputError, match=r"version is 1.1.0, but the project's is 1.2.0 \(hatch-vcs says 1.2.0\)"
    ) as told:
        ask_plan(repository(tmp_path / "demo", files, "v1.2.0"), outside)
    assert told.value.hint == "leave `version` out: it is then read again at each commit"


@pytest.mark.long
def test_a_version_in_the_config_stands_where_no_tag_says_one(tmp_path: Path, outside: Outside) -> None:
    files = {**TOOLS["hatch-vcs"][0], "fatwheel.yml": f'version: "1.1.0"\n{CONFIG}'}
    assert ask_plan(repository(tmp_path / "demo", files), outside)["project"]["version"] == "1.1.0"


RELEASED = """\
import os, subprocess
from setuptools import setup
version = open("version.txt").read().strip()
if "BUILD_VERSION" in os.environ:
    version = os.environ["BUILD_VERSION"]
else:
    version += "+" + subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
setup(name="demo", packages=["demo"], version=version)
"""


def test_build_version_is_the_tags_and_else_that_of_version_txt(tmp_path: Path, outside: Outside) -> None:
    folder = repository(tmp_path / "demo", {"setup.py": RELEASED, "version.txt": "1.3.0a0\n"})
    assert release_of(ask_plan(folder, outside))[:2] == ("1.3.0a0", None)
    git(folder, "tag", "v1.3.0-rc2")
    assert release_of(ask_plan(folder, outside))[:2] == ("1.3.0", "test")


def test_a_tool_that_cannot_be_had_is_another_status(tmp_path: Path, outside: Outside) -> None:
    files = {
        "pyproject.toml": TOOLS["hatch-vcs"][0]["pyproject.toml"].replace('"hatch-vcs"', '"no-such-tool-for-demo"')
    }
    with pytest.raises(MachineError, match="made with hatchling, no-such-tool-for-demo, and uv cannot install them"):
        ask_plan(repository(tmp_path / "demo", files, "v1.2.0"), outside)


@pytest.mark.long
def test_the_project_runs_confined_when_it_is_asked(tmp_path: Path, outside: Outside) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    body = f"open({str(secret)!r})\nimport versioningit\n{TOOLS['git-describe'][0]['setup.py']}"
    folder = repository(tmp_path / "demo", {"setup.py": body}, "v1.2.0")
    with pytest.raises(InputError, match="versioningit cannot tell the version: PermissionError"):
        ask_plan(folder, outside)


@pytest.mark.long
def test_no_program_that_a_repository_names_is_run(tmp_path: Path, outside: Outside) -> None:
    folder = repository(tmp_path / "demo", TOOLS["hatch-vcs"][0], "v1.2.0")
    proof = tmp_path / "proof"
    write(folder, {".git/hooks/post-index-change": f"#!/bin/sh\ntouch {proof}\n"}).joinpath(
        ".git/hooks/post-index-change"
    ).chmod(0o755)
    git(folder, "config", "filter.x.clean", f"touch {proof}; cat")
    write(folder, {".git/info/attributes": "* filter=x\n", "demo/first.py": "x = 2\n"})
    assert ask_plan(folder, outside)["project"]["version"] == "1.2.1.dev0"
    assert not proof.exists()


@pytest.mark.long
def test_a_version_is_kept_until_a_tag_or_a_file_changes(
    tmp_path: Path, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository(tmp_path / "demo", TOOLS["hatch-vcs"][0], "v1.2.0")
    ask_plan(folder, outside)
    monkeypatch.setattr(laboratory, "run_in_sandbox", None)
    assert ask_plan(folder, outside)["project"]["version"] == "1.2.0"
    git(folder, "tag", "v1.3.0")
    with pytest.raises(TypeError):
        ask_plan(folder, outside)


def test_init_writes_no_version_where_a_tool_gives_it(tmp_path: Path, outside: Outside) -> None:
    folder = repository(tmp_path / "demo", TOOLS["hatch-vcs"][0])
    git(folder, "rm", "--quiet", "fatwheel.yml")
    commit(folder, "demo/second.py")
    git(folder, "tag", "v1.2.0")
    written = starter.write(folder, catalog.load(), outside)
    assert (written.starter.version, loader.load(written.path, catalog.load()).version) == ("1.2.0", None)
    assert ask_plan(folder, outside)["project"]["version"] == "1.2.0"


@pytest.mark.long
def test_a_setup_py_that_ends_beside_stand_ins_is_asked_by_its_pyproject_toml(tmp_path: Path, outside: Outside) -> None:
    programs = "cpp_extension.CUDA_HOME + '/bin/nvcc', '-V'", "'pip', 'uninstall', 'demo'"
    asks = "".join(f"subprocess.check_call([{one}])\n" for one in programs)
    script = f"import subprocess, torch\nfrom torch.utils import cpp_extension\n{asks}assert torch.version.cuda\n"
    files = {**TOOLS["setuptools-scm"][0], "setup.py": script}
    folder = repository(tmp_path / "demo", files, "v1.2.0")
    project = ProjectFile(loader.load(folder / "fatwheel.yml", catalog.load()), tree_at(folder, outside.environ))
    told = ask.ask_version(project, outside)
    assert told == ask.OwnVersion("1.2.0", "setuptools-scm", uses_git=True, tags=("v1.2.0",))


@pytest.mark.long
def test_a_label_that_no_variable_leaves_out_is_left_out_by_a_tag(tmp_path: Path, outside: Outside) -> None:
    folder = repository(tmp_path / "demo", TOOLS["versioningit"][0], "release-1.2.0")
    commit(folder, "demo/second.py")
    text = (folder / "pyproject.toml").read_text() + '[tool.versioningit.tag2version]\nrmprefix = "release-"\n'
    (folder / "pyproject.toml").write_text(text)
    commit(folder, "demo/third.py")
    project = ask_plan(folder, outside)["project"]
    assert (project["version"], project["told_tag"]) == ("1.2.0.post2", "release-{version}")


PATCH = """\
--- a/demo/first.py
+++ b/demo/first.py
@@ -0,0 +1 @@
+x = 1
"""


def _worktree(folder: Path) -> Path:
    git(folder, "worktree", "add", "--quiet", "--detach", "../worktree")
    return folder.parent / "worktree"


def _blobless(folder: Path) -> Path:
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(folder.parent, "clone", "--quiet", "--filter=blob:none", f"file://{folder}", "partial")
    return folder.parent / "partial"


def _with_a_submodule(folder: Path) -> Path:
    repository(folder.parent / "part", {"a.h": ""}, "v7.0.0")
    git(folder, "submodule", "--quiet", "add", str(folder.parent / "part"), "part")
    git(folder, "commit", "--quiet", "--message", "part")
    git(folder, "tag", "--force", "v1.2.0")
    (folder / "part/a.h").write_text("int x;\n")
    return folder


def _patched(folder: Path) -> Path:
    place = folder.parent / "recipe"
    config = f"{CONFIG}source: {{git: {folder}, ref: v1.2.0, patches: [{{file: one.patch, reason: x is missing}}]}}\n"
    return write(place, {"one.patch": PATCH, "fatwheel.yml": config})


def _patched_beside(folder: Path) -> Path:
    config = f"{CONFIG}source: {{path: ../demo, patches: [{{file: one.patch, reason: x is missing}}]}}\n"
    return write(folder.parent / "beside", {"one.patch": PATCH, "fatwheel.yml": config})


@pytest.mark.long
@pytest.mark.parametrize("move", [_worktree, _blobless, _with_a_submodule, _patched, _patched_beside])
def test_a_source_of_any_kind_is_asked(move: Callable[[Path], Path], tmp_path: Path, outside: Outside) -> None:
    files = {**TOOLS["setuptools-scm"][0], "demo/first.py": ""}
    folder = move(repository(tmp_path / "demo", files, "v1.2.0"))
    assert ask_plan(folder, outside)["project"]["version"] == "1.2.0"


COMPILES_BY_ITSELF = """\
import subprocess
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
class Build(build_ext):
    def build_extension(self, ext):
        subprocess.check_call(["nvcc", "-c", "a.cu", "-o", "a.o"])
setup(name="demo", packages=["demo"], version=VERSION, ext_modules=[Extension("demo._c", ["a.c"])],
      cmdclass={"build_ext": Build})
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "said",
    [
        "'1.2.0'",
        "'.'.join(['1', '2', '0'])",
        "open('VERSION').read().strip()",
        pytest.param("build_ext.user_options and '1.2.0'", id="of-a-class-that-may-be-cythons"),
        pytest.param("'.'.join('120'), setup_requires=['Cython>=3']", id="that-fetches"),
    ],
)
def test_a_version_of_a_build_that_shows_none_is_that_of_setup_py(said: str, tmp_path: Path, outside: Outside) -> None:
    script = COMPILES_BY_ITSELF.replace("VERSION,", f"{said},")
    folder = repository(tmp_path / "demo", {"setup.py": script, "a.c": "", "a.cu": "", "VERSION": "1.2.0\n"})
    assert ask_plan(folder, outside)["project"]["version"] == "1.2.0"


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "said"),
    [
        pytest.param("files('VERSION')", "3.0", id="a-file"),
        pytest.param("run_command('cat', 'VERSION', check: true).stdout().strip()", "3.0", id="a-program"),
        pytest.param("run_command(find_program('python3'), '-c', 'print(4)', check: true).stdout()", "4", id="python"),
        pytest.param("'3.' + '1'", "3.1", id="an-expression"),
        pytest.param("run_command('false', check: true).stdout()", "meson.build:1:.* ERROR: Command", id="failing"),
        pytest.param("run_command('echo', 'one', check: true).stdout()", 'it says "one"', id="no-version"),
    ],
)
def test_meson_says_what_it_computes(version: str, said: str, tmp_path: Path, outside: Outside) -> None:
    files = {**TOOLS["meson"][0], "VERSION": "3.0\n", "meson.build": f"project('demo', 'c', version: {version})\n"}
    folder = repository(tmp_path / "demo", files)
    if said[0].isdigit():
        assert ask_plan(folder, outside)["project"]["version"] == said
    else:
        with pytest.raises(InputError, match=f"mesonpy cannot tell the version: .*{said}"):
            ask_plan(folder, outside)


@pytest.mark.long
def test_a_shallow_clone_is_refused_where_meson_asks_git(tmp_path: Path, outside: Outside) -> None:
    folder = repository(tmp_path / "demo", TOOLS["meson"][0], "v1.2.0")
    commit(folder, "demo/second.py")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{folder}", "shallow")
    with pytest.raises(InputError, match="this checkout is shallow"):
        ask_plan(tmp_path / "shallow", outside)
