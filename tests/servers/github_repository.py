"""The one repository of the tests' GitHub: its releases and tags, and what a test has asked for to go wrong."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.servers.github_answers import TOKEN, Answer, Fault, Unprocessable
from tests.servers.github_releases import ROUTES

# https://docs.github.com/en/repositories/releasing-projects-on-github/about-releases#storage-and-bandwidth-quotas
MAX_ASSETS, MAX_BYTES, MAX_CHARACTERS = 1000, 2 << 30, 125_000
NO_TAG = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock$|^[-/.]|[/.]$|^$")  # git check-ref-format
HEAD = "a" * 40  # the commit of the default branch


@dataclass(slots=True, eq=False)
class Stored:
    """One asset."""

    id: int
    name: str
    content: bytes
    state: str = "uploaded"


@dataclass(slots=True, eq=False)
class Kept:
    """One release."""

    id: int
    fields: dict[str, Any]
    assets: list[Stored] = field(default_factory=list)
    immutable: bool = False


class GitHub:
    """One repository's releases, and what a test has asked for to go wrong."""

    def __init__(self) -> None:
        self.url = ""
        self.tags: dict[str, str] = {}
        self.commits = {HEAD}
        self.releases: list[Kept] = []
        self.is_immutable = False  # what is published now stays as it is
        self.latest: Kept | None = None  # as somebody chose, for as long as it can be
        self.knows_digests = True
        self.tokens = {TOKEN}
        self.replaces_plus = False  # as GitHub did once
        self.attested: dict[str, int] = {}  # the sha256 of what is attested, and the repository that has run it
        self.bundles: dict[str, Any] = {}  # the attestations of some of them; of the others, they are as they should be
        self.is_public = False  # whether it answers without a token
        self.is_private = False  # as its document says
        self.left: int | None = None  # the requests that it still answers this hour; None: any number
        self.owner = {"login": "octo", "type": "User"}
        self.requests: list[str] = []
        self.problems: list[str] = []  # what the description forbids
        self.faults: dict[int, Fault | Answer | Callable[[], Fault | None]] = {}
        self.lock = threading.RLock()
        self.routes = [*ROUTES]
        self._numbers = iter(range(1, 1_000_000))

    def fail_at(self, number: int, how: Fault | Answer | Callable[[], Fault | None]) -> None:
        """Let the request of that number, from now on and from 1, go wrong; a function is called first and says how."""
        self.faults[len(self.requests) + number] = how

    def take_over(self, other: GitHub) -> None:
        """Have the releases and tags of another server, as if they had been published here."""
        self.releases, self.latest = copy.deepcopy((other.releases, other.latest))
        self.tags, self._numbers = dict(other.tags), copy.copy(other._numbers)
        for kept in self.releases:
            kept.fields["body"] = (kept.fields["body"] or "").replace(other.url, self.url) or kept.fields["body"]

    def published(self, tag: str) -> Kept | None:
        """Return the release of a tag that everybody sees."""
        return next((one for one in self.releases if not one.fields["draft"] and one.fields["tag_name"] == tag), None)

    def release(self, number: str) -> Kept | None:
        """Return a release by its number."""
        return next((one for one in self.releases if str(one.id) == number), None)

    def asset(self, number: str) -> tuple[Kept, Stored] | None:
        """Return an asset by its number, and its release."""
        pairs = ((one, asset) for one in self.releases for asset in one.assets)
        return next((pair for pair in pairs if str(pair[1].id) == number), None)

    def add(self, fields: Mapping[str, Any]) -> Kept:
        """Make a release; raise Unprocessable where GitHub would refuse it."""
        whole = {"name": None, "body": None, "draft": False, "prerelease": False, "target_commitish": "main", **fields}
        self._refuse(whole, None)
        how = whole.pop("make_latest", "true")
        kept = Kept(next(self._numbers), whole)
        self.releases.insert(0, kept)
        self._show(kept)
        self._choose_latest(kept, how)
        return kept

    def change(self, kept: Kept, fields: Mapping[str, Any]) -> None:
        """Change a release; raise Unprocessable where GitHub would refuse it."""
        whole = {**kept.fields, **fields}
        self._refuse(whole, kept)
        how = whole.pop("make_latest", "true" if kept.fields["draft"] else "")
        kept.fields = whole
        if not kept.immutable:
            self._show(kept)
        self._choose_latest(kept, how)

    def _choose_latest(self, kept: Kept, how: str) -> None:
        """Let a release be the latest, or another one; `legacy` takes the one with the highest version."""
        can_be = [one for one in self.releases if not one.fields["draft"] and not one.fields["prerelease"]]
        if kept in can_be and how == "true":
            self.latest = kept
        elif how in {"false", "legacy"} or self.latest not in can_be:
            others = [one for one in can_be if one is not kept or how == "legacy"]
            self.latest = max(others or can_be, key=_version, default=None)

    def _refuse(self, fields: Mapping[str, Any], kept: Kept | None) -> None:
        if kept and fields.get("make_latest") == "true" and (fields["draft"] or fields["prerelease"]):
            raise Unprocessable({"message": "Latest release cannot be draft or prerelease."})  # cli/cli#6853
        if len(fields["body"] or "") > MAX_CHARACTERS:
            raise Unprocessable({"message": f"body is too long (maximum is {MAX_CHARACTERS} characters)"})
        if NO_TAG.search(fields["tag_name"]):
            raise Unprocessable({"message": "tag_name is not a valid tag"})
        if fields["draft"]:
            return
        other = self.published(fields["tag_name"])
        if other and other is not kept:
            raise Unprocessable(*_invalid("already_exists", "tag_name"))
        known = self.commits | {"main"}
        if fields["tag_name"] not in self.tags and fields["target_commitish"] not in known:
            raise Unprocessable(*_invalid("invalid", "target_commitish"))

    def _show(self, kept: Kept) -> None:
        if not kept.fields["draft"]:
            commit = kept.fields["target_commitish"]
            self.tags.setdefault(kept.fields["tag_name"], HEAD if commit == "main" else commit)
            kept.immutable = self.is_immutable

    def upload(self, kept: Kept, name: str, size: int = 1) -> Stored:
        """Begin an asset; raise Unprocessable where GitHub would refuse it."""
        kept_as = self.renamed(name)
        if kept.immutable:
            raise Unprocessable({"message": "Cannot upload assets to an immutable release."})
        if len(kept.assets) >= MAX_ASSETS:
            raise Unprocessable({"message": f"Validation Failed: a release has at most {MAX_ASSETS} assets"})
        if not 0 < size < MAX_BYTES:
            raise Unprocessable(*_invalid("invalid", "size", "ReleaseAsset"))
        if any(asset.name == kept_as for asset in kept.assets):
            raise Unprocessable(*_invalid("already_exists", "name", "ReleaseAsset"))
        asset = Stored(next(self._numbers), kept_as, b"", "starter")
        kept.assets.append(asset)
        return asset

    def renamed(self, name: str) -> str:
        """Return the name that GitHub gives a file."""
        allowed = "A-Za-z0-9_.@" if self.replaces_plus else "A-Za-z0-9_.@+"
        return re.sub(rf"[^{allowed}-]+", ".", name).strip(".")


def _version(kept: Kept) -> tuple[int, ...]:
    """Return the figures of a tag."""
    return tuple(map(int, re.findall("[0-9]+", kept.fields["tag_name"])))


def _invalid(code: str, name: str, resource: str = "Release") -> tuple[dict[str, object]]:
    error = {"resource": resource, "code": code, "field": name}
    return ({"message": "Validation Failed", "errors": [error]},)
