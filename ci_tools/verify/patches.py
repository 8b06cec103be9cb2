"""The verb advise: turns receipts and sources into advice and patches; `--prove` builds a copy with each patch.

Nothing is written into the user's tree.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools import catalog as catalogs
from ci_tools.build import jobs as building
from ci_tools.build.jobs import Made
from ci_tools.build.units.forecast import MadeUnit, read_made
from ci_tools.build.units.launchers import find_store
from ci_tools.catalog import Catalog
from ci_tools.config import loader
from ci_tools.errors import InputError, Rejected
from ci_tools.formats import receipts
from ci_tools.machine.context import Outside
from ci_tools.machine.python import find
from ci_tools.machine.workplace import scratch
from ci_tools.model.files import Outcome
from ci_tools.model.plan import Job, Plan
from ci_tools.model.request import Request
from ci_tools.model.versions import Python
from ci_tools.observe.collector import gather
from ci_tools.plan import planner
from ci_tools.plan.advise.advice import Advice, Advised, advise
from ci_tools.plan.advise.option import Edits, identity
from ci_tools.plan.advise.options import find_guard_options, find_tag_options
from ci_tools.plan.make import Planned
from ci_tools.source import files as source
from ci_tools.source import git
from ci_tools.source.files import Tree
from ci_tools.source.includes import Includes
from ci_tools.verify import files

ALL, GUARD, INCLUDES = "all patches together", "gpu-guard", "python-header"
WHOLE_LINES = re.compile(r"[^\n]*\n|[^\n]+\Z")


class Patched(NamedTuple):
    """A piece of advice and its patch, a unified diff against the source; empty if a patch cannot express it."""

    advice: Advice
    patch: str


class PatchProof(NamedTuple):
    """The result of a patch: the numbers of jobs before and after it, and which of them were built and tried."""

    name: str
    before: int
    after: int | None  # None: planning failed with it
    outcome: Outcome
    details: tuple[str, ...]


def consult(planned: Planned, out: Path, outside: Outside) -> tuple[Advised, tuple[Patched, ...]]:
    """Return the advice for a plan, each with its patch; receipts in `out` give the build times of its wheels.

    The patch of an option whose effect is not planned is tried on a copy: it is shown if its plan is made.
    """
    known = {str(job.wheel): receipt for job in planned.plan.jobs if (receipt := receipts.load(out / job.wheel))}
    advised = advise(planned, known)
    found = (Patched(one, patch_of(planned.tree, one.option.edits)) for one in advised.advice)
    return advised, tuple(one if _is_planned(one, planned, outside) else one._replace(patch="") for one in found)


def _is_planned(one: Patched, planned: Planned, outside: Outside) -> bool:
    """Whether the plan of an option is known, or is made with its patch."""
    if not one.patch or one.advice.option.change is not identity:
        return True
    tried = try_patch(planned.plan.request, planned.tree, planned.catalog, one.patch, outside)
    is_for_more = one.advice.option.name == GUARD  # it saves no job, but serves more cells
    return tried is not None and (not is_for_more or len(tried.plan.skipped) < len(planned.plan.skipped))


def try_patch(request: Request, tree: Tree, catalog: Catalog, patch: str, outside: Outside) -> Planned | None:
    """Return the plan of a copy of a source with a patch applied; None if it is refused."""
    try:
        with scratch() as folder:
            return _plan_with_patch(request, tree, catalog, patch, folder.resolve() / "source", outside)
    except (InputError, Rejected):
        return None


def to_json(advised: Advised, patched: Sequence[Patched], proofs: Sequence[PatchProof] | None = None) -> dict[str, Any]:
    """Return the advice as one JSON object."""
    value: dict[str, Any] = {
        "schema": 1,
        "jobs": {"before": advised.before, "after": advised.after},
        "advice": [one.advice.to_json(one.patch) for one in patched],
    }
    if proofs is not None:
        value["proof"] = [one._asdict() for one in proofs]
    return value


# ---------------------------------------------------------------- patches


def patch_of_all(planned: Planned, patched: Sequence[Patched]) -> str:
    """Return one patch with all edits that give up no cell, in their order."""
    return patch_of(planned.tree, tuple(edit for one in _harmless(patched) for edit in one.advice.option.edits))


def _harmless(patched: Sequence[Patched]) -> list[Patched]:
    """Return the advice that has a patch and gives up no cell of the plan."""
    return [one for one in patched if one.patch and not one.advice.option.gives_up]


def patch_of(tree: Tree, wanted: Edits) -> str:
    """Return edits of a source as a unified diff for `git apply`, or "" if one of them cannot be made."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for file, edit in wanted:
        text = before.setdefault(file, _text(tree, file))
        edited = edit(_convert_newlines(after.get(file, text), "\n"))
        if "\ufffd" in text or edited is None:  # not UTF-8: an edit could damage it
            return ""
        after[file] = _convert_newlines(edited, "\r\n" if "\r\n" in text else "\n")
    return "".join(_diff(file, before[file], after[file]) for file in after)


def _text(tree: Tree, file: str) -> str:
    """Return a file's text without newline translation, or "" if the source has no such file."""
    return (tree.root / file).read_bytes().decode(errors="replace") if file in tree.names else ""


def _convert_newlines(text: str, newline: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", newline)


def _diff(file: str, before: str, after: str) -> str:
    """Return a git-style diff of two texts, which marks a last line without a newline."""
    old, new = WHOLE_LINES.findall(before), WHOLE_LINES.findall(after)
    lines = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


# ---------------------------------------------------------------- proof


def prove(planned: Planned, patched: Sequence[Patched], outside: Outside) -> tuple[PatchProof, ...]:
    """Apply each patch to a copy of the source, and then all together; plan each copy, and build and try its jobs.

    Jobs that this machine cannot build count as not exercised, never as passed.
    """
    with_patch = [one for one in patched if one.patch]
    each = [(one.advice.option.name, one.patch, one.advice.after) for one in with_patch]
    together = [(ALL, patch_of_all(planned, patched), None)] if len(_harmless(patched)) > 1 else []
    return tuple(_proven(planned, name, patch, expected, outside) for name, patch, expected in (*each, *together))


def status(proofs: Sequence[PatchProof]) -> int:
    """Return the exit status of proofs: `Rejected.status` if one has failed, else 0."""
    return Rejected.status if any(proof.outcome is Outcome.FAILED for proof in proofs) else 0


def _proven(planned: Planned, name: str, patch: str, expected: int | None, outside: Outside) -> PatchProof:
    before = len(planned.plan.jobs)
    out = outside.cache / "advice" / hashlib.sha256((planned.tree.sha256 + patch).encode()).hexdigest()[:16]
    outside.reporter.say(f"prove the patch {name}: what it builds goes to {out}")
    with scratch() as folder:
        try:
            request, tree, catalog = planned.plan.request, planned.tree, planned.catalog
            changed = _plan_with_patch(request, tree, catalog, patch, folder.resolve() / "source", outside)
        except (InputError, Rejected) as error:
            return PatchProof(name, before, None, Outcome.FAILED, (error.brief,))
        after = len(changed.plan.jobs)
        if wrong := _not_smaller(before, after, expected):
            return PatchProof(name, before, after, Outcome.FAILED, (wrong,))
        outcome, details = _prove_jobs(planned, changed, out, outside)
        if name == INCLUDES and outcome is Outcome.PASSED:
            details = (*details, *_compare_includes(planned, changed, out / "without", outside))
        return PatchProof(name, before, after, outcome, details)


def _not_smaller(before: int, after: int, expected: int | None) -> str:
    if expected is not None and after != expected:
        return f"the plan has {after} jobs with it, expected {expected}"
    if after == expected == before:  # it mends a tag
        return ""
    return "" if after < before else f"the plan has {after} jobs with it, no fewer than the {before} without it"


def _plan_with_patch(
    request: Request, tree: Tree, catalog: Catalog, patch: str, root: Path, outside: Outside
) -> Planned:
    """Return the plan of a copy of the source with a patch applied."""
    tree.copy_to(root)
    _apply(patch, root, outside)
    tree = replace(tree, root=root)
    if f"+++ b/{request.config}\n" in patch:
        request = loader.load(root / request.config, catalog, outside=outside)
    evidence = gather(request, tree, catalog, outside)
    return Planned(planner.make_plan(request, evidence, catalog), tree, catalog, evidence)


def _apply(patch: str, root: Path, outside: Outside) -> None:
    """Apply a patch with git, as a user would."""
    file = root.parent / "advice.patch"
    file.write_bytes(patch.encode())
    if refused := git.apply_patch(file, root, outside.environ):
        said = "; ".join(line for line in refused.splitlines() if line.startswith("error"))  # git prints hints as well
        raise Rejected(f"git does not apply the patch: {said}")


def _prove_jobs(planned: Planned, changed: Planned, out: Path, outside: Outside) -> tuple[Outcome, tuple[str, ...]]:
    """Build, audit and validate the jobs that this machine can build; the outcome covers only those."""
    tools = building.toolchains_of(changed, outside)
    missing = {job.name: tools.missing(job) for job in changed.plan.jobs}
    jobs = [job for job in changed.plan.jobs if not missing[job.name]]
    left = tuple(f"{name}: not built: {why}" for name, why in missing.items() if why)
    if not jobs:
        return Outcome.NOT_EXERCISED, left
    try:
        return Outcome.PASSED, (*_try_jobs(changed, jobs, out, outside), *left)
    except (InputError, Rejected) as error:
        return Outcome.FAILED, (error.brief, *_also_without(planned, out / "without", outside), *left)


def _try_jobs(changed: Planned, jobs: Sequence[Job], out: Path, outside: Outside) -> Iterator[str]:
    """Yield a line on each wheel that was built, audited and validated; raise Rejected if one is bad."""
    for made in building.build(changed, [job.name for job in jobs], out, outside, files.CHECKS):
        findings = files.audit_files([made.path], changed.plan, outside)
        files.refuse_findings(findings)
        passed = []
        for python in _ends(changed.plan, made, outside):  # what holds for both holds between
            here = files.Here(python, changed.tree.root)
            trials = files.validate_files([made.path], changed.plan.request, here, outside)
            files.refuse_failures(trials)
            count = sum(trial.outcome is Outcome.PASSED for tried in trials.values() for trial in tried)
            passed.append(f"{count} trials passed on Python {python}")
        size = f"{made.receipt.size / 1e6:.3f} MB in {made.receipt.seconds:.1f} s"
        yield f"{made.path.name}: built ({size}), audited; {', '.join(passed) or 'none of its Pythons is here'}"


def _compare_includes(planned: Planned, changed: Planned, out: Path, outside: Outside) -> Iterator[str]:
    """Yield what each changed file takes without a patch and with it, and whether its device code is the same."""
    tools = building.toolchains_of(planned, outside)
    job = next(job.name for job in planned.plan.jobs if not tools.missing(job))
    building.build(planned, [job], out, outside, files.CHECKS)
    store, trees = find_store(outside), (planned.tree, changed.tree)
    without, with_patch = (read_made(planned.plan, job, tree, store) for tree in trees)
    for name in sorted(without.keys() & with_patch.keys()):
        old, new = ({one.header for one in Includes(tree).of(name)} for tree in trees)
        now, then = without[name], with_patch[name]
        if (now.is_of_python, old) != (then.is_of_python, new):
            more, less = (", ".join(sorted(headers)) or "others" for headers in (old - new, new - old))
            yield f"{name}: {more} {now.describe()}, {less} {then.describe()}{_compare_images(now, then)}"


def _compare_images(now: MadeUnit, then: MadeUnit) -> str:
    """Return in words which device code of a unit is equal; "" without any."""
    if now.images == then.images:
        return f"; the same device code, {' '.join(now.images)}" if now.images else ""
    other = [name for name in {**now.images, **then.images} if now.images.get(name) != then.images.get(name)]
    return f"; other device code, {' '.join(other)}"


def _ends(plan: Plan, made: Made, outside: Outside) -> list[Python]:
    """Return the oldest and the newest Python on this machine that a wheel serves."""
    job = next(job for job in plan.jobs if job.name == made.receipt.job)
    pythons = sorted({cell.python for cell in job.covers if find(cell.python, outside.environ)})
    return pythons if len(pythons) == 1 else [*pythons[:1], *pythons[-1:]]


def _also_without(planned: Planned, out: Path, outside: Outside) -> Iterator[str]:
    """Yield a line if the source fails without the patch too: then the patch is not the cause."""
    tools = building.toolchains_of(planned, outside)
    jobs = [job for job in planned.plan.jobs if not tools.missing(job)][:1]  # one is enough to show it
    try:
        list(_try_jobs(planned, jobs, out, outside))
    except (InputError, Rejected) as error:
        yield f"without the patch it fails too: {error.brief}"


def find_mends(path: Path, outside: Outside) -> tuple[Planned, Advised, tuple[Patched, ...]] | None:
    """Return the plan of the config at `path` with all mends of its source, and each mend; None if that has no plan.

    Advice without a patch mends nothing: then the others are not enough either.
    """
    request = loader.load(path, catalogs.load(), outside=outside)
    catalog = catalogs.load(request.catalog)
    tree = source.open_tree(request, path.parent, outside)
    platforms = gather(request, tree, catalog, outside).platforms
    shown = tuple(dict.fromkeys(one for found in platforms for one in (found.shown, *found.apart.values())))
    options = (*find_tag_options(shown, tree), *find_guard_options(shown, tree))
    patch = patch_of(tree, tuple(edit for option in options for edit in option.edits))
    planned = try_patch(request, tree, catalog, patch, outside) if patch else None
    if planned is None:
        return None
    jobs = len(planned.plan.jobs)
    advice = tuple(Advice(option, jobs, jobs) for option in options)
    patched = tuple(Patched(one, patch_of(tree, one.option.edits)) for one in advice)
    return planned._replace(tree=tree), Advised(advice, jobs, jobs), patched
