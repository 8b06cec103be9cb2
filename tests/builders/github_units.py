"""A release of a demo to GitHub: its files, its steps, and what everybody sees of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ci_tools.index.units import CORE, Published, Unit
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.request import Channel, Edition
from ci_tools.publish.targets.github_release import GitHubTarget
from tests.builders import releases
from tests.servers.github import HEAD, REPOSITORY, TOKEN, GitHub, refusal

PLAIN = "demo-1.0-py3-none-any.whl"
LOCAL = "demo-1.0+cu130-py3-none-any.whl"
BAD_GATEWAY = refusal(502, "Bad Gateway")


def unit(folder: Path, *names: str, name: str = CORE, channel: Channel = Channel.STABLE, commit: str = HEAD) -> Unit:
    """Return a unit of wheels in a folder; a local version is an accelerator's."""
    paths = [folder / file for file in names or (PLAIN, LOCAL)]
    items = tuple(releases.item(path, "cu130" if "+" in path.name else "") for path in paths)
    whole = releases.unit("demo", *items, edition=Edition(channel))
    return replace(whole, name=name, commit=commit, tag="v1.0", title="Demo 1")


def target(url: str, reporter: Silent | None = None, *, token: str = TOKEN) -> GitHubTarget:
    """Return the target, as its own publisher reaches it; without a token where it is empty."""
    environ = {"GH_TOKEN": token} if token else {}
    outside = Outside(environ=environ, cache=Path("nowhere"), reporter=reporter or Silent())
    return GitHubTarget(REPOSITORY, outside, base_url=url, pause=0.01, patience=30)


def publish(url: str, what: Unit, reporter: Silent | None = None) -> Sequence[Published]:
    """Take a unit through all four steps."""
    return releases.publish(target(url, reporter), what)


def shown(hub: GitHub) -> dict[str, str]:
    """Return what everybody sees of the release: each file's hash."""
    kept = hub.published("v1.0")
    assets = kept.assets if kept else []
    return {asset.name: hashlib.sha256(asset.content).hexdigest() for asset in assets if asset.state == "uploaded"}


def is_right(hub: GitHub, what: Unit) -> bool:
    """Whether the release has every file of the unit, and nothing of a draft is left."""
    seen = shown(hub)
    files = {item.name: item.sha256 for item in what.items}
    beside = {f"{item.name}.metadata" for item in what.items if item.made or item.name.endswith(".whl")}
    own = {*files, *beside, f"fatwheel-{what.name}.json"}
    return files.items() <= seen.items() and len(hub.releases) == 1 and seen.keys() == own
