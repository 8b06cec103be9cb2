"""Asks what somebody may do in a repository."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from github.GithubException import UnknownObjectException

if TYPE_CHECKING:
    from github.Repository import Repository

    from ci_tools.github.client import Hub

WRITES = frozenset({"admin", "write"})  # one of these, too, for `maintain` and for an organisation's own roles
LOGIN = re.compile(r"[A-Za-z0-9_-]{1,100}")  # of a person; an app such as dependabot[bot] has no such permission


def ask_permission(hub: Hub, login: str) -> str:
    """Return what a person may do in a repository: "admin", "write", "read" or "none".

    What counts is the answer of now: an event's `author_association` says MEMBER of who may only read, and CONTRIBUTOR
    of a member that is private. Raises FatwheelError if GitHub does not say it. It takes `metadata: read`, which a
    workflow's token always has (Metadata, in "Permissions required for GitHub Apps").
    https://docs.github.com/en/rest/collaborators/collaborators#get-repository-permissions-for-a-user
    https://docs.github.com/en/rest/authentication/permissions-required-for-github-apps
    """
    if not LOGIN.fullmatch(login):
        return "none"

    def call(repository: Repository) -> str:
        try:
            return str(repository.get_collaborator_permission(login))
        except UnknownObjectException:  # nobody of that name
            return "none"

    with hub.opened() as repository:
        return hub.ask(lambda _: call(repository))
