"""The rules of the doctor: they derive findings from the facts of a repository's settings and workflows.

Each finding says what is wrong, where, why it matters for a release, and how to fix it. A fact that the token could not
read is a finding, too: nothing passes unchecked.
"""

from __future__ import annotations

import re
import shlex
from itertools import chain
from typing import TYPE_CHECKING

from ci_tools.github.doctor.report import (
    Facts,
    Finding,
    Fix,
    Kind,
    Tag,
    Unseen,
    Weight,
)
from ci_tools.github.doctor.workflows import (
    ATTEST_NEVER,
    ATTEST_PUBLIC,
    EXPRESSION,
    INHERITED,
    Outline,
    Workflow,
    access,
    lacking,
    needed_to_publish,
    unite_grants,
)
from ci_tools.model.repository import COMMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.github.doctor.report import Environment, Policy
    from ci_tools.github.doctor.workflows import Grants, Job, Used

__all__ = ["diagnose"]

RESTRICTED: Grants = {"contents": "read", "packages": "read"}  # GitHub's defaults if the setting is `read`
PERMISSIVE: Grants = {"*": "write", "id-token": "none"}
GENERAL, ACTIONS, ENVIRONMENTS = "Settings, General", "Settings, Actions", "Settings, Environments"
PUBLISH = re.compile(r"/publish\.ya?ml$")
BY_EVENT = re.compile(r"\bgithub\.(?:event_name|ref|ref_name|ref_type)\b")
CHOSEN = re.compile(r"\$\{\{[^'{}]*'nightly' && '([^'{}]+)' \|\| '' \}\}")  # an environment for all but nightlies
OF_GITHUB = frozenset({"actions", "github"})
DISABLED = {
    "disabled_inactivity": "GitHub disabled it after 60 days without activity",
    "disabled_manually": "somebody disabled it",
    "disabled_fork": "GitHub disabled it, as it does in a fork",
}


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """Return all findings, the worst first."""
    of_jobs = (
        finding
        for workflow in facts.callers
        for job in workflow.jobs
        for rule in JOB_RULES
        for finding in rule(facts, workflow, job)
    )
    found = chain(*(rule(facts) for rule in RULES), of_jobs)
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: list(Weight).index(finding.weight)))


def _unseen(where: str, fact: Unseen) -> Finding:
    why = "what cannot be seen is not called good"
    return Finding("unseen", Weight.UNSEEN, where, f"not seen: {fact.what}", why, f"needs {fact.needs}")


# -- the repository


def _check_archival(facts: Facts) -> Iterator[Finding]:
    if facts.is_archived:
        mend = f"gh repo unarchive {facts.repository}"
        yield Finding("archived", Weight.ERROR, facts.repository, "it is archived", "nothing runs in it", mend)


def _callers(facts: Facts) -> Iterator[Finding]:
    """Yield the files that cannot be read, and a finding if no workflow calls Fatwheel."""
    for path, why in facts.unread:
        page = f"{facts.page}/blob/{facts.branch}/{path}"
        yield Finding("unread", Weight.UNSEEN, path, f"not seen: {why}", "what it would do is not known", page)
    if not facts.callers and not facts.unread:
        what = f"no workflow on {facts.branch} calls Fatwheel"
        mend = "add a job with `uses: OWNER/fatwheel/.github/workflows/wheels.yml@SHA # vX.Y.Z`"
        yield Finding("no-caller", Weight.WARNING, ".github/workflows", what, "nothing is released by itself", mend)


def _policy(facts: Facts) -> Iterator[Finding]:
    """Yield the settings that prevent GitHub Actions, or the actions used, from running."""
    if isinstance(facts.policy, Unseen):
        yield _unseen(ACTIONS, facts.policy)
        return
    page = facts.settings("actions")
    if not facts.policy.is_enabled:
        mend = f"{page}, or: gh api -X PUT repos/{facts.repository}/actions/permissions -F enabled=true"
        yield Finding("actions-disabled", Weight.ERROR, ACTIONS, "Actions are off", "no job runs", mend)
        return
    for used in _once(_all_uses(facts)):
        yield from _check_use(facts, facts.policy, used)


def _check_use(facts: Facts, policy: Policy, used: Used) -> Iterator[Finding]:
    page, why = facts.settings("actions"), "a run that uses it ends before its first job"
    if policy.pins and not used.is_workflow and not COMMIT.fullmatch(used.ref):  # workflows may be called by tag
        what = f"{used} is no full commit, and the repository takes no other actions"
        yield Finding("sha-required", Weight.ERROR, used.where, what, why, "pin the commit, or a newer Fatwheel")
    verdict = _is_allowed(facts, policy, used)
    allow = f'{page}: allow "{used.repository}{"/**" * bool(used.path)}@**"'
    if verdict is False:
        what = f"{used.repository} is not among the actions that may run"
        yield Finding("not-allowed", Weight.ERROR, used.where, what, why, allow)
    elif verdict is None:
        needs = f"somebody who looks whether its creator is verified, or the list means it; or {allow}"
        yield _unseen(used.where, Unseen(f"whether {used.repository} may run", needs))


def _is_allowed(facts: Facts, policy: Policy, used: Used) -> bool | None:
    """Return whether an action may run; None if that depends on facts that the API does not tell."""
    owner, name = used.repository.lower().partition("/")[0], str(used).lower()
    if policy.allowed == "all" or owner == facts.repository.lower().partition("/")[0]:
        return True
    if policy.allowed != "selected":
        return False
    listed = [pattern for pattern in policy.patterns if not pattern.startswith("!")]
    blocked = [pattern[1:] for pattern in policy.patterns if pattern.startswith("!")]
    if _matches(blocked, name):
        return False
    is_doubtful = _matches(blocked, name, star=".*")
    if (policy.of_github and owner in OF_GITHUB) or "*" in listed or _matches(listed, name):
        return None if is_doubtful else True
    return None if policy.verified or _matches(listed, name, star=".*") else False


def _matches(patterns: Iterable[str], name: str, star: str = "[^/]*") -> bool:
    """Whether a name matches a pattern; GitHub's `*` stops at a slash, although GitHub's own examples ignore that."""
    spelled = (re.escape(pattern.lower()).replace(r"\*\*", ".*").replace(r"\*", star) for pattern in patterns)
    return any(re.fullmatch(pattern, name) for pattern in spelled)


def _default(facts: Facts) -> Iterator[Finding]:
    """Yield default permissions that are too wide: a release does not need write access by default."""
    page = facts.settings("actions")
    if isinstance(facts.default, Unseen):
        yield _unseen(ACTIONS, facts.default)
        return
    if facts.default.access == "write":
        bare = [job.where for workflow in facts.workflows for job in workflow.jobs if workflow.grants_of(job) is None]
        is_safe = not bare and not facts.unread
        first = "" if is_safe else f"first give `permissions:` to each of {', '.join(bare) or 'the jobs not seen'}; "
        command = f"gh api -X PUT repos/{facts.repository}/actions/permissions/workflow"
        mend = f"{first}{command} -f default_workflow_permissions=read, or {page}"
        what, why = "jobs may write by default", "whatever runs in any job can change the repository and its releases"
        fix = Fix(Kind.READ_BY_DEFAULT, "") if is_safe else None
        yield Finding("default-write", Weight.WARNING, ACTIONS, what, why, mend, fix)
    if facts.default.approves:
        what, why = "workflows may approve pull requests", "a workflow could approve what nobody looked at"
        yield Finding("approves", Weight.HINT, ACTIONS, what, why, page)


def _states(facts: Facts) -> Iterator[Finding]:
    """Yield the disabled callers. Only those that GitHub disabled for inactivity get a fix, not those of a person."""
    if isinstance(facts.states, Unseen):
        yield _unseen(".github/workflows", facts.states)
        return
    for workflow in facts.callers:
        state = facts.states.get(workflow.path, "active")
        if state in DISABLED:
            name = shlex.quote(workflow.path.rpartition("/")[2])
            fix = Fix(Kind.ENABLE_WORKFLOW, workflow.path) if state == "disabled_inactivity" else None
            mend = f"gh workflow enable {name} -R {facts.repository}"
            why = "neither its schedule nor a tag starts it"
            yield Finding("disabled", Weight.ERROR, workflow.path, DISABLED[state], why, mend, fix)


def _immutable(facts: Facts) -> Iterator[Finding]:
    page = facts.settings("general")
    if isinstance(facts.is_immutable, Unseen):
        yield _unseen(GENERAL, facts.is_immutable)
    elif not facts.is_immutable:
        what = "releases can be changed after they are published"
        why = "files of a release, and its tag, could be swapped by whoever gets a token"
        yield Finding("mutable", Weight.HINT, GENERAL, what, why, f"{page}: Releases, Enable release immutability")


def _environments(facts: Facts) -> Iterator[Finding]:
    """Yield the environments that are missing, or open to everybody who can push a branch."""
    named: dict[str, list[Job]] = {}
    for job in (job for workflow in facts.callers for job in workflow.jobs if job.environment):
        named.setdefault(job.environment, []).append(job)
    if isinstance(facts.environments, Unseen):
        if named:
            yield _unseen(ENVIRONMENTS, facts.environments)
        return
    known = {name.lower(): environment for name, environment in facts.environments.items()}
    for text, jobs in named.items():
        chosen = CHOSEN.fullmatch(text)
        name = chosen[1] if chosen else text
        if "${{" in name:
            needs = "somebody who looks: its name is made when it runs"
            yield _unseen(jobs[0].where, Unseen(f"the environment {name}", needs))
        else:
            yield from _environment(facts, name, jobs, known.get(name.lower()))


def _environment(facts: Facts, name: str, jobs: list[Job], environment: Environment | None) -> Iterator[Finding]:
    page, where = facts.settings("environments"), jobs[0].where
    if environment is None:
        what = f'there is no environment "{name}"'
        why = "GitHub makes it by itself when the job runs, open to every branch"
        fix = Fix(Kind.CREATE_ENVIRONMENT, name)
        yield Finding("environment", Weight.ERROR, where, what, why, f"{page}: New environment", fix)
        return
    if not environment.has_approval and not environment.has_branches:
        what = f'the environment "{name}" is open to every branch, and nobody approves'
        why = "whoever can push a branch can publish with what it guards"
        mend = f"{page}: {name}: Required reviewers, or Deployment branches and tags"
        yield Finding("environment-open", Weight.WARNING, where, what, why, mend)
    if isinstance(environment.secrets, Unseen) and any(job.secrets for job in jobs):
        yield _unseen(ENVIRONMENTS, environment.secrets)


def _secrets_outside(facts: Facts) -> Iterator[Finding]:
    for workflow in facts.callers:
        yield from _missing(facts, workflow.secrets, workflow.path, "")


def _unseen_secrets(facts: Facts) -> Iterator[Finding]:
    is_named = any(job.secrets or job.passed for workflow in facts.callers for job in workflow.jobs)
    if is_named and isinstance(facts.secrets, Unseen):
        yield _unseen("Settings, Secrets", facts.secrets)


def _pins(facts: Facts) -> Iterator[Finding]:
    """Yield the uses of tags and branches, which can move, and of outdated commits."""
    for used in _once(used for workflow in facts.callers for job in workflow.jobs for used in job.uses):
        tags = facts.tags.get(used.repository.lower(), ())
        if isinstance(tags, Unseen):
            yield _unseen(used.where, tags)
        else:
            is_pinned = COMMIT.fullmatch(used.ref)
            yield from _check_pin(facts, used, tags) if is_pinned else _moving(used, tags)


def _moving(used: Used, tags: tuple[Tag, ...]) -> Iterator[Finding]:
    what = f"{used} is a tag or a branch, which can be moved"
    why = "whoever moves it runs code in your release"
    yield Finding("moving", Weight.WARNING, used.where, what, why, _pin(used, _newest(tags, used.ref)))


def _check_pin(facts: Facts, used: Used, tags: tuple[Tag, ...]) -> Iterator[Finding]:
    own = next((tag for tag in tags if tag.commit == used.ref and tag.version), None)
    newest = _newest(tags, own.name if own else "")
    if own and newest:
        passed = sum(_is_between(tag, own, newest) for tag in tags)
        behind = f"{own.name}, {passed} release{'s'[: passed != 1]} behind" if passed else ""
    else:
        count = facts.behind.get((used.repository.lower(), used.ref), 0)
        if count is None:
            what, why = f"{used.repository} has no commit {used.ref[:12]}", "the run ends before its first job"
            yield Finding("no-commit", Weight.ERROR, used.where, what, why, _pin(used, newest))
        behind = f"a commit without a release, {count} behind" if count else ""
    if behind and newest:
        weight = Weight.WARNING if used.is_fatwheel else Weight.HINT
        what = f"{used.repository} is at {behind} {newest.name}"
        yield Finding("behind", weight, used.where, what, "what was mended since is missing", _pin(used, newest))


def _is_between(tag: Tag, own: Tag, newest: Tag) -> bool:
    """Whether a tag is a release after `own`, up to `newest`."""
    versions = own.version, tag.version, newest.version
    return bool(versions[0] and versions[1] and versions[2] and versions[0] < versions[1] <= versions[2])


def _newest(tags: tuple[Tag, ...], name: str) -> Tag | None:
    """Return the newest release of the major version in a name such as `v4` or `release/v1`; of all if it has none."""
    major = re.search(r"(?:^|/)v?(\d+)(?:\.|$)", name)
    versions = [(tag.version, tag) for tag in tags if tag.version]
    same = [pair for pair in versions if not major or pair[0].major == int(major[1])]
    return max(same, key=lambda pair: pair[0])[1] if same else None


def _pin(used: Used, newest: Tag | None) -> str:
    pinned = f"{newest.commit} # {newest.name}" if newest else "SHA # vX.Y.Z"
    return f"uses: {used.repository}{used.path}@{pinned}"


# -- each job of a workflow that calls Fatwheel


def _target(_: Facts, workflow: Workflow, job: Job) -> Iterator[Finding]:
    if "pull_request_target" in workflow.triggers and job.is_build:
        what = f"`pull_request_target` starts the build {job.name}"
        why = "code of a stranger's pull request is built with your secrets and a token that may write"
        yield Finding("target", Weight.ERROR, job.where, what, why, "use `on: pull_request` in its place")


def _permissions(facts: Facts, workflow: Workflow, job: Job) -> Iterator[Finding]:
    """Yield the permissions that a job lacks, including those of the workflow it calls."""
    called = facts.called.get(job.call[:3]) if job.call and job.call.is_call else None
    if isinstance(called, Unseen):
        yield _unseen(job.where, called)
    elif job.call and job.call.is_call and called is None:
        tags = facts.tags.get(job.call.repository.lower(), ())
        mend = _pin(job.call, None if isinstance(tags, Unseen) else _newest(tags, job.call.ref))
        what = f"{job.call} does not exist"
        yield Finding("not-there", Weight.ERROR, job.where, what, "the run ends before its first job", mend)
    its_own, publishing = (
        _caller_grants(called) if isinstance(called, Workflow) else {},
        _publishing(facts, workflow, job),
    )
    needs = unite_grants([job.needs, its_own, publishing or {}])
    granted = workflow.grants_of(job)
    if granted is not None and access(granted, "*") == "write":
        what, why = f"{job.name} may write everything", "a step of it needs the least of that"
        yield Finding("write-all", Weight.WARNING, job.where, what, why, _grant(needs))
    is_open = isinstance(facts.default, Unseen) or facts.default.access == "read"
    may = granted if granted is not None else (RESTRICTED if is_open else PERMISSIVE)
    if missing := lacking(may, needs):
        is_sure = granted is not None or not isinstance(facts.default, Unseen)
        yield _lacks(job, missing, unite_grants([granted or {}, needs]), Weight.ERROR if is_sure else Weight.WARNING)
    targets = _targets(facts, workflow, job)
    if publishing is not None and targets is not None and granted and access(granted, "*") == "none":
        yield from _in_vain(job, lacking(needs, granted), needs)


def _in_vain(job: Job, more: Grants, needs: Grants) -> Iterator[Finding]:
    if more:
        what = f"{job.name} grants {', '.join(f'`{scope}: {given}`' for scope, given in more.items())}"
        why = "what publishes may do whatever is granted, and no target of it needs that"
        yield Finding("permissions-in-vain", Weight.HINT, job.where, what, why, _grant(needs))


def _publishing(facts: Facts, workflow: Workflow, job: Job) -> Grants | None:
    """Return the permissions a publishing job needs; None if it does not publish, or its workflow sets its own."""
    called = facts.called.get(job.call[:3]) if job.call else None
    publishes = job.publishes or (job.builds_one and job.given.get("publish", "false") != "false")
    if not publishes or not isinstance(called, Workflow):
        return None
    inner = (one for one in called.jobs if called.grants_of(one) is None)
    if not any(job.publishes or PUBLISH.search(one.call.path if one.call else "") for one in inner):
        return None  # an older Fatwheel, whose publish.yml set its own permissions
    return needed_to_publish(job.given, _targets(facts, workflow, job) or ())


def _targets(facts: Facts, workflow: Workflow, job: Job) -> tuple[str, ...] | None:
    """Return the addresses that a job publishes to; None if they are unknown before a run."""
    if named := job.given.get("to", ""):
        return None if EXPRESSION in named else tuple(named.split())
    configs = {one.config for one in workflow.jobs if one.builds_all} or {job.config}
    found = facts.configs.get(next(iter(configs))) if len(configs) == 1 else None
    return found.targets if isinstance(found, Outline) else None


def _folders(facts: Facts, workflow: Workflow, job: Job) -> Iterator[Finding]:
    """Yield the targets that are folders of the runner, which is discarded after the job."""
    if job.publishes or job.builds_one:
        for target in (one for one in _targets(facts, workflow, job) or () if one.startswith("dir:")):
            what, why = (
                f"{job.name} publishes to {target}",
                "it is a folder of the runner, which is thrown away with it",
            )
            mend = "in that job: `to:` with the targets that are elsewhere"
            yield Finding("folder", Weight.ERROR, job.where, what, f"{why}; the run ends there", mend)


def _attestation(facts: Facts, _: Workflow, job: Job) -> Iterator[Finding]:
    """Yield a private repository's missing choice about attestations, or one that is impossible there."""
    chose = job.attest == ATTEST_NEVER or EXPRESSION in job.attest
    if not (facts.is_private and (job.builds_all or job.builds_one)) or chose:
        return
    if job.attest == ATTEST_PUBLIC or not facts.is_organization:
        what = f"{job.name} would attest the files of a private repository"
        why = "GitHub attests those on the plan Enterprise Cloud only, which an organisation may have"
        choice = "`attest: always` on that plan, else `attest: never`" if facts.is_organization else "`attest: never`"
        mend = f"in that job, and in the one that publishes: {choice}"
        yield Finding("attestation", Weight.ERROR, job.where, what, why, mend)


def _attestations(_: Facts, workflow: Workflow, job: Job) -> Iterator[Finding]:
    """Yield a job that publishes with another choice about attestations than the job that builds."""
    words = {one.attest for one in workflow.jobs if one.builds_all}
    known = words and not any(EXPRESSION in word for word in (*words, job.attest))
    of_this_run = job.publishes and not job.given.get("run-id")
    if of_this_run and known and (words == {ATTEST_NEVER}) != (job.attest == ATTEST_NEVER):
        what = f"{job.name} has another `attest` than what builds"
        why = "it asks for an attestation that there is none of, or says of one that there is none"
        mend = f"in that job: `attest: {min(words)}`"
        yield Finding("attestation-differs", Weight.ERROR, job.where, what, why, mend)


def _own_workflows(facts: Facts) -> Iterator[Finding]:
    """Yield the platforms that no workflow builds, and those that two workflows build."""
    jobs = [job for workflow in facts.callers for job in workflow.jobs]
    own = {(job.config, job.given.get("platform", "")): job for job in jobs if job.builds_one}
    shared = {job.config: job for job in jobs if job.builds_all and not job.given.get("only")}
    if any(EXPRESSION in word for key in own for word in key):
        return  # their platforms are known only at run time
    yield from (_unseen(path, outline) for path, outline in facts.configs.items() if isinstance(outline, Unseen))
    for path, outline in facts.configs.items():
        for name, is_apart in outline.platforms.items() if isinstance(outline, Outline) else ():
            both = own.get((path, name)) if path in shared else None
            if is_apart and (path, name) not in own:
                what, why = f"no workflow calls platform.yml for {name}", "`own-workflow: true` leaves it out elsewhere"
                mend = f"a job that calls platform.yml with `platform: {name}`, or no `own-workflow`"
                yield Finding("own-workflow", Weight.WARNING, path, what, why, mend)
            if not is_apart and both:
                what = f"{both.name} builds {name}, and so does {shared[path].name}"
                why, mend = "its wheels are built twice", f"in {path}: `own-workflow: true` for {name}"
                yield Finding("built-twice", Weight.WARNING, both.where, what, why, mend)


def _lacks(job: Job, missing: Grants, whole: Grants, weight: Weight) -> Finding:
    what = f"{job.name} lacks {', '.join(f'`{scope}: {wanted}`' for scope, wanted in missing.items())}"
    why = (
        "GitHub refuses to start it: the called workflow asks for more than it is allowed"
        if job.call
        else 'GitHub answers HTTP 403, "Resource not accessible by integration"'
    )
    return Finding("permissions", weight, job.where, what, why, _grant(whole))


def _grant(grants: Grants) -> str:
    inside = ", ".join(f"{scope}: {wanted}" for scope, wanted in sorted(grants.items()) if scope != "*")
    return f"in that job: `permissions: {{ {inside} }}`" if inside else "in that job: `permissions: {}`"


def _caller_grants(called: Workflow) -> Grants:
    """Return the permissions that a called workflow needs from its caller: the union over its jobs."""
    granted = ((called.grants_of(job), job.needs) for job in called.jobs)
    return unite_grants(needs if grants is None else grants for grants, needs in granted)


def _secrets(facts: Facts, _: Workflow, job: Job) -> Iterator[Finding]:
    """Yield the secrets that a job names but nobody has set, and those that it must pass but does not."""
    yield from _missing(facts, job.secrets, job.where, job.environment)
    called = facts.called.get(job.call[:3]) if job.call else None
    if called is None or isinstance(called, Unseen):
        return
    if INHERITED in job.passed:
        yield from _missing(facts, called.required, job.where, job.environment)
        return
    for name in sorted({name.upper() for name in called.required} - {name.upper() for name in job.passed}):
        what, why = f"{job.name} does not pass the secret {name}", "GitHub refuses to start it"
        mend = f"in that job: `secrets: {{ {name}: ${{{{ secrets.{name} }}}} }}`"
        yield Finding("secret-not-passed", Weight.ERROR, job.where, what, why, mend)


def _missing(facts: Facts, names: Iterable[str], where: str, environment: str) -> Iterator[Finding]:
    known = _job_secrets(facts, environment)
    for name in sorted({name.upper() for name in names} - known) if known is not None else ():
        of = f" --env {shlex.quote(environment)}" if environment else ""
        mend = f"gh secret set {name} -R {facts.repository}{of}"
        what, why = f"there is no secret {name}", "the job gets an empty text in its place"
        yield Finding("secret", Weight.ERROR, where, what, why, mend)


def _job_secrets(facts: Facts, environment: str) -> set[str] | None:
    """Return the secrets available to a job in an environment; None if they could not be read."""
    of_environment: frozenset[str] | Unseen = frozenset()
    if environment and (isinstance(facts.environments, Unseen) or "${{" in environment):
        return None
    if environment and not isinstance(facts.environments, Unseen):
        known = {name.lower(): one.secrets for name, one in facts.environments.items()}
        of_environment = known.get(environment.lower(), frozenset())
    if isinstance(facts.secrets, Unseen) or isinstance(of_environment, Unseen):
        return None
    return {name.upper() for name in facts.secrets | of_environment}


def _publisher(_: Facts, __: Workflow, job: Job) -> Iterator[Finding]:
    if job.is_trusted_publisher and not job.environment:
        what = f"{job.name} uploads to PyPI from no environment"
        why = "PyPI then takes uploads from every branch of the workflow, with nobody to approve"
        mend = "in that job: `environment: pypi`, and the same name in the project's publisher on PyPI"
        yield Finding("publisher", Weight.WARNING, job.where, what, why, mend)


def _check_release_condition(_: Facts, __: Workflow, job: Job) -> Iterator[Finding]:
    """Yield jobs whose environment or condition depends on the event that started the run, not on the release."""
    if not (job.publishes or job.is_trusted_publisher):
        return
    if BY_EVENT.search(job.environment):
        what = f"the environment of {job.name} hangs on how the run was started"
        why = "a tag can be released by hand or from a branch as well, and then nobody approves"
        mend = "environment: ${{ needs.wheels.outputs.channel != 'nightly' && 'release' || '' }}"
        yield Finding("environment-by-event", Weight.ERROR, job.where, what, why, f"in that job: `{mend}`")
    if BY_EVENT.search(job.condition) and "outputs." not in job.condition.replace("outputs.any", ""):
        what = f"{job.name} is started by the event, whatever was built"
        why = "a commit without the tag of its version is refused by publish.yml, and the run fails"
        mend = "if: ${{ needs.wheels.outputs.any == 'true' && needs.wheels.outputs.channel != 'none' }}"
        yield Finding("published-by-event", Weight.HINT, job.where, what, why, f"in that job: `{mend}`")


def _all_uses(facts: Facts) -> Iterator[Used]:
    """Yield everything the callers use, and everything used by the workflows they call."""
    for job in (job for workflow in facts.callers for job in workflow.jobs):
        yield from job.uses
        called = facts.called.get(job.call[:3]) if job.call else None
        if called and not isinstance(called, Unseen):
            yield from (used._replace(where=job.where) for inner in called.jobs for used in inner.uses)


def _once(several: Iterable[Used]) -> Iterator[Used]:
    """Yield each use of another repository once, at its first place; uses of the own repository have no `@REF`."""
    first: dict[tuple[str, str, str], Used] = {}
    for used in several:
        if used.ref:
            first.setdefault(used[:3], used)
    yield from first.values()


RULES = (
    _check_archival,
    _callers,
    _policy,
    _default,
    _states,
    _environments,
    _unseen_secrets,
    _secrets_outside,
    _pins,
    _immutable,
    _own_workflows,
)
JOB_RULES = (
    _target,
    _permissions,
    _secrets,
    _publisher,
    _check_release_condition,
    _folders,
    _attestation,
    _attestations,
)
