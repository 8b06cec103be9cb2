"""The notice at the top of a retracted release's notes: the reason for people, the earlier state to restore.

It stands between two comments. Users may edit the notes below it: removing the notice keeps their edits.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from ci_tools.errors import RejectedInput
from ci_tools.formats import json_file, markdown

MAX_CHARACTERS = 4_000  # of a notice; our notes leave room for it
TITLE = "[YANKED] "  # before the release's title: the word of changelogs (keepachangelog.com) and PyPI
END = "<!-- /fatwheel retracted -->"
# GitHub's editor ends every line with CR LF.
FOUND = re.compile(rf"\A<!-- fatwheel retracted (\{{.*?\}}) -->.*?{END}(\r?\n){{0,2}}", re.DOTALL)
TEXT = """> [!CAUTION]
> **This release was retracted:** {reason}
>
> Its files stay for those who ask for this very version. Everybody else, please use another one.
"""


class Notice(NamedTuple):
    """The reason for a retraction, and the release's earlier state."""

    reason: str
    title: str
    prerelease: bool
    latest: bool


def notice_of(body: str) -> Notice | None:
    """Return the notice at the beginning of a release's notes, or None."""
    found = FOUND.match(body)
    try:
        notice = json_file.structure_bytes(found[1], Notice, "notice") if found else None
    except RejectedInput:  # somebody else wrote it
        return None
    return notice and notice._replace(reason=markdown.one_line(notice.reason))


def add_notice(body: str, notice: Notice) -> str:
    """Return notes with a notice at the top."""
    # Escaped, so that no "--" ends the comment and nothing in it is markup.
    known = json.dumps(notice._asdict()).replace("-", "\\u002d").replace("<", "\\u003c").replace(">", "\\u003e")
    text = TEXT.format(reason=markdown.text(notice.reason))
    return f"<!-- fatwheel retracted {known} -->\n{text}\n{END}\n\n{body}"


def remove_notice(body: str) -> str:
    """Return notes without the notice, with every other byte unchanged."""
    return FOUND.sub("", body) if notice_of(body) else body  # a comment of that form may be somebody's


def title_of(title: str) -> str:
    """Return the title of a retracted release."""
    return title if title.startswith(TITLE) else f"{TITLE}{title}"
