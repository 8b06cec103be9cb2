"""Audits files and tries them, each against the plan's entry for its file name."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import catalog as catalogs
from ci_tools.build.containers.engines import choose
from ci_tools.build.jobs import Checks, Made, toolchains_of, working_in, workshop_in
from ci_tools.build.sdist import audit_sdist, list_lacking, unpack_sdist
from ci_tools.errors import InputError, MachineError, Rejected, nearest
from ci_tools.formats import receipts
from ci_tools.formats.wheel import differing, open_wheel
from ci_tools.github import step as steps
from ci_tools.machine.context import Outside
from ci_tools.machine.python import find
from ci_tools.machine.storage import sha256_of
from ci_tools.machine.workplace import scratch
from ci_tools.model.files import Finding, Level, Outcome, Trial, Validated
from ci_tools.model.plan import SDIST, Job, Plan, Site
from ci_tools.model.request import Request, Validation
from ci_tools.model.versions import Python
from ci_tools.plan import plan_file
from ci_tools.plan.axes import PURE
from ci_tools.source.files import Tree
from ci_tools.verify.accelerated_torch import foresee_torch, lend_accelerated_torch, lend_nightly
from ci_tools.verify.audit import audit, device_images
from ci_tools.verify.audit.libraries.extensions import STALE
from ci_tools.verify.fingerprint import are_libraries, describe_difference
from ci_tools.verify.modules import own_imports
from ci_tools.verify.together import TOGETHER, find_disagreements
from ci_tools.verify.torch_stock import TorchStock, open_stock
from ci_tools.verify.validator import Validator, gpu_here, has_gpu, own_python

if TYPE_CHECKING:
    from ci_tools.plan.make import Planned

MAX_REBUILT = 600  # seconds; a build that took longer is not repeated from the sdist
FORETOLD = ("tags", "prediction", "fatbinary", "suffix")  # the rules that compare a wheel with its plan
TOLD = frozenset({"libraries", "overwritten", TOGETHER})  # the rules of which each message has something of its own
SHORTEST = 7  # digits of a commit that git prints at least, if nobody says how many
FROM_SDIST = "from the sdist"  # the place of a trial that builds a wheel again


class Here(NamedTuple):
    """The settings for trying wheels on this machine."""

    python: Python | None = None  # None: the wheel's own, or the one that runs this process
    source: Path | None = None  # the folder of the scripts that the config's commands run
    where: str = ""  # a site of the plan; empty: this kind of machine and its Python
    stock: TorchStock | None = None  # None: they get one of their own


def _refuse_surprise(path: Path, job: Job, outside: Outside) -> None:
    """Delete a wheel whose tags, members or architectures are not the plan's, and raise Rejected."""
    limits, work = catalogs.load().limits, outside.cache / "audit"
    findings = audit(path, job=job, limits=limits, work=work, only=FORETOLD)
    surprises = [finding for finding in findings if finding.level is Level.ERROR]
    if surprises:
        path.unlink()  # or a later run would take it for a good one
        shown = "\n".join(map(_shown, surprises))
        stale = "delete what an earlier build has left in the source, or name it in .gitignore and build in a checkout"
        is_stale = all(finding.effect == STALE for finding in surprises)
        raise Rejected(
            shown, hint=stale if is_stale else "the plan predicted another wheel: `fatwheel plan --explain` says why"
        )


def find_planned_files(plan: Plan, folder: Path) -> tuple[Path, ...]:
    """Return the files of a plan that are in a folder."""
    names = (plan.sdist, *plan.makers)
    return tuple(folder / name for name in names if name and (folder / name).is_file())


def audit_files(paths: Sequence[Path], plan: Plan | None, outside: Outside) -> tuple[Finding, ...]:
    """Audit wheels, and sdists if there is a plan, each against the plan's entry for its file name and all together."""
    found: list[Finding] = []
    for path in paths:
        _refuse_no_file(path)
        with outside.reporter.step(f"audit {path.name}") as step:
            findings = _audit_file(path, plan, outside)
            step.result(_verdict(findings))
        found += findings
    return (*found, *find_disagreements(paths))


def _verdict(findings: Sequence[Finding]) -> str:
    errors = sum(finding.level is Level.ERROR for finding in findings)
    warnings = len(findings) - errors
    parts = [f"{errors} wrong"] * bool(errors) + [f"{warnings} to look at"] * bool(warnings)
    return ", ".join(parts) or "good"


def _audit_file(path: Path, plan: Plan | None, outside: Outside) -> tuple[Finding, ...]:
    """Audit one file and write the findings to its receipt; a file that the plan does not know has an error.

    An audit without a plan checks less: its findings are added to those of an earlier audit with the plan.
    """
    jobs: dict[str, Job] = {job.wheel: job for job in plan.jobs} if plan else {}
    jobs |= {job.public: replace(job, wheel=job.public, local="") for job in plan.jobs if job.public} if plan else {}
    if plan and path.name == plan.sdist:
        findings = audit_sdist(path, plan.project)
    else:
        work, limits = outside.cache / "audit", catalogs.load().limits
        to_pypi = plan_file.goes_to_pypi(plan, path.name) if plan else None
        findings = audit(path, job=jobs.get(path.name), limits=limits, work=work, to_pypi=to_pypi)
        if plan and path.name not in jobs:
            message = f"the plan has no such wheel, {nearest(path.name, jobs)}"
            unknown = Finding(path.name, "planned", Level.ERROR, message, path.name, "a wheel of the plan")
            findings = (*findings, unknown)
    receipt = receipts.load(path)
    if receipt and plan:
        receipts.save(path, replace(receipt, findings=findings, audited=True))
    elif receipt:
        receipts.save(path, replace(receipt, findings=tuple(dict.fromkeys((*receipt.findings, *findings)))))
    return findings


def _refuse_no_file(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder, expected wheels", hint=f"name them: {path}/*.whl")
    if not path.is_file():
        names = [str(other) for other in path.parent.glob("*.whl")] if path.parent.is_dir() else []
        raise InputError(f"there is no {path}{', ' + nearest(str(path), names) if names else ''}")


def tell_findings(findings: Iterable[Finding], outside: Outside) -> None:
    """Say each warning once for all wheels, and of most rules only the first: builds and releases show no table."""
    warnings = [finding for finding in findings if finding.level is Level.WARNING]
    of_rules = Counter(finding.rule for finding in warnings if finding.rule not in TOLD)
    told: dict[str, Finding] = {}
    for finding in warnings:
        told.setdefault(finding.rule if finding.rule in of_rules else finding.message, finding)
    for finding in told.values():
        more = f"; {others} more of {finding.rule}" if (others := of_rules[finding.rule] - 1) > 0 else ""
        outside.reporter.say(f"warning: {_shown(finding)}; see it: {finding.command}{more}")


def refuse_findings(findings: Sequence[Finding], plan: Plan | None = None) -> None:
    """Raise Rejected with every finding that is an error, and the owners of the platforms concerned."""
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    if errors:
        hint = _whose({finding.wheel for finding in errors}, plan)
        raise Rejected("\n".join(map(_shown, errors)), hint=hint, page="reference/audit-rules.md")


def _whose(files: AbstractSet[str], plan: Plan | None) -> str:
    """Return who looks after the platforms of some files."""
    jobs = (job for job in plan.jobs if files & {job.wheel, job.public}) if plan else ()
    return "; ".join(dict.fromkeys(f"{job.owner} looks after {job.platform}" for job in jobs if job.owner))


def _shown(finding: Finding) -> str:
    what = f"{finding.wheel}: {finding.rule}: {finding.message}"
    effect = f": {finding.effect}" if finding.effect else ""
    return f"{what}{effect} (found {finding.found}, expected {finding.expected})"


def validate_files(
    paths: Iterable[Path], request: Request | None, here: Here, outside: Outside
) -> dict[str, tuple[Trial, ...]]:
    """Install each wheel in a clean environment and run the config's trials; without a config, import its packages."""
    with ExitStack() as stack:
        here = here._replace(stock=here.stock or stack.enter_context(open_stock()))
        return {path.name: _validate(path, request, here, outside) for path in paths}


def validate_sites(
    sites: Sequence[Site], plan: Plan, folder: Path, outside: Outside, planned: Callable[[], Planned]
) -> dict[str, tuple[Trial, ...]]:
    """Run the trials of some sites of the plan in turn; a site that cannot be tried here does not stop the others.

    After the last one, raises MachineError with all that could not be tried.
    """
    tried: dict[str, tuple[Trial, ...]] = {}
    failed: list[InputError | MachineError] = []
    for found in (_tried_or_why(site, plan, folder, outside, planned) for site in sites):
        if isinstance(found, dict):
            tried |= {name: (*tried.get(name, ()), *trials) for name, trials in found.items()}
        else:
            failed.append(found)
    if failed:
        refuse_failures(tried, _with_owners(plan, outside))  # what failed counts more than what was not tried
        raise failed[0] if not failed[1:] else MachineError("\n".join(error.message for error in failed))
    return tried


def _tried_or_why(
    site: Site, plan: Plan, folder: Path, outside: Outside, planned: Callable[[], Planned]
) -> dict[str, tuple[Trial, ...]] | InputError | MachineError:
    """Return the trials at a site, or the error if none could be made."""
    try:
        return validate_site(site, plan, folder, outside, planned)
    except (InputError, MachineError) as error:
        return error


def validate_site(
    site: Site, plan: Plan, folder: Path, outside: Outside, planned: Callable[[], Planned]
) -> dict[str, tuple[Trial, ...]]:
    """Run the trials of one site of the plan on the files in `folder`; `planned` returns the source and its plan.

    Raises MachineError if this machine lacks the GPU or the Python that the site asks for.
    """
    if site.gpu and not has_gpu():
        msg = f'"{site.name}" has to have a GPU, and no driver answers for one here'
        raise MachineError(msg, hint="the config's `gpu-runner` is to name a runner that has one")
    for name in site.files:
        _refuse_no_file(folder / name)
    with working_in(folder, outside):
        source = planned()
        if site.job != SDIST:
            here = Here(site.python, source.tree.root, site.name)
            return validate_files((folder / name for name in site.files), plan.request, here, outside)
        made = [_kept(folder / name) for name in site.files]
        return {made[0].path.name: (try_sdist(source, made, folder, outside, site.name),)}


def _kept(path: Path) -> Made:
    """Return a file that another machine has built; raise InputError if it has no receipt."""
    receipt = receipts.load(path)
    if receipt is None:
        msg = f"{path} has no receipt of its present bytes"
        raise InputError(msg, hint="`fatwheel build` leaves one beside what it builds, in receipts/")
    return Made(path, receipt, built=False)


def _validate(path: Path, request: Request | None, here: Here, outside: Outside) -> tuple[Trial, ...]:
    _refuse_no_file(path)
    validator = validator_of_wheel(path, request, here, outside)
    where, key = here.where or validator.where, validator.key(sha256_of(path))
    receipt = receipts.load(path)
    # At a site, the receipt came from another machine, where the project's code ran: it is not trusted, so try again.
    kept = receipt and not here.where and receipt.at(where)
    if kept and kept.key == key and kept.trials and not kept.failures:
        outside.reporter.say(f"keep the validation of {path.name}: it passed with the same bytes")
        return kept.trials
    with outside.reporter.step(f"validate {path.name}") as step:
        trials = validator.install_from_file(path)
        step.result(count_outcomes(trials))
    if request and receipt and canonicalize_name(request.name) == canonicalize_name(receipt.project):
        receipts.save(path, receipt.add_place(Validated(where, key, trials, gpu_here())))
    return trials


def validator_of_wheel(path: Path, request: Request | None, here: Here, outside: Outside) -> Validator:
    """Return a validator for a wheel, with the torch that it needs; raise MachineError if its Python is not here."""
    validation = request.validate if request else Validation()
    validator = validator_for(validation, here.python or own_python(path.name), path.parent, outside)
    source, project = here.source and here.source.resolve(), path.name.partition("-")[0]
    validator = replace(validator, source=source, stock=here.stock, project=project, own=own_imports(path))
    return lend_accelerated_torch(lend_nightly(validator, path, request.catalog if request else ()), path)


def validator_for(validation: Validation, python: Python | None, out: Path, outside: Outside) -> Validator:
    """Return a validator with that Python, or with this one; raise MachineError if this machine has no such Python."""
    interpreter = find(python, outside.environ) if python else Path(sys.executable)
    if interpreter is None:
        raise MachineError(f"Python {python} is not on this machine")
    return Validator(validation=validation, interpreter=interpreter, logs=out / "logs", outside=outside, gpu=has_gpu())


def prepare_torch(jobs: Sequence[Job], validation: Validation, here: Here, out: Path, outside: Outside) -> None:
    """Begin to install, in the background, each torch that the trials of wheels will take that are yet to be built.

    Raises MachineError if this machine lacks the Python of one: its build would be for nothing.
    """
    if not validation.torch:
        return
    asked = dict.fromkeys((here.python or own_python(job.wheel), job.accelerator) for job in jobs)
    for python, accelerator in asked:
        validator = replace(validator_for(validation, python, out, outside), stock=here.stock)
        foresee_torch(validator, accelerator).prepare_torch()
    outside.reporter.say(f"install torch {validation.torch} for the trials, beside the builds")


def count_outcomes(trials: Sequence[Trial]) -> str:
    """Return how many trials passed, failed and were not exercised, in words."""
    counts = {outcome: sum(trial.outcome is outcome for trial in trials) for outcome in Outcome}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)


def refuse_failures(trials: Mapping[str, Sequence[Trial]], plan: Plan | None = None) -> None:
    """Raise Rejected with every failed trial, and who looks after the platforms concerned."""
    failed = [(wheel, trial) for wheel, tried in trials.items() for trial in tried if trial.outcome is Outcome.FAILED]
    if failed:
        shown = "\n".join(f"{wheel}: {trial.what}: {trial.detail}" for wheel, trial in failed)
        raise Rejected(shown, hint=_whose({wheel for wheel, _ in failed}, plan))


def try_sdist(planned: Planned, made: Sequence[Made], out: Path, outside: Outside, where: str = FROM_SDIST) -> Trial:
    """Build a wheel from the unpacked sdist, unless an earlier run did, and compare it with the source's own.

    This is the pure wheel if there is one: it builds fastest.
    """
    sdist, wheels = made[0], made[1:]
    wheel = next((wheel for wheel in wheels if wheel.receipt.job == PURE), wheels[0])
    what = f"build {wheel.path.name} from {sdist.path.name}"
    if wheel.receipt.seconds > MAX_REBUILT:
        return Trial(what, Outcome.NOT_EXERCISED, f"it takes {wheel.receipt.seconds:.0f} seconds to build")
    choice = choose(planned.job(wheel.receipt.job), planned.catalog, outside)
    if choice and wheel.receipt.built_with.image.startswith(choice.image):  # this machine's compilers give other bytes
        return Trial(what, Outcome.NOT_EXERCISED, f"the wheel was built in {choice.image}, and an sdist is built here")
    key = f"{sdist.receipt.sha256}-{wheel.receipt.sha256}"
    kept = receipts.load(sdist.path)
    place = kept and kept.at(FROM_SDIST)
    if where == FROM_SDIST and kept and place and place.key == key and place.trials and kept.is_sound:
        return place.trials[0]  # never at a site: see _validate
    with outside.reporter.step(what) as step, scratch() as folder:
        trial = _same_wheel(planned, sdist, wheel, folder, out / "from-sdist", outside)
        step.result(str(trial.outcome))
    trial = trial._replace(what=what)
    if kept:
        receipts.save(sdist.path, kept.add_place(Validated(where, key, (trial,))))
    return trial


def _same_wheel(planned: Planned, sdist: Made, own: Made, folder: Path, out: Path, outside: Outside) -> Trial:
    plan, job = planned.plan, planned.job(own.receipt.job)
    subdirectory = f"{planned.tree.prefix}{plan.request.subdirectory}"
    tree = _at_its_place(unpack_sdist(sdist.path, folder / "source"), subdirectory.rstrip("/"), folder / "placed")
    constraints = plan.request.build.constraints
    if constraints:  # the same pins for both builds: an sdist may lack the file
        (tree.root / constraints).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / constraints).write_text(planned.tree.text(constraints), encoding="utf-8")
        tree = replace(tree, files=tuple(sorted({*tree.files, constraints})))
    alone = plan.request.build._replace(before=(), after=())  # users who build from an sdist do not run these commands
    request = replace(plan.request, include=None, build=alone, subdirectory=subdirectory)
    from_sdist = replace(plan, request=request, pins=plan.pins._replace(source_sha256=tree.sha256))
    tools = toolchains_of(planned, outside).prepare(job)
    try:
        workshop = replace(workshop_in(out, outside), takes_stored=False)  # so that a wrong object in the store shows
        wheel = workshop.build_wheel(job, from_sdist, tree, tools, folder).path
    except Rejected as error:
        words = {PurePosixPath(word).name for word in re.findall(r"[\w./+-]+", str(error))}
        asked = [name for name in planned.tree.files if PurePosixPath(name).name in words]
        named = list_lacking(sdist.path, asked, plan.request.subdirectory)
        why = f"the source has {', '.join(named)}, and {sdist.path.name} lacks it: " if named else ""
        return Trial("", Outcome.FAILED, f"{why}{error}")
    members = () if sha256_of(wheel) == own.receipt.sha256 else differing(wheel, own.path)
    if not members:
        return Trial("", Outcome.PASSED)
    detail = f"it differs from the source's in {', '.join(members)}: {describe_difference(own.path, wheel, members[0])}"
    if not plan.request.build.reproducible and are_libraries(own.path, members):
        return Trial("", Outcome.NOT_EXERCISED, f"{detail}; the config says so: `build: {{reproducible: false}}`")
    if plan.request.build != alone:
        return Trial("", Outcome.NOT_EXERCISED, f"{detail}; build.before and build.after are not run for an sdist")
    commit = planned.tree.commit if planned.tree.checkout else None
    if commit and _states_commit(own.path, members, commit):
        return Trial("", Outcome.NOT_EXERCISED, f"{detail}, which states the commit; an sdist does not know it")
    way = "; if the compiler writes other bytes in each run, `build: {reproducible: false}` accepts it"
    return Trial("", Outcome.FAILED, f"{detail}{way if are_libraries(own.path, members) else ''}")


def _states_commit(path: Path, members: Sequence[str], commit: str) -> bool:
    """Whether each of these is a member of the wheel at `path` that holds its commit, in whatever length."""
    wheel, stated = open_wheel(path), commit[:SHORTEST].encode()  # a longer spelling begins with it
    with wheel.archive:
        found = {info.filename: info for info in wheel.infos}
        return all(name in found and stated in wheel.read(found[name]) for name in members)


def _at_its_place(tree: Tree, subdirectory: str, root: Path) -> Tree:
    """Return an sdist's tree in the folder in which its source has the project: debug information holds that path."""
    if not subdirectory:
        return tree
    place = root / subdirectory
    place.parent.mkdir(parents=True)
    tree.root.rename(place)
    return Tree(root, tuple(f"{subdirectory}/{name}" for name in tree.files))


def _refuse_bad(paths: Sequence[Path], plan: Plan, outside: Outside) -> None:
    findings = audit_files(paths, plan, outside)
    tell_findings(findings, outside)
    refuse_findings(findings, _with_owners(plan, outside))


def _with_owners(plan: Plan, outside: Outside) -> Plan | None:
    """Return the plan for the names of its owners on GitHub; None elsewhere: who runs it there looks after it."""
    return plan if steps.is_on(outside.environ) else None


CHECKS = Checks(
    accept=_refuse_surprise,
    images=lambda path, outside: " ".join(device_images(path, outside.cache / "audit")),
    audit=_refuse_bad,
)
