"""A recipe from its first release to the next: built, published, and due again only when it has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.formats.wheel import open_wheel
from tests.builders.sources import committed, git, write
from tests.servers.fatwheel_program import BUILDS
from tests.servers.github import REPOSITORY, TOKEN, GitHub, github_server
from tests.servers.prepared import run_prepared

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
DIGITS = PYTHON.replace(".", "")
SETUP = """\
from setuptools import Extension, setup

setup(
    name="hello-native",
    version="1.0+upstream",
    packages=["hello"],
    install_requires=["six", "nobody-has-this==1"],
    ext_modules=[Extension("hello.fast", ["hello/fast.c"])],
)
"""
PATCH = """\
--- a/setup.py
+++ b/setup.py
@@ -4,3 +4,3 @@
     name="hello-native",
-    version="1.0+upstream",
+    version="1.0",
     packages=["hello"],
"""
FAST = """\
#include <Python.h>

static PyObject *answer(PyObject *self, PyObject *nothing) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, 0}, {0}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", 0, -1, methods};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
"""
RECIPE = f"""\
package: hello-native
version: "1.0"
source:
  git: UPSTREAM
  ref: v{{version}}
  patches: [{{file: local.patch, reason: its setup.py writes a local version}}]
python: ["{PYTHON}"]
platforms:
  linux-cpu: {{required: true, wheel-platform: linux}}
build:
  sdist: false
  drop: [{{name: nobody_has.this, reason: it is on no index}}]
release: {{tag: "{{package}}-v{{version}}-py{{python}}", local: mine, untagged: true}}
validate: {{imports: [hello.fast]}}
"""
TAGGED = """\
package: hello-native
version: "1.0"
source: {git: "https://example.invalid/x", ref: "v{version}"}
python: ["3.12"]
platforms: {linux-cpu: }
release: {tag: "a..b {version}", untagged: true}
"""
TAG = f"hello-native-v1.0-py{DIGITS}"


def fatwheel(folder: Path, hub: GitHub, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_API_URL": hub.url, "GH_TOKEN": TOKEN}
    own = {"FATWHEEL_CACHE": str(folder / "cache"), BUILDS: str(folder)}
    return run_prepared([*words], cwd=folder, env={**environ, **own})


def verdicts(folder: Path, hub: GitHub, *words: str) -> list[tuple[str, str, str, str]]:
    """Return what is due of the recipe, with the reason and the number of the rebuild."""
    command = ("recipe", "watch", "hello", "--to", f"github:{REPOSITORY}", "--format", "json", *words)
    ran = fatwheel(folder, hub, *command)
    assert ran.returncode == 0, ran.stderr
    return [(one["tag"], one["state"], one["reason"], one["rebuild"]) for one in json.loads(ran.stdout)]


@pytest.fixture(scope="module")
def hub() -> Iterator[GitHub]:
    with github_server() as server:
        yield server


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a recipe for a repository of somebody else's."""
    folder = tmp_path_factory.mktemp("recipes")
    upstream = write(folder / "up", {"setup.py": SETUP, "hello/fast.c": FAST, "hello/__init__.py": ""})
    committed(upstream)
    git(upstream, "tag", "v1.0")
    files = {"fatwheel.yml": RECIPE.replace("UPSTREAM", str(upstream)), "local.patch": PATCH}
    write(folder / "recipes/hello", files)
    return folder


def test_a_release_whose_tag_git_refuses_is_not_built(place: Path, hub: GitHub) -> None:
    write(place / "recipes/tagged", {"fatwheel.yml": TAGGED})
    ran = fatwheel(place, hub, "recipe", "watch", "tagged", "--to", f"github:{REPOSITORY}", "--format", "json")
    (verdict,) = json.loads(ran.stdout)
    assert (verdict["state"], verdict["reason"][:31]) == ("cannot", "git has no tag of the name a..b"), ran.stderr


def test_a_release_is_due_until_it_is_published_and_again_when_its_recipe_changes(place: Path, hub: GitHub) -> None:
    assert verdicts(place, hub) == [(TAG, "due", "no release has its tag", "")]
    release(place, hub, "first")
    assert verdicts(place, hub) == [(TAG, "done", f"{TAG} is published, by the same recipe", "")]
    config = place / "recipes/hello/fatwheel.yml"
    config.write_text(config.read_text(encoding="utf-8") + "# a comment changes nothing\n", encoding="utf-8")
    assert verdicts(place, hub)[0][1] == "done"
    write(place / "recipes/hello", {"local.patch": PATCH.replace('version="1.0",', 'version="1.0",  # ours')})
    assert verdicts(place, hub) == [(TAG, "due", f"the recipe has changed since {TAG}", "1")]
    wheel = release(place, hub, "second", "--rebuild", "1")
    assert wheel.name.startswith(f"hello_native-1.0+mine-1-cp{DIGITS}-cp{DIGITS}-")
    assert verdicts(place, hub) == [(TAG, "done", f"{TAG}-r1 is published, by the same recipe", "")]
    upstream_releases(place)
    assert verdicts(place, hub, "--follow", "version")[0] == (
        f"hello-native-v1.1-py{DIGITS}", "due", "upstream has published 1.1", "")  # fmt: skip


def release(place: Path, hub: GitHub, name: str, *choice: str) -> Path:
    """Build the release of the recipe, look at its wheel, publish it, and return the wheel."""
    for words in (
        ("recipe", "copy", "hello", name, "--release", *choice),
        ("release", f"{name}/fatwheel.yml", "--to", f"dir:{name}/index", "--out", f"{name}/out"),
        ("publish", f"{name}/out", "--to", f"github:{REPOSITORY}", "--unattested"),
    ):
        ran = fatwheel(place, hub, *words)
        assert ran.returncode == 0, ran.stderr
    (path,) = (place / name / "out").glob("*.whl")
    wheel = open_wheel(path)
    with wheel.archive:
        assert wheel.metadata.get_all("Requires-Dist") == ["six"]
        assert wheel.metadata["Version"] == "1.0+mine"
        assert wheel.wheel_metadata.get("Build", "") == "".join(choice[1:])
    return path


def upstream_releases(place: Path) -> None:
    """Let upstream publish a version."""
    git(place / "up", "tag", "v1.1")
    git(place / "up", "tag", "v2.0rc1")
