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
from typing import TYPE_CHECKING

import pytest

from ci_tools.machine.storage import cache_folder, fill_once
from tests.builders.finder_site import CUDA, OURS, Site, Watched, commands
from tests.servers.uploads import UV

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="the finder is looked at through playwright")
pytestmark = pytest.mark.slow
POETRY = "2.5.1"


# -- the commands


@pytest.mark.parametrize("kind", ["folder", "server"])
@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("way", [pytest.param(0, id="by-version"), pytest.param(1, id="by-file")])
def test_a_command_installs_the_file(
    watched: Watched, site: Site, tmp_path: Path, kind: str, installer: str, way: int
) -> None:
    page = watched.goto(f"{site.address(kind)}#project=demo&installer={installer}")
    done = run(commands(page)[way], tmp_path, f"{site.served}nothing/")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "__init__.py").read_bytes() == OURS
    assert (tmp_path / "demo-1.0+cu130.dist-info").is_dir()


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_exact_command_takes_no_file_with_another_hash(
    watched: Watched, site: Site, tmp_path: Path, installer: str
) -> None:
    page = watched.goto(f"{site.served}#project=demo&installer={installer}")
    command = commands(page)[1]
    digest = hashlib.sha256((site.root / "cu130" / CUDA).read_bytes()).hexdigest()
    assert digest in command
    assert run(command.replace(digest, "0" * 64), tmp_path, f"{site.served}nothing/").returncode != 0


@pytest.mark.parametrize(("installer", "way"), [("pip", 1), ("uv", 0), ("uv", 1)])
def test_a_stranger_with_the_same_name_is_not_installed(
    watched: Watched, site: Site, tmp_path: Path, installer: str, way: int
) -> None:
    page = watched.goto(f"{site.served}#project=demo&installer={installer}")
    stranger = site.served.removesuffix("/").rpartition("/")[0] + "/stranger/"
    assert run(commands(page)[way], tmp_path, stranger).returncode == 0
    assert (tmp_path / "demo" / "__init__.py").read_bytes() == OURS


def run(command: str, target: Path, default_index: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, as a visitor would, with another folder to install to and another default index."""
    programs = Path(sys.executable).parent
    env = {
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
    words = f"{command} --target {shlex.quote(str(target))}" if command.startswith("uv pip") else command
    words += f" --python {shlex.quote(sys.executable)}" if command.startswith("uv") else ""
    return subprocess.run(["sh", "-c", words], env=env, capture_output=True, text=True, check=False, timeout=120)


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


@pytest.mark.parametrize("accelerator", ["cu130", "cu126", ""])
@pytest.mark.parametrize("installer", ["pip", "uv", "poetry", "requirements.txt", "pyproject.toml", "pylock.toml"])
def test_the_right_torch_comes_first(watched: Watched, site: Site, installer: str, accelerator: str) -> None:
    fragment = f"#project=kernels&torch=2.12&accelerator={accelerator}&python=3.12&installer={installer}"
    page = watched.goto(site.served + fragment)
    page.locator("#result").wait_for()
    first = str(page.locator("#answer pre").first.text_content())
    assert first.splitlines()[-1].endswith(f"uv pip install torch==2.12.1 --torch-backend={accelerator or 'cpu'}")


def test_uv_knows_the_builds_of_torch_that_it_is_told_of(watched: Watched, site: Site, tmp_path: Path) -> None:
    page = watched.goto(f"{site.served}#project=kernels&torch=2.12&accelerator=cu130&installer=uv")
    page.locator("#result").wait_for()
    command = str(page.locator("#answer [data-kind=torch] pre").text_content())
    assert "invalid value" not in run(f"{command} --offline", tmp_path, f"{site.served}nothing/").stderr
    assert "invalid value" in run(f"{command}0 --offline", tmp_path, f"{site.served}nothing/").stderr


def block(watched: Watched, site: Site, installer: str, kind: str) -> str:
    """Return a text that the finder shows for an installer."""
    page = watched.goto(f"{site.served}#project=demo&installer={installer}")
    page.locator("#result").wait_for()
    return str(page.locator(f"#answer [data-kind={kind}] pre").text_content())


def test_requirements_with_a_hash_install_the_file(watched: Watched, site: Site, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(block(watched, site, "requirements.txt", "requirements"))
    command = commands(watched.page)[0].replace("requirements.txt", shlex.quote(str(tmp_path / "requirements.txt")))
    done = run(command, tmp_path, f"{site.served}nothing/")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "__init__.py").read_bytes() == OURS


def test_requirements_with_another_hash_install_nothing(watched: Watched, site: Site, tmp_path: Path) -> None:
    text = block(watched, site, "requirements.txt", "requirements")
    (tmp_path / "requirements.txt").write_text(re.sub("sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, text))
    command = commands(watched.page)[0].replace("requirements.txt", shlex.quote(str(tmp_path / "requirements.txt")))
    assert run(command, tmp_path, f"{site.served}nothing/").returncode != 0


def test_a_lock_installs_the_file(watched: Watched, site: Site, tmp_path: Path) -> None:
    (tmp_path / "pylock.toml").write_text(block(watched, site, "pylock.toml", "pylock"))
    command = commands(watched.page)[0].replace("pylock.toml", shlex.quote(str(tmp_path / "pylock.toml")))
    done = run(command, tmp_path, f"{site.served}nothing/")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "__init__.py").read_bytes() == OURS


def test_a_pyproject_locks_the_file_of_this_index(watched: Watched, site: Site, tmp_path: Path) -> None:
    text = block(watched, site, "pyproject.toml", "pyproject")
    assert '"torch==2.11.*", ' in text
    named = '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.10"'
    (tmp_path / "pyproject.toml").write_text(text.replace('"torch==2.11.*", ', "").replace("[project]", named))
    done = run(f"uv lock --project {shlex.quote(str(tmp_path))}", tmp_path, f"{site.served}nothing/")
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256((site.root / "cu130" / CUDA).read_bytes()).hexdigest()
    assert f"sha256:{digest}" in (tmp_path / "uv.lock").read_text()


def test_a_dockerfile_and_poetry_name_the_folder_and_the_version(watched: Watched, site: Site) -> None:
    dockerfile = block(watched, site, "Docker", "docker").splitlines()
    assert dockerfile[0] == "FROM python:3.12-slim"
    assert shlex.split(dockerfile[-1])[-2:] == [f"{site.served}cu130/".replace("'", "%27"), "demo==1.0+cu130"]
    source, add = block(watched, site, "poetry", "version").splitlines()
    assert shlex.split(source)[-1] == f"{site.served}cu130/".replace("'", "%27")
    assert shlex.split(add)[-3:] == ["--source", shlex.split(source)[-2], "demo==1.0+cu130"]


def test_poetry_itself_adds_the_file_of_this_index(watched: Watched, site: Site, tmp_path: Path) -> None:
    lines = block(watched, site, "poetry", "version")
    named = '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.10"\n[tool.poetry]\npackage-mode = false\n'
    (tmp_path / "pyproject.toml").write_text(named)
    own = {"CACHE_DIR": str(tmp_path / "cache"), "VIRTUALENVS_IN_PROJECT": "true", "KEYRING_ENABLED": "false"}
    environ = {
        "PATH": f"{of_poetry()}:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "POETRY_NO_INTERACTION": "1",
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
        words = [UV, "pip", "install", "--quiet", "--python", str(folder / "env/bin/python"), f"poetry=={POETRY}"]
        subprocess.run(words, check=True)

    return fill_once(cache_folder(os.environ) / "clients" / f"poetry-{POETRY}", fill, print) / "env" / "bin"


def test_the_lines_of_a_dockerfile_install_the_file(watched: Watched, site: Site, tmp_path: Path) -> None:
    lines = block(watched, site, "Docker", "docker").splitlines()
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
    (installed,) = tmp_path.glob("image/lib/python*/site-packages/demo/__init__.py")
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


@pytest.mark.parametrize(
    "installer", ["pip", "uv", "poetry", "requirements.txt", "pyproject.toml", "pylock.toml", "Docker"]
)
def test_what_is_copied_is_what_is_shown(watched: Watched, site: Site, context: BrowserContext, installer: str) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.goto(f"{site.served}#project=demo&installer={installer}")
    page.locator("#result").wait_for()
    for box in page.locator("#answer .command").all():
        box.get_by_role("button").click()
        playwright.expect(box.get_by_role("button")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == box.locator("pre").text_content()
