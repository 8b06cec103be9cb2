"""The lines of the finder, run as a visitor would."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ci_tools.machine.storage import cache_folder, fill_once
from tests.builders.finder_site import CUDA, OURS, Site, Watched, choose, commands
from tests.servers.prepared import PIP, Called, run_prepared
from tests.servers.uploads import UV

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page


playwright = pytest.importorskip("playwright.sync_api", reason="the finder is looked at through playwright")
pytestmark = pytest.mark.slow
POETRY = "2.5.1"


# What the page shows for each installer, once it is chosen: the kind and the text of each box.
READ = """() => [...document.querySelectorAll("#answer input[name=installer]")].map(({ value }) => {
  document.querySelector(`#answer input[name=installer][value="${value}"]`).click();
  const boxes = [...document.querySelectorAll("#answer .command")];
  return [value, boxes.map((box) => [box.dataset.kind, box.querySelector("pre").textContent])];
})"""


class Boxes(NamedTuple):
    """What a page shows for an installer."""

    all: list[tuple[str, str]]  # the kind and the text of each

    @property
    def commands(self) -> list[str]:
        """The commands that install the project: by its version, and this very file."""
        return [text for kind, text in self.all if kind in {"version", "file"}]

    def block(self, kind: str) -> str:
        """Return a text of a kind."""
        (found,) = (text for own, text in self.all if own == kind)
        return found


def read_boxes(page: Page) -> dict[str, Boxes]:
    """Return what a page shows for each installer."""
    page.locator("#result").wait_for()
    return {name: Boxes([(kind, text) for kind, text in boxes]) for name, boxes in page.evaluate(READ)}


@pytest.fixture(scope="module")
def shown(page: Page, site: Site) -> dict[str, dict[str, Boxes]]:
    """What the page of a project shows for each installer, from a folder and from a server."""
    found = {}
    for kind in ("folder", "server"):
        page.goto(f"{site.address(kind)}#project=demo")
        found[kind] = read_boxes(page)
    return found


@pytest.fixture
def served(shown: dict[str, dict[str, Boxes]]) -> dict[str, Boxes]:
    return shown["server"]


# -- the commands


@pytest.mark.parametrize("kind", ["folder", "server"])
@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("way", [pytest.param(0, id="by-version"), pytest.param(1, id="by-file")])
def test_a_command_installs_the_file_and_no_strangers(
    shown: dict[str, dict[str, Boxes]], site: Site, tmp_path: Path, kind: str, installer: str, way: int
) -> None:
    stranger = site.served.removesuffix("/").rpartition("/")[0] + "/stranger/"
    others = f"{site.served}nothing/" if (installer, way) == ("pip", 0) else stranger  # pip by version may take theirs
    done = run(shown[kind][installer].commands[way], tmp_path, others)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "__init__.py").read_bytes() == OURS
    assert (tmp_path / "demo-1.0+cu130.dist-info").is_dir()


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_exact_command_takes_no_file_with_another_hash(
    served: dict[str, Boxes], site: Site, tmp_path: Path, installer: str
) -> None:
    command = served[installer].commands[1]
    digest = hashlib.sha256((site.root / "cu130" / CUDA).read_bytes()).hexdigest()
    assert digest in command
    assert run(command.replace(digest, "0" * 64), tmp_path, f"{site.served}nothing/").returncode != 0


def run(command: str, target: Path, default_index: str) -> subprocess.CompletedProcess[str] | Called:
    """Run a command in a shell, as a visitor would, with another folder to install to and another default index."""
    programs = Path(sys.executable).parent
    env = {
        **{name: os.environ[name] for name in os.environ if name.startswith("PYTHON") or name in {"LANG", "LC_ALL"}},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(target / "home"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": default_index,
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_TARGET": str(target),
        "UV_NO_CONFIG": "1",
        "UV_DEFAULT_INDEX": default_index,
        "UV_NO_CACHE": "1",
    }
    if command.startswith("pip "):
        return run_prepared(words_of(command, env)[1:], cwd=target, env=env, program=PIP)
    words = f"{command} --target {shlex.quote(str(target))}" if command.startswith("uv pip") else command
    words += f" --python {shlex.quote(sys.executable)}" if command.startswith("uv") else ""
    return subprocess.run(["sh", "-c", words], env=env, capture_output=True, text=True, check=False, timeout=120)


def words_of(command: str, env: dict[str, str]) -> list[str]:
    """Return the words of a command as a shell gives them to its program."""
    name, _, rest = command.partition(" ")
    show = f"show() {{ printf '%s\\0' \"$@\"; }}; show {rest}"
    done = subprocess.run(["sh", "-c", show], env=env, capture_output=True, text=True, check=True, timeout=120)
    return [name, *done.stdout.split("\0")[:-1]]


def test_a_command_for_windows_is_quoted_for_windows(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo&system=windows-x86_64")
    by_file = commands(page)[1]
    assert by_file.startswith('pip install "demo @ http://')
    assert "'" not in by_file
    assert "$" not in by_file


def test_a_password_in_the_address_is_in_no_command(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served.replace("://", "://reader:secret@") + "#project=demo")
    assert not [command for command in commands(page) if "secret" in command or "@127" in command]


def test_an_sdist_is_offered_as_this_very_file_alone(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    commands(page)
    page.locator("#files summary").filter(has_text="demo-1.0.tar.gz").click()
    (command,) = page.locator("#files details[open] pre").all_text_contents()
    assert "demo-1.0.tar.gz#sha256=" in command


# -- the other installers


def test_the_right_torch_comes_first(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=kernels&torch=2.12&accelerator=cu130&python=3.12")
    page.locator("#result").wait_for()
    for accelerator in ("cu130", "cu126", ""):
        choose(page, "accelerator", accelerator)
        boxes = read_boxes(page)
        for installer in ("pip", "uv", "poetry", "requirements.txt", "pyproject.toml", "pylock.toml"):
            _, first = boxes[installer].all[0]
            line = f"uv pip install torch==2.12.1 --torch-backend={accelerator or 'cpu'}"
            assert first.splitlines()[-1].endswith(line), installer


def test_uv_knows_the_builds_of_torch_that_it_is_told_of(watched: Watched, site: Site, tmp_path: Path) -> None:
    page = watched.goto(f"{site.served}#project=kernels&torch=2.12&accelerator=cu130&installer=uv")
    page.locator("#result").wait_for()
    command = str(page.locator("#answer [data-kind=torch] pre").text_content())
    assert "invalid value" not in run(f"{command} --offline", tmp_path, f"{site.served}nothing/").stderr
    assert "invalid value" in run(f"{command}0 --offline", tmp_path, f"{site.served}nothing/").stderr


def install_by(
    name: str, text: str, served: dict[str, Boxes], site: Site, folder: Path
) -> subprocess.CompletedProcess[str] | Called:
    """Write a file with this text, and run the command that the page has for it."""
    (folder / name).write_text(text)
    command = served[name].commands[0].replace(name, shlex.quote(str(folder / name)))
    return run(command, folder, f"{site.served}nothing/")


@pytest.mark.parametrize(
    ("name", "block"),
    [
        pytest.param("requirements.txt", "requirements", id="requirements-with-a-hash"),
        pytest.param("pylock.toml", "pylock", id="a-lock"),
    ],
)
def test_a_file_with_hashes_installs_the_wheel(
    name: str, block: str, served: dict[str, Boxes], site: Site, tmp_path: Path
) -> None:
    done = install_by(name, served[name].block(block), served, site, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "__init__.py").read_bytes() == OURS


def test_requirements_with_another_hash_install_nothing(served: dict[str, Boxes], site: Site, tmp_path: Path) -> None:
    text = served["requirements.txt"].block("requirements")
    wrong = re.sub("sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, text)
    assert install_by("requirements.txt", wrong, served, site, tmp_path).returncode != 0


def test_a_pyproject_locks_the_file_of_this_index(served: dict[str, Boxes], site: Site, tmp_path: Path) -> None:
    text = served["pyproject.toml"].block("pyproject")
    assert '"torch==2.11.*", ' in text
    named = '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.10"'
    (tmp_path / "pyproject.toml").write_text(text.replace('"torch==2.11.*", ', "").replace("[project]", named))
    done = run(f"uv lock --project {shlex.quote(str(tmp_path))}", tmp_path, f"{site.served}nothing/")
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256((site.root / "cu130" / CUDA).read_bytes()).hexdigest()
    assert f"sha256:{digest}" in (tmp_path / "uv.lock").read_text()


def test_a_dockerfile_and_poetry_name_the_folder_and_the_version(served: dict[str, Boxes], site: Site) -> None:
    dockerfile = served["Docker"].block("docker").splitlines()
    assert dockerfile[0] == "FROM python:3.12-slim"
    assert shlex.split(dockerfile[-1])[-2:] == [f"{site.served}cu130/".replace("'", "%27"), "demo==1.0+cu130"]
    source, add = served["poetry"].block("version").splitlines()
    assert shlex.split(source)[-1] == f"{site.served}cu130/".replace("'", "%27")
    assert shlex.split(add)[-3:] == ["--source", shlex.split(source)[-2], "demo==1.0+cu130"]


def test_poetry_itself_adds_the_file_of_this_index(served: dict[str, Boxes], site: Site, tmp_path: Path) -> None:
    lines = served["poetry"].block("version")
    named = '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.10"\n[tool.poetry]\npackage-mode = false\n'
    (tmp_path / "pyproject.toml").write_text(named)
    own = {"CACHE_DIR": str(tmp_path / "cache"), "VIRTUALENVS_IN_PROJECT": "true", "KEYRING_ENABLED": "false"}
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, tmp_path / ".venv"], check=True)
    environ = {
        "PATH": f"{of_poetry()}:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "POETRY_NO_INTERACTION": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # a cache whose content changes is filled again
        **{f"POETRY_{name}": value for name, value in own.items()},
    }
    done = subprocess.run(["sh", "-ec", lines], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    digest = hashlib.sha256((site.root / "cu130" / CUDA).read_bytes()).hexdigest()
    assert f"sha256:{digest}" in (tmp_path / "poetry.lock").read_text()
    (installed,) = tmp_path.glob(".venv/lib/python*/site-packages/demo/__init__.py")
    assert installed.read_bytes() == OURS


@functools.cache
def of_poetry() -> Path:
    """Return the folder in the user's cache with the program of poetry, installed there once."""

    def fill(folder: Path) -> None:
        subprocess.run([UV, "venv", "--quiet", "--relocatable", "--python", sys.executable, folder / "env"], check=True)
        words = [UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(folder / "env/bin/python")]
        subprocess.run([*words, f"poetry=={POETRY}"], check=True)

    return fill_once(cache_folder(os.environ) / "clients" / f"poetry-{POETRY}", fill, print) / "env" / "bin"


def test_the_lines_of_a_dockerfile_install_the_file(served: dict[str, Boxes], site: Site, tmp_path: Path) -> None:
    lines = served["Docker"].block("docker").splitlines()
    assert [line.split()[0] for line in lines] == ["FROM", "RUN", "RUN", "RUN"]
    first, torch, last = (line.removeprefix("RUN ") for line in lines[1:])
    assert first == "pip install --no-cache-dir uv"
    assert torch.endswith(
        "torch==2.11.0 --torch-backend=cu130"
    )  # gigabytes: its form is tried with uv's own line above
    python = make_system_python(tmp_path / "image")
    environ = {
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "UV_DEFAULT_INDEX": f"{site.served}nothing/",
    }
    shutil.copy(UV, python.parent)  # as the first line does, which needs the image's pip
    done = subprocess.run(
        ["/bin/sh", "-c", last], env=environ, capture_output=True, text=True, check=False
    )  # as Docker
    assert done.returncode == 0, done.stderr
    (installed,) = tmp_path.glob("image/**/demo/__init__.py")  # Debian: local/lib/python3.11/dist-packages
    assert installed.read_bytes() == OURS


def make_system_python(folder: Path) -> Path:
    """Make a Python that is no virtual environment, as in a container: this one's files, and packages of its own."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    theirs, own = Path(os.__file__).parent, folder / "lib" / name
    (own / "site-packages").mkdir(parents=True)
    for entry in theirs.iterdir():
        if entry.name not in {"site-packages", "EXTERNALLY-MANAGED"}:
            (own / entry.name).symlink_to(entry)
    program = folder / "bin" / name
    program.parent.mkdir()
    shutil.copy(Path(sys.executable).resolve(), program)
    (program.parent / "python3").symlink_to(name)
    return program


def test_a_container_is_for_linux_only(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=demo&system=windows-x86_64&installer=Docker")
    warning = page.locator("#answer .warning")
    playwright.expect(warning).to_have_text("A container runs Linux: select a Linux system to see its lines.")


# Copies each box of each installer, and reads what is in the clipboard then.
COPY = """async () => {
  const found = [];
  for (const { value } of [...document.querySelectorAll("#answer input[name=installer]")]) {
    document.querySelector(`#answer input[name=installer][value="${value}"]`).click();
    for (const box of document.querySelectorAll("#answer .command")) {
      const button = box.querySelector("button");
      const named = new Promise((done) => new MutationObserver(done).observe(button, { childList: true }));
      button.click();
      await named;
      const text = await navigator.clipboard.readText();
      found.push([value, button.textContent, text, box.querySelector("pre").textContent]);
    }
  }
  return found;
}"""


def test_what_is_copied_is_what_is_shown(watched: Watched, site: Site, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.goto(f"{site.served}#project=demo")
    page.locator("#result").wait_for()
    found = page.evaluate(COPY)
    assert {installer for installer, *_ in found} == {
        "pip", "uv", "poetry", "requirements.txt", "pyproject.toml", "pylock.toml", "Docker"}  # fmt: skip
    for installer, label, copied, shown in found:
        assert (label, copied) == ("Copied", shown), installer
