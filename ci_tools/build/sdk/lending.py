"""Puts a build torch into a build's environment, where pip takes it for an installed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.folders import link_or_name
from ci_tools.build.sdk.stand_ins import open_answers
from ci_tools.build.sdk.torch_choice import find_torch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci_tools.build.bench.copies import Copies
    from ci_tools.build.bench.installations import Installations
    from ci_tools.build.sdk.torch_choice import Wanted
    from ci_tools.catalog import Catalog
    from ci_tools.machine.context import Outside
    from ci_tools.machine.python import Environment
    from ci_tools.model.platforms import Accelerator

LENT = "fatwheel-lent"  # the folder of an environment that has the build torch


class InstallPlace(NamedTuple):
    """Where a build's requirements are installed from, and the run's context."""

    scratch: Path
    constraints: Path | None  # the project's own file
    catalog: Catalog
    outside: Outside
    copies: Copies
    installations: Installations | None = None  # None: the run has no other build


def lend_torch(
    wanted: Wanted,
    isolated: Environment,
    place: InstallPlace,
    variables: Mapping[str, str],
    speaks_for: Accelerator | None = None,
) -> tuple[str, ...]:
    """Copy the build torch that fits into an environment without one; return what it requires to be installed.

    It answers as one for the accelerator `speaks_for`, where that is given.
    `variables` override those of the environment that name pip's indexes. It is a copy: compilers write the paths of
    headers into what they make, and what a build writes there must not reach the next one. Those paths do not name the
    Python, so that two Pythons can share what is compiled with them; at the place of an installed torch is a link, for
    what looks for its files there, unless links are not allowed: Python finds the copy by the .pth file.
    """
    packages = isolated.packages
    if (packages / "torch").exists():
        return ()
    torch = find_torch(wanted, place.catalog, place.outside, {**isolated.variables, **variables})
    answers = open_answers(torch, speaks_for, place.outside) if speaks_for else ()
    lent = place.copies.put(isolated.path / LENT, torch.site, *answers)
    for path in lent.iterdir():
        link_or_name(path, packages / path.name)
    (packages / f"{LENT}.pth").write_text(f"import sys; sys.path.insert(0, {str(lent)!r})\n", encoding="utf-8")
    said = f"builds with the parts of torch {torch.version}, without its libraries ({torch.wheel})"
    as_other = f"; to setup.py it is one for CUDA {speaks_for.version}" if answers and speaks_for else ""
    place.outside.reporter.say(f"{said}{as_other}")
    return torch.requires
