"""Rules for the settings of a repository, and for the refs of actions: tags can move, and commits grow old."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from ci_tools.doctor.configs import ConfigOutline
from ci_tools.doctor.report import (
    DoctorFinding,
    Fix,
    Kind,
    Policy,
    RepositoryFacts,
    RepositoryTag,
    Unseen,
    Weight,
    report,
    report_unseen,
)
from ci_tools.doctor.workflows import EXPRESSION, WORKFLOW, Used
from ci_tools.model.names import COMMIT

GENERAL, ACTIONS = "Settings, General", "Settings, Actions"
OF_GITHUB = frozenset({"actions", "github"})
DISABLED = {
    "disabled_inactivity": "GitHub disabled it after 60 days without activity",  # in public ones only
    "disabled_manually": "somebody disabled it",
    "disabled_fork": "GitHub disabled it, as it does in a fork",
}


def check_archival(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield a finding if the repository is archived."""
    if facts.is_archived:
        yield report("archived", facts.repository, "it is archived", f"gh repo unarchive {facts.repository}")


def check_callers(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield the files that cannot be read, and a finding if no workflow calls Fatwheel."""
    for path, reason in facts.unread:
        yield report("unread", path, f"not seen: {reason}", f"{facts.page}/blob/{facts.branch}/{path}")
    if not facts.callers and not facts.unread:
        yield report("no-caller", ".github/workflows", f"no workflow on {facts.branch} calls Fatwheel")


def check_policy(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield the settings that prevent GitHub Actions, or the actions used, from running."""
    if isinstance(facts.policy, Unseen):
        yield report_unseen(ACTIONS, facts.policy)
        return
    page = facts.settings("actions")
    if not facts.policy.is_enabled:
        how = f"{page}, or: gh api -X PUT repos/{facts.repository}/actions/permissions -F enabled=true"
        yield report("actions-disabled", ACTIONS, "Actions are off", how)
        return
    for used in list_once(_list_uses(facts)):
        yield from _check_use(facts, facts.policy, used)


def _check_use(facts: RepositoryFacts, policy: Policy, used: Used) -> Iterator[DoctorFinding]:
    may_be_tag = WORKFLOW.fullmatch(used.path)
    if policy.pins and not may_be_tag and not COMMIT.fullmatch(used.ref):
        what = f"{used} is not a full commit SHA, and the repository accepts no other actions"
        yield report("sha-required", used.where, what)
    verdict = _is_allowed(facts, policy, used)
    allow = f'{facts.settings("actions")}: allow "{used.repository}{"/**" * bool(used.path)}@**"'
    if verdict is False:
        yield report("not-allowed", used.where, f"{used.repository} is not among the actions that may run", allow)
    elif verdict is None:
        needs = f"a person who checks whether its creator is verified, or the list includes it; or {allow}"
        yield report_unseen(used.where, Unseen(f"whether {used.repository} may run", needs))


def _is_allowed(facts: RepositoryFacts, policy: Policy, used: Used) -> bool | None:
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
    is_doubtful = _matches(blocked, name, star=".*")  # in GitHub's examples `*` passes a slash
    if (policy.of_github and owner in OF_GITHUB) or "*" in listed or _matches(listed, name):
        return None if is_doubtful else True
    return None if policy.verified or _matches(listed, name, star=".*") else False  # only GitHub knows who is verified


def _matches(patterns: Iterable[str], name: str, star: str = "[^/]*") -> bool:
    """Whether a name matches a pattern; GitHub's `*` stops at a slash, although GitHub's own examples ignore that."""
    spelled = (re.escape(pattern.lower()).replace(r"\*\*", ".*").replace(r"\*", star) for pattern in patterns)
    return any(re.fullmatch(pattern, name) for pattern in spelled)


def check_default_permissions(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield default permissions that are too wide: a release does not need write access by default."""
    page = facts.settings("actions")
    if isinstance(facts.default, Unseen):
        yield report_unseen(ACTIONS, facts.default)
        return
    if facts.default.access == "write":
        bare = [job.where for workflow in facts.workflows for job in workflow.jobs if job.grants is None]
        is_safe = not bare and not facts.unread
        first = "" if is_safe else f"first give `permissions:` to each of {', '.join(bare) or 'the jobs not seen'}; "
        command = f"gh api -X PUT repos/{facts.repository}/actions/permissions/workflow"
        how = f"{first}{command} -f default_workflow_permissions=read, or {page}"
        fix = Fix(Kind.READ_BY_DEFAULT, "") if is_safe else None  # else a job could fail by the fix
        yield report("default-write", ACTIONS, "jobs may write by default", how, fix)
    if facts.default.approves:
        yield report("approves", ACTIONS, "workflows may approve pull requests", page)


def check_states(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield the disabled callers. Only those that GitHub disabled for inactivity get a fix, not those of a person."""
    if isinstance(facts.states, Unseen):
        yield report_unseen(".github/workflows", facts.states)
        return
    for workflow in facts.callers:
        state = facts.states.get(workflow.path, "active")  # not listed: new to GitHub
        if state in DISABLED:
            name = shlex.quote(workflow.path.rpartition("/")[2])
            fix = Fix(Kind.ENABLE_WORKFLOW, workflow.path) if state == "disabled_inactivity" else None
            how = f"gh workflow enable {name} -R {facts.repository}"
            yield report("disabled", workflow.path, DISABLED[state], how, fix=fix)


def check_immutability(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield a hint if published releases can be changed."""
    page = facts.settings("general")
    if isinstance(facts.is_immutable, Unseen):
        yield report_unseen(GENERAL, facts.is_immutable)
    elif not facts.is_immutable:
        how = f"{page}: Releases, Enable release immutability"
        yield report("mutable", GENERAL, "releases can be changed after they are published", how)


def check_own_workflows(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield the platforms that no workflow builds, and those that two workflows build."""
    jobs = [job for workflow in facts.callers for job in workflow.jobs]
    own = {(job.config, job.given.get("platform", "")): job for job in jobs if job.builds_one}
    shared = {job.config: job for job in jobs if job.builds_all and not job.given.get("only")}
    if any(EXPRESSION in word for key in own for word in key):
        return  # their platforms are known only at run time
    yield from (report_unseen(path, outline) for path, outline in facts.configs.items() if isinstance(outline, Unseen))
    for path, outline in facts.configs.items():
        for name, is_apart in outline.platforms.items() if isinstance(outline, ConfigOutline) else ():
            both = own.get((path, name)) if path in shared else None  # in another config it is another platform
            if is_apart and (path, name) not in own:
                how = f"a job that calls platform.yml with `platform: {name}`, or no `own-workflow`"
                yield report("own-workflow", path, f"no workflow calls platform.yml for {name}", how)
            if not is_apart and both:
                what = f"{both.name} builds {name}, and so does {shared[path].name}"
                yield report("built-twice", both.where, what, f"in {path}: `own-workflow: true` for {name}")


def _list_uses(facts: RepositoryFacts) -> Iterator[Used]:
    """Yield everything the callers use, and everything used by the workflows they call."""
    for job in (job for workflow in facts.callers for job in workflow.jobs):
        yield from job.uses
        called = facts.called.get(job.call[:3]) if job.call else None
        if called and not isinstance(called, Unseen):
            yield from (used._replace(where=job.where) for inner in called.jobs for used in inner.uses)


SETTING_RULES = (
    check_archival,
    check_callers,
    check_policy,
    check_default_permissions,
    check_states,
    check_immutability,
)


def check_pins(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield the uses of tags and branches, which can move, and of outdated commits."""
    for used in list_once(used for workflow in facts.callers for job in workflow.jobs for used in job.uses):
        tags = facts.tags.get(used.repository.lower(), ())
        if named := used.placeholders:
            are = "are placeholders" if named[1:] else "is a placeholder"
            page = "https://github.com/OWNER/fatwheel"
            how = f"OWNER: whose Fatwheel it is; SHA: all 40 digits of a commit, as `git ls-remote {page}` lists them"
            yield report("placeholder", used.where, f"{' and '.join(named)} in {used} {are} of the documentation", how)
        elif isinstance(tags, Unseen):
            yield report_unseen(used.where, tags)
        else:
            is_pinned = COMMIT.fullmatch(used.ref)
            yield from _check_pin(facts, used, tags) if is_pinned else _moving(used, tags)


def _moving(used: Used, tags: tuple[RepositoryTag, ...]) -> Iterator[DoctorFinding]:
    how = pinned_use(used, newest_release(tags, used.ref))
    yield report("moving", used.where, f"{used} is a tag or a branch, which can be moved", how)


def _check_pin(facts: RepositoryFacts, used: Used, tags: tuple[RepositoryTag, ...]) -> Iterator[DoctorFinding]:
    own = next((tag for tag in tags if tag.commit == used.ref and tag.version), None)
    newest = newest_release(tags, own.name if own else "")
    if own and newest:
        passed = sum(_is_between(tag, own, newest) for tag in tags)  # none where the newest is older: another major
        behind = f"{own.name}, {passed} release{'s'[: passed != 1]} behind" if passed else ""
    else:
        count = facts.behind.get((used.repository.lower(), used.ref), 0)
        if count is None:
            what = f"{used.repository} has no commit {used.ref[:12]}"
            yield report("no-commit", used.where, what, pinned_use(used, newest))
        behind = f"a commit without a release, {count} behind" if count else ""
    if behind and newest:
        weight = Weight.WARNING if used.is_fatwheel else Weight.HINT  # the others have their own reasons to wait
        what = f"{used.repository} is at {behind} {newest.name}"
        yield report("behind", used.where, what, pinned_use(used, newest), weight=weight)


def _is_between(tag: RepositoryTag, own: RepositoryTag, newest: RepositoryTag) -> bool:
    """Whether a tag is a release after `own`, up to `newest`."""
    versions = own.version, tag.version, newest.version
    return bool(versions[0] and versions[1] and versions[2] and versions[0] < versions[1] <= versions[2])


def newest_release(tags: tuple[RepositoryTag, ...], name: str) -> RepositoryTag | None:
    """Return the newest release of the major version in a name such as `v4` or `release/v1`; of all if it has none."""
    major = re.search(r"(?:^|/)v?(\d+)(?:\.|$)", name)  # a newer major may break the caller
    versions = [(tag.version, tag) for tag in tags if tag.version]
    same = [pair for pair in versions if not major or pair[0].major == int(major[1])]
    return max(same, key=lambda pair: pair[0])[1] if same else None  # of equal ones, the first that GitHub lists


def pinned_use(used: Used, newest: RepositoryTag | None) -> str:
    """Return the `uses:` line that pins a release, or a template of one."""
    pinned = f"{newest.commit} # {newest.name}" if newest else "SHA # vX.Y.Z"
    return f"uses: {used.repository}{used.path}@{pinned}"


def list_once(several: Iterable[Used]) -> Iterator[Used]:
    """Yield each use of another repository once, at its first place; uses of the own repository have no `@REF`."""
    first: dict[tuple[str, str, str], Used] = {}
    for used in several:
        if used.ref:
            first.setdefault(used[:3], used)  # the first place stands for all
    yield from first.values()
