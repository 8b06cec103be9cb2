"""Turns a plan into a workflow's matrices: their rows, as step outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.errors import InputError
from ci_tools.model.plan import SDIST, Job, Plan, Site
from ci_tools.model.request import HOSTED_MINUTES
from ci_tools.plan.batches import INSTALLING
from ci_tools.plan.plan_file import pypi_files, runs_on
from ci_tools.plan.sites import awaiting_gpu

if TYPE_CHECKING:
    Row = dict[str, Any]
    Join = Callable[[Sequence[Row]], Row]

MAX_ROWS = 256  # GitHub's limit of jobs in one matrix
NO_CHANNEL = "none"
COMMON = ("plan", "trials", "gather", "attest", "publish")  # the jobs of any release
COMMON_RUNNER = "ubuntu-24.04"  # where they run
HOST = "/host"  # the path at which a container sees its runner's disk
MAX_TRIALS = 12  # on one runner, in turn: a trial takes two or three minutes, most of it for torch
MAX_TEXT = 1 << 20  # bytes, GitHub's limit for all outputs of a job
# The keys in which rows that share a runner may differ.
OF_ONE_BUILD = frozenset({"name", "jobs", "minutes", "python"})
OF_ONE_TRIAL = frozenset({"name", "number", "numbers", "built", "minutes"})
FEWER = (
    "ask for fewer platforms at a time (--only PLATFORM), or see `fatwheel advise`;"
    " with a shorter `timeout-minutes` one runner does more of them in turn"
)


def outputs(plan: Plan) -> dict[str, str]:
    """Return the step outputs of a plan, each on one line: matrices as JSON, and words.

    Raises InputError if a matrix exceeds GitHub's limits, or a release waits for a GPU that no runner has.
    """
    _refuse_no_gpu(plan)
    found = {
        "project": plan.project.name,
        "version": plan.project.version,
        "channel": channel_of(plan),
        "commit": plan.pins.commit or "",
        "any": json.dumps(bool(plan.jobs)),
        "changed": "true",  # a plan that is not compared counts as changed
        "builds": _matrix(builds(plan)),
        "sites": _matrix(sites(plan)),
        "sharded": json.dumps(any(job.shards > 1 for job in plan.jobs)),
        "shards": _matrix(shards(plan)),
    }
    size = sum(map(len, found.values()))
    if size > MAX_TEXT:
        msg = f"the plan's matrices are {size} bytes, and GitHub takes {MAX_TEXT} from a job"
        raise InputError(msg, hint="ask for fewer platforms at a time: --only PLATFORM")
    return found


def no_outputs(skipped: str) -> dict[str, str]:
    """Return the step outputs of a call that has nothing to release, with the reason."""
    nothing = _matrix(())
    words = {"any": "false", "changed": "true", "channel": NO_CHANNEL, "skipped": skipped}
    return {**words, "builds": nothing, "sites": nothing, "sharded": "false", "shards": nothing}


def channel_of(plan: Plan) -> str:
    """Return the channel that a plan releases to; "none" for a commit without the version's tag."""
    return str(plan.edition.channel or NO_CHANNEL)


def _refuse_no_gpu(plan: Plan) -> None:
    """Raise InputError if a wheel must be tried on a GPU and no runner with a GPU is named."""
    tried = {site.job for site in plan.sites if site.gpu}
    lacking = dict.fromkeys(str(job.platform) for job in awaiting_gpu(plan) if job.name not in tried)
    if lacking:
        msg = f"the wheels for {', '.join(lacking)} have to be tried on a GPU (`gpu: required`), and no runner has one"
        hint = f"name one in the config (`gpu-runner`) or for this run (--gpu-runner {next(iter(lacking))}=LABEL)"
        raise InputError(msg, hint=hint)


def _matrix(rows: Sequence[Row]) -> str:
    return json.dumps({"include": rows}, separators=(",", ":"))


# ---------------------------------------------------------------- builds


def builds(plan: Plan) -> list[Row]:
    """Return a row for each runner that builds: a job or a batch; one row also builds the sdist, to compare its wheel.

    If there are more rows than GitHub takes, jobs that differ only in their names share a runner and are built in
    turn. Raises InputError if that is not enough.
    """
    batches = {job.name: job.batch or job.name for job in plan.jobs}
    together: dict[str, list[Row]] = {}
    for row in _builds(plan):
        together.setdefault(batches[row["name"]], []).append(row)
    rows = [_built_as_batch(name, found) if found[1:] else found[0] for name, found in together.items()]
    return _few(rows, "builds", _is_built_alike, _built_in_turn)


def _builds(plan: Plan) -> Iterator[Row]:
    first = next((site.files[1] for site in plan.sites if site.job == SDIST), "")
    for job in plan.jobs:
        # Where the same wheel is made, to compare the two.
        names = [SDIST, job.name] if job.wheel == first else [job.name]
        yield {
            "name": job.name,
            "jobs": ",".join(names),
            "several": False,
            "platform": str(job.platform or ""),
            "runner": runs_on(job.runner),
            "container": _container(job),
            "image": job.container or "",
            "root": HOST if job.container and _wants_room(job) else "",
            "python": str(job.python),
            "owner": job.owner or "",
            "required": job.required,
            "shards": job.shards,
            # Longer than the build's own limit, so that a slow build can report its timeout.
            "minutes": INSTALLING + len(names) * job.minutes,
        }


def shards(plan: Plan) -> list[Row]:
    """Return a row for each runner that compiles a shard of a job, before the row of `builds` links it.

    Raises InputError if GitHub takes fewer rows.
    """
    minutes, rows = {job.name: INSTALLING + job.minutes for job in plan.jobs}, []
    for row in _builds(plan):
        name, total = row["name"], row["shards"]
        for number in range(1, total + 1 if total > 1 else 1):  # a job with one shard has no row here
            shard = {"job": name, "shard": f"{number}/{total}", "folder": f"{number}-of-{total}", "required": False}
            rows.append({**row, **shard, "name": f"{name} {number}/{total}", "minutes": minutes[name]})
    if len(rows) > MAX_ROWS:
        msg = f"the plan has {len(rows)} shards, and GitHub runs {MAX_ROWS} jobs of one matrix"
        raise InputError(msg, hint="write fewer `build: {shards: …}`, or ask for fewer platforms at a time")
    return rows


def _is_built_alike(row: Row) -> str:
    """Return the group of a row: rows of one group can share a runner; an image has every Python."""
    if row["shards"] > 1:
        return str(row["name"])  # by which it finds its shards
    return json.dumps({**_but(row, OF_ONE_BUILD), "python": "" if row["container"] else row["python"]})


def _built_in_turn(rows: Sequence[Row]) -> Row:
    return {**_in_turn(rows), "jobs": ",".join(row["jobs"] for row in rows)}


def _built_as_batch(name: str, rows: Sequence[Row]) -> Row:
    """Return the row of a batch: by the estimate it is far from the limits of its builds, so these are not added up."""
    row = {**_built_in_turn(rows), "name": name}
    return {**row, "minutes": max(rows[0]["minutes"], min(row["minutes"], HOSTED_MINUTES))}


def _wants_room(job: Job) -> bool:
    return job.care.free_disk or job.care.swap_gib > 0


def _container(job: Job) -> str | Row:
    """Return a job's image as a workflow's `container`; with its runner's own disk if the job needs more space.

    In that case the runner is a hosted one, which is thrown away after the job (runner.py does not change the others).
    """
    if not (job.container and _wants_room(job)):
        return job.container or ""
    row: Row = {"image": job.container, "volumes": [f"/:{HOST}"]}
    return {**row, "options": "--privileged"} if job.care.swap_gib else row  # swapon needs privileges


# ---------------------------------------------------------------- trials


class Trials(NamedTuple):
    """The trials of a plan that need a runner, and the jobs that have no wheel to try."""

    rows: list[Row]
    unbuilt: tuple[str, ...]  # the names of jobs

    def outputs(self) -> dict[str, str]:
        """Return the step outputs of the trials, each on one line."""
        return {"any": json.dumps(bool(self.rows)), "sites": _matrix(self.rows)}


def trials(plan: Plan, built: AbstractSet[str], whole: Plan) -> Trials:
    """Return the trials of the wheels that were built; `built` are the names of the plan's files that exist.

    `plan` is the part of `whole` that this workflow builds. A site has its number in `whole`, as `plan.json` has it.
    """
    # A site needs all of its files: the wheel, and its copy or the sdist.
    kept = frozenset(site.name for site in plan.sites if built >= {*site.files})
    makers = {name: job.name for name, job in plan.makers.items()}
    missing = (name for site in plan.sites for name in site.files if name not in built)
    unbuilt = tuple(dict.fromkeys(makers.get(name, SDIST) for name in missing))
    return Trials(_shared([row for row in _sites(plan, whole) if row["name"] in kept]), unbuilt)


def sites(plan: Plan) -> list[Row]:
    """Return a row for each site where a wheel is tried, with the build row that has its files.

    If there are more rows than GitHub takes, trials on one kind of runner with one Python share a runner and run in
    turn. Raises InputError if that is not enough.
    """
    return _few([*_sites(plan, plan)], "sites", lambda row: json.dumps(_but(row, OF_ONE_TRIAL)), _tried_in_turn)


def _shared(rows: list[Row]) -> list[Row]:
    """Return the rows of trials that share runners: most of a trial's job is setting up, and one runner has any Python.

    An optional platform's trials stay apart from the required ones, which may not fail.
    """
    return _few(rows, "sites", lambda row: json.dumps([row["runner"], row["required"]]), _tried_in_turn, MAX_TRIALS)


def _sites(plan: Plan, whole: Plan) -> Iterator[Row]:
    numbers = {site.name: number for number, site in enumerate(whole.sites)}
    makers = plan.makers
    places = {name: row["name"] for row in builds(plan) for name in row["jobs"].split(",")}
    for site in plan.sites:
        job = makers[site.files[-1]]
        yield {
            "name": site.name,
            "number": numbers[site.name],
            "numbers": str(numbers[site.name]),
            "several": False,
            "built": places[job.name],
            "runner": runs_on(site.runner),
            "python": str(site.python),
            "owner": job.owner or "",
            "required": job.required,
            "minutes": INSTALLING + _minutes(plan, site, job),
        }


def _tried_in_turn(rows: Sequence[Row]) -> Row:
    built = ",".join(dict.fromkeys(row["built"] for row in rows))
    numbers = " ".join(row["numbers"] for row in rows)
    pythons = "\n".join(dict.fromkeys(row["python"] for row in rows))  # as actions/setup-python takes several
    several = {"built": f"{{{built}}}" if "," in built else built, "numbers": numbers, "python": pythons}
    return {**_in_turn(rows), **several}


def _minutes(plan: Plan, site: Site, job: Job) -> int:
    """Return the minutes a trial may take: the sdist's builds a wheel again, the others run the named checks."""
    if site.job == SDIST:
        return job.minutes
    validation = plan.request.validate
    tried = (1 if validation.imports is None else len(validation.imports)) + len(validation.commands)
    return len(site.files) * tried * -(-validation.timeout_seconds // 60)  # -(-a // b) rounds up


# ---------------------------------------------------------------- what a release costs


class RunnerUse(NamedTuple):
    """The jobs of a release on one kind of runner, and the minutes that they take at most: their limits together."""

    runner: str
    jobs: int
    minutes: int


def list_runners(plan: Plan, limits: Mapping[str, int]) -> list[RunnerUse]:
    """Return the jobs that a release starts by wheels.yml, publish.yml and the caller's for PyPI, by their runners.

    `limits` has the minutes of jobs that are no builds and no trials. Raises InputError as `outputs` does.
    """
    common = [*COMMON, *(["pypi"] if pypi_files(plan) else [])] if plan.jobs else []
    rows = [*builds(plan), *shards(plan), *_shared([*_sites(plan, plan)])]
    used = [(COMMON_RUNNER, limits[name]) for name in common]
    labels = ([row["runner"]] if isinstance(row["runner"], str) else row["runner"] for row in rows)
    used += [(" ".join(names), row["minutes"]) for names, row in zip(labels, rows, strict=True)]
    runners = dict.fromkeys(runner for runner, _ in used)
    spent = {runner: [minutes for own, minutes in used if own == runner] for runner in runners}
    return [RunnerUse(runner, len(minutes), sum(minutes)) for runner, minutes in spent.items()]


# ---------------------------------------------------------------- GitHub's limit of rows


def _few(rows: list[Row], what: str, alike: Callable[[Row], str], join: Join, least: int = 1) -> list[Row]:
    """Return at most MAX_ROWS rows: joined into groups of `least`, or as few more as possible.

    Raises InputError if too many rows remain even with as many per runner as its time allows.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(alike(row), []).append(row)
    first = max(-(-len(rows) // MAX_ROWS), least)
    # Ever more rows on one runner, until GitHub takes what is left.
    for most in range(first, max(first, min(len(rows), HOSTED_MINUTES)) + 1):
        parts = [part for group in groups.values() for part in _parts(group, most)]
        if len(parts) <= MAX_ROWS:
            return [join(part) if part[1:] else part[0] for part in parts]
    most_time = f"each for {HOSTED_MINUTES} minutes"
    msg = f"the plan has {len(rows)} {what}, and GitHub runs {MAX_ROWS} jobs of one matrix, {most_time}"
    raise InputError(msg, hint=FEWER)


def _parts(rows: Iterable[Row], most: int) -> list[list[Row]]:
    """Return rows in parts of at most `most`; a hosted runner has time for all rows of a part."""
    parts: list[list[Row]] = []
    left = 0  # minutes that the last part may still take
    for row in rows:
        if not parts or len(parts[-1]) == most or _own(row) > left:
            parts.append([])
            left = HOSTED_MINUTES - INSTALLING
        parts[-1].append(row)
        left -= _own(row)
    return parts


def _own(row: Row) -> int:
    """Return the minutes of a row without the installation, which is done once for several rows."""
    minutes: int = row["minutes"] - INSTALLING
    return minutes


def _in_turn(rows: Sequence[Row]) -> Row:
    name = f"{rows[0]['name']} and {len(rows) - 1} more"
    return {**rows[0], "name": name, "several": True, "minutes": INSTALLING + sum(map(_own, rows))}


def _but(row: Row, names: AbstractSet[str]) -> Row:
    return {name: value for name, value in row.items() if name not in names}
