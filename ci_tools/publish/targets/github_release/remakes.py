"""The wheels of a release, each with the runner and the Python on which `verify.yml` makes it again."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import parse_wheel_filename

from ci_tools import catalog
from ci_tools.errors import InputError
from ci_tools.formats.wheel import SBOM
from ci_tools.github.client import Hub, printable
from ci_tools.index.finder.axes import name_machine
from ci_tools.machine.http.client import open_session
from ci_tools.machine.http.policy import UNANSWERED
from ci_tools.machine.remote_wheel import remote_wheel
from ci_tools.model.request import HOSTED_MINUTES

if TYPE_CHECKING:
    import requests
    from github.GitReleaseAsset import GitReleaseAsset


DEFAULT = "3.12"  # of a pure wheel, which every Python makes
EXACT = re.compile(r"CPython (\d+\.\d+\.\d+)")
LEAST = 1 << 24  # bytes of a wheel that are fetched to read its SBOM


class RemakeRow(NamedTuple):
    """A wheel of a release: its address, and where it is made again."""

    wheel: str
    address: str
    runner: str
    python: str
    minutes: int = HOSTED_MINUTES


def list_remakes(hub: Hub, tag: str) -> list[RemakeRow]:
    """Return the wheels of the release of a tag, or of the last stable one, that Fatwheel made.

    Others are reported. Raises InputError if there is no such release.
    """
    with hub.opened(anonymous=True) as repository:
        releases = hub.ask(lambda _: list(repository.get_releases()))
    stable = (one for one in releases if not one.draft and (one.tag_name == tag if tag else not one.prerelease))
    release = next((one for one in stable if any(asset.name.endswith(".whl") for asset in one.assets)), None)
    if release is None:
        what = f"no release {printable(tag)} with wheels" if tag else "none yet"
        raise InputError(f"{hub.repository} has {what}", hint="`fatwheel releases list` shows what is there")
    with open_session() as session:
        rows = [(asset.name, _place(session, asset)) for asset in release.assets if asset.name.endswith(".whl")]
    for name in (name for name, row in rows if row is None):
        why = "has no SBOM of Fatwheel's, or is for no runner of GitHub's"
        hub.outside.reporter.say(f"left out: {printable(name)} {why}")
    return [row for _, row in rows if row]


def _place(session: requests.Session, asset: GitReleaseAsset) -> RemakeRow | None:
    runners = {(one.os, one.machine): one.runner for one in catalog.load().platforms.values() if not one.accelerator}
    tags = parse_wheel_filename(asset.name)[3]
    runner = next((runners[one] for tag in tags for one in name_machine(tag.platform) if one in runners), "")
    try:
        with remote_wheel(session, asset.browser_download_url, LEAST) as wheel:
            info = next(one for one in wheel.archive.infolist() if one.filename.endswith(f".dist-info/{SBOM}"))
            tools = json.loads(wheel.read(info)).get("components", ())
            shown = (EXACT.fullmatch(f"{one.get('name')} {one.get('version')}") for one in tools)
            python = next((found[1] for found in shown if found), DEFAULT)
    except (InputError, StopIteration, *UNANSWERED):  # the SBOM is missing, or cannot be read
        return None
    return RemakeRow(asset.name, asset.browser_download_url, runner, python) if runner else None
