"""Options that split a library whose files are all compiled for one chip, although only some need it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.model.evidence import OWN_SUFFIX, Extension
from ci_tools.plan.advise.option import Option
from ci_tools.plan.advise.project_view import ProjectView, describe_include
from ci_tools.source.includes import SourceLine
from ci_tools.source.limited_api import closure

if TYPE_CHECKING:
    from collections.abc import Iterator

# Sm_90a, sm_100f: code for one chip or family (CUDA C++ Programming Guide, feature sets).
ONE_CHIP = re.compile(r"\bsm_(\d+[af])\b")
# Instructions of `a` and `f` architectures only, and libraries whose headers may use them.
OF_ONE_CHIP = re.compile(
    r"\bwgmma\b|\bsetmaxnreg\b|\btcgen05\b|\bcp\.async\.bulk\b|\bkind::\w+|\be2m1\w*|\bCUTE_ARCH_\w+|\bCUTLASS_ARCH_\w+"
    r"|__CUDA_ARCH_FEAT_|__CUDA_ARCH_SPECIFIC__|__CUDA_ARCH_FAMILY_SPECIFIC__"
)
MAY_USE_IT = re.compile(r"^(cutlass|cute|kittens|cuda/ptx)\b")


def find_chip_options(source: ProjectView) -> Iterator[Option]:
    """Yield the libraries whose files are all compiled for only one chip, although only some need it."""
    seen: set[str] = set()
    # Lazy, so that `seen` counts: each Python and torch builds it again.
    for built in (built for shown in source.shown for built in shown.built if built.member not in seen):
        seen.add(built.member)
        for arch in sorted({arch for one in built.compiles for flag in one.flags for arch in ONE_CHIP.findall(flag)}):
            yield from _chip_options(source, built, arch)


def _chip_options(source: ProjectView, built: Extension, arch: str) -> Iterator[Option]:
    files = [one.source for one in built.compiles if any(arch in ONE_CHIP.findall(flag) for flag in one.flags)]
    needing = {file: place for file in files if (place := _find_chip_use(source, file))}
    if not 0 < len(needing) < len(files):  # if all need it, or none visibly, there is nothing to split
        return
    member = built.member.replace(OWN_SUFFIX, "")
    verb = "uses" if len(needing) == 1 else "use"
    yield Option(
        name="one-chip",
        what=f"{len(needing)} of {len(files)} files of {member} {verb} features that only sm_{arch} has, "
        f"and all {len(files)} are compiled for it",
        places=(*needing.values(), *_forcing(source, arch)),
        how=f"give {', '.join(needing)} a separate library, compiled for sm_{arch}, "
        f"and compile the rest for sm_{arch[:-1]}",
    )


def _find_chip_use(source: ProjectView, file: str) -> str:
    """Return where a file or its includes use, or may use, features of only one chip; "" if they do not."""
    for own in closure(source.includes, [file]):
        text = source.includes.text(own)
        if match := OF_ONE_CHIP.search(text):
            return f"{SourceLine.at(own, text, match.start())}: {match[0]}"
        for include in source.includes.of(own):
            if MAY_USE_IT.match(include.header):
                return describe_include(include)
    return ""


def _forcing(source: ProjectView, arch: str) -> Iterator[str]:
    """Yield the places that request an architecture."""
    words = re.compile(rf"(?:sm_|compute_){arch}\b|\b{arch[:-2]}\.{arch[-2:]}")
    for file in source.build_files():
        for number, line in enumerate(source.tree.text(file).splitlines(), 1):
            if match := words.search(line):
                yield f"{SourceLine(file, number)}: {match[0]}"
