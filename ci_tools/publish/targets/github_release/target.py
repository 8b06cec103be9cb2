"""GitHub Releases: files are uploaded to an invisible draft, checked by hash, and published in one step.

If the release of the tag is published already (the core's, or one that a person made by hand), files are uploaded to it
directly during activation, each visible once it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from github.GithubException import GithubException, UnknownObjectException
from packaging.utils import canonicalize_name

from ci_tools.errors import FatwheelError, InputError, MachineError, Problem, RejectedInput
from ci_tools.github.client import PATIENCE, Busy, Hub, usual_pause
from ci_tools.index.of_releases import listing_name, read_listing
from ci_tools.index.units import CORE, Change, Item, Published, Unit
from ci_tools.machine.context import Outside
from ci_tools.model.names import COMMIT
from ci_tools.publish.notes import notes
from ci_tools.publish.targets.github_release.assets import (
    MAX_ASSETS,
    Sent,
    assets_of,
    find_difference,
    list_uploaded,
    read_assets,
    read_list,
    refuse_by_rules,
    refuse_more,
    select_assets,
    verify_assets,
)
from ci_tools.publish.targets.github_release.releases import (
    FIRST,
    FULL,
    MARK,
    Seen,
    commit_of_tag,
    exists,
    is_announced,
    is_early,
    make_latest,
    makes_stable,
    mark_of,
    slug_of,
)
from ci_tools.publish.targets.github_release.uploads import has_fault, upload_missing

if TYPE_CHECKING:
    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset
    from github.Repository import Repository


WITHOUT_METADATA = "no .metadata is beside the wheels, so installers download a wheel to read what it requires"


@dataclass(frozen=True, slots=True)
class GitHubTarget:
    """The releases of one repository; `indexes` are the addresses to install from, for the notes."""

    order: ClassVar[int] = 2
    stages: ClassVar[bool] = True

    repository: str  # OWNER/REPO
    outside: Outside = field(repr=False)
    base_url: str = field(default="", kw_only=True)
    indexes: tuple[str, ...] = field(default=(), kw_only=True)
    pause: float = field(default_factory=usual_pause, kw_only=True)  # seconds; also before the second try
    patience: float = field(default=PATIENCE, kw_only=True)  # seconds that one request may wait in total

    @property
    def address(self) -> str:
        """The target in the user's notation."""
        return f"github:{self.repository}"

    @property
    def hub(self) -> Hub:
        """The client of the repository."""
        return Hub(self.repository, self.outside, self.base_url, self.pause, self.patience)

    def locate(self, item: Item, unit: Unit) -> str:
        """Return the address of an asset, as GitHub writes it."""
        server = self.outside.environ.get("GITHUB_SERVER_URL") or "https://github.com"
        return f"{server}/{self.repository}/releases/download/{quote(unit.tag)}/{quote(item.name)}"

    def explain_private(self, unit: Unit) -> str:  # noqa: ARG002 - see Target
        """Return a sentence if the repository is private: its releases are too."""
        with self.hub.opened(anonymous=True) as repository:
            return f"{self.repository} is a private repository" if repository.private else ""

    # -- the four steps

    def check(self, unit: Unit) -> Sequence[Change]:
        """Return what publishing would change here; write nothing.

        Raises InputError if GitHub's rules forbid the unit, if its release holds one of the files with other bytes or
        accepts no more files, or if its tag is at another commit; MachineError if GitHub does not answer.
        """
        refuse_by_rules(unit)
        with self.hub.opened() as repository:
            seen = self._find_releases(repository, unit)
            if unit.added and not seen.published:
                raise self._absent(unit)
            files, there = self._refuse_change(unit, seen.published)
            self._refuse_commit(repository, unit, seen.published)
            base = f"{repository.html_url}/releases"
        if len(files) < len(assets_of(unit)):
            self.outside.reporter.say(f"{unit.tag} would have more than {MAX_ASSETS:,} files: {WITHOUT_METADATA}")
        changes = [
            Change("keep" if sent.name in there else "add", f"{base}/download/{quote(unit.tag)}/{quote(sent.name)}")
            for sent in files
        ]
        is_told = seen.published and is_announced(seen.published, unit)
        page = Change("keep" if is_told else "update" if seen.published else "add", f"{base}/tag/{quote(unit.tag)}")
        gone = [Change("remove", one.html_url, "a draft that was never finished") for one in (*seen.spare, *seen.other)]
        return [page._replace(detail=unit.title), *changes, *gone]

    def holds(self, unit: Unit) -> frozenset[str]:
        """Return the wheels and sdists of the published release of the unit's tag."""
        with self.hub.opened(anonymous=True) as repository:
            published = self._find_releases(repository, unit).published
            there = read_assets(self.hub, published) if published else {}
        return frozenset(name for name in there if name.endswith((".whl", ".tar.gz")))

    def foresee(self, unit: Unit) -> None:
        """Raise the errors of `check`, without the list of the unit's files, which is not complete yet."""
        refuse_by_rules(unit)
        with self.hub.opened() as repository:
            published = self._find_releases(repository, unit).published
            if published is None:
                self._refuse_commit(repository, unit, published)
                return
            there = list_uploaded(read_assets(self.hub, published))
            self._refuse_others(unit, there, [sent for sent in assets_of(unit) if not sent.is_list])

    def stage(self, unit: Unit) -> None:
        """Upload every file to a draft; do nothing if the release is already published: it cannot hide files.

        Raises InputError, Rejected or MachineError as `check` does.
        """
        refuse_by_rules(unit)
        with self.hub.opened() as repository:
            seen = self._find_releases(repository, unit)
            commit = self._refuse_commit(repository, unit, seen.published)
            if seen.published or unit.name != CORE:
                self._refuse_change(unit, seen.published)
                return
            draft = seen.draft or self.hub.ask(lambda _: self._new_draft(repository, unit, commit))
            upload_missing(self.hub, draft, unit)

    def verify(self, unit: Unit) -> None:
        """Read back the hashes of all assets; raise Rejected if one is not the unit's, or a draft lacks a file."""
        with self.hub.opened() as repository:
            seen = self._find_releases(repository, unit)
            release = seen.published or seen.draft
            if release is None and unit.name == CORE:
                raise self._absent(unit)
            if release is not None:
                verify_assets(self.hub, release, unit, whole=seen.published is None)

    def switch(self, unit: Unit) -> Sequence[Published]:
        """Publish the unit, and return its files here; files that are already public stay unchanged."""
        with self.hub.opened() as repository:
            seen = self._find_releases(repository, unit)
            new = self._publish(seen.draft, unit) if seen.draft and not seen.published else None
            release = new or self._find_releases(repository, unit).published
            if release is None:
                raise self._absent(unit)
            added = frozenset(item.name for item in unit.items) if new else self._complete(release, unit)
            verify_assets(self.hub, release, unit, whole=True)
            seen = self._find_releases(repository, unit)
            self._remove([*seen.spare, *seen.other])  # useless now: a tag has one release
            there = read_assets(self.hub, release)
        items = sorted(unit.items, key=lambda item: item.name)
        return [Published(item.name, there[item.name].browser_download_url, item.name in added) for item in items]

    def _absent(self, unit: Unit) -> FatwheelError:
        """Return the error for a missing release that was staged before."""
        if unit.name == CORE:
            msg = f"the draft of {unit.tag} is gone from {self.repository}"
            return MachineError(msg, hint="run the same command again: it creates a new draft")
        msg = f"{unit.tag} of {self.repository} is not published yet, and {unit.name} is added to it"
        hint = "publish the release itself first, without --torch" if unit.added else FIRST
        return InputError(msg, hint=hint)

    # -- the state on GitHub

    def _find_releases(self, repository: Repository, unit: Unit) -> Seen:
        """Return the releases of the unit's tag."""
        releases = self.hub.ask(lambda _: list(repository.get_releases()))
        # The oldest first, so that every publisher takes the same draft.
        of_tag = sorted((one for one in releases if one.tag_name == unit.tag), key=lambda one: one.id)
        published = next((one for one in of_tag if not one.draft), None)
        drafts = [
            one for one in of_tag if one.draft and (mark := MARK.search(one.body or "")) and mark[1] == slug_of(unit)
        ]
        own = [one for one in drafts if mark_of(unit) in one.body]
        return Seen(
            published,
            draft=own[0] if own and not published else None,
            spare=tuple(own if published else own[1:]),
            other=tuple(one for one in drafts if one not in own),
        )

    def _refuse_change(
        self, unit: Unit, published: GitRelease | None
    ) -> tuple[Sequence[Sent], dict[str, GitReleaseAsset]]:
        """Return the files for a unit's release, and the complete assets of a published release.

        Raises InputError if an asset has other bytes than the unit's file, or if the release cannot take the missing
        files.
        """
        if published is None:
            return select_assets(unit, ()), {}
        assets = read_assets(self.hub, published)
        files = select_assets(unit, assets)
        there = list_uploaded(assets)
        self._refuse_others(unit, there, files)
        refuse_more(unit, published, there, [sent for sent in files if sent.name not in there])
        return files, there

    def _refuse_others(self, unit: Unit, there: Mapping[str, GitReleaseAsset], files: Iterable[Sent]) -> None:
        """Raise InputError if a published release is another project's, or holds one of the files with other bytes."""
        owner = self._read_owner(there.get(listing_name(unit.name)))
        if owner and owner != canonicalize_name(unit.project):
            msg = f"{unit.tag} of {self.repository} is a release of {owner}, not of {unit.project}"
            hint = "give each project tags of its own by `release: tag`"
            raise InputError(msg, hint=hint, page="how-to/release-a-monorepo.md")
        differences = [find_difference(self.hub, there.get(sent.name), sent, whole=False) for sent in files]
        if problems := [Problem("", what) for what in differences if what]:
            problems = [Problem(unit.tag, f"is published in {self.repository} with other bytes"), *problems]
            raise RejectedInput(problems, hint="a published file never changes: raise the version")

    def _read_owner(self, asset: GitReleaseAsset | None) -> str:
        """Return the project of a release by the list among its assets; "" if that is damaged, which its hash tells."""
        with suppress(ValueError):
            return read_listing(read_list(self.hub, asset), "").project if asset else ""
        return ""

    def _refuse_commit(self, repository: Repository, unit: Unit, published: GitRelease | None) -> str:
        """Return the commit to tag, or "" if the tag exists; raise InputError if the tag points elsewhere."""
        if (published and not unit.added) or unit.is_foreign or not COMMIT.fullmatch(unit.commit):
            return ""  # a commit of another repository cannot be tagged in this one
        tagged = self.hub.ask(lambda _: commit_of_tag(repository, unit.tag))  # a draft has no git tag yet
        known = self.hub.ask(lambda _: exists(lambda: repository.get_git_commit(unit.commit)))
        if tagged and known and tagged != unit.commit:
            msg = f"the tag {unit.tag} of {self.repository} is at {tagged[:12]}, the files are of {unit.commit[:12]}"
            raise InputError(msg, hint="build the tagged commit, or raise the version")
        if not tagged and not known:
            msg = f"{self.repository} has neither the tag {unit.tag} nor the commit {unit.commit[:12]}"
            raise InputError(msg, hint=f"push the commit, or the tag {unit.tag}")
        return "" if tagged or published else unit.commit

    # -- changes on GitHub

    def _new_draft(self, repository: Repository, unit: Unit, commit: str) -> GitRelease:
        """Return our draft, creating it if needed; if two were created at once, the older one."""
        seen = self._find_releases(repository, unit)
        if not seen.draft and not seen.published:
            target: dict[str, Any] = {"target_commitish": commit} if commit else {}
            repository.create_git_release(
                unit.tag,
                unit.title or unit.tag,
                self._body(repository, unit),
                draft=True,
                prerelease=is_early(unit),
                **target,
            )
            seen = self._find_releases(repository, unit)
        if seen.published:
            msg = f"{unit.tag} of {self.repository} was published by another publisher in the meantime"
            raise MachineError(msg, hint="run the same command again: it checks whether the release has the same files")
        if not seen.draft:
            raise Busy("GitHub does not list the new draft yet")
        self._remove(seen.spare)
        return seen.draft

    def _body(self, repository: Repository, unit: Unit) -> str:
        """Return the notes of a release, with the comment that identifies it as ours."""
        links = f"{repository.html_url}/releases/expanded_assets/{quote(unit.tag)}"
        room = FULL - len(mark_of(unit)) - 2
        return f"{notes(unit, self.indexes, links=links, most=room)}\n{mark_of(unit)}\n"

    def _publish(self, draft: GitRelease, unit: Unit) -> GitRelease | None:
        """Publish our draft and return it, or None if another release of the tag was published first."""
        verify_assets(self.hub, draft, unit, whole=True)

        def once(_: bool) -> GitRelease | None:  # noqa: FBT001 - Hub.ask calls it so
            try:
                return draft.update_release(
                    draft.name, draft.body, draft=False, prerelease=is_early(unit), make_latest=make_latest(unit)
                )
            except UnknownObjectException:
                return None
            except GithubException as error:
                if has_fault(error, "already_exists", "tag_name"):
                    return None
                raise

        return self.hub.ask(once)

    def _complete(self, release: GitRelease, unit: Unit) -> frozenset[str]:
        """Upload the unit's files that a published release lacks, and add the unit to its notes."""
        self._refuse_change(unit, release)
        added = upload_missing(self.hub, release, unit)
        if not is_announced(release, unit):
            self.hub.ask(lambda _: self._announce(release, unit))
        return added

    def _announce(self, release: GitRelease, unit: Unit) -> None:
        """Add a unit to the notes of a published release; if the unit is stable, make the release stable too."""
        mark, body = mark_of(unit), release.body or ""
        room = FULL - len(body) - len(mark) - 4
        more = f"{body}\n\n{notes(unit, self.indexes, most=room)}\n{mark}\n" if mark not in body and room > 0 else body
        promotes = makes_stable(release, unit)
        latest: dict[str, Any] = {"make_latest": make_latest(unit)} if promotes else {}
        name = release.name or unit.title or unit.tag
        release.update_release(name, more, prerelease=release.prerelease and not promotes, **latest)

    def _remove(self, drafts: Iterable[GitRelease]) -> None:
        for draft in drafts:
            self.hub.ask(lambda _, draft=draft: exists(draft.delete_release))  # type: ignore[misc]
