"""Puts a build torch into a build's environment, where pip takes it for an installed one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ci_tools.build.sdk.torch_choice import find_torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_tools.build.sdk.torch_choice import Wanted
    from ci_tools.catalog import Catalog
    from ci_tools.machine.context import Outside
    from ci_tools.machine.python import Environment

__all__ = ["lend_torch"]


def lend_torch(
    wanted: Wanted, isolated: Environment, catalog: Catalog, outside: Outside, variables: Mapping[str, str]
) -> tuple[str, ...]:
    """Copy the build torch that fits into an environment without one; return what it requires to be installed.

    `variables` override those of the environment that name pip's indexes. It is a copy, at the place of an installed
    torch: compilers write the paths of headers into what they make, and what a build writes there must not reach the
    next one.
    """
    packages = next(isolated.path.glob("lib/python*/site-packages"))
    if (packages / "torch").exists():
        return ()
    torch = find_torch(wanted, catalog, outside, {**isolated.variables, **variables})
    shutil.copytree(torch.site, packages, dirs_exist_ok=True)
    outside.reporter.say(f"builds with the parts of torch {torch.version}, without its libraries ({torch.wheel})")
    return torch.requires
