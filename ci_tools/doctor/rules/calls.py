"""Rules for what called workflows and actions are given: inputs and their types, secrets, and permissions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ci_tools.catalog import tables
from ci_tools.doctor.documents import (
    CALL,
    DISPATCH,
    Grants,
    Keys,
    Table,
    WorkflowDocument,
    WorkflowStep,
    granted_to,
    is_computed,
    lacking,
    one_line,
    table_of,
    unite_grants,
    whole_expression,
)
from ci_tools.doctor.report import DoctorFinding, Unseen, Weight, report
from ci_tools.doctor.rules.references import ACTIONS
from ci_tools.doctor.workflow_set import DEEPEST, USES, WorkflowCall, WorkflowSet, is_fatwheel
from ci_tools.doctor.workflows import CALLS
from ci_tools.errors import close_names, nearest

CALL_KEYS = frozenset({"name", "uses", "with", "secrets", "needs", "if", "permissions", "strategy", "concurrency"})
PLATFORMS = tuple(tables.read("platforms"))
WORDS = {"attest": ("public", "always", "never"), "only": (*PLATFORMS, "core"), "platform": PLATFORMS}
VERSION = re.compile(r"v?(\d+)(?:\.|$)")


def check_calls(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield what is wrong with the calls of other workflows."""
    for call in known.calls(file):
        if call.file is not file:
            continue
        keys = (*call.keys, "uses")
        for key in sorted(set(map(str, file.jobs[call.job])) - CALL_KEYS):
            what = f"{call.job} calls a workflow, and has `{one_line(key)}:`"
            yield report("call-key", file.where((*call.keys, key)), what)
        is_fatwheels = is_fatwheel(known, file, call.uses) and "@" in call.uses
        is_ours = is_fatwheels and CALLS.search(call.uses) is not None  # then rules/jobs.py says it, too
        if call.called is None or isinstance(call.called, Unseen):
            unseen = call.called and _not_seen(file, keys, call.called)
            yield from () if is_ours else [unseen or _missing(file, keys, call.uses, known)]
        elif CALL not in call.called.triggers:
            yield report("not-callable", file.where(keys), f"{one_line(call.uses)} is not a reusable workflow")
        else:
            yield from _check_inputs(file, call.keys, call.called.declared("inputs", CALL), is_call=True)
            yield from _check_secrets(call, call.called, known, is_ours=is_ours)
            yield from _check_grants(call, call.called, known) if not is_ours else ()
            yield from _check_groups(call, call.called)
            yield from _check_words(call) if is_fatwheels else ()


def _missing(file: WorkflowDocument, keys: Keys, uses: str, known: WorkflowSet) -> DoctorFinding:
    is_own = uses.startswith(("./", "$/"))
    how = nearest(uses[2:], known.files) if is_own else "name a commit that has the file"
    what = f"{one_line(uses)} names no file of {'this repository' if is_own else 'that repository'}"
    return report("not-there", file.where(keys), what, how)


def _not_seen(file: WorkflowDocument, keys: Keys, unseen: Unseen) -> DoctorFinding:
    return report("not-looked-at", file.where(keys), f"not looked at: {unseen.what}", f"needs {unseen.needs}")


def check_actions(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the actions of steps that are missing or gone, and inputs that they do not take."""
    for step in file.steps:
        is_own = step.uses.startswith(("./", "$/"))
        called = known.called(file, step.uses, is_job=False) if step.uses else None
        if called is None and is_own and not _is_checked_out(file, step):
            yield _missing(file, (*step.keys, "uses"), step.uses, known)
        elif isinstance(called, WorkflowDocument):
            yield from _check_inputs(file, step.keys, called.declared("inputs"), is_call=False)
        elif step.action in ACTIONS:
            yield from _check_known(file, step, ACTIONS[step.action])
            yield from _check_version(file, step, ACTIONS[step.action])


def _is_checked_out(file: WorkflowDocument, step: WorkflowStep) -> bool:
    """Whether a step before this one may have put the action there: by a checkout into a folder, or by a command."""
    before = [one for one in file.steps if one.keys[:-1] == step.keys[:-1] and one.keys[-1] < step.keys[-1]]  # type: ignore[operator]
    others = any({"path", "repository", "ref"} & set(one.given) for one in before if one.action == "actions/checkout")
    return others or any(one.run for one in before) or ".github/" not in step.uses


def _check_known(file: WorkflowDocument, step: WorkflowStep, action: Mapping[str, Any]) -> Iterator[DoctorFinding]:
    """Yield misspelt inputs of others' actions, whose versions differ in what they take."""
    names = [*action["inputs"], *action.get("also", ())]
    for name in step.given:
        if name not in names and (close := close_names(name, names, cutoff=0.75)):
            what, where = f"{step.action} takes no input {one_line(name)}", file.where((*step.keys, "with", name))
            yield report("input-unknown/step", where, what, f'did you mean "{close[0]}"?')
    for name in (name for name, default in action["inputs"].items() if default is True and name not in step.given):
        what, how = f"{step.action} requires the input {name}", f"in that step: `with: {{ {name}: … }}`"
        yield report("input-missing/known", file.where(step.keys), what, how)


def _check_version(file: WorkflowDocument, step: WorkflowStep, action: Mapping[str, Any]) -> Iterator[DoctorFinding]:
    gone, keys = action.get("gone"), (*step.keys, "uses")
    said = step.uses.partition("@")[2]
    # a commit has its version in a comment behind it
    version = VERSION.match(said) or VERSION.match(file.comment(keys))
    if gone and version and len(version[1]) < 4 and int(version[1]) < gone["before"]:  # noqa: PLR2004 - not a date
        what = f"{step.action} v{version[1]} has not worked since {gone['day']}"
        why = f"every job that uses it fails ({gone['source']})"
        how = f"`uses: {step.action}@v{gone['before']}` or later"
        yield DoctorFinding("action-gone", Weight.ERROR, file.where(keys), what, why, how)


def _check_inputs(
    file: WorkflowDocument, keys: Keys, declared: Mapping[str, tuple[Keys, Table]], *, is_call: bool
) -> Iterator[DoctorFinding]:
    """Yield inputs that are unknown, missing or of another type than a called workflow or an own action declares."""
    value = file.jobs[str(keys[1])] if is_call else next(step.value for step in file.steps if step.keys == keys)
    given = table_of(value.get("with"))
    of, kind = one_line(str(value["uses"])).partition("@")[0], "call" if is_call else "step"
    names = {name.lower(): name for name in declared}
    for name, one in given.items():
        where = file.where((*keys, "with", name))
        if name.lower() not in names:
            what = f"{of} takes no input {one_line(name)}"
            yield report(f"input-unknown/{kind}", where, what, nearest(name, declared))
        elif is_call and not is_of_type(one, declared[names[name.lower()]][1]):
            expected = type_in_words(declared[names[name.lower()]][1])
            what = f"the input {name} is given {one!r}, expected {expected}"
            yield report("input-type", where, what, f"in that job: `{name}:` {expected}")
    lower = {name.lower() for name in given}
    for name, (_, table) in declared.items():
        is_required = table.get("required") is True and (is_call or "default" not in table)
        if is_required and name.lower() not in lower:
            what, how = f"{of} requires the input {name}", f"`with: {{ {name}: … }}`"
            yield report(f"input-missing/{kind}", file.where(keys), what, how)


def _check_words(call: WorkflowCall) -> Iterator[DoctorFinding]:
    """Yield inputs of Fatwheel's workflows that take one of some words, and get another."""
    for name, given in table_of(call.file.jobs[call.job].get("with")).items():
        if name in WORDS and isinstance(given, str) and not is_computed(given) and given not in {"", *WORDS[name]}:
            where, how = call.file.where((*call.keys, "with", name)), nearest(given, WORDS[name])
            yield report("input-choice", where, f"the input {name} is given {one_line(given)}", how)


def check_defaults(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield inputs whose default is not of their type, or not one of their options; a person sees any as a text."""
    for event in (CALL, DISPATCH) if not file.is_action else ():
        for name, (keys, table) in file.declared("inputs", event).items():
            if (event == CALL or table.get("type") == "choice") and not is_of_type(table.get("default"), table):
                expected = type_in_words(table)
                what = f"the input {name} is by default {table['default']!r}, expected {expected}"
                yield report("input-type", file.where((*keys, "default")), what, f"`default:` {expected}")


def is_of_type(value: object, declared: Mapping[str, Any]) -> bool:
    """Whether a value fits what an input declares, as far as it is known from here: an expression may give any type.

    GitHub makes a text of a number or a boolean, and nothing else of a text; `github.event.inputs` has texts only.
    https://github.com/actions/runner/issues/1483
    """
    kind = declared.get("type", "string")
    if is_computed(value) and kind in {"boolean", "number"}:
        expression = whole_expression(str(value))  # `true${{ x }}` is a text
        return expression is not None and not re.fullmatch(r"\s*github\.event\.inputs\s*[.\[][^=!&|]*", expression)
    if value is None or is_computed(value):
        return True
    if kind == "choice":
        return str(value) in map(str, declared.get("options") or [value])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_number = is_number or (isinstance(value, str) and re.fullmatch(r"-?\d+\.\d+", value) is not None)
    return {"boolean": isinstance(value, bool), "number": is_number}.get(kind, not isinstance(value, dict | list))


def type_in_words(declared: Mapping[str, Any]) -> str:
    """Return what an input takes."""
    kind = declared.get("type", "string")
    options = ", ".join(f'"{option}"' for option in declared.get("options") or ())
    return {"boolean": "true or false", "number": "a number", "choice": f"one of {options}"}.get(kind, "a text")


# -- secrets


def _check_secrets(
    call: WorkflowCall, called: WorkflowDocument, known: WorkflowSet, *, is_ours: bool
) -> Iterator[DoctorFinding]:
    """Yield secrets that cannot arrive: not passed, not taken, or inherited from another owner."""
    passed = call.file.jobs[call.job].get("secrets")
    declared = called.declared("secrets", CALL)
    where, of = call.file.where((*call.keys, "secrets")), one_line(call.uses).partition("@")[0]
    found = USES.fullmatch(call.uses)
    if passed == "inherit":
        owner = known.repository.partition("/")[0].lower()  # inherit crosses no owner but within an enterprise
        if found and owner and found[1].partition("/")[0].lower() != owner and declared:
            what = f"{call.job} passes its secrets by `inherit` to a workflow of another owner"
            yield report("inherit-elsewhere", where, what, f"name them: `secrets: {{ {', '.join(declared)}: … }}`")
        return
    names = {name.lower() for name in table_of(passed)}
    for name in (name for name in table_of(passed) if name.lower() not in {one.lower() for one in declared}):
        what = f"{of} takes no secret {one_line(name)}"
        yield report("secret-unknown", call.file.where((*call.keys, "secrets", name)), what, nearest(name, declared))
    for name, (_, table) in declared.items():
        if table.get("required") is True and name.lower() not in names and not is_ours:
            what = f"{call.job} does not pass the secret {name}"
            how = f"`secrets: {{ {name}: ${{{{ secrets.{name.upper().replace('-', '_')} }}}} }}`"
            yield report("secret-not-passed", call.file.where(call.keys), what, how)


# -- permissions


def asked_by(file: WorkflowDocument, known: WorkflowSet, depth: int = 0) -> Grants:
    """Return what the jobs of a called workflow ask for together, those of the workflows that it calls included."""
    asked: list[Grants] = []
    for job, value in file.jobs.items():
        granted = granted_to(file, job)
        called = known.called(file, str(value["uses"]), is_job=True) if "uses" in value else None
        if granted is not None:
            asked.append(granted)
        elif isinstance(called, WorkflowDocument) and depth < DEEPEST:  # its caller's, as it sets none
            asked.append(asked_by(called, known, depth + 1))
    return unite_grants(asked)


def _check_grants(call: WorkflowCall, called: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    granted = granted_to(call.file, call.job)
    if granted is None and set(call.file.triggers) != {CALL}:
        return  # the repository's default, which its settings say
    for scope, wanted in (lacking(granted, asked_by(called, known)) if granted is not None else {}).items():
        what = f"{one_line(call.uses)} asks for `{scope}: {wanted}`, which {call.job} does not grant"
        how = f"in that job: `permissions: {{ {scope}: {wanted} }}`, beside the others"
        yield report("permissions/call", call.file.where(call.keys), what, how)


# -- concurrency


def _check_groups(call: WorkflowCall, called: WorkflowDocument) -> Iterator[DoctorFinding]:
    """Yield a called workflow that waits for the group of its caller: `github.workflow` is the caller's in both."""
    own = {_group(call.file.value), _group(call.file.jobs[call.job])} - {""}
    for keys, group in [
        ((), _group(called.value)),
        *((("jobs", job), _group(value)) for job, value in called.jobs.items()),
    ]:
        if group in own:
            what = f"{call.job} and {called.where((*keys, 'concurrency'))} are of one concurrency group"
            yield report("deadlock", call.file.where(call.keys), what)


def _group(value: Table) -> str:
    said = value.get("concurrency")
    text = str(table_of(said).get("group", "") if isinstance(said, dict) else said or "")
    return re.sub(r"\s+", "", text)


CALL_RULES = (check_calls, check_actions, check_defaults)
