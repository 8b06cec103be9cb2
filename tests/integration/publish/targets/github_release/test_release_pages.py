"""GitHub Releases: what an index over them lists, and what pip installs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.github.client import Hub
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.github_release.release_pages import read_listings, write_pages
from tests.builders import wheels
from tests.builders.github_units import LOCAL, PLAIN, target
from tests.builders.installers import run_client
from tests.servers.github import REPOSITORY, TOKEN, GitHub
from tests.servers.package_index import over_http

pytestmark = pytest.mark.slow


def test_pip_installs_from_an_index_over_the_release_with_required_hashes(
    released: GitHub, made: Path, tmp_path: Path
) -> None:
    outside = Outside(environ={"GH_TOKEN": TOKEN, "GITHUB_API_URL": released.url}, cache=tmp_path, reporter=Silent())
    write_pages([Hub(REPOSITORY, outside)], ["demo"], tmp_path / "site/simple", outside)
    with over_http(tmp_path / "site") as address:
        for folder, file in (("cu130", LOCAL), ("cpu", PLAIN)):
            install(tmp_path / folder, made / file, "--index-url", f"{address}/simple/{folder}/")
    page = (tmp_path / "site/simple/cpu/demo/index.html").read_text()
    assert 'data-requires-python="&gt;=3.9"' in page
    assert LOCAL not in page


def test_pip_installs_by_the_command_of_the_notes(released: GitHub, made: Path, tmp_path: Path) -> None:
    body = released.releases[0].fields["body"]
    command = next(line for line in body.splitlines() if line.startswith("pip install"))
    assert command.startswith('pip install "demo==1.0+cu130" --find-links ')
    install(tmp_path / "there", made / LOCAL, "--no-index", *command.split()[3:])


def install(where: Path, wheel: Path, *options: str) -> None:
    """Install a wheel by pip, which is told its hash."""
    wanted = where.with_suffix(".txt")
    version = wheel.name.split("-")[1]
    wanted.write_text(f"demo=={version} --hash=sha256:{wheels.hexdigest(wheel)}\n")
    pip = ["--isolated", "install", "--no-cache-dir", "--require-hashes"]
    done = run_client("pip", [*pip, *options, "--target", where, "-r", wanted], os.environ)
    assert done.returncode == 0, done.stderr
    assert (where / f"demo-{version}.dist-info" / "METADATA").is_file()


def test_a_file_that_was_taken_out_of_its_release_is_in_no_index(released: GitHub) -> None:
    released.releases[0].assets = [asset for asset in released.releases[0].assets if asset.name != LOCAL]
    ((channel, listing),) = read_listings(target(released.url).hub)
    assert (channel, [file.name for file in listing.files]) == ("", [PLAIN])


@pytest.mark.parametrize("content", [b"", b"[]", b'{"files": [{}]}', b'{"files": [1]}', b"[" * 100_000])
def test_a_damaged_list_is_said_and_not_shown(released: GitHub, content: bytes) -> None:
    released.releases[0].assets[-1].content = content
    with pytest.raises(MachineError, match=r"fatwheel-core\.json of v1\.0 in octo/demo is damaged"):
        read_listings(target(released.url).hub)
