"""Shows addresses without what may be a secret in them: user, password, tokens of the path, query and fragment.

Whatever Fatwheel prints passes `redact`: errors, steps, tables, logs of commands, and the output of git, pip and others
that is quoted in them. So it has to find addresses within any text.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

WORD = re.compile(r"[^\s'\"<>`]+")
SIGNS = ("//", "@", "?", "#", "%", "…")  # a text without any has no secret
START = re.compile(r"//|(?<=[a-z]:)/(?!/)", re.IGNORECASE)  # one slash where a Path was made of an address
SCP = re.compile(r"(?P<user>[^/@=(]+)@(?!sha\d+:)[\w.-]+:(?!//)")  # git@host:path, but no digest of an image
ENCODED = re.compile(r"%2F%2F|%252F", re.IGNORECASE)
SHOWN = "%:/?#[]@!$&()*+,;="  # of a decoded address; blanks and controls stay encoded
# In a path: parameters (RFC 3986, 3.3), tokens by their form, and what stands where an index has its tokens.
PARAMETERS = re.compile(r"(?<=;)[^/?#;=]+=[^/?#]*")
TOKEN = re.compile(
    r"(?<=/)(?:gh[opsur]_|github_pat_|glpat-|pypi-AgE|eyJ[\w-]+\.eyJ)[^/?#]*"
    r"|(?<=/token/)[^/?#]+|(?<=/priv/)[^/?#]+|(?<=^dl\.cloudsmith\.io/)(?!basic/|public/)[^/?#]+"
)
AFTER = ").,:;]"  # a sentence's own, after an address
# Shown: settings of a bucket, the name of a form, and the fragments that pip reads.
HARMLESS = frozenset({"acl", "endpoint", "public", "region", "root", "timeout", "template"})
HARMLESS_AFTER = frozenset({"egg", "subdirectory", "md5", "sha256", "sha384", "sha512"})


def redact(text: str) -> str:
    """Return a text in which addresses have `***` for a user or password, and `…` for a query or fragment."""
    return WORD.sub(lambda word: _redact_word(word[0]), text) if any(sign in text for sign in SIGNS) else text


def redact_values(value: Any) -> Any:  # noqa: ANN401 - what a JSON document holds
    """Return a JSON value whose texts pass `redact`, each by itself: an address ends where its text does."""
    if isinstance(value, dict):
        return {redact(str(name)): redact_values(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [redact_values(one) for one in value]
    return redact(value) if isinstance(value, str) else value


def _redact_word(word: str) -> str:
    if ENCODED.search(word):
        decoded = unquote(unquote(word))
        shown = _redact_word(decoded) if decoded != word else word
        return word if shown == decoded else quote(shown, safe=SHOWN).replace(quote("…"), "…")
    starts = list(START.finditer(word))
    if not starts:
        return _redact_place(word)
    shown = word[: starts[0].start()]
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        whole = word[start.end() : following.start() if following else len(word)]
        is_ssh = word[max(start.start() - 4, 0) : start.start()].lower() == "ssh:"
        named = PARAMETERS.sub("…", TOKEN.sub("***", whole)) if start[0] == "//" else whole
        kept, is_cut = _cut(_redact_user(named, may_be_open=is_ssh or start[0] == "/"))
        shown += start[0] + kept
        if is_cut:
            return shown + word[len(word.rstrip(AFTER)) :]
    return shown


def _redact_user(rest: str, *, may_be_open: bool) -> str:
    """Return the part of an address after `//` without its user and password.

    A user is a token over HTTP and a plain name over ssh. Where a password has a slash, the text after the colon looks
    like a port with other characters than digits.
    """
    authority = rest.partition("/")[0]
    user, at, host = authority.rpartition("@")
    if not at and authority.endswith("…") and re.search(r":\D", authority):  # cut before its @
        return "***…"
    if not at and not authority.startswith("[") and re.search(r":(?!\d*$)", authority):
        user, at, host = rest.rpartition("@")
        authority = rest if at else authority
    return rest if not at or (may_be_open and ":" not in user) else f"***@{host}{rest[len(authority) :]}"


def _cut(address: str) -> tuple[str, bool]:
    """Return an address up to its query or fragment, and whether something was left out."""
    for mark, harmless in (("?", HARMLESS), ("#", HARMLESS_AFTER)):
        before, found, said = address.partition(mark)
        names = {part.partition("=")[0] for part in said.partition("#")[0].split("&") if "=" in part or mark == "?"}
        if found and not (names and names <= harmless):
            return f"{before}{mark}…", True
    return address, False


def _redact_place(word: str) -> str:
    """Return a word that is no whole address: `user:password@host:path` as ssh takes it, or a path with a query."""
    place = SCP.match(word)
    if place and ":" in place["user"]:
        word = f"***{word[place.end('user') :]}"
    before, _, said = word.partition("?")
    if not place and not ("/" in before and re.match(r"[\w%.-]+=", said)):
        return word
    kept, is_cut = _cut(word)
    return kept + (word[len(word.rstrip(AFTER)) :] if is_cut else "")
