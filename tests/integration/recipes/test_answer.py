"""A request for a wheel, from the text of an issue to the one comment that answers it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.builders.sources import committed, git, write
from tests.servers.github import REPOSITORY, TOKEN, GitHub
from tests.servers.github_issues import Talk, settle
from tests.servers.prepared import run_prepared
from tests.unit.recipes.test_form import body

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
RECIPE = """\
package: demo
version: "1.0"
source: { git: UPSTREAM, ref: "v{version}" }
python: ["3.13", "3.14t"]
platforms: { linux-cuda: { cuda: ["13.0"], archs: ["8.9"] } }
unsupported: [{ python: ["3.14t"], reason: "it needs the GIL, says @octo" }]
release: { tag: "demo-v{version}-py{python}", untagged: true }
"""


@pytest.fixture
def talk(hub: GitHub) -> Talk:
    """A repository with one issue."""
    talk = settle(hub)
    talk.rights["owner"] = "admin"
    talk.open("Wheel: demo", "", author="mallory")
    return talk


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a recipe, whose upstream has two versions."""
    folder = tmp_path_factory.mktemp("answer")
    upstream = write(folder / "up", {"setup.py": "import setuptools\n"})
    committed(upstream)
    for tag in ("v1.0", "v1.1"):
        git(upstream, "tag", tag)
    write(folder / "recipes/demo", {"fatwheel.yml": RECIPE.replace("UPSTREAM", str(upstream))})
    return folder


def run(place: Path, hub: GitHub, *words: str) -> subprocess.CompletedProcess[str]:
    own = {"GITHUB_API_URL": hub.url, "GH_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY, "PYTHONPATH": str(ROOT)}
    return run_prepared([*words], cwd=place, env={**os.environ, **own})


def ask(place: Path, hub: GitHub, text: str, *words: str, sender: str = "owner") -> dict[str, str]:
    """Write an event, answer it, and write the comment; return the outputs."""
    event = {"action": "opened", "issue": {"number": 1, "body": text}, "sender": {"login": sender}}
    (place / "event.json").write_text(json.dumps(event))
    command = ("recipe", "answer", "event.json", "--to", f"github:{REPOSITORY}", "--page", "answer.md", *words)
    ran = run(place, hub, *command, "--format", "json")
    assert ran.returncode == 0, ran.stderr
    wrote = run(place, hub, "ci", "comment", "answer.md", "--issue", "1", "--name", "request")
    assert wrote.returncode == 0, wrote.stderr
    said: dict[str, str] = json.loads(ran.stdout)
    return said


@pytest.mark.parametrize(("sender", "fate"), [("owner", "build"), ("mallory", "waits")])
def test_the_comment_says_what_becomes_of_a_request(
    place: Path, hub: GitHub, talk: Talk, sender: str, fate: str
) -> None:
    said = ask(place, hub, body(Package="demo", Version="1.1", Python="3.13"), sender=sender)
    assert said == {"issue": "1", "fate": fate, "recipe": "demo", "version": "1.1", "python": "3.13",
                    "torch": "", "cuda": "", "archs": ""}  # fmt: skip
    assert "<code>demo-v1.1-py313</code> | due | no release has its tag" in talk.of(1)[0]


@pytest.mark.parametrize(
    ("recipe", "tag"),
    [
        ("nunchaku", "nunchaku-v1.0.2-py313-torch2.10.0-cu130"),
        ("Flash-Attn", "flash-attn-v2.8.2-py313-torch2.10.0-cu130"),
        ("sageattention", "sageattention-v2.2.0-py313-torch2.10.0-cu130"),
        ("cupy-cuda13x", "cupy-cuda13x-v13.6.0-py313-torch2.10.0-cu130"),
        ("opencv-python", "opencv-python-v4.14.0.94-cu130"),
    ],
)
def test_a_request_for_one_of_our_recipes_is_answered_with_its_tag(
    place: Path, hub: GitHub, talk: Talk, recipe: str, tag: str
) -> None:
    said = ask(place, hub, body(Package=recipe, Python="3.13", GPU_architectures="8.9"))
    assert (said["fate"], said["recipe"], said["archs"]) == ("build", recipe.lower(), "8.9")
    assert f"<code>{tag}</code> | due | no release has its tag" in talk.of(1)[0]


def test_the_comment_follows_the_request_until_it_is_published(place: Path, hub: GitHub, talk: Talk) -> None:
    text = body(Package="demo", Python="3.13")
    ask(place, hub, text)
    assert ask(place, hub, text, "--result", "failure")["fate"] == "failed"
    assert "has failed, see" in talk.of(1)[0]
    hub.add({"tag_name": "demo-v1.0-py313"})
    assert ask(place, hub, text, "--result", "success")["fate"] == "published"
    assert len(talk.of(1)) == 1
    assert "is published:" in talk.of(1)[0]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({"Package": "demmo"}, "did you mean &#34;demo&#34;?", id="nearest-name"),
        pytest.param({"Package": "demo", "Version": "9.9"}, "of demo, its newest are 1.1, 1.0", id="no-such-version"),
        pytest.param({"Package": "demo", "Python": "3.14t"}, "the GIL, says &#64;&#8203;octo", id="unsupported"),
        pytest.param({"Package": "demo", "Python": "2.7"}, "2.7", id="no-such-python"),
        pytest.param({"Package": "demo", "PyTorch": "2.10"}, "names no torch", id="no-torch"),
        pytest.param({"Package": "demo", "GPU_architectures": "5.0"}, "5.0", id="no-such-arch"),
        pytest.param({"Package": "<img src=x> @octo #1"}, "src&#61;x&gt; &#64;&#8203;octo &#35;&#8203;1", id="hostile"),
        pytest.param(
            {"Package": "demo", "CUDA": "`::error::`[x](http&#58;//y)"}, "a version such as 13.0", id="markup"
        ),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_reason(
    place: Path, hub: GitHub, talk: Talk, fields: dict[str, str], said: str
) -> None:
    assert ask(place, hub, body(**fields))["fate"] == "refused"
    (comment,) = talk.of(1)
    assert said in comment.replace("&quot;", "&#34;").replace('"', "&#34;"), comment
    assert "@octo" not in comment
    assert "&#47;fatwheel.yml" not in comment  # the path of a copy of the recipe, in a folder that is gone


@pytest.mark.parametrize(
    "text",
    [
        *("{}", "[]", "no", '{"action": "opened", "issue": {"number": "x", "body": ""}}'),
        '{"action": "opened", "issue": {"number": 1, "body": ""}}',
        '{"action": "labeled", "issue": {"number": 1, "body": ""}, "sender": {"login": "x"}, "label": null}',
    ],
)
def test_what_is_no_event_is_an_error(place: Path, hub: GitHub, text: str) -> None:
    (place / "wrong.json").write_text(text)
    ran = run(place, hub, "recipe", "answer", "wrong.json", "--to", f"github:{REPOSITORY}")
    assert (ran.returncode, "is not the event of an issue" in ran.stderr) == (2, True), ran.stderr


def test_an_issue_that_is_not_there_gets_no_comment(place: Path, hub: GitHub, talk: Talk) -> None:
    assert talk.issues
    (place / "answer.md").write_text("Hello.")
    ran = run(place, hub, "ci", "comment", "answer.md", "--issue", "7")
    assert (ran.returncode, "has no issue 7" in ran.stderr) == (2, True), ran.stderr
