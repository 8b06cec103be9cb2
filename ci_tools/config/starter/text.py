"""Renders a starter as the text of a `fatwheel.yml`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ci_tools.config.project import quote_names, to_comment, to_scalar
from ci_tools.model.request import ToolchainKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ci_tools.config.starter.choices import PlatformChoice, Starter, TorchChoice
    from ci_tools.model.request import SdistSource

ON_GITHUB = re.compile(r"github\.com[:/](?P<owner>[^/]+)/(?P<name>[^/]+?)(?:\.git)?/?$")  # of a repository's address
NOBODY = "@your-org/your-team"


def render(starter: Starter, origin: str, *, smart: bool, sdist: SdistSource | None = None) -> str:
    """Return the config, without the version: a plan reads it; `origin` is the address of the project's repository.

    With `smart`, releases go to GitHub and, as a smart sdist, to PyPI. With an `sdist`, that is the source.
    """
    found = ON_GITHUB.search(origin)
    owner = f"@{found['owner']}" if found else NOBODY
    lines = [
        "# Read by `fatwheel plan`: who is served. Every key: docs/reference/config.md",
        f"package: {to_scalar(starter.name)}",
        *([f"owner: {to_scalar(owner)} # who looks after the native code"] if starter.is_native else []),
        *_source(starter, sdist),
        "",
        f"python: [{', '.join(quote_names(map(str, starter.pythons)))}]",
        *_torch(starter.torch),
        "",
        "platforms:",
        *(line for one in starter.platforms for line in _platform(one, starter.told.env_of(one.platform))),
        *(f"  {to_comment(f'{one.platform}: {one.why}')}" for one in starter.left),
        *_build(starter, has_sdist=sdist is None),
        *_validation(starter),
        *(_publication(f"{found['owner']}/{found['name']}" if found else "your-org/your-project") if smart else ()),
    ]
    return "\n".join(lines) + "\n"


def _source(starter: Starter, sdist: SdistSource | None) -> Iterator[str]:
    folder = starter.folder
    if folder or sdist:
        yield from ("", "source:")
    if starter.path != ".":
        yield f"  path: {to_scalar(starter.path)} # links of the project lead to folders beside it"
    if sdist:
        name, version = to_scalar(sdist.name), to_scalar(sdist.version)
        yield f"  sdist: {{ name: {name}, version: {version}, sha256: {to_scalar(sdist.sha256)} }}"
    if folder:
        yield f"  subdirectory: {to_scalar(folder)}"


def _torch(torch: TorchChoice) -> list[str]:
    names = ", ".join(quote_names(map(str, torch.versions)))
    value = f"{{ lowest: {names} }}" if torch.is_open else f"[{names}]"
    return [f"torch: {value} {to_comment(torch.why)}"] if torch.versions else []


def _platform(one: PlatformChoice, env: Collection[tuple[str, str]]) -> Iterator[str]:
    yield f"  {one.platform}: {to_comment(one.why)}"
    if one.versions:
        yield f"    {one.kind}: [{', '.join(quote_names(map(str, one.versions)))}]"
        yield f"    archs: [{', '.join(quote_names(one.archs))}]"
    if one.arch_env:
        name, notation = one.arch_env
        yield f"    arch-env: {{ {to_scalar(name)}: {json.dumps(notation)} }} # by which the project chooses them"
    if one.toolchain is not ToolchainKind.AUTO:
        yield f"    toolchain: {one.toolchain} # NVIDIA's component archives: no package index has this compiler"
    yield from ("    env: # as for cibuildwheel",) if env else ()
    yield from (f"      {to_scalar(name)}: {json.dumps(value)}" for name, value in env)


def _build(starter: Starter, *, has_sdist: bool) -> Iterator[str]:
    told = starter.told.env_of_all
    if starter.env or told or starter.told.requires or not has_sdist:
        yield from ("", "build:")
    if not has_sdist:
        yield "  sdist: false # the package index has it"
    if starter.told.requires:
        names = ", ".join(json.dumps(one) for one in starter.told.requires)
        yield f"  requires: [{names}] # cibuildwheel's before-build installs them"
    yield from ("  env:",) if starter.env or told else ()
    for name, value in told:
        yield f"    {to_scalar(name)}: {json.dumps(value)} # as for cibuildwheel"
    for name, value in starter.env:
        yield f"    {name}: {json.dumps(value)} # or else the version has a label; each wheel gets its own"


def _validation(starter: Starter) -> Iterator[str]:
    if not starter.torch.tried and not starter.imports:
        return
    yield from ("", "validate:")
    if starter.torch.tried:
        yield f'  torch: "{starter.torch.tried}" # each wheel is tried with it'
        if not any(one.kind for one in starter.platforms):
            yield "  # torch-index: an index of CPU builds; pip's own has CUDA builds of gigabytes for Linux"
    if starter.lacking:
        names = ", ".join(quote_names(one.requirement for one in starter.lacking))
        yield f"  requires: [{names}] {to_comment('; '.join(map(str, starter.lacking)))}"
    if starter.imports:
        yield f"  imports: [{', '.join(map(to_scalar, starter.imports))}]"
    else:
        yield "  # imports: by default the modules that each wheel's own files name"


def _publication(repository: str) -> list[str]:
    """Return the lines that publish a smart sdist: its wheels are in GitHub Releases of the repository."""
    return [
        "",
        "publish:",
        "  pypi: smart # an sdist that finds the wheel of the release that fits",
        "  targets:",
        f"    - github:{repository} # has the wheels",
        "    - pypi",
    ]
