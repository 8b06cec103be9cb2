"""Rules for what a run publishes: on which events, under which concurrency, for which tags, and from which config."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ci_tools.catalog.targets import kind_of
from ci_tools.doctor.configs import ConfigOutline, read_outline
from ci_tools.doctor.documents import (
    CALL,
    DISPATCH,
    Keys,
    Table,
    WorkflowDocument,
    WorkflowStep,
    condition_of,
    expressions_of,
    is_computed,
    items_of,
    one_line,
    scalar_of,
    table_of,
    whole_expression,
)
from ci_tools.doctor.expressions import Open, Unknown, evaluate_condition, fill
from ci_tools.doctor.placed_jobs import RUN, PlacedJob, RunStart, list_steps, starts_of
from ci_tools.doctor.report import DoctorFinding, Unseen, Weight, report
from ci_tools.doctor.walk import place_jobs
from ci_tools.doctor.workflow_set import WorkflowSet, is_fatwheel
from ci_tools.doctor.workflows import CALLS, PUBLISHES, TRUSTED_PUBLISHER, has_other_token, releases
from ci_tools.errors import nearest
from ci_tools.model.names import CONFIG_FILE

HEADS, TAGS = "refs/heads/", "refs/tags/"
PYPI, FATWHEEL, GITHUB = "PyPI", "the targets of its config", "a release on GitHub"
UPLOAD = re.compile(
    r"^\s*(?:python3?\s+-m\s+|uv\s+run\s+|uvx\s+|pipx\s+run\s+)?(?:twine\s+upload|(?:uv|flit|poetry|hatch|pdm)\s+publish|maturin\s+(?:upload|publish))\b(?!.*--help)(.*)$",
    re.MULTILINE,
)
ELSEWHERE = re.compile(
    r"test\.?pypi|--repository\b|--repository-url\b|\s-r\s|--publish-url|--index\b|dry-run", re.IGNORECASE
)
CREATORS = ("ncipollo/release-action", "softprops/action-gh-release", "svenstaro/upload-release-action")
BEGINS = re.compile(r"startsWith\(\s*github\.ref(?P<of>|_name)\s*,\s*'(?P<begin>[^']*)'\s*\)", re.IGNORECASE)
OF_ANY_REF = frozenset({DISPATCH, "create", "delete", "deployment", "deployment_status", "pull_request_target"})
FOR_PYPI = re.compile(r"\bneeds\.([\w-]+)\.outputs\.pypi\b")
ASKS = re.compile(r"\bneeds\b[^}]*\.result\b|toJSON\(\s*needs\b", re.IGNORECASE)  # how the jobs before ended
BUILDS = re.compile(r"/\.github/workflows/(?:wheels|monorepo|platform)\.ya?ml$")
COMMAND = re.compile(
    r"^\s*fatwheel (?:publish|release|index (?:add|promote))\b(?!.*(?:--dry-run|--help|\bdir:))", re.MULTILINE
)
VERSIONS = ("1.2.3", "0.1.0", "2026.11.28", "1.2.3rc1")  # a common one, a first one, a date, and a candidate


class Publication(NamedTuple):
    """A job or step of a run that publishes: what, where, and whether it certainly runs."""

    placed: PlacedJob
    keys: Keys
    what: str
    is_sure: bool

    @property
    def where(self) -> str:
        """Its place."""
        return self.placed.file.where(self.keys)


def list_publications(known: WorkflowSet, jobs: list[PlacedJob]) -> Iterator[Publication]:
    """Yield what the jobs of a run publish, unless it certainly does not run."""
    for placed in (placed for placed in jobs if placed.runs is not False):
        uses = str(placed.value.get("uses") or "").partition("@")[0]
        if CALLS.search(uses) and PUBLISHES.search(uses) and is_fatwheel(known, placed.file, uses):
            yield Publication(placed, ("jobs", placed.job), FATWHEEL, placed.runs is True)
        for file, step, contexts, runs in list_steps(known, placed):
            what = _published(step, contexts) if runs is not False and file is placed.file else None
            if what:
                yield Publication(placed, step.keys, what, bool(runs and placed.runs))


def _published(step: WorkflowStep, contexts: Mapping[str, object]) -> str | None:
    given = {name: fill(str(value), contexts) or "" for name, value in step.given.items()}
    if step.action.lower() == TRUSTED_PUBLISHER:
        place = given.get("repository-url") or given.get("repository_url") or "upload.pypi"
        return PYPI if "upload.pypi" in place else None  # a mirror, or TestPyPI, is not PyPI
    command = given.get("command", "") if step.action.lower() == "pyo3/maturin-action" else ""
    if command in {"upload", "publish"} or any(not ELSEWHERE.search(found) for found in UPLOAD.findall(step.run)):
        return None if any(ELSEWHERE.search(str(value)) for value in (given, step.value.get("env"))) else PYPI
    return GITHUB if step.action.lower() in CREATORS or releases(step.run) else None


def check_guards(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield what is published for a pull request, or for a branch where only a tag can be released."""
    for start in starts_of(file):
        jobs = place_jobs(known, file, start)
        for one in list_publications(known, jobs):
            what = f"{one.placed.name} publishes to {one.what} on {start}"
            conditions = (condition_of(file.jobs[job]) for file, job in one.placed.path)
            asks = any("channel" in condition or "github.ref" in condition for condition in conditions)
            is_bare = one.what == FATWHEEL and not asks  # `none` has nothing to publish
            if start.event.startswith("pull_request") and (one.is_sure or is_bare):
                yield report("unguarded/proposal", one.where, what, _guard(one, start))
            elif is_bare and not start.is_tag and not _may_be_nightly(jobs):
                yield report("unguarded/branch", one.where, what, _guard(one, start))
            elif one.what == PYPI and start.event == "push" and not start.is_tag and one.is_sure:
                yield report("unguarded/push", one.where, what, _guard(one, start))


def _guard(one: Publication, start: RunStart) -> str:
    if one.what == FATWHEEL:
        return "in that job: `if: ${{ needs.wheels.outputs.any == 'true' && needs.wheels.outputs.channel != 'none' }}`"
    only = f"github.event_name != '{start.event}'" if start.event != "push" else "startsWith(github.ref, 'refs/tags/')"
    return f"in that job: `if: {only}`"


def _may_be_nightly(jobs: list[PlacedJob]) -> bool:
    """Whether a run may be a nightly, which needs no tag, or one of a tag that a person names."""
    for placed in jobs:
        inputs = placed.contexts["inputs"] if placed.path[1:] else {}
        values = [inputs.get(name) for name in ("nightly", "ref", "torch")] if isinstance(inputs, dict) else []
        if any(isinstance(value, Unknown) or value not in {None, "", False} for value in values):  # a run may set it
            return True
    return any(placed.contexts["github"]["event_name"] == "schedule" for placed in jobs)


def check_cancelling(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield concurrency that ends a publication half way because another run starts."""
    for start in starts_of(file):
        jobs = place_jobs(known, file, start)
        for one in list_publications(known, jobs):
            for keys, said in _groups(one.placed):
                is_next = start.is_tag or one.what != FATWHEEL  # which publishes from one branch again and again
                again = start._replace(ref=f"{start.ref}9") if is_next else start  # the next tag is another ref
                group = _group(said, file, start, known)
                text = scalar_of(said.get("cancel-in-progress", False))
                cancels = evaluate_condition(text, start.contexts(file, known.repository))
                if cancels and group == _group(said, file, again, known) is not None:
                    what = f"a newer run cancels {one.placed.name}, which publishes to {one.what}"
                    yield report("cancelled", file.where(keys), what)


def _groups(placed: PlacedJob) -> Iterator[tuple[Keys, dict[str, object]]]:
    file, job = placed.path[0]
    for keys, said in (
        (("concurrency",), file.value.get("concurrency")),
        (("jobs", job, "concurrency"), file.jobs[job].get("concurrency")),
    ):
        if isinstance(said, dict):
            yield keys, said


def _group(said: dict[str, object], file: WorkflowDocument, start: RunStart, known: WorkflowSet) -> str | None:
    contexts = start.contexts(file, known.repository)
    text = str(said.get("group", ""))
    return None if any(f"github.{name}" in text for name in RUN) else fill(text, contexts)  # each run has another


def check_publishers(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield a second publisher for the same tag: by another event, or by another workflow beside Fatwheel."""
    own = _by_tag(file, known)
    events = {
        start.event: [one for one in found if _is_for_tags(one) and one.what == PYPI]
        for start, found in own
        if start.is_tag
    }
    if all(events.get(event) for event in ("push", "release")):  # the two events of one tag
        one = events["release"][0]
        what = f"{one.placed.name} publishes to PyPI for the tag and again for its release"
        yield report("second-publisher/event", one.where, what)
    targets, packages = _targets(file, own, known), _packages(file, known)
    for other in (other for other in known.started if other is not file and targets):
        others = _packages(other, known)
        shared = targets - {PYPI} if packages and others and packages.isdisjoint(others) else targets
        is_seen = FATWHEEL not in targets and "push" in other.triggers and other.path < file.path  # from there
        for start, found in _by_tag(other, known) if not is_seen else ():
            if not _takes(file, start.ref):  # another pattern may have none in common
                continue
            for one in (one for one in found if one.what in shared and (FATWHEEL in targets or _is_for_tags(one))):
                what = f"{one.placed.name} publishes to {one.what} for the tags for which {file.path} does, too"
                weight = Weight.ERROR if FATWHEEL in targets else Weight.WARNING  # they may be of two packages
                yield report("second-publisher/workflow", one.where, what, weight=weight)


def _is_for_tags(one: Publication) -> bool:
    """Whether it publishes for a tag: certainly, or where `wheels.yml` says so, whose output only a run has."""
    return one.is_sure or bool(FOR_PYPI.search(condition_of(one.placed.value)))


def _by_tag(file: WorkflowDocument, known: WorkflowSet) -> list[tuple[RunStart, list[Publication]]]:
    starts = [start for start in starts_of(file) if start.is_tag]
    return [(start, list(list_publications(known, place_jobs(known, file, start)))) for start in starts]


def _targets(file: WorkflowDocument, own: list[tuple[RunStart, list[Publication]]], known: WorkflowSet) -> set[str]:
    """Return where a workflow publishes, in words; one that does not call Fatwheel: to PyPI, if it is sure to."""
    named = {one.what for _, found in own for one in found}
    if FATWHEEL not in named:
        pushed = (one for start, found in own if start.event == "push" for one in found)
        return {one.what for one in pushed if _is_for_tags(one)} & {PYPI}
    addresses = {target for outline in _outlines(file, known) for target in outline.targets}
    grants = [table_of(job.get("permissions")).get("contents") for job in file.jobs.values()]
    kinds = filter(None, map(kind_of, addresses))
    named |= {GITHUB} if "write" in grants or any(("contents", "write") in kind.rights for kind in kinds) else set()
    return named | ({PYPI} if "pypi" in addresses else set())


def _packages(file: WorkflowDocument, known: WorkflowSet) -> set[str]:
    """Return the packages that a workflow builds by Fatwheel, as far as its configs tell."""
    return {outline.package for outline in _outlines(file, known) if outline.package}


def check_skips(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield what no tag publishes, only because GitHub skips a job with one before it, however far before."""
    runs = [place_jobs(known, file, start) for start in starts_of(file) if start.is_tag]
    for job in file.jobs:
        own = [one for run in runs for one in run if one.job == job and one.file is file]
        holds = [one for one in own if evaluate_condition(condition_of(one.value), one.contexts) is not False]
        before = [of.job for run in runs for of in run if of.runs is False and of.job in file.all_needs(job)]
        is_skipped = holds and before and all(one.runs is False for one in own)
        if is_skipped and any(list_publications(known, [replace(holds[0], runs=None)])):
            what = f"{job} is skipped for every tag, as {before[0]} before it is"
            yield report("skipped/job", file.where(("jobs", job)), what)


def check_failures(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield what is published after a failure, as a status function in the condition of the job or the step lets it."""
    runs = (place_jobs(known, file, start) for start in starts_of(file))
    found = [one for run in runs for one in list_publications(known, run) if one.placed.file is file]
    found.sort(key=lambda one: one.what != GITHUB)  # of one job the last counts
    steps = {step.keys: step for step in file.steps}
    for keys, one in {place: each for each in found for place in (each.keys[:2], each.keys)}.items():
        job = one.placed.job
        needs = {} if keys in steps else {need: {"result": "failure", "outputs": Open()} for need in file.needs(job)}
        text = condition_of(steps[keys].value if keys in steps else one.placed.value)
        holds = evaluate_condition(text, {**one.placed.contexts, "needs": needs}, is_well=False, has_failed=True)
        # The outputs of a job may say that it did well: not so of another, or what Fatwheel says before it builds.
        others = [need for need in needs if not re.search(rf"\b{need}\.(?!outputs\.(?:any|channel)\b)", text)]
        asks = any(ASKS.search(step.condition + step.run + str(step.given)) for step in file.steps_of(job))
        if (holds or (holds is None and others)) and (needs or keys in steps) and not asks:
            what = f"{job} publishes to {one.what} also where {' or '.join(others or needs) or 'a step before'} failed"
            weight = Weight.WARNING if one.what == GITHUB else Weight.ERROR
            yield report("after-failure", file.where((*keys, "if")), what, weight=weight)


def check_own_releases(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield what is published `on: release` where the release is made with the job's token: that starts no workflow.

    https://docs.github.com/en/actions/how-tos/write-workflows/choose-when-workflows-run/trigger-a-workflow
    """
    found = (one for start, several in _by_tag(file, known) if start.event == "release" for one in several)
    runs = (place_jobs(known, other, start) for other in known.started for start in starts_of(other))
    all_of = (one for run in runs for one in list_publications(known, run))
    elsewhere = [
        one for one in all_of if one.placed.contexts["github"]["event_name"] != "release"
    ]  # there it adds files
    is_own = any(one.what == GITHUB and _is_by_own_token(one) for one in elsewhere)
    done = {one.where for one in elsewhere}  # by a run that waits for no release
    for one in (one for one in found if is_own and one.where not in done):
        what = f"{one.placed.name} waits for a release that a workflow makes with the token of its job"
        yield report("own-token", one.where, what)


def _is_by_own_token(release: Publication) -> bool:
    """Whether a step makes a release, and with the token of its job; a draft is published by a person."""
    step = next(one for one in release.placed.file.steps if one.keys == release.keys)
    is_draft = re.search(r"\s(?:--draft|-d)\b", step.run) or scalar_of(step.given.get("draft")) not in {"", "false"}
    is_made = step.action.lower() in CREATORS or re.search(r"\bgh\s+release\s+create\b", step.run)
    return bool(is_made) and not is_draft and not has_other_token(release.placed.file, step)


def check_runs_apart(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield jobs that publish by a command of Fatwheel, where nothing keeps two runs apart, as publish.yml does."""
    is_apart = "concurrency" in file.value or set(file.triggers) == {CALL}  # its caller's group holds
    for job, value in file.jobs.items() if not is_apart else ():
        steps = [step for step in file.steps_of(job) if COMMAND.search(step.run)]
        if steps and "concurrency" not in value:
            yield report("concurrency", file.where((*steps[0].keys, "run")), f"two runs of {job} may publish at once")


def check_pypi_jobs(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield jobs that no tag starts: they wait for files for PyPI, where no config sends any there."""
    built: dict[str, dict[str, ConfigOutline | None]] = {}
    for keys, config, _ in _configs(file, known):
        built.setdefault(str(keys[1]), {})[config or CONFIG_FILE] = _outline(config, known)
    for job, value in file.jobs.items():
        asked: dict[str, ConfigOutline | None] = {}
        for needed in FOR_PYPI.findall(condition_of(value)):
            asked |= built.get(needed, {})
        if asked and not any(outline is None or outline.is_for_pypi for outline in asked.values()):
            what = f"{job} is skipped for every tag, as nothing of {' or '.join(asked)} goes to PyPI"
            how = f"in {next(iter(asked))}: `publish: {{ pypi: wheels }}`"
            yield report("skipped/config", file.where(("jobs", job, "if")), what, how)


def check_environment_names(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield environments whose names differ by one letter: GitHub creates the misspelt one, open to every branch."""
    names = {name: keys for other in known.workflows for keys, name in _environments(other)}
    for keys, name in _environments(file):
        close = [one for one in names if one.lower() != name.lower() and _is_one_letter_off(one, name)]
        if close and sum(one == name for other in known.workflows for _, one in _environments(other)) == 1:
            how = f'did you mean "{one_line(close[0])}"?'
            yield report("environment-near", file.where(keys), f"the environment {one_line(name)} is named once", how)


def _environments(file: WorkflowDocument) -> Iterator[tuple[Keys, str]]:
    for job, value in file.jobs.items():
        given = table_of(value.get("with")) if "uses" in value else {}
        for keys, said in (
            (("environment",), value.get("environment")),
            (("with", "environment"), given.get("environment")),
        ):
            name = said.get("name") if isinstance(said, dict) else said
            if isinstance(name, str) and name and not is_computed(name):
                yield ("jobs", job, *keys), name


def _is_one_letter_off(left: str, right: str) -> bool:
    """Whether a letter is missing, too much, wrong, or two are swapped; figures make other names."""
    if abs(len(left) - len(right)) > 1 or min(len(left), len(right)) < 4 or re.search(r"\d", left + right):  # noqa: PLR2004 - short names are alike
        return False
    start = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    a, b = left[start:], right[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])  # two letters swapped


# -- configs and tags


def _configs(file: WorkflowDocument, known: WorkflowSet) -> Iterator[tuple[Keys, str, RunStart]]:
    """Yield the config of each call of Fatwheel for each start, and its place, as far as it is known."""
    for start in starts_of(file):
        for placed in place_jobs(known, file, start):
            uses, given = str(placed.value.get("uses") or ""), table_of(placed.value.get("with"))
            is_build = BUILDS.search(uses.partition("@")[0]) and is_fatwheel(known, placed.file, uses)
            name = "configs" if "configs" in given else "config"
            text = placed.fill(given.get(name, "")) if is_build and placed.file is file else None
            if text is not None and not given.get("repository") and placed.runs is not False:
                for config in text.split() if name == "configs" else [text]:
                    yield ("jobs", placed.job, "with", name), config, start


def _outline(path: str, known: WorkflowSet) -> ConfigOutline | None:
    """Return the outline of a config; None if it cannot be read, which the plan says."""
    found = read_outline(known.fetch, path or CONFIG_FILE)
    return None if isinstance(found, Unseen) else found


def _outlines(file: WorkflowDocument, known: WorkflowSet) -> Iterator[ConfigOutline]:
    return filter(None, (_outline(config, known) for _, config, _ in _configs(file, known)))


def check_configs(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the configs that do not exist, and those whose tags start no run."""
    for keys, config, start in dict.fromkeys(_configs(file, known)):
        outline = _outline(config, known)
        if (known.fetch("", config, "") if config else read_outline(known.fetch, CONFIG_FILE)) is None:
            what = f"there is no {one_line(config) or CONFIG_FILE} in the repository"
            candidates = [name for name in known.names if name.endswith((".yml", ".yaml", ".toml"))]
            yield report("config", file.where(keys), what, nearest(config, candidates))
        elif outline and start.event == "push" and start.is_tag:
            if any(_takes(file, f"refs/tags/{_example(outline, version)}") for version in VERSIONS):
                continue
            example = _example(outline, VERSIONS[0])
            what = f"no tag of {config or CONFIG_FILE}, such as {example}, starts {file.path}"
            yield report("tags", file.where(("on", "push", "tags")), what, f'in `tags:`: "{_example(outline, "*")}"')


def _example(outline: ConfigOutline, version: str) -> str:
    values = {"version": version, "name": outline.package or "*", "package": outline.package or "*"}
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: values.get(found[1], "1"), outline.tag)  # any other part is a number


def _takes(file: WorkflowDocument, ref: str) -> bool:
    """Whether the filters of `push` let a tag start a workflow."""
    return "push" in file.triggers and lets_push(table_of(file.triggers["push"]), ref)


def lets_push(filters: Table, ref: str) -> bool:
    """Whether the filters of `push` let a ref pass: those of tags let no branch pass, and the other way round.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#filter-pattern-cheat-sheet
    """
    kind, other = ("tags", "branches") if ref.startswith(TAGS) else ("branches", "tags")
    named, others = ({one, f"{one}-ignore"} & set(filters) for one in (kind, other))
    name = ref.removeprefix(TAGS).removeprefix(HEADS)
    return lets(filters, kind, name) if named or not others else False


def lets(filters: Table, kind: str, name: str) -> bool:
    """Whether the filters of a kind let a name pass: the last pattern that matches decides."""
    if f"{kind}-ignore" in filters:
        return not any(matches(str(pattern), name) for pattern in items_of(filters[f"{kind}-ignore"]))
    passed = kind not in filters
    for pattern in map(str, items_of(filters.get(kind))):
        if matches(pattern.removeprefix("!"), name):
            passed = not pattern.startswith("!")  # the last pattern that matches decides
    return passed


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern of a filter matches a branch or a tag."""
    spelled = re.escape(pattern)
    for sign, meaning in (("**", ".*"), ("*", "[^/]*"), *zip("?+[]-", "?+[]-", strict=True)):
        spelled = spelled.replace(re.escape(sign), meaning)
    try:
        return re.fullmatch(spelled, name) is not None
    except re.error:
        return True  # no finding, rather than a false one


# -- conditions


def check_conditions(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield conditions that always hold by text around `${{ }}`, and those of jobs and uploads that no event meets."""
    places: list[tuple[Keys, Table, object]] = [(("jobs", name, "if"), job, True) for name, job in file.jobs.items()]
    places += [((*step.keys, "if"), step.value, step.job and _published(step, Open())) for step in file.steps]
    for keys, value, matters in places:
        text = condition_of(value)
        if expressions_of(text) and (whole_expression(text) is None or not text.endswith("}}")):
            yield report("condition-true", file.where(keys), f"the condition {one_line(text.strip(), 60)} always holds")
        elif matters and "github." in text and not _can_hold(file, text):  # `false` is meant so
            what = f"no event of this workflow meets the condition of {keys[1]}"
            yield report("condition-false", file.where(keys), what, f"the events are {', '.join(file.triggers)}")


def _can_hold(file: WorkflowDocument, text: str) -> bool:
    if CALL in file.triggers:
        return True  # it has the event of its caller
    for start in starts_of(file):
        kind = {"ref_type": "tag" if start.is_tag else "branch"}
        kind = kind if start.event in {"push", "pull_request", "schedule"} else {}
        contexts = Open(github=Open({"event_name": start.event, **kind}))
        written = BEGINS.sub(partial(_begins, start), text)
        values = [evaluate_condition(written, contexts, is_well=is_well) for is_well in (True, False)]
        if values != [False, False]:  # neither where all was well, nor after a failure
            return True
    return not starts_of(file)


def _begins(start: RunStart, found: re.Match[str]) -> str:
    """Return whether the ref of a run begins with a text, where it is so for every ref of its kind or for none."""
    begin = found["begin"].lower()
    if found["of"] or not begin:  # github.ref_name
        return "false" if begin.startswith("refs/") else found[0]
    kinds = (HEADS, TAGS) if start.event in OF_ANY_REF else (start.ref[: start.ref.index("/", 5) + 1],)
    if all(kind.startswith(begin) for kind in kinds):
        return "true"
    return found[0] if any(begin.startswith(kind) or kind.startswith(begin) for kind in kinds) else "false"


RELEASE_RULES = (
    check_guards,
    check_cancelling,
    check_publishers,
    check_skips,
    check_failures,
    check_own_releases,
    check_runs_apart,
    check_pypi_jobs,
    check_environment_names,
    check_configs,
    check_conditions,
)
