"""The verb `plan`: reads the config, source and evidence and makes the plan. It loads no builder, to be fast."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools import catalog as catalogs
from ci_tools.catalog import Catalog
from ci_tools.config import commands, loader, overrides
from ci_tools.errors import InputError, Problem, RejectedInput, ShallowError, TagError, count, nearest
from ci_tools.machine.context import Outside
from ci_tools.model import edition as editions
from ci_tools.model.evidence import Evidence
from ci_tools.model.plan import SDIST, Job, Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.request import NO_RUN, STABLE, UNTAGGED, Edition, GitSource, PathSource, Release, Request, Run
from ci_tools.model.versions import parse_version
from ci_tools.observe.collector import gather
from ci_tools.plan import plan_file, planner
from ci_tools.plan.aliases import names_of
from ci_tools.source import files as source
from ci_tools.source import git
from ci_tools.source.files import Tree
from ci_tools.source.versions import OwnVersion

MAX_SHOWN = 5  # files that differ from the commit


# Files that a build compiles or runs, or reads its settings from: a pointer in the place of one makes another wheel.
SOURCE = re.compile(
    r"\.([cCsS]|cc|cpp|cxx|c\+\+|cu|cuh|h|hh|hpp|hxx|h\+\+|inl|inc|ipp|tpp|mm?|metal|hip|sycl|cl|ptx|cubin|fatbin|asm|def|ld|map"
    r"|pyi?|pyx|pxd|pxi|rs|go|zig|proto|f|for|f\d\d|toml|cfg|cmake|in|a|o|obj|lib|so(\.\d+)*|dylib|dll|pyd|zip|whl|t?[gx]z)$"
)
LFS = "reference/build-failures.md#lfs-pointer"
FETCH = "`git lfs pull` fetches it (on GitHub: `lfs: true` for wheels.yml, or for actions/checkout)"
OF_ANOTHER = (
    "Fatwheel's own copy has what the commit or the sdist has: name a checkout, after `git lfs pull`, as `path`"
)


class Planned(NamedTuple):
    """A plan, with the tree, the catalog and the evidence it was made from."""

    plan: Plan
    tree: Tree
    catalog: Catalog
    evidence: Evidence
    config: Path | None = None  # the file it was made from

    def job(self, name: str) -> Job:
        """Return the job of that name; raise InputError if the plan has no such job."""
        jobs = {job.name: job for job in self.plan.jobs}
        if name not in jobs:
            raise InputError(f'the plan has no job "{name}", {nearest(name, [*jobs, SDIST])}')
        return jobs[name]


def make_plan(
    path: Path,
    outside: Outside,
    *,
    pinned: Path | None = None,
    edition: Edition | None = None,
    tag: str = "",
    run: Run = NO_RUN,
) -> Planned:
    """Make the plan of the config at `path` and its source, for an edition, with the changes that `run` makes.

    The edition is that of `tag`, or `edition`, or else that of the tags at the checked-out commit of the config's
    repository. With `pinned`, a plan.json, edition and run come from that file, and the plan made here must equal it:
    raises InputError with the differences.
    """
    expected = plan_file.read(pinned) if pinned else None
    said = overrides.run_of(expected) if expected else run
    recorded = plan_file.rows_of(expected, str(pinned)) if expected else None
    request = loader.load(path, catalogs.load(), recorded, outside=outside, nightly=overrides.find_nightly(said))
    catalog = catalogs.load(request.catalog)
    request = overrides.apply_run(request, said, catalog)
    commit = expected["pins"]["commit"] if expected else None  # the recorded commit, even if the ref has moved
    tree = source.open_tree(request, path.parent, outside, commit)
    commands.refuse_missing(request, tree.root, tree.files)
    _tell_changes(tree, request, outside)
    _refuse_pointers(tree, FETCH if isinstance(request.source, PathSource) else OF_ANOTHER)
    try:
        evidence = gather(request, tree, catalog, outside, tag, _read_told(expected))
    except ShallowError:
        if not isinstance(request.source, GitSource):
            raise  # a checkout of the user's
        tree = source.open_tree(request, path.parent, outside, commit or tree.commit, is_whole=True)
        evidence = gather(request, tree, catalog, outside, tag, _read_told(expected))
    # The build must see what the version's tool saw.
    tree = replace(tree, checkout=None) if evidence.project.hides_git else tree
    request = _name_tag(request, evidence, tag, expected)
    edition = plan_file.edition_of(expected) if expected else edition
    if edition is None:
        edition = _edition_of_checkout(path.parent, tag, request, evidence, outside)
    plan = planner.make_plan(request, evidence, catalog, edition)
    if not isinstance(request.source, PathSource):
        plan = replace(plan, pins=plan.pins._replace(config_commit=git.head(path.parent, outside.environ)))
    names_of(plan)  # raises the error of an alias that names two wheels
    if expected:
        _refuse_difference(expected, plan, pinned)
    return Planned(plan, tree, catalog, evidence, path)


def _tell_changes(tree: Tree, request: Request, outside: Outside) -> None:
    """Say which files a build sees that are not as in the commit: git itself does not tell it.

    The config does not count: it is written before the first plan.
    """
    changes = tree.checkout.list_changes(tree.files) if tree.checkout and tree.commit else []
    changes = [name for name in changes if name != request.config]
    if changes:
        more = f" and {len(changes) - MAX_SHOWN} more" if len(changes) > MAX_SHOWN else ""
        shown = f"{', '.join(changes[:MAX_SHOWN])}{more}"
        outside.reporter.say(f"not as in the commit, and built as it is here: {shown}")


def take_level(planned: Planned, platform: Platform, level: str) -> Planned:
    """Return the plan whose wheels of a platform have another level, such as manylinux_2_36."""
    request = overrides.take_levels(planned.plan.request, (*planned.plan.request.run.level, f"{platform}={level}"))
    plan = planner.make_plan(request, planned.evidence, planned.catalog, planned.plan.edition)
    return planned._replace(plan=replace(plan, pins=planned.plan.pins))


def _refuse_pointers(tree: Tree, how: str) -> None:
    """Raise RejectedInput for sources whose content Git LFS has not fetched; other files are warned about."""
    sources = (name for name in tree.pointers if SOURCE.search(name))
    problems = [Problem(f"{name}:1", "this is a pointer of Git LFS, expected the source itself") for name in sources]
    if problems:
        raise RejectedInput(problems, hint=f"{how}; `include:` leaves out what no build needs", page=LFS)


def resolve_tag(ref: str, path: Path, outside: Outside) -> str:
    """Return the tag that a ref such as v1.2.0 or refs/tags/v1.2.0 names in the checkout of the config at `path`.

    Returns "" if the ref is a branch or a commit. Raises InputError if the tag is not at the checked-out commit.
    """
    here = git.tags(path.parent, outside.environ, at_head=True)
    tag = ref.removeprefix(git.TAGS)
    if tag == ref:
        return tag if tag in here else ""  # a branch may be named like a tag
    if tag not in here:
        msg = f"the tag {tag} is not at the commit that is checked out"
        raise InputError(msg, hint="check the tag itself out; actions/checkout takes it as its `ref`")
    return tag


def _read_told(expected: dict[str, Any] | None) -> OwnVersion | None:
    """Return the version of a plan that a tool gave: a runner's checkout may lack the tags that it was made of."""
    project = (expected or {}).get("project", {})
    if not project.get("told"):
        return None
    ways = {name: project[name] for name in ("told_tag", "hides_git") if name in project}
    return OwnVersion(project["version"], "", said=project["told"], **ways)


def _name_tag(request: Request, evidence: Evidence, tag: str, expected: dict[str, Any] | None) -> Request:
    """Return the request with the template of the tag from which the project's own tool takes the version.

    It is that of the config, or the default, if one of these tags is made by it.
    """
    project, tags = evidence.project, evidence.release_tags or ()
    if expected and project.told and not request.release.rebuild:
        return replace(request, release=request.release._replace(tag=expected["request"]["release"]["tag"]))
    known = {"name": project.name, "version": project.version}
    is_usual = editions.parse_commit_tags(tags, request.release.tag, known) != UNTAGGED
    if request.release.tag != Release().tag or is_usual or not tags:
        return request
    own = tag if tag in tags else next((one for one in tags if project.name in one), tags[0])
    plain = own.replace("{", "{{").replace("}", "}}")  # a tag may have braces, and the template is for str.format
    return replace(request, release=request.release._replace(tag=plain.replace(project.version, "{version}")))


def _edition_of_checkout(folder: Path, tag: str, request: Request, evidence: Evidence, outside: Outside) -> Edition:
    """Return the edition of a tag, or else that of the tags at the checked-out commit."""
    here, project = git.tags(folder, outside.environ, at_head=True), evidence.project
    template, known = request.release.tag, {"name": project.name, "version": project.version}
    if not tag:
        edition = editions.parse_commit_tags(here, template, known)
        if edition == UNTAGGED:
            _tell_other_commit(folder, editions.tag_of(STABLE, template, known), project.version, outside)
        return STABLE if edition == UNTAGGED and request.release.untagged else edition  # releases without tags
    if tag not in here and tag in git.tags(folder, outside.environ, at_head=False):
        msg = f"--tag: {tag} is at another commit than the one that is checked out"
        raise InputError(msg, hint=f"`git checkout {tag}` first: a release is built from its tag")
    is_read = evidence.release_tags is None or tag in evidence.release_tags
    if not is_read and editions.parse_commit_tags([tag], template, known) == UNTAGGED:
        msg = f"--tag: the project's own tool takes no version from {tag}: with it, {project.told}"
        raise TagError(msg, hint="name a tag of this project, or have its settings read this one")
    return editions.parse_tag(tag, template, project.name, project.version)


def _tell_other_commit(folder: Path, tag: str, version: str, outside: Outside) -> None:
    """Say that the version was tagged at another commit than this one, which has no tag of it."""
    if tag in git.tags(folder, outside.environ, at_head=False) and not parse_version(version).is_devrelease:
        commit = git.revision(folder, f"{git.TAGS}{tag}", outside.environ)
        behind = git.ask(folder, outside.environ, "rev-list", "--count", f"{commit}..HEAD") or "0"
        since = f", {count(int(behind), 'commit')} before this one" if int(behind) else ""
        what = f"version {version} was tagged as {tag} at {commit[:12]}{since}"
        outside.reporter.say(f"warning: {what}: a release under this number would differ")


def place_of_scripts(request: Request, path: Path, outside: Outside) -> Path | None:
    """Return the source folder of the config at `path` if its validation runs a script, or None."""
    runs_any = any(commands.script_of(command.run) for command in request.validate.commands)
    return source.open_tree(request, path.parent, outside).root if runs_any else None


def _refuse_difference(expected: dict[str, object], plan: Plan, pinned: Path | None) -> None:
    different = list(plan_file.differences(expected, plan_file.to_json(plan)))
    if different:
        shown = "\n".join(f"  {line}" for line in different[:8])  # eight show the kind of difference
        msg = f"{pinned} is not the plan of this source:\n{shown}"
        hint = "check out the plan's commit, or plan again"
        raise InputError(msg, hint=hint, page="how-to/build-on-several-machines.md")
