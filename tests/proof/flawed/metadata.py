"""Flawed labels: file names, and what WHEEL, METADATA, RECORD and entry_points.txt say."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders.wheels import PURE, digest
from tests.proof.flawed.drafts import (
    ENTRY_POINTS,
    FIELDS,
    INFO,
    METADATA,
    PACKAGE,
    RECORD,
    WHEEL,
    Kind,
    draft,
    members_of,
    wheel_text,
)

INIT = "demo/__init__.py"
LICENCE = f"{INFO}/licenses/LICENSE"


def fields(old: str, new: str) -> Kind:
    """A wheel with other text in METADATA."""
    assert old in FIELDS
    return Kind(draft({METADATA: FIELDS.replace(old, new, 1).encode()}).write)


def field(line: str) -> Kind:
    """A wheel with one more field in METADATA."""
    return fields("Summary:", f"{line}\nSummary:")


def wheel(old: str, new: str) -> Kind:
    text = wheel_text(PURE)
    assert old in text
    return Kind(draft({WHEEL: text.replace(old, new, 1).encode()}).write)


def renamed(name: str, version: str = "1.0") -> Kind:
    """A wheel of another file name, with all else as in a good one."""
    return Kind(draft({METADATA: FIELDS.replace("Version: 1.0", f"Version: {version}").encode()}, name).write)


def moved(info: str) -> Kind:
    """A wheel whose dist-info folder has another name."""
    members = {name.replace(INFO, info): data for name, data in members_of().items()}
    rows = "".join(f"{name},{digest(data)},{len(data)}\n" for name, data in members.items())
    members[f"{info}/RECORD"] = f"{rows}{info}/RECORD,,\n".encode()
    gone = dict.fromkeys((METADATA, WHEEL))
    return Kind(draft({**gone, **members}, record=False).write)


def record(change: Callable[[str], str]) -> Kind:
    text = dict(draft().members)[RECORD].data.decode()
    assert change(text) != text
    return Kind(draft({RECORD: change(text).encode()}, record=False).write)


def points(text: str, files: dict[str, bytes] | None = None) -> Kind:
    return Kind(draft({ENTRY_POINTS: text.encode(), **(files or {})}).write)


def command(line: str) -> Kind:
    return points(f"[console_scripts]\n{line}\n")


def without(name: str) -> Kind:
    return Kind(draft({name: None}).write)


OF_INIT = f"{INIT},{digest(PACKAGE[INIT])},{len(PACKAGE[INIT])}"
NAMES = {
    "name-of-another": renamed("other-1.0-py3-none-any.whl"),
    "version-of-another": renamed("demo-1.1-py3-none-any.whl"),
    "name-four-parts": renamed("demo-1.0-py3-none.whl"),
    "name-bad-version": renamed("demo-one-py3-none-any.whl"),
    "name-with-dash": renamed("de-mo-1.0-py3-none-any.whl"),
    "name-with-space": renamed("de mo-1.0-py3-none-any.whl"),
    "name-bad-build": renamed("demo-1.0-x1-py3-none-any.whl"),
    "name-uppercase": renamed("Demo-1.0-py3-none-any.whl"),
    "name-dotted": renamed("demo.-1.0-py3-none-any.whl"),
    "name-version-other-spelling": renamed("demo-1.0.0-py3-none-any.whl"),
    "name-tag-python-2": renamed("demo-1.0-py2-none-any.whl"),
    "name-tags-differ": renamed("demo-1.0-py311-none-any.whl"),
    "name-tag-of-nobody": Kind(draft(name="demo-1.0-py3-abi9-any.whl").write),
    "info-of-another": moved("other-1.0.dist-info"),
    "info-of-another-version": moved("demo-1.1.dist-info"),
    "info-uppercase": moved("Demo-1.0.dist-info"),
    "info-other-spelling": moved("demo-1.0.0.dist-info"),
    "info-without-version": moved("demo.dist-info"),
    "info-none": moved("demo-1.0.info"),
    "info-nested": moved("sub/demo-1.0.dist-info"),
    "no-wheel": without(WHEEL),
    "no-metadata": without(METADATA),
    "no-record": Kind(draft(record=False).write),
}
WHEELS = {
    "wheel-version-2": wheel("Wheel-Version: 1.0", "Wheel-Version: 2.0"),
    "wheel-version-1-9": wheel("Wheel-Version: 1.0", "Wheel-Version: 1.9"),
    "wheel-version-none": wheel("Wheel-Version: 1.0\n", ""),
    "wheel-version-text": wheel("Wheel-Version: 1.0", "Wheel-Version: one"),
    "wheel-version-twice": wheel("Wheel-Version: 1.0\n", "Wheel-Version: 1.0\nWheel-Version: 2.0\n"),
    "wheel-version-long": wheel("Wheel-Version: 1.0", "Wheel-Version: 1.0.1"),
    "wheel-no-purelib": wheel("Root-Is-Purelib: true\n", ""),
    "wheel-purelib-false": wheel("Root-Is-Purelib: true", "Root-Is-Purelib: false"),
    "wheel-purelib-text": wheel("Root-Is-Purelib: true", "Root-Is-Purelib: maybe"),
    "wheel-purelib-twice": wheel("Root-Is-Purelib: true\n", "Root-Is-Purelib: true\nRoot-Is-Purelib: false\n"),
    "wheel-no-tag": wheel("Tag: py3-none-any\n", ""),
    "wheel-other-tag": wheel("Tag: py3-none-any", "Tag: cp312-cp312-any"),
    "wheel-bad-tag": wheel("Tag: py3-none-any", "Tag: py3"),
    "wheel-no-generator": wheel("Generator: tests\n", ""),
    "wheel-build": wheel("Tag:", "Build: 3\nTag:"),
    "wheel-not-utf8": Kind(draft({WHEEL: wheel_text(PURE).encode() + b"X: \xff\n"}).write),
    "wheel-bom": Kind(draft({WHEEL: b"\xef\xbb\xbf" + wheel_text(PURE).encode()}).write),
    "wheel-blank-first": Kind(draft({WHEEL: b"\n" + wheel_text(PURE).encode()}).write),
    "wheel-empty": Kind(draft({WHEEL: b""}).write),
    "wheel-not-fields": Kind(draft({WHEEL: b"hello\n"}).write),
}
METADATAS = {
    "field-no-version-of-metadata": fields("Metadata-Version: 2.4\n", ""),
    "field-version-of-metadata-9": fields("Metadata-Version: 2.4", "Metadata-Version: 9.9"),
    "field-version-of-metadata-2-9": fields("Metadata-Version: 2.4", "Metadata-Version: 2.9"),
    "field-version-of-metadata-text": fields("Metadata-Version: 2.4", "Metadata-Version: two"),
    "field-version-of-metadata-twice": fields("Metadata-Version: 2.4", "Metadata-Version: 2.4\nMetadata-Version: 2.1"),
    "field-no-name": fields("Name: demo\n", ""),
    "field-no-version": fields("Name: demo\nVersion: 1.0\n", "Name: demo\n"),
    "field-other-name": fields("Name: demo", "Name: other"),
    "field-bad-name": fields("Name: demo", "Name: -demo-"),
    "field-other-version": fields("\nVersion: 1.0", "\nVersion: 2.0"),
    "field-bad-version": fields("\nVersion: 1.0", "\nVersion: one"),
    "field-name-twice": fields("Name: demo", "Name: demo\nName: other"),
    "field-version-twice": fields("\nVersion: 1.0", "\nVersion: 1.0\nVersion: 2.0"),
    "field-summary-twice": field("Summary: Another."),
    "field-requires-python-twice": field("Requires-Python: >=3.8\nRequires-Python: >=3.9"),
    "field-requires-python-4": field("Requires-Python: >=4"),
    "field-requires-python-old": field("Requires-Python: <3"),
    "field-requires-python-none": field("Requires-Python: >=3.9,<3.9"),
    "field-requires-python-bad": field("Requires-Python: three"),
    "field-requires-python-star": field("Requires-Python: >=3.9.*"),
    "field-requires-python-comma": field("Requires-Python: >=3.9,"),
    "field-requires-bad": field("Requires-Dist: numpy >>1"),
    "field-requires-name-bad": field("Requires-Dist: -numpy"),
    "field-requires-marker-bad": field("Requires-Dist: numpy; os == 3"),
    "field-requires-marker-unknown": field("Requires-Dist: numpy; python_flavour == '3'"),
    "field-requires-old-parentheses": field("Requires-Dist: numpy (>=1)"),
    "field-requires-star": field("Requires-Dist: numpy>=1.*"),
    "field-requires-url": field("Requires-Dist: numpy @ https://localhost/numpy.whl"),
    "field-requires-file": field("Requires-Dist: numpy @ file:///home/me/numpy.whl"),
    "field-requires-itself": field("Requires-Dist: demo"),
    "field-requires-legacy-version": field("Requires-Dist: numpy>=1.x"),
    "field-requires-extra-unknown": field("Requires-Dist: numpy; extra == 'fast'"),
    "field-extra-bad": field("Provides-Extra: _fast_"),
    "field-extra-twice": field("Provides-Extra: fast\nProvides-Extra: fast"),
    "field-extra-same-name": field("Provides-Extra: fast-er\nProvides-Extra: fast_er"),
    "field-classifier-unknown": field("Classifier: Programming Language :: Cobol++"),
    "field-classifier-private": field("Classifier: Private :: Do Not Upload"),
    "field-classifier-old": field("Classifier: Natural Language :: Ukranian"),
    "field-licence-old-metadata": fields("Metadata-Version: 2.4", "Metadata-Version: 2.1"),
    "field-licence-old-metadata-2-3": fields("Metadata-Version: 2.4", "Metadata-Version: 2.3"),
    "field-licence-bad": fields("License-Expression: MIT", "License-Expression: MITT"),
    "field-licence-lower": fields("License-Expression: MIT", "License-Expression: mit or apache-2.0"),
    "field-licence-two-ways": field("License: MIT"),
    "field-licence-classifier-too": field("Classifier: License :: OSI Approved :: MIT License"),
    "field-licence-file-missing": field("License-File: LICENSE"),
    "field-licence-file-above": field("License-File: ../LICENSE"),
    "field-licence-file-absolute": field("License-File: /LICENSE"),
    "field-licence-file-glob": field("License-File: LICEN*"),
    "field-licence-file-backslash": field("License-File: a\\LICENSE"),
    "field-licence-file-elsewhere": Kind(
        draft(
            {METADATA: FIELDS.replace("Summary", "License-File: LICENSE\nSummary").encode(), f"{INFO}/LICENSE": b"x"}
        ).write
    ),
    "field-licence-file-old-metadata": Kind(
        draft(
            {
                METADATA: FIELDS.replace("2.4", "2.1")
                .replace("License-Expression: MIT", "License: MIT\nLicense-File: LICENSE")
                .encode(),
                f"{INFO}/LICENSE": b"x",
            }
        ).write
    ),
    "field-dynamic-name": field("Dynamic: Name"),
    "field-dynamic-unknown": field("Dynamic: Colour"),
    "field-dynamic-old": Kind(
        draft(
            {
                METADATA: FIELDS.replace("2.4", "2.1")
                .replace("License-Expression: MIT", "License: MIT\nDynamic: Version")
                .encode()
            }
        ).write
    ),
    "field-content-type": fields("text/plain", "text/html"),
    "field-content-type-parameter": fields("text/plain", "text/markdown; variant=Other"),
    "field-content-type-charset": fields("text/plain", "text/plain; charset=latin-1"),
    "field-no-content-type": fields("Description-Content-Type: text/plain\n", ""),
    "field-description-broken": fields("text/plain\n\nWhat it is.", "text/x-rst\n\nA title\n===\n\n:a:`b`\n\n.. c::"),
    "field-no-description": fields("\nWhat it is.\n", ""),
    "field-description-twice": field("Description: Another."),
    "field-summary-lines": fields("Summary: A package.", "Summary: A package\n        of two lines."),
    "field-summary-long": fields("Summary: A package.", f"Summary: {'a' * 600}"),
    "field-summary-unknown": fields("Summary: A package.", "Summary: UNKNOWN"),
    "field-url-no-comma": field("Project-URL: https://localhost"),
    "field-url-label-long": field(f"Project-URL: {'a' * 40}, https://localhost"),
    "field-url-not-web": field("Project-URL: a, ftp://localhost"),
    "field-home-page-bad": field("Home-page: demo"),
    "field-author-email-bad": field("Author-Email: nobody"),
    "field-platform": field("Platform: UNKNOWN"),
    "field-keywords-twice": field("Keywords: a\nKeywords: b"),
    "field-unknown": field("Colour: red"),
    "field-import-name-old": field("Import-Name: demo"),
    "field-import-name-bad": fields("Metadata-Version: 2.4", "Metadata-Version: 2.5\nImport-Name: de mo"),
    "field-local-version": fields("\nVersion: 1.0", "\nVersion: 1.0+cu130"),
    "metadata-not-utf8": Kind(draft({METADATA: FIELDS.encode() + b"\xff\n"}).write),
    "metadata-field-not-utf8": Kind(
        draft({METADATA: FIELDS.replace("A package", "Gr\xf6\xdfe").encode("latin-1")}).write
    ),
    "metadata-bom": Kind(draft({METADATA: b"\xef\xbb\xbf" + FIELDS.encode()}).write),
    "metadata-nul": fields("A package.", "A\0package."),
    "metadata-carriage-returns": Kind(draft({METADATA: FIELDS.replace("\n", "\r\n").encode()}).write),
    "metadata-blank-first": Kind(draft({METADATA: b"\n" + FIELDS.encode()}).write),
    "metadata-empty": Kind(draft({METADATA: b""}).write),
    "metadata-not-fields": Kind(draft({METADATA: b"hello\n"}).write),
}
RECORDS = {
    "record-hash": record(lambda text: text.replace(digest(PACKAGE[INIT]), digest(b"x"))),
    "record-size": record(lambda text: text.replace(OF_INIT, f"{OF_INIT}1")),
    "record-size-text": record(lambda text: text.replace(OF_INIT, OF_INIT.rpartition(",")[0] + ",many")),
    "record-no-hash": record(lambda text: text.replace(OF_INIT, f"{INIT},,")),
    "record-no-size": record(lambda text: text.replace(OF_INIT, OF_INIT.rpartition(",")[0] + ",")),
    "record-md5": record(lambda text: text.replace(digest(PACKAGE[INIT]), "md5=XrY7u-Ae7tCTyyK7j1rNww")),
    "record-unknown-hash": record(lambda text: text.replace("sha256=", "sha9=", 1)),
    "record-hash-padded": record(lambda text: text.replace(digest(PACKAGE[INIT]), digest(PACKAGE[INIT]) + "=")),
    "record-hash-hex": record(lambda text: text.replace(digest(PACKAGE[INIT]), "sha256=" + "0" * 64)),
    "record-row-missing": record(lambda text: text.replace(f"{OF_INIT}\n", "")),
    "record-row-more": record(lambda text: text + f"demo/gone.py,{digest(b'')},0\n"),
    "record-row-twice": record(lambda text: text + f"{OF_INIT}\n"),
    "record-row-twice-other": record(lambda text: text + f"{INIT},{digest(b'')},0\n"),
    "record-row-absolute": record(lambda text: text + f"/etc/demo.conf,{digest(b'')},0\n"),
    "record-row-above": record(lambda text: text + f"../../bin/demo,{digest(b'')},0\n"),
    "record-row-backslash": record(lambda text: text.replace(INIT, "demo\\__init__.py")),
    "record-row-dot": record(lambda text: text.replace(INIT, "./demo/__init__.py")),
    "record-row-folder": record(lambda text: text + "demo/,,\n"),
    "record-four-columns": record(lambda text: text.replace(OF_INIT, f"{OF_INIT},x")),
    "record-two-columns": record(lambda text: text.replace(OF_INIT, OF_INIT.rpartition(",")[0])),
    "record-one-column": record(lambda text: text.replace(OF_INIT, INIT)),
    "record-blank-line": record(lambda text: text + "\n\n"),
    "record-own-hash": record(lambda text: text.replace(f"{RECORD},,", f"{RECORD},{digest(b'')},0")),
    "record-without-itself": record(lambda text: text.replace(f"{RECORD},,\n", "")),
    "record-quote-open": record(lambda text: f'"{text}'),
    "record-header": record(lambda text: "path,hash,size\n" + text),
    "record-empty": record(lambda _: ""),
    "record-carriage-returns": record(lambda text: text.replace("\n", "\r\n")),
    "record-bom": record(lambda text: "\ufeff" + text),
    "record-not-utf8": Kind(draft({RECORD: b"\xff,,\n"}, record=False).write),
    "record-nul": record(lambda text: text.replace(INIT, f"{INIT}\0")),
    "record-signature": Kind(draft({f"{INFO}/RECORD.jws": b"{}"}).write),
}
POINTS = {
    "command-above": command("../../evil = demo:main"),
    "command-folder": command("sub/evil = demo:main"),
    "command-absolute": command("/evil = demo:main"),
    "command-backslash": command("..\\evil = demo:main"),
    "command-space": command("my command = demo:main"),
    "command-pip": command("pip = demo:main"),
    "command-python": command("python = demo:main"),
    "command-no-module": command("run = gone:main"),
    "command-no-object": command("run = demo:gone"),
    "command-only-module": command("run = demo"),
    "command-empty": command("run ="),
    "command-no-name": command("= demo:main"),
    "command-not-python": command("run = demo:main()"),
    "command-code": command("run = demo:main\\nimport os"),
    "command-keyword": command("run = demo.class:main"),
    "command-extra-unknown": command("run = demo:main [fast]"),
    "command-extra": command("run = demo:main []"),
    "command-twice": command("run = demo:main\nrun = demo:main"),
    "command-twice-in-case": command("run = demo:main\nRUN = demo:main"),
    "command-console-and-gui": points("[console_scripts]\nrun = demo:main\n[gui_scripts]\nrun = demo:main\n"),
    "command-colon": command("run : demo:main"),
    "command-lines": command("run = demo:\n  main"),
    "points-section-twice": points("[a]\nb = demo:main\n[a]\nc = demo:main\n"),
    "points-no-section": points("run = demo:main\n"),
    "points-not-ini": points("[console_scripts\n"),
    "points-not-utf8": Kind(draft({ENTRY_POINTS: b"[console_scripts]\nr\xff = demo:main\n"}).write),
    "points-bom": points("\ufeff[console_scripts]\nrun = demo:main\n"),
    "points-group-bad": points("[my group]\nb = demo:main\n"),
    "points-percent": points("[demo.points]\n100% = demo:main\n"),
}
KINDS = {**NAMES, **WHEELS, **METADATAS, **RECORDS, **POINTS}
