"""What our workflow and action files hold to, beyond what GitHub's parser and zizmor see: a generator for each rule.

It stays one file, although it is long: a rule is three to fifteen lines, and a reader looks for the next one like it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ci_tools.catalog import tables
from ci_tools.catalog.runner_labels import runner_labels
from ci_tools.doctor.documents import Keys, WorkflowDocument, WorkflowStep, strings
from ci_tools.doctor.report import DoctorFinding, Weight
from ci_tools.doctor.rules.artifacts import ARTIFACT_RULES
from ci_tools.doctor.rules.calls import check_actions, check_calls, check_defaults
from ci_tools.doctor.rules.references import (
    ACTIONS,
    check_input_names,
    check_job_names,
    check_matrix_names,
    check_needs,
    check_secret_names,
    check_step_names,
)
from ci_tools.doctor.rules.releases import RELEASE_RULES
from ci_tools.doctor.rules.runners import check_containers, check_matrices, check_shells
from ci_tools.doctor.workflow_set import WorkflowSet
from ci_tools.formats import yaml_file

MAX_RUN_LINES = 4
MAX_MINUTES = 30  # of a job that the catalog does not name
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
VERSION = re.compile(r"\s# v\d+\.\d+\.\d+\b")
OURS = ("./", "$/")
SENTENCE = re.compile(r"[A-Z`].*\.", re.DOTALL)
CODE_WORDS = frozenset(
    {"args", "bash", "cmd", "code", "command", "commands", "eval", "exec", "hook", "script", "shell"}
)
STATUS = re.compile(r"\b(?:always|cancelled|failure|success)\(\)")
PROJECT_CODE = re.compile(
    r"\bfatwheel(?: ci step)? (?:build|compare|make|plan|prove|release|validate)\b"  # as a verb, and as a step
    r"|(?:^|[;&|(]|\bthen|\bdo)\s*(?:\./|make\b|(?:ba)?sh\b|python[\d.]*\b|pip\b|node\b|npm\b)",  # of a checkout
    re.MULTILINE,
)
UPLOADS = ("actions/upload-artifact", "actions/cache", "actions/attest", "pypa/gh-action-pypi-publish")
# GitHub's own runners, that a plan or a workflow may name; a run's `labels` adds those of its own machines.
HOSTED = tuple(sorted(runner_labels().current))
# What an action cannot do without, where it is given the input in the middle.
RIGHTS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("actions/attest", "", {"id-token": "write", "attestations": "write"}),
    ("actions/checkout", "", {"contents": "read"}),
    ("actions/deploy-pages", "", {"id-token": "write", "pages": "write"}),
    ("aws-actions/configure-aws-credentials", "role-to-assume", {"id-token": "write"}),
    ("pypa/gh-action-pypi-publish", "", {"id-token": "write"}),
)
SIGNING = frozenset({"attestations", "id-token"})
RANKS = {"none": 0, "read": 1, "write": 2}

# How long the jobs of our workflows may take, by their ids.
MINUTES: dict[str, int] = tables.read("minutes")["jobs"]


class Finding(NamedTuple):
    """What breaks a rule, and where."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True)
class File(WorkflowDocument):
    """A workflow or an action of ours."""

    @classmethod
    def from_path(cls, path: Path, name: str) -> File:
        """Read a file; one that was read before with this text and name is not parsed again."""
        text = path.read_text(encoding="utf-8")
        if (name, text) not in READ:
            READ[name, text] = cls(yaml_file.read(path, name), tuple(text.splitlines()))
        return READ[name, text]

    def finding(self, keys: Keys, message: str) -> Finding:
        return Finding(f"{self.document.name}:{self.line(keys)}", message)


READ: dict[tuple[str, str], File] = {}
Project: TypeAlias = "Mapping[str, File]"
Rule: TypeAlias = "Callable[[File, Project], Iterator[Finding]]"
Check: TypeAlias = "Callable[[WorkflowDocument, WorkflowSet], Iterator[DoctorFinding]]"


@functools.cache
def project(root: Path) -> Project:
    """Read every workflow and action file of a repository, by its path in it."""
    paths = (path for pattern in PLACES for path in sorted(root.glob(pattern)))
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return {name: File.from_path(path, name) for name, path in names.items()}


PLACES = (".github/workflows/*.yml", ".github/actions/*/action.yml", "action.yml")


def findings(file: File, files: Project, *only: Rule) -> list[Finding]:
    """Return what breaks a rule in a file, from top to bottom."""
    found = {finding for rule in only or RULES for finding in rule(file, files)}
    return sorted(found, key=lambda finding: int(finding.where.rpartition(":")[2]))


BAD = (Weight.ERROR, Weight.WARNING)


def of_doctor(check: Check) -> Rule:
    """Return a rule of the product, which holds for every repository, as one of ours."""

    def rule(file: File, files: Project) -> Iterator[Finding]:
        known = WorkflowSet(files, (), lambda *_: None)
        yield from (
            Finding(one.where, one.what)
            for one in check(file, known)
            if one.rule != "runner-gone" and one.weight in BAD
        )

    return rule


def uses(file: File) -> list[tuple[Keys, str]]:
    """Return what the jobs and steps of a file use, and where."""
    return [(keys, text) for keys, text in strings(file.value) if keys[-1] == "uses" and "with" not in keys]


def uses_are_pinned(file: File, _: Project) -> Iterator[Finding]:
    for keys, text in uses(file):
        if text.startswith(OURS):
            continue
        if not PINNED.fullmatch(text):
            yield file.finding(keys, f"{text} is not pinned, expected OWNER/NAME@ and a commit's 40 digits")
        elif not VERSION.search(file.lines[file.line(keys) - 1]):
            yield file.finding(keys, f"{text} has no version beside it, expected a comment such as # v1.2.3")


def nothing_is_permitted_on_top(file: File, _: Project) -> Iterator[Finding]:
    """A workflow that is only called may leave it out: then a job without grants has those of the caller's job.

    https://docs.github.com/en/actions/reference/workflows-and-actions/reusing-workflow-configurations
    """
    is_called = set(file.triggers) == {"workflow_call"} and "permissions" not in file.value
    if not (file.is_action or is_called) and file.value.get("permissions") != {}:
        yield file.finding(("permissions",), "a workflow permits nothing on top, expected permissions: {}")


def each_grant_has_its_reason(file: File, _: Project) -> Iterator[Finding]:
    for name, job in file.jobs.items():
        grants = job.get("permissions", {})
        if not isinstance(grants, dict):
            yield file.finding(("jobs", name, "permissions"), f"{grants} grants too much, expected one line for each")
            continue
        for scope in grants:
            if not file.comment(("jobs", name, "permissions", scope)):
                keys = ("jobs", name, "permissions", scope)
                yield file.finding(keys, f"job {name} is granted {scope}, expected the reason as a comment")


def has_the_callers(file: File, job: Mapping[str, Any], files: Project) -> bool:
    """Whether a job, or one of a workflow that it calls, may do whatever the caller's job may."""
    if "permissions" in file.value or "permissions" in job:
        return False
    called = _called(job.get("uses", ""), files)
    return called is None or _hands_down(called, files)


def _hands_down(file: File, files: Project) -> bool:
    return any(has_the_callers(file, job, files) for job in file.jobs.values())


def _grants(job: Mapping[str, Any]) -> dict[str, str]:
    """Return what a job is granted, scope by scope; `read-all` and its kind are refused above."""
    grants = job.get("permissions", {})
    return grants if isinstance(grants, dict) else {}


def everything_is_named(file: File, _: Project) -> Iterator[Finding]:
    if not file.value.get("name"):
        yield file.finding((), "the file has no name")
    for name, job in file.jobs.items():
        if not job.get("name"):
            yield file.finding(("jobs", name), f"job {name} has no name")
    for step in file.steps:
        if not step.value.get("name"):
            yield file.finding(step.keys, "the step has no name")


def everything_is_described_in_a_sentence(file: File, _: Project) -> Iterator[Finding]:
    if file.is_action and not SENTENCE.fullmatch(file.value.get("description", "").strip()):
        yield file.finding(("description",), "the action is not described in a sentence")
    for kind in ("inputs", "outputs", "secrets"):
        for name, (keys, value) in file.declared(kind).items():
            if not SENTENCE.fullmatch(str(value.get("description", "")).strip()):
                yield file.finding(keys, f"{name} is not described in a sentence, with a capital and a full stop")


def run_is_short_and_expands_nothing(file: File, _: Project) -> Iterator[Finding]:
    for step in file.steps:
        text = step.value.get("run", "")
        keys = (*step.keys, "run")
        if "${{" in text:
            yield file.finding(keys, "run: expands ${{ }}, expected the value in env:")
        if (count := len(text.strip().splitlines())) > MAX_RUN_LINES:
            yield file.finding(keys, f"run: has {count} lines, expected {MAX_RUN_LINES} at most: move it into the CLI")


def checkouts_keep_no_credentials(file: File, _: Project) -> Iterator[Finding]:
    for step in file.steps:
        if step.action == "actions/checkout" and step.value.get("with", {}).get("persist-credentials") is not False:
            yield file.finding(step.keys, "the checkout keeps its token, expected persist-credentials: false")


def jobs_have_a_timeout(file: File, _: Project) -> Iterator[Finding]:
    """A limit is near what its job takes: the plan's for a row of a matrix, else the catalog's or less."""
    for name, job in file.jobs.items():
        if "uses" in job:
            continue
        most, said = MINUTES.get(name, MAX_MINUTES), job.get("timeout-minutes")
        if said is None:
            yield file.finding(("jobs", name), f"job {name} may run for six hours, expected timeout-minutes")
        elif said != "${{ matrix.minutes }}" and not (isinstance(said, int) and said <= most):
            keys = ("jobs", name, "timeout-minutes")
            yield file.finding(keys, f"job {name} may run for {said} minutes, expected {most} or less")


def artifacts_go_in_time(file: File, _: Project) -> Iterator[Finding]:
    """Without a word GitHub keeps an artifact for as long as the repository's settings say, 90 days at first."""
    for step in file.steps:
        if step.action == "actions/upload-artifact" and "retention-days" not in step.value.get("with", {}):
            yield file.finding(step.keys, "GitHub keeps the artifact for 90 days, expected retention-days")


def uploads_can_be_repeated(file: File, _: Project) -> Iterator[Finding]:
    """A second attempt of a job finds what the first one uploaded, and GitHub refuses a name that is there (409)."""
    for step in file.steps:
        if step.action == "actions/upload-artifact" and step.value.get("with", {}).get("overwrite") is not True:
            yield file.finding(step.keys, "a second attempt cannot upload the artifact, expected overwrite: true")


def nothing_is_uploaded_always(file: File, _: Project) -> Iterator[Finding]:
    for step in file.steps:
        conditions = {step.keys: step.value.get("if", "")}
        if step.keys[0] == "jobs" and step.action.startswith(UPLOADS):
            conditions[step.keys[:2]] = file.jobs[str(step.keys[1])].get("if", "")
        for keys, condition in conditions.items():
            if "always()" in str(condition):
                yield file.finding(
                    (*keys, "if"), "always() uploads what failed or was cancelled, expected !cancelled()"
                )


def no_input_is_code(file: File, _: Project) -> Iterator[Finding]:
    for name, (keys, _value) in file.declared("inputs").items():
        if CODE_WORDS.intersection(re.split(r"[-_]", name.lower())):
            yield file.finding(keys, f"the input {name} is named as code, which belongs in a committed file")


def matrices_are_gated(file: File, _: Project) -> Iterator[Finding]:
    for name, job in file.jobs.items():
        matrix = job.get("strategy", {}).get("matrix", {})
        if any("${{" in text for _keys, text in strings(matrix, ("matrix",))) and "if" not in job:
            keys = ("jobs", name, "strategy", "matrix")
            yield file.finding(keys, f"the matrix of {name} can be empty, which fails: expected an if: on the job")


def only_what_is_not_required_may_fail(file: File, _: Project) -> Iterator[Finding]:
    places = [(("jobs", name), job, True) for name, job in file.jobs.items()]
    for keys, value, is_job in (*places, *((step.keys, step.value, False) for step in file.steps)):
        allowed = value.get("continue-on-error", False)
        if allowed and not (is_job and allowed == "${{ !matrix.required }}"):
            message = f"continue-on-error: {allowed}, expected ${{{{ !matrix.required }}}} on a job"
            yield file.finding((*keys, "continue-on-error"), message)


def inputs_are_used(file: File, _: Project) -> Iterator[Finding]:
    used = {reference.names[:1] for reference in file.references if reference.context == "inputs"}
    for name, (keys, _value) in file.declared("inputs").items():
        if (name,) not in used and () not in used:
            yield file.finding(keys, f"the input {name} is used nowhere")


def _called(uses: str, files: Project) -> File | None:
    """Return the file of ours that `$/` or `./` names; None for another repository's."""
    if not uses.startswith(OURS):
        return None
    path = uses[2:].strip("/")
    return files.get(path) or files.get(f"{path}/action.yml".lstrip("/"))


def outputs_are_used(file: File, _: Project) -> Iterator[Finding]:
    used = {(names[0], names[2]) for _keys, context, names in file.references if context != "steps" and len(names) > 2}
    for job, value in file.jobs.items():
        for output in value.get("outputs", {}):
            if (job, output) not in used:
                yield file.finding(("jobs", job, "outputs", output), f"the output {output} of {job} is used nowhere")


def expanded_values_are_quoted(file: File, _: Project) -> Iterator[Finding]:
    for step in file.steps:
        if step.value.get("shell", "bash") not in {"bash", "sh"}:
            continue
        for name in sorted(_expanded(file, step) & unquoted(step.value.get("run", ""))):
            yield file.finding((*step.keys, "run"), f'${name} comes from an expression, expected "${name}"')


def _expanded(file: File, step: WorkflowStep) -> set[str]:
    """Return the variables of a step whose values come from an expression."""
    job = file.jobs[str(step.keys[1])] if step.keys[0] == "jobs" else {}
    places = (file.value.get("env", {}), job.get("env", {}), step.value.get("env", {}))
    return {name for env in places for name, value in env.items() if "${{" in str(value)}


SHELL = re.compile(r"\\.|'[^']*'|\$\(|\$\{?(\w+)[^}\"]*?(?:\}|(?<=\w)(?!\w))|[\"()]", re.DOTALL)


def unquoted(command: str) -> set[str]:
    """Return the variables that a shell command expands outside of double quotes, where they fall apart into words."""
    found: set[str] = set()
    quoted = [False]
    for match in SHELL.finditer(command):
        word = match[0]
        if word == '"':
            quoted[-1] = not quoted[-1]
        elif word in {"$(", "("}:
            quoted.append(False)
        elif word == ")" and len(quoted) > 1:
            quoted.pop()
        elif match[1] and not quoted[-1]:
            found.add(match[1])
    return found


def asked(file: File, files: Project) -> dict[str, str]:
    """Return what the jobs of a workflow ask for together, those of the workflows that it calls included."""
    total: dict[str, str] = {}
    for job in file.jobs.values():
        called = _called(job.get("uses", ""), files)
        for scope, level in {**_grants(job), **(asked(called, files) if called else {})}.items():
            total[scope] = max(total.get(scope, "none"), level, key=RANKS.__getitem__)
    return total


def labels_have_a_runner(file: File, _: Project) -> Iterator[Finding]:
    for name, job in file.jobs.items():
        for keys, label in strings(job.get("runs-on", []), ("jobs", name, "runs-on")):
            if "${{" not in label and label not in HOSTED:
                yield file.finding(keys, f"the label {label} is no runner that GitHub hosts")


def the_shell_is_named(file: File, _: Project) -> Iterator[Finding]:
    """Without a name it is PowerShell on Windows, and elsewhere a bash that goes on when a command of a pipe fails."""
    for step in file.steps if not file.is_action else ():
        places = (file.value, file.jobs[str(step.keys[1])])
        named = [place.get("defaults", {}).get("run", {}).get("shell") for place in places]
        if "run" in step.value and not any((*named, step.value.get("shell"))):
            yield file.finding(
                (*step.keys, "run"), "the shell is not named, expected defaults: run: shell: bash on top"
            )


def runs_are_kept_apart(file: File, _: Project) -> Iterator[Finding]:
    """Two runs of one release must not meet; `github.workflow` in a called one is its caller, which it would end."""
    started = set(file.triggers) - {"workflow_call"}
    group = file.value.get("concurrency", {}).get("group", "")
    if not file.is_action and started and not group:
        yield file.finding((), f"runs on {', '.join(sorted(started))} may meet, expected concurrency: with a group")
    if "workflow_call" in file.triggers and "github.workflow" in group:
        yield file.finding(("concurrency",), "a called workflow's group must not be named by github.workflow")


def runs_that_wait_are_kept(file: File, _: Project) -> Iterator[Finding]:
    """GitHub keeps one waiting run of a group and cancels the others, unless its `queue` is `max`.

    https://docs.github.com/en/actions/how-tos/write-workflows/choose-when-workflows-run/control-workflow-concurrency
    """
    places: list[tuple[Keys, Any]] = [(("jobs", name, "concurrency"), job) for name, job in file.jobs.items()]
    for keys, value in ((("concurrency",), file.value), *places):
        said = value.get("concurrency")
        if said is None:
            continue
        said = said if isinstance(said, dict) else {"group": said}
        cancels, queue = said.get("cancel-in-progress", False), said.get("queue", "single")
        if cancels is False and queue != "max":
            yield file.finding(keys, "of the runs that wait all but one are cancelled, expected queue: max")
        if cancels is not False and queue == "max":
            yield file.finding(keys, "queue: max keeps what cancel-in-progress ends, expected one of them")


def conditions_behind_others_are_said(file: File, _: Project) -> Iterator[Finding]:
    """GitHub's own success() asks after every job before this one, those that a needed job looked past included.

    https://github.com/actions/runner/issues/2205
    """
    for name, job in file.jobs.items():
        past = [need for need in file.needs(name) if STATUS.search(str(file.jobs.get(need, {}).get("if", "")))]
        if past and not STATUS.search(str(job.get("if", ""))):
            message = (
                f"{name} is skipped where a job before {past[0]} was not successful: say success() or !cancelled()"
            )
            yield file.finding(("jobs", name), message)


def rights(file: File, name: str, files: Project) -> list[str]:
    """Return what a job may do or read beyond `contents: read`: permissions, secrets, an environment."""
    job = file.jobs[name]
    granted = job.get("permissions", file.value.get("permissions"))
    if has_the_callers(file, job, files):
        found = ["what the caller grants" if "workflow_call" in file.triggers else "the repository's default"]
    else:
        scopes = granted.items() if isinstance(granted, dict) else [(str(granted), "")]
        found = [scope for scope, level in scopes if level != "none" and (scope, level) != ("contents", "read")]
    secrets = [it for it in file.references if it.context == "secrets" and it.keys[0] in {"env", "defaults"}]
    secrets += [it for it in file.references if it.context == "secrets" and it.keys[:2] == ("jobs", name)]
    found += [".".join(("secrets", *it.names)) for it in secrets]
    found += ["secrets: inherit"] if job.get("secrets") == "inherit" else []
    return found + (["an environment"] if "environment" in job else [])


def the_projects_code_runs_without_rights(file: File, files: Project) -> Iterator[Finding]:
    for step in file.steps if not file.is_action else ():
        found = rights(file, str(step.keys[1]), files)
        if found and PROJECT_CODE.search(step.value.get("run", "")):
            yield file.finding((*step.keys, "run"), f"a project's own code runs here, beside {', '.join(found)}")


def no_cache_is_restored_beside_rights(file: File, files: Project) -> Iterator[Finding]:
    """Whoever may write a cache chooses every path of it: actions/cache unpacks with `tar -P`, before any hash is read.

    An action of others that nobody has described may restore one as well. The jobs of a called workflow of ours are
    held to the same where they stand.
    """
    for step in file.steps if not file.is_action else ():
        if found := rights(file, str(step.keys[1]), files):
            for what in _restored(step, files):
                yield file.finding(step.keys, f"{what}, beside {', '.join(found)}")
    for name, job in file.jobs.items():
        found = rights(file, name, files)
        if found and "uses" in job and not job["uses"].startswith(OURS):
            yield file.finding(("jobs", name), f"{job['uses']} may restore a cache, beside {', '.join(found)}")


def _restored(step: WorkflowStep, files: Project) -> Iterator[str]:
    """Yield what restores a cache in a step, or may: in the actions that ours use, too."""
    called = _called(step.value.get("uses", ""), files)
    known = ACTIONS.get(step.action)
    if called:
        for inner in called.steps:
            yield from _restored(inner, files)
    elif step.action and known is None:
        yield f"{step.action} may restore a cache: ci_tools/catalog/actions.toml does not describe it"
    elif known and (switch := known.get("restores")) and (switch is True or step.value.get("with", {}).get(switch)):
        yield f"{step.action} restores a cache"


def artifacts_stay_apart_beside_rights(file: File, files: Project) -> Iterator[Finding]:
    """What another job wrote must not become a part of a checkout, whose files git and other programs obey."""
    for step in file.steps if not file.is_action else ():
        if step.action != "actions/download-artifact" or not rights(file, str(step.keys[1]), files):
            continue
        checked_out = any(it.action == "actions/checkout" and it.keys[:2] == step.keys[:2] for it in file.steps)
        path = str(step.value.get("with", {}).get("path", ""))
        if checked_out and not path.startswith("${{ runner.temp }}/"):
            yield file.finding(step.keys, "the artifact lands in the checkout, expected path: ${{ runner.temp }}/…")
        elif path.strip("./") == "":
            yield file.finding(step.keys, "the artifact lands in the workspace itself, expected a folder of its own")


def actions_have_the_rights_they_need(file: File, files: Project) -> Iterator[Finding]:
    for step in file.steps if not file.is_action else ():
        job = file.jobs[str(step.keys[1])]
        granted = _grants(job)
        if has_the_callers(file, job, files) and "workflow_call" in file.triggers:
            continue
        for action, given, rights in RIGHTS:
            applies = step.action == action and (not given or given in step.value.get("with", {}))
            for scope, level in rights.items() if applies else ():
                if RANKS[level] > RANKS[granted.get(scope, "none")]:
                    yield file.finding(step.keys, f"{action} needs {scope}: {level}, which the job does not grant")


def nothing_is_granted_in_vain(file: File, files: Project) -> Iterator[Finding]:
    for name, job in file.jobs.items():
        called = _called(job.get("uses", ""), files)
        needed = asked(called, files) if called else _signs(file, name)
        for scope, level in _grants(job).items() if not (called and _hands_down(called, files)) else ():
            if (called or scope in SIGNING) and RANKS[level] > RANKS[needed.get(scope, "none")]:
                keys = ("jobs", name, "permissions", scope)
                yield file.finding(keys, f"job {name} is granted {scope}: {level}, and nothing in it asks for that")


def _signs(file: File, job: str) -> dict[str, str]:
    """Return the rights to sign that the actions of a job need, and to read what was signed."""
    used = {step.action for step in file.steps if step.keys[1] == job}
    needed = {scope: level for action, _, rights in RIGHTS if action in used for scope, level in rights.items()}
    return {"attestations": "read", **needed}


def what_zizmor_is_told_to_ignore_has_a_reason(file: File, _: Project) -> Iterator[Finding]:
    for number, line in enumerate(file.lines, 1):
        if re.search(r"# zizmor: ignore\[[\w,-]+\]\W*$", line):
            yield Finding(f"{file.document.name}:{number}", "a finding is ignored, expected the reason after it")


# The rules to which the doctor holds every repository.
inputs_are_declared = of_doctor(check_input_names)
secrets_are_declared = of_doctor(check_secret_names)
needs_are_declared = of_doctor(check_job_names)
actions_are_given_what_they_take = of_doctor(check_actions)
steps_are_declared = of_doctor(check_step_names)
workflows_are_given_what_they_take = of_doctor(check_calls)
defaults_are_of_their_type = of_doctor(check_defaults)
shells_are_known = of_doctor(check_shells)
the_matrix_has_what_is_used = of_doctor(check_matrix_names)
OTHERS = (check_needs, *ARTIFACT_RULES, check_containers, check_matrices, *RELEASE_RULES)
the_doctor_finds_nothing = of_doctor(lambda file, known: (one for check in OTHERS for one in check(file, known)))

RULES: tuple[Rule, ...] = (
    uses_are_pinned,
    nothing_is_permitted_on_top,
    each_grant_has_its_reason,
    everything_is_named,
    everything_is_described_in_a_sentence,
    run_is_short_and_expands_nothing,
    checkouts_keep_no_credentials,
    jobs_have_a_timeout,
    artifacts_go_in_time,
    uploads_can_be_repeated,
    nothing_is_uploaded_always,
    no_input_is_code,
    matrices_are_gated,
    only_what_is_not_required_may_fail,
    inputs_are_declared,
    secrets_are_declared,
    inputs_are_used,
    needs_are_declared,
    actions_are_given_what_they_take,
    steps_are_declared,
    outputs_are_used,
    expanded_values_are_quoted,
    workflows_are_given_what_they_take,
    labels_have_a_runner,
    the_shell_is_named,
    shells_are_known,
    the_matrix_has_what_is_used,
    defaults_are_of_their_type,
    the_doctor_finds_nothing,
    runs_are_kept_apart,
    runs_that_wait_are_kept,
    conditions_behind_others_are_said,
    actions_have_the_rights_they_need,
    nothing_is_granted_in_vain,
    the_projects_code_runs_without_rights,
    no_cache_is_restored_beside_rights,
    artifacts_stay_apart_beside_rights,
    what_zizmor_is_told_to_ignore_has_a_reason,
)
