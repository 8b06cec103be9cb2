"""Decides when a project's own tool is asked for the version, and what stands in for an answer that cannot be had."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from packaging.version import Version

from ci_tools.errors import FatwheelError
from ci_tools.machine.context import Outside
from ci_tools.model.edition import CANDIDATE
from ci_tools.model.evidence import PlatformEvidence
from ci_tools.model.request import GitSource
from ci_tools.model.versions import read_version
from ci_tools.observe.versions.ask import ask_version, is_setuptools
from ci_tools.source import git
from ci_tools.source.versions import OwnVersion

if TYPE_CHECKING:
    from ci_tools.source.project_file import ProjectFile

OF_RELEASE = "BUILD_VERSION"  # pytorch/test-infra sets it to the version in the tag of a release
VERSION_FILE = "version.txt"
# What reads that file by itself, or cannot do without the variable, in Python and in a shell.
NEEDS_RELEASE = re.compile(rf"{re.escape(VERSION_FILE)}|environ\[[\"']{OF_RELEASE}|\$\{{?{OF_RELEASE}\b")
ASKS_GIT = "git"  # among what an observed build asks


class Teller:
    """Finds the version of one project at the checked-out commit, and notes it as what the project was `told`."""

    def __init__(self, project: ProjectFile, outside: Outside, tag: str = "", told: OwnVersion | None = None) -> None:
        self.project = project
        self.outside = outside
        self.tag = tag
        self.project.told = told
        self.is_done = told is not None
        self.failure: FatwheelError | None = None  # why the tool did not tell, where a build may

    def ask(self) -> None:
        """Ask the tool that the project names; what the config says stands where it cannot tell."""
        project = self.project
        source = project.request.source
        self._tell_release_version()
        if project.request.version and not project.tree.commit:
            return
        if self.is_done or (isinstance(source, GitSource) and project.request.version):
            return
        try:
            project.told = ask_version(project, self.outside, self._tag())
        except FatwheelError as error:
            if not project.request.version and not is_setuptools(project):
                raise
            self.failure = error if not project.request.version else None

    def ask_again(self, platforms: Iterable[PlatformEvidence]) -> None:
        """Ask setup.py itself, if an observed build was seen to ask git for something, or none has told a version."""
        project = self.project
        shown = [one.shown for one in platforms]
        asked = {name for name, _ in chain.from_iterable(one.asked for one in shown)}
        if self.is_done or project.told or project.stated_version():
            return
        fields = next((one.metadata for one in shown if one.metadata), ())
        known = read_version(dict(line.partition(": ")[::2] for line in fields).get("Version", ""))
        self.is_done = True
        asks_git = ASKS_GIT in asked
        if (asks_git or (known and known.local)) and project.tree.checkout and not self.failure:
            self._ask_setup(known, asks_git=asks_git)
        elif self.failure and not self._is_in_file(known):
            raise self.failure
        elif is_setuptools(project) and not (known or project.request.version or project.own_version("")):
            try:
                project.told = ask_version(project, self.outside, self._tag(), is_told=True)
            except FatwheelError as error:  # `init` says it; a plan says why the build tells none
                project.untold = error.message

    def _is_in_file(self, version: Version | None) -> bool:
        """Whether a file of the project states the version that a build was seen to have."""
        return bool(version and self.project.place_of_version(str(version)))

    def _tell_release_version(self) -> None:
        """Tell observed builds the version of the release, where one takes it from the variable of test-infra.

        It is setup.py that does, or a script that runs before or after a build. The version is that of the tag. Where
        that cannot do without, that of another commit is in version.txt, as there.
        """
        project = self.project
        told = project.request.build
        words = (word for hook in (*told.before, *told.after) for word in hook.run.split())  # such as bash ci/before.sh
        text = "\n".join(map(project.tree.text, (project.path("setup.py"), *words)))
        if project.stated_version() or OF_RELEASE not in text:
            return
        if not project.told:
            project.told = self._read_tag() or (self._read_file() if NEEDS_RELEASE.search(text) else None)
            self.is_done = bool(project.told)
        version = project.told.public if project.told else project.request.version
        if version:
            project.request = replace(project.request, build=told._replace(env=((OF_RELEASE, version), *told.env)))

    def _read_file(self) -> OwnVersion | None:
        """Return the version in version.txt."""
        said = self.project.tree.text(self.project.path(VERSION_FILE)).strip()
        return OwnVersion(said, VERSION_FILE, said=f"{VERSION_FILE} says {said}") if read_version(said) else None

    def _ask_setup(self, known: Version | None, *, asks_git: bool) -> None:
        """Note what setup.py says where git answers, if that is not what it says where git does not.

        One that asks git nothing may read its files: then only a hidden repository changes what it says. The version of
        the config or of a file stands where it cannot tell.
        """
        try:
            told = ask_version(self.project, self.outside, self._tag(), is_told=True)
        except FatwheelError:
            if self.project.request.version or self._is_in_file(known) or not asks_git:
                return
            raise
        if told and (asks_git or told.hides_git) and (known is None or known.local or told.version != str(known)):
            is_in_file = bool(self.project.place_of_version(told.public))
            self.project.told = told._replace(is_of_tag=told.is_of_tag or is_in_file)

    def _tag(self) -> str:
        """Return the only tag of the commit that counts; "" if all do."""
        source = self.project.request.source
        if not isinstance(source, GitSource):
            return self.tag
        tags = git.remote_tags(source, source.url, self.outside.environ)
        return source.ref if source.ref in tags else ""

    def _read_tag(self) -> OwnVersion | None:
        """Return the version that the commit's release tag states by the config's template."""
        tree = self.project.tree
        here = tree.checkout.tags_here if tree.checkout else git.tags(tree.root, self.outside.environ, at_head=True)
        tags = {self.tag} if self.tag else here
        name = self.project.request.name
        pattern = re.escape(self.project.request.release.tag.format(name=name, version="\0")).replace("\0", "(.+?)")
        for tag in sorted(tags):
            found = re.fullmatch(f"{pattern}{CANDIDATE}", tag)
            if found and "(" in pattern and read_version(found[1]):
                return OwnVersion(
                    found[1], OF_RELEASE, tags=(tag,), said=f"{OF_RELEASE} is {found[1]}, of the tag {tag}"
                )
        return None
