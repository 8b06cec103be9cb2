"""Plans and builds the job of a published wheel again: from its commit, with its requirements, in an empty folder."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import __version__, catalog
from ci_tools.addresses import redact
from ci_tools.build import jobs
from ci_tools.build.containers.engines import choose
from ci_tools.build.units.launchers import OFF, SWITCH
from ci_tools.config import loader
from ci_tools.errors import InputError, MachineError, ShallowError
from ci_tools.machine.context import Outside
from ci_tools.model.request import GitSource, Run
from ci_tools.plan import make
from ci_tools.plan.make import Planned
from ci_tools.source import git
from ci_tools.verify.files import CHECKS
from ci_tools.verify.remake.stated import ADDRESS, StatedBuild, read_stated

PAGE = "how-to/verify-a-wheel.md#what-it-cannot-check"
TORCH = re.compile(r"[\w.+]+", re.ASCII)  # a version, and not that of headers only


class Named(NamedTuple):
    """The source and the config that the user names, in place of those that the wheel states."""

    source: str = ""  # of the commit to check out: an address, or a folder with a clone
    config: Path | None = None  # of a wheel whose source is fetched, in place of that commit


class Replayed(NamedTuple):
    """A wheel that was made again, what it states of its build, and what was found on the way."""

    path: Path
    stated: StatedBuild
    source: str  # the address that the commit came from; "": the config's own
    notes: tuple[str, ...]


def replay(stated: StatedBuild, named: Named, folder: Path, outside: Outside) -> Replayed:
    """Make a wheel again below an empty folder.

    Raises InputError with why this machine cannot, or why the wheel does not say enough; the build's errors else.
    """
    commit = stated.said.get("source:commit", "")
    if not commit and "source" not in stated.said:
        msg = f"{stated.wheel} states no commit: it is of no release, so nobody else can make it again"
        how = "commit the source and its config, `git tag` the commit with the version's tag, and build it there"
        raise InputError(msg, hint=how, page=PAGE)
    planned, url, notes = _plan_again(stated, named, folder, outside)
    job = next((job for job in planned.plan.jobs if job.name == stated.job), None)
    names = (job.wheel, job.public) if job else ()
    if job is None or stated.wheel not in names:
        made = f"makes {' and '.join(filter(None, names))}" if job else "is not in its plan"
        msg = f"{stated.wheel} cannot be made from {commit[:12] or 'its sdist'} here: its job {stated.job} {made}"
        raise InputError(msg, hint=f"it was made by Fatwheel {stated.said['fatwheel']}, and this is {__version__}")
    _refuse_machine(stated, planned, outside)
    out = outside.cache / "remakes" / stated.sha256  # it stays, with the log, if it differs or fails
    shutil.rmtree(out, ignore_errors=True)  # of an earlier run
    alone = replace(outside, environ={"PIP_RETRIES": "2", **outside.environ, SWITCH: OFF})  # no store, few retries
    jobs.build(planned, [stated.job], out, alone, CHECKS)
    return Replayed(out / stated.wheel, read_stated(out / stated.wheel), url, notes)


def _plan_again(
    stated: StatedBuild, named: Named, folder: Path, outside: Outside
) -> tuple[Planned, str, tuple[str, ...]]:
    """Return the wheel's plan, the address of its commit, and what to say of the tag; raise InputError as `replay`."""
    is_fetched = "source" in stated.said
    if named.config and (named.source or not is_fetched):
        why = "and --source gives its config" if is_fetched else "whose config is the one at its commit"
        raise InputError(f"--config is not for {stated.wheel}, {why}", hint="leave it out")
    if not is_fetched or named.source:
        commit = stated.said.get("config:commit" if is_fetched else "source:commit", "")
        if not commit:
            msg = f"{stated.wheel} states no commit of its config, which is not in its source"
            raise InputError(msg, hint="name the config by --config, in place of --source")
        url = _find_address(stated, named)
        planned, notes = _plan_commit(stated, commit, url, folder, outside)
    else:
        planned, url, notes = _plan(stated, _name_config(stated, named), outside), "", ()
    if is_fetched and planned.plan.stated_commits[0] != (made_from := stated.said.get("source:commit", "")):
        at = f"{planned.plan.pins.commit} there now, and the wheel was made from {made_from or 'an sdist'}"
        hint = "write that one as its `ref`, in the config that --config names"
        raise InputError(f"{planned.plan.request.config}: its source is at commit {at}", hint=hint)
    return planned, "" if is_fetched else url, notes


def _refuse_machine(stated: StatedBuild, planned: Planned, outside: Outside) -> None:
    """Raise InputError if this machine cannot build the job."""
    job = planned.job(stated.job)
    missing = jobs.toolchains_of(planned, outside).missing(job)
    if missing and not choose(job, planned.catalog, outside):
        hint = "the config at the wheel's commit counts: a machine with what it asks for can make it, or the same image"
        raise InputError(f"{stated.wheel} cannot be made on this machine: {missing}", hint=hint)


def _find_address(stated: StatedBuild, named: Named) -> str:
    url = named.source or stated.address
    if not url:
        msg = f"{stated.wheel} states no address of its source"
        raise InputError(msg, hint="name it, or a clone: `--source https://github.com/OWNER/REPO`")
    return url if ADDRESS.fullmatch(url) else git.address(GitSource(url=url, ref=""), Path())


def _plan_commit(
    stated: StatedBuild, commit: str, url: str, folder: Path, outside: Outside
) -> tuple[Planned, tuple[str, ...]]:
    """Return the plan of the config's commit, and what to say of its tag: the commit counts, wherever that is now."""
    tag = stated.said.get("tag", "")
    source, environ = GitSource(url=url, ref=tag or commit), outside.environ
    try:
        now = git.find_tag(source, url, tag, environ) if tag else commit
    except MachineError as error:
        error.hint += "; if the repository is gone, `--source` names a clone of it"
        raise
    where = f"is at commit {now} now" if now else "is gone"
    notes = (f"the tag {tag} {where}: the wheel was made from {commit}, which counts",) if now != commit else ()

    def plan(root: Path, *, is_whole: bool) -> Planned:
        root.mkdir()
        with outside.reporter.step(redact(f"fetch {commit[:12]} of {url}")):
            git.check_out(source, url, commit, root, environ, is_whole=is_whole)
        if notes:
            git.run_git(["update-ref", f"{git.TAGS}{tag}", commit], source, root, environ)
        return _plan(stated, _find_config(stated, commit, root, outside), outside)

    try:
        return plan(folder / "source", is_whole=False), notes
    except ShallowError:
        return plan(folder / "whole", is_whole=True), notes


def _find_config(stated: StatedBuild, commit: str, root: Path, outside: Outside) -> Path:
    """Return the config of the wheel's project; its path counts from the project's source, a folder of the checkout."""
    path = stated.said.get("config", "fatwheel.yml")
    names = sorted(git.listed(root, outside.environ) or (), key=len)  # the shortest path first: the root's
    for name in (name for name in names if f"/{name}".endswith(f"/{path}")):
        with suppress(InputError):  # another config may be broken
            if canonicalize_name(loader.load(root / name, catalog.load(), outside=outside).name) == stated.project:
                return root / name
    msg = f"the commit {commit[:12]} has no {path} of {stated.project}"
    hint = "the config was not committed when the wheel was built: commit it, tag that commit, and release again"
    raise InputError(msg, hint=hint, page=PAGE)


def _name_config(stated: StatedBuild, named: Named) -> Path:
    """Return the config that the user names, of a source that is another repository or an sdist, such as a recipe's."""
    if named.config is None:
        at = f", at commit {stated.said['config:commit']} of its repository" if "config:commit" in stated.said else ""
        msg = f"{stated.wheel} was made by a config that is not in its source: {stated.said.get('config', '')}{at}"
        hint = "name it by --config, which `fatwheel recipe copy` writes of a recipe, or its repository by --source"
        raise InputError(msg, hint=hint)
    return named.config


def _plan(stated: StatedBuild, config: Path, outside: Outside) -> Planned:
    torch, own = stated.tools.get("torch", ""), stated.requires
    has_hashes = all(one.sha256 for one in own)  # pip takes some with and some without for a mistake
    requires = [f"{name}=={version}{f' --hash=sha256:{sha256}' * has_hashes}" for name, version, sha256 in own]
    if TORCH.fullmatch(torch) and not any(one.name == "torch" for one in own):
        requires.append(f"torch=={torch}")  # whose parts are lent
    run = Run(
        torch=tuple(stated.said.get("run:torch", "").split()),
        level=tuple(stated.said.get("run:level", "").split()),
        container=(stated.image,) if stated.image else (),
        requires=tuple(requires),
    )
    return make.make_plan(config, outside, edition=stated.edition, run=run)
