"""Rules about what nobody expects in a wheel: code inside other files, code that always runs, and secrets."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import BinaryIO

from ci_tools.formats.binaries.magic import binary_format
from ci_tools.formats.wheel import DAMAGE, is_folder
from ci_tools.machine.storage import CHUNK
from ci_tools.model.files import Level
from ci_tools.verify.audit.subject import DATA, Flaw, Subject, abbreviate

ZIP = b"PK\x03\x04"
MAX_NESTED = 10_000  # at most so many members of a nested archive are read
MAX_DEPTH = 3  # archives within archives
MAX_NESTED_BYTES = 64 << 20  # bytes read of an archive within an archive
# e_ident: class, byte order, version, and an ABI that is known
ELF_START = re.compile(rb"\x7fELF[\x01\x02][\x01\x02]\x01[\x00-\x12]")
PADDING = re.compile(rb"([\x00\t\n\r \xff])\1*")  # one byte, repeated
CREDENTIALS = re.compile(
    r"(?:^|/)(?:\.pypirc|\.netrc|_netrc|\.git-credentials|\.aws/credentials|\.docker/config\.json)$"
)
KEY = re.compile(
    rb"^-----BEGIN (?P<kind>(?:RSA |EC |DSA |OPENSSH |ENCRYPTED )?PRIVATE KEY)-----\r?\n"
    rb"(?:[A-Z][\w-]+: [^\n]*\n)*\s*[\w+/=]{40}",  # an encrypted key has headers first (RFC 1421)
    re.MULTILINE,
)
KEY_STARTS = b"-----BEGIN "
# Tokens by the forms that their providers document, for tools such as this one to find.
TOKEN = re.compile(
    rb"(?<![\w-])(?:(?P<PyPI>pypi-AgE[\w-]{50,})|(?P<GitHub>gh[opsur]_\w{36,}|github_pat_\w{60,})|(?P<GitLab>glpat-[\w-]{20})"
    rb"|(?P<AWS>(?:AKIA|ASIA)[A-Z2-7]{16})|(?P<Slack>xox[abeoprs]-[\w-]{24,})|(?P<HuggingFace>hf_[A-Za-z]{34})"
    rb"|(?P<OpenAI>sk-(?:proj-|svcacct-)?[\w-]{40,})|(?P<Google>AIza[\w-]{35})|(?P<npm>npm_\w{36})"
    rb"|(?P<Stripe>[rs]k_live_\w{24,}))(?![\w-])"
)
FEWEST = 8  # different characters; a placeholder such as ghp_xxxx has fewer
PLACEHOLDER = re.compile(rb"EXAMPLE|example|X{4}|x{4}|1234567")
MAX_TEXT = 1 << 20  # bytes; keys are in short files
SAMPLE = re.compile(r"(?:^|/)(?:[^/]*_)?(?:tests?|testing|testdata|examples?|samples?|docs?|fixtures?)(?:_[^/]*)?/")
TEXT = re.compile(r"\.(?:pyi?|md|rst|txt)$")
TOP_PTH = re.compile(r"[^/]+\.(?:pth|start)")  # PEP 829 adds .start
CUSTOM = re.compile(r"(?:site|user)customize(?:\.py|/.*|\.[\w.-]+)")
VEILED = re.compile(
    rb"\b(?:base64|marshal|zlib|codecs|urllib|socket|subprocess|ctypes|chr)\b|\\x[0-9a-f]{2}", re.IGNORECASE
)


def hidden(subject: Subject) -> Iterator[Flaw]:
    """No compiled file is hidden in another file, where no other rule would look at it.

    An error behind padding, since only a loader made for it would find it. In an archive within the wheel, it is an
    error in our own builds, and a warning in other wheels: some contain archives as test data. An archive that cannot
    be read is not judged: it may be any file that begins like one.
    """
    for member in subject.members:
        if member.damage or member.format:
            continue
        with member.open() as file:
            if _is_padded(file):
                yield Flaw(f"{member.name} is a library behind padding", "ELF", "a file that begins as what it is")
        with member.open() as file:
            found = dict(_find_compiled_members(file, MAX_DEPTH))
        if found:
            level = Level.ERROR if subject.job else Level.WARNING
            yield Flaw(f"{member.name} holds compiled files", abbreviate(found), "no compiled file", level)


def _is_padded(file: BinaryIO) -> bool:
    """Whether a file is an ELF file behind a single repeated byte."""
    head = file.read(1)
    while head and (found := PADDING.fullmatch(head)):
        piece = file.read(CHUNK)
        rest = piece.lstrip(found[1])
        if rest or not piece:  # the padding, or the file, has ended
            return ELF_START.match(rest) is not None
    return False


def _find_compiled_members(file: BinaryIO, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the compiled members of a zip file, with their formats; nothing for a file of another kind."""
    if file.read(len(ZIP)) != ZIP or not depth:  # a hostile archive may hold itself
        return
    try:
        with zipfile.ZipFile(file) as archive:
            for info in [info for info in archive.infolist() if not is_folder(info)][:MAX_NESTED]:
                with archive.open(info) as inner:
                    head = inner.read(CHUNK)  # the format shows in the first bytes
                    more = inner.read(MAX_NESTED_BYTES) if head.startswith(ZIP) else b""
                kind = binary_format(io.BytesIO(head))
                if kind:
                    yield info.filename, kind
                for name, found in _find_compiled_members(io.BytesIO(head + more), depth - 1):
                    yield f"{info.filename}/{name}", found
    except DAMAGE:
        return


def startup(subject: Subject) -> Iterator[Flaw]:
    """No member is code that Python runs at every start: a .pth or .start file, or a sitecustomize module.

    A warning: some projects need one (setuptools, coverage), but users do not expect it. An error if its code is hidden
    or fetches other code, a known attack (the Python Packaging Advisory Database), and for `sitecustomize` and
    `usercustomize`, which an environment has once: the wheel's takes the place of another.
    """
    for member in subject.members:
        name = DATA.sub("", member.name)
        is_custom = CUSTOM.fullmatch(name) is not None
        if is_custom or (TOP_PTH.fullmatch(name) and member.info.file_size <= MAX_TEXT):
            level = Level.ERROR if is_custom or VEILED.search(member.read()) else Level.WARNING
            expected = "an import by who uses it"
            yield Flaw(f"{member.name} is read at every start of Python", member.base, expected, level)


def secrets(subject: Subject) -> Iterator[Flaw]:
    """No member holds the credentials of an account, a token of a known form, or a private key.

    An error, since a published secret is known to everybody. A key in a folder of tests or examples, in source code or
    in documentation is a warning, since it is usually a sample; so is a key that a password protects, and a token in a
    folder of tests, examples or documentation.
    """
    for member in subject.members:
        if CREDENTIALS.search(member.name):
            yield Flaw(f"{member.name} is where programs keep credentials", member.base, "no such file")
        elif not member.format and member.info.file_size <= MAX_TEXT:
            content = member.read()
            if kind := _key(content):
                is_sample = kind.startswith("ENCRYPTED") or SAMPLE.search(member.name) or TEXT.search(member.name)
                level = Level.WARNING if is_sample else Level.ERROR
                yield Flaw(f"{member.name} holds a private key", kind, "no key", level)
            for whose in sorted(_list_tokens(content)):
                level = Level.WARNING if SAMPLE.search(member.name) else Level.ERROR
                yield Flaw(f"{member.name} holds a token for {whose}", "a token", "none: revoke it", level)


def _list_tokens(content: bytes) -> frozenset[str]:
    """Return the providers of the tokens in a text, but for placeholders."""
    found = (match for match in TOKEN.finditer(content) if not PLACEHOLDER.search(match[0]))
    return frozenset(match.lastgroup or "" for match in found if len(set(match[0])) >= FEWEST)


def _key(content: bytes) -> str:
    """Return the kind of the private key in a text, or "" if it has none."""
    found = KEY.search(content) if KEY_STARTS in content else None
    return found["kind"].decode() if found else ""
