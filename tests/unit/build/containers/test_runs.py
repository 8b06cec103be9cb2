"""The command line of a container, and what is left after it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.build.containers.engines import Engine, EngineImage
from ci_tools.build.containers.runs import ContainerIndex, Mount, Runs, list_cache, list_source, read_settings
from tests.builders.engines import write_engine
from tests.builders.sources import world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are for Linux")
# It notes what it is asked, lists one container that a killed run left, and becomes the command after the image.
NOTES = (
    'echo "$*" >>"$NOTES"',
    '[ "$1" = ps ] && echo fatwheel-left',
    '[ "$1" = run ] || exit 0',
    'echo "$PIP_INDEX_URL"',
    "exit 7",
)
BARE = {"PIP_CONFIG_FILE": "/dev/null"}  # pip reads no file of this machine's


def _runs(folder: Path, *lines: str, is_rootless: bool = False, **variables: str) -> Runs:
    program = write_engine(folder / "podman", *lines)
    environ = {"PATH": "/usr/bin:/bin", "NOTES": str(folder / "notes"), **variables}
    settings = ContainerIndex({"PIP_INDEX_URL": "https://user:word@index.example"}, {"PIP_CERT": "/ca.pem"}, ())
    return Runs(
        engine=Engine("podman", str(program), is_rootless),
        image=EngineImage("c0ffee", "a/b:1"),
        settings=settings,
        outside=world(folder, **environ),
    )


def test_a_command_line_has_the_users_settings_by_name_only(tmp_path: Path) -> None:
    words = _runs(tmp_path).spell("name", ["sh", "-c", "true"], [Mount(Path("/a"), "/b")], {"HOME": "/home"})
    assert not any("word@" in word for word in words)
    pairs = list(itertools.pairwise(words))
    for pair in (("--env", "PIP_INDEX_URL"), ("--env", "PIP_CERT=/ca.pem"), ("--env", "HOME=/home")):
        assert pair in pairs
    assert {"--rm", "--interactive", "--pull=never", "type=bind,source=/a,target=/b,readonly"} <= {*words}
    assert words[-5:] == ["--entrypoint", "sh", "c0ffee", "-c", "true"]
    assert not any(word.startswith("--network") for word in words)


@pytest.mark.parametrize(("is_rootless", "user"), [(True, "0:0"), (False, f"{os.getuid()}:{os.getgid()}")])
def test_files_are_the_callers(tmp_path: Path, user: str, *, is_rootless: bool) -> None:
    words = _runs(tmp_path, is_rootless=is_rootless).spell("name", ["true"], (), {})
    assert words[words.index("--user") + 1] == user


def test_a_run_passes_values_removes_its_container_and_those_of_killed_runs(tmp_path: Path) -> None:
    runs = _runs(tmp_path, *NOTES)
    log = tmp_path / "log"
    ended = runs.run(["true"], (), log=log, minutes=1)
    assert ended.status == 7
    assert log.read_text(encoding="utf-8").splitlines()[-1] == "https://user:word@index.example"
    asked = (tmp_path / "notes").read_text(encoding="utf-8").splitlines()
    assert [line.split()[0] for line in asked] == ["ps", "rm", "run", "rm"]
    assert asked[1] == "rm --force fatwheel-left"
    name = asked[3].removeprefix("rm --force ")
    assert f"--name {name} " in asked[2]
    assert f"label=fatwheel={os.getuid()}" in asked[0]


def test_a_command_that_takes_too_long_is_ended_with_its_container(tmp_path: Path) -> None:
    runs = _runs(tmp_path, 'echo "$1" >>"$NOTES"', '[ "$1" = run ] && exec sleep 60', "exit 0")
    ended = replace(runs).run(["true"], (), log=tmp_path / "log", minutes=0)
    assert ended.timed_out
    assert (tmp_path / "notes").read_text(encoding="utf-8").split()[-1] == "rm"


@pytest.mark.parametrize(
    ("mount", "spelt"),
    [
        (Mount(Path("/a"), "/b"), "type=bind,source=/a,target=/b,readonly"),
        (Mount(Path("/a"), "/b", is_writable=True), "type=bind,source=/a,target=/b"),
        (Mount(Path("/a,b"), "/c"), 'type=bind,"source=/a,b",target=/c,readonly'),
    ],
)
def test_a_mount_is_read_only_unless_it_says_otherwise(mount: Mount, spelt: str) -> None:
    assert mount.spell() == spelt


def test_a_build_gets_the_settings_of_the_index_and_nothing_else() -> None:
    settings = read_settings(
        {
            **BARE,
            "PIP_INDEX_URL": "https://user:word@index.example/simple",
            "https_proxy": "http://proxy.example:3128",
            "GITHUB_TOKEN": "secret",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "CFLAGS": "-O0",
            "HOME": "/home/user",
        }
    )
    assert dict(settings.passed) == {
        "PIP_INDEX_URL": "https://user:word@index.example/simple",
        "https_proxy": "http://proxy.example:3128",
    }
    assert not settings.told
    assert not settings.mounts


def test_certificates_are_mounted_and_renamed(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("", encoding="utf-8")
    settings = read_settings({**BARE, "PIP_CERT": str(tmp_path / "ca.pem"), "SSL_CERT_FILE": "/nowhere/ca.pem"})
    place = "/fatwheel/settings/pip_cert/ca.pem"
    assert settings.told == {"PIP_CERT": place}
    assert settings.mounts == (Mount(tmp_path / "ca.pem", place),)


def test_folders_where_pip_looks_are_seen_at_their_own_paths(tmp_path: Path) -> None:
    wheels, index = tmp_path / "wheels", tmp_path / "index"
    (index / "simple").mkdir(parents=True)
    wheels.mkdir()
    asked = {"PIP_FIND_LINKS": f"{wheels} https://a.example", "PIP_EXTRA_INDEX_URL": (index / "simple").as_uri()}
    assert read_settings({**BARE, **asked}).mounts == (Mount(index, str(index)), Mount(wheels, str(wheels)))


def test_the_checkout_around_a_config_is_mounted_once(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "package").mkdir()
    found = list_source(tmp_path / "package" / "fatwheel.yml", tmp_path, tmp_path / "cache", {"PATH": "/usr/bin"})
    assert found == (Mount(tmp_path, str(tmp_path)),)


def test_a_worktree_brings_the_repository_that_it_belongs_to(tmp_path: Path) -> None:
    main, other = tmp_path / "main", tmp_path / "other"
    main.mkdir()
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-mx"]
    for words in (["init", "--quiet"], commit, ["worktree", "add", "-q", other]):
        subprocess.run(["git", *words], cwd=main, check=True)
    found = list_source(other / "fatwheel.yml", other, tmp_path / "cache", {"PATH": "/usr/bin"})
    assert [mount.source for mount in found] == [other, main / ".git"]


def test_a_source_outside_of_the_configs_folder_is_mounted_too(tmp_path: Path) -> None:
    config, source = tmp_path / "recipes" / "fatwheel.yml", tmp_path / "source"
    source.mkdir()
    config.parent.mkdir()
    found = list_source(config, source, tmp_path / "cache", {"PATH": "/usr/bin"})
    assert [mount.source for mount in found] == [config.parent, source]
    assert [mount.source for mount in list_source(config, source, source, {"PATH": "/usr/bin"})] == [config.parent]


def test_observations_of_this_machine_stay_out_of_a_container(tmp_path: Path) -> None:
    whole, *apart = list_cache(tmp_path)
    assert whole == Mount(tmp_path, "/fatwheel/cache", is_writable=True)
    assert Mount(tmp_path / "containers" / "observations", "/fatwheel/cache/observations", is_writable=True) in apart
    assert all(mount.source.is_dir() for mount in apart)
