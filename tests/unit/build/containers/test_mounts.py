"""What a container sees of this machine: folders, the user's package index, and no other variable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.build.containers.mounts import Mount, list_cache, list_source, read_settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are for Linux")
BARE = {"PIP_CONFIG_FILE": "/dev/null"}  # pip reads no file of this machine's


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
