"""Options that make builds for several Pythons quicker: files that need no Python.h are compiled once for all."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from ci_tools.errors import count
from ci_tools.formats.edits import extension_lines
from ci_tools.model.versions import Minor
from ci_tools.plan.advise.option import Option
from ci_tools.plan.advise.project_view import ProjectView, describe_include
from ci_tools.source.includes import SourceLine
from ci_tools.source.needless import EXTENSION, find_needless, narrower, replace_headers, users_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.plan.advise.option import Edit
    from ci_tools.source.needless import Needless

FIRST_CXX20 = Minor(2, 13)  # torch.utils.cpp_extension adds c++20 where no standard is stated, and c++17 before
STATED = re.compile(r"[-/]std[=:]")  # -std=c++17 of GCC and nvcc, /std:c++17 of MSVC, --std=c++17


def list_needless(source: ProjectView) -> tuple[Needless, ...]:
    """Return the files that each Python of a plan compiles again, though they use nothing of it."""
    pythons = {job.python for job in source.plan.jobs if job.python_stays}
    if len(pythons) < 2:  # noqa: PLR2004 - with one Python, each file is compiled once anyway
        return ()
    return find_needless(source.includes, source.compiled, is_setuptools=source.is_setuptools)


def find_header_options(source: ProjectView) -> Iterator[Option]:
    """Yield the option to include torch without Python where nothing of Python is used."""
    needless = list_needless(source)
    if not needless:
        return
    lines = narrower(needless, source.includes, source.compiled)
    changes: list[tuple[str, Edit]] = [
        (file, partial(replace_headers, headers=headers)) for file, headers in lines.items()
    ]
    changes += [(file, _include_extension) for file in users_of(lines, source.includes, source.compiled)]
    places = dict.fromkeys(describe_include(one) for found in needless for one in found.includes)
    some = count(len(needless), "file")
    yield Option(
        name="python-header",
        what=f"{some} of {len(source.compiled)} reach Python.h and use nothing of it: each Python compiles them again",
        places=tuple(places),
        how="ATen/ATen.h, torch/types.h or torch/all.h, by what is used; what has the bindings keeps torch/extension.h",
        edits=source.possible(tuple(changes)),
    )


def find_standard_options(source: ProjectView) -> Iterator[Option]:
    """Yield the option to state the C++ standard that torch's BuildExtension would else change between two torches."""
    torches = [job.torch for job in source.plan.jobs if job.torch and job.requires_torch]
    name = source.project.path("setup.py")
    text = source.tree.text(name) if source.is_setuptools and torches else ""
    if "BuildExtension" in text and not STATED.search(text) and min(torches) < FIRST_CXX20 <= max(torches):
        yield Option(
            name="cxx-standard",
            what="no C++ standard is stated, so that builds for older and newer torches share no compile unit",
            places=tuple(f"{SourceLine(name, line)}: an extension" for line in extension_lines(text)),
            how=f"-std=c++20 in extra_compile_args, for cxx and nvcc: BuildExtension adds it from {FIRST_CXX20} on,"
            " and c++17 before",
        )


def _include_extension(text: str) -> str:
    """Return a text that includes torch/extension.h itself, first: Python.h is to precede the standard headers."""
    return f"#include <{EXTENSION}>\n{text}"
