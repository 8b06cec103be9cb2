"""Writes a starter `fatwheel.yml` from the evidence in the source: `fatwheel init`."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_tools.catalog import Catalog
from ci_tools.config.project import (
    BLANK,
    Package,
    choose_package,
    explain_no_package,
    names_outside,
    quote_names,
    refuse_existing,
    to_comment,
    to_scalar,
)
from ci_tools.config.starter.choices import PlatformChoice, Starter, TorchChoice, choose
from ci_tools.config.starter.cibuildwheel import WORKFLOWS
from ci_tools.config.starter.survey import OLD_SETUPTOOLS, survey
from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import write_atomically
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.request import PathSource, Request, SdistSource, ToolchainKind
from ci_tools.model.versions import Minor
from ci_tools.source import git
from ci_tools.source.files import Tree, open_tree, tree_at, whole_of

CALLED = "pytorch/test-infra/.github/workflows/build_wheels_"  # its files are build_wheels_linux.yml and so on


class WrittenConfig(NamedTuple):
    """The config that was written, what it says, and the source's other packages."""

    path: Path
    starter: Starter
    others: tuple[Package, ...]
    callers: tuple[str, ...] = ()  # workflows of the source that call pytorch/test-infra's


def write(  # noqa: PLR0913 - each is an option of `fatwheel init`, and all have names
    folder: Path,
    catalog: Catalog,
    outside: Outside,
    *,
    package: str = "",
    torch: Minor | None = None,
    smart: bool = False,
    sdist: SdistSource | None = None,
) -> WrittenConfig:
    """Write a starter into `folder` for its package, or the one called `package`, and the torch to begin with, if any.

    With an `sdist` that is the source, and the folder need not exist. Raises InputError if a config exists, there is no
    package, a person has to choose one, or none can be built.
    """
    path = folder / CONFIG_FILE
    refuse_existing(folder if sdist is None or folder.exists() else folder.parent, [path])
    root = folder.resolve()
    if sdist is None and all(one.name == ".git" for one in folder.iterdir()):  # an empty repository
        raise explain_no_package(root)
    # Only the folder of the package counts here: what others of the source lack does not matter.
    chosen = "" if sdist else choose_package(tree_at(root, outside.environ), package)[0].folder
    blank = replace(BLANK, source=sdist) if sdist else replace(BLANK, subdirectory=chosen)
    tree = open_tree(blank, root, outside)
    if tree.list_ways_out() or names_outside(tree):  # the build needs what they lead to
        whole, package = whole_of(blank, tree)
        blank = replace(BLANK, source=PathSource(path=whole), subdirectory=package)
        tree = open_tree(blank, root, outside)
    starter, others = read_starter(tree, catalog, outside, package=package, torch=torch, blank=blank)
    origin = (git.origin(root, outside.environ) or "") if folder.exists() else ""  # an sdist has no folder
    if not starter.version:
        starter = _choose_version(starter, tree)
    content = render(starter, origin, smart=smart, sdist=sdist)
    with write_atomically(path) as file:
        file.write(content.encode())
    workflows = (name for name in tree.files if name.startswith(WORKFLOWS) and name.endswith((".yml", ".yaml")))
    return WrittenConfig(path, starter, others, tuple(name for name in workflows if CALLED in tree.text(name)))


def read_starter(
    tree: Tree,
    catalog: Catalog,
    outside: Outside,
    *,
    package: str = "",
    torch: Minor | None = None,
    blank: Request = BLANK,
) -> tuple[Starter, tuple[Package, ...]]:
    """Return what a config for a source's package asks for, and the source's other packages.

    `blank` is a request for the source and nothing of it. Raises InputError if there is no package, a person has to
    choose one, or none can be built.
    """
    chosen, others = choose_package(tree, package)
    return choose(survey(blank, tree, chosen, catalog, outside), catalog, torch), others


def _choose_version(starter: Starter, tree: Tree) -> Starter:
    """Return a starter with the version that setuptools makes of a setup() without one, which its config then says.

    Raises InputError if the project's own tool or table has to tell it: a person chooses one, and where it stands.
    """
    file = posixpath.join(starter.folder, "pyproject.toml")
    has_table = file in tree.names and "[project]" in tree.text(file)
    if not (has_table or starter.untold) and starter.backend.startswith("setuptools."):
        return starter._replace(version=NO_VERSION, says_version=True)
    file = file if has_table else posixpath.join(starter.folder, "setup.py")
    line = '`version = "1.2.3"` to its [project]' if has_table else '`version="1.2.3"` to its setup()'
    msg = starter.untold or f"{file}: the project states no version, and no tool of its own makes one"
    mend = "a build runs it in the same way, so let it do without what is missing here" if starter.untold else ""
    raise InputError(msg, hint=mend or f"add {line}, or have a tool such as setuptools-scm read it from the tags")


NO_VERSION = "0.0.0"  # of setuptools, in `DistributionMetadata.get_version`
ON_GITHUB = re.compile(r"github\.com[:/](?P<owner>[^/]+)/(?P<name>[^/]+?)(?:\.git)?/?$")  # of a repository's address
NOBODY = "@your-org/your-team"


def render(starter: Starter, origin: str, *, smart: bool, sdist: SdistSource | None = None) -> str:
    """Return the config, without the version that the source states; `origin` is the address of its repository.

    With `smart`, releases go to GitHub and, as a smart sdist, to PyPI. With an `sdist`, that is the source.
    """
    found = ON_GITHUB.search(origin)
    owner = f"@{found['owner']}" if found else NOBODY
    lines = [
        "# Read by `fatwheel plan`: who is served. Every key: Fatwheel's docs/reference/config.md",
        f"package: {to_scalar(starter.name)}",
        *(
            [f'version: "{starter.version}" # as setuptools has it: setup.py states none']
            if starter.says_version
            else []
        ),
        *([f"owner: {to_scalar(owner)} # who looks after the native code"] if starter.is_native else []),
        *_source(starter, sdist),
        "",
        f"python: [{', '.join(quote_names(map(str, starter.pythons)))}]",
        *_torch(starter.torch),
        "",
        "platforms:",
        *(line for one in starter.platforms for line in _platform(one, starter.told.env_of(one.platform))),
        *(f"  {to_comment(f'{one.platform}: {one.why}')}" for one in starter.left),
        *_build(starter, has_sdist=sdist is None, smart=smart),
        *_validation(starter),
        *(_publication(f"{found['owner']}/{found['name']}" if found else "your-org/your-project") if smart else ()),
    ]
    return "\n".join(lines) + "\n"


def _source(starter: Starter, sdist: SdistSource | None) -> Iterator[str]:
    folder = starter.folder
    if folder or sdist:
        yield from ("", "source:")
    if starter.path != ".":
        yield f"  path: {to_scalar(starter.path)} # the project needs what is beside its folder"
    if sdist:
        name, version = to_scalar(sdist.name), to_scalar(sdist.version)
        yield f"  sdist: {{ name: {name}, version: {version}, sha256: {to_scalar(sdist.sha256)} }}"
    if folder:
        yield f"  subdirectory: {to_scalar(folder)}"


def _torch(torch: TorchChoice) -> list[str]:
    names = ", ".join(quote_names(map(str, torch.versions)))
    value = f"{{ lowest: {names} }}" if torch.is_open else f"[{names}]"  # open: later ones are served, too
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


def _build(starter: Starter, *, has_sdist: bool, smart: bool) -> Iterator[str]:
    told = starter.told.env_of_all
    is_packed = smart or not starter.manifest  # else it would not be smart
    if starter.env or told or starter.told.requires or not (has_sdist and is_packed):
        yield from ("", "build:")
    if not has_sdist:
        yield "  sdist: false # the package index has it"
    elif not is_packed:
        yield f"  sdist: false {to_comment(f'it would lack files, without this in MANIFEST.in: {starter.manifest}')}"
    if starter.told.requires:
        yield "  requires:"
        for one in starter.told.requires:
            is_ours = one == OLD_SETUPTOOLS
            why = "setuptools 82 dropped pkg_resources" if is_ours else "cibuildwheel's before-build installs it"
            yield f"    - {json.dumps(one)} # {why}"
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
