"""The last line of a run: the command that a person types next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import near, show_line
from ci_tools.errors import DOCUMENTATION, count
from ci_tools.github import step as steps

if TYPE_CHECKING:
    import argparse

    from ci_tools.doctor.check import Checked
    from ci_tools.machine.context import Outside
    from ci_tools.model.plan import Plan
    from ci_tools.model.versions import Python
    from ci_tools.plan.make import Planned
    from ci_tools.publish.transaction import Shown

MAX_NAMED = 3  # wheels of one folder that a command names; more are `FOLDER/*.whl`
ALL_WHEELS = "*.whl"
VALUES = ("torch", "gpu_runner", "tag", "ref", "nightly")  # the options of an edition that have a value


def say_next(line: str, outside: Outside) -> None:
    """Print the line on stdout, where the tables are; in a workflow, nobody types the next command."""
    if line and not steps.is_on(outside.environ):
        show_line(line)


def after_plan(planned: Planned, options: argparse.Namespace, search: Callable[[Python], object]) -> str:
    """Return what comes after a plan: its warnings, then the command that builds what this machine can.

    `search` finds a Python on this machine, if it is there.
    """
    if options.format != "table":  # a program reads it
        return ""
    if not planned.plan.jobs:
        return "next: change what the reasons name, then run `fatwheel plan` again"
    warnings = planned.plan.warnings
    first = f"answer the {count(len(warnings), 'warning')}, then " if warnings else ""
    return f"next: {first}{_make_wheels(planned, options, search)}"


def _make_wheels(planned: Planned, options: argparse.Namespace, search: Callable[[Python], object]) -> str:
    from ci_tools.machine.runner import host
    from ci_tools.plan.sites import awaiting_gpu

    plan, hosts = planned.plan, {name: facts.host for name, facts in planned.catalog.platforms.items()}
    mine = [job for job in plan.jobs if job.platform is None or hosts[job.platform] == host()]  # a pure wheel
    ours = [job for job in mine if not job.python_stays or search(job.python)]
    if not ours:
        return f"see Fatwheel's {DOCUMENTATION}how-to/build-on-several-machines.md: this {host()} can build no job"
    again = [*([str(options.config)] if options.config else []), *_edition_words(options)]  # the nearest is found again
    if options.only or awaiting_gpu(plan):  # a release is of all jobs, and refuses a wheel that no GPU has tried
        return _command("build", *again, "--job", ",".join(job.name for job in ours), "--out", "dist")
    may_lack = len(plan.jobs) > 1 and any(job.accelerator or job not in ours for job in plan.jobs)
    return _command("release", *again, "--to", "dir:dist/index", *(["--here"] if may_lack else []))


def _edition_words(options: argparse.Namespace) -> list[str]:
    """Return the options that say which edition of which wheels is planned, as they were given."""
    words = ["--untagged"] if options.untagged else []
    for name in VALUES:
        given = getattr(options, name) or []  # some may be given several times
        for value in [given] if isinstance(given, str) else given:
            words += [f"--{name.replace('_', '-')}", value]
    return words


def _command(*words: str) -> str:
    """Return a command of `fatwheel` as it is typed; a pattern of wheels stays one."""
    # The shell has to expand `*.whl`.
    return " ".join(["fatwheel", *(word if word.endswith(ALL_WHEELS) else shlex.quote(word) for word in words)])


def after_build(built: Mapping[Path, bool], names: Sequence[str], plan: Plan, out: Path) -> list[str]:
    """Return what was built, kept (False) and left out, and the command that audits it."""
    new = sum(built.values())
    kept = f", {len(built) - new} kept" if new < len(built) else ""
    jobs = ["sdist"] * bool(plan.sdist) + [job.name for job in plan.jobs]
    left = ", ".join(name for name in jobs if name not in names)
    rest = f"; not built: {left}" if left else ""
    return [
        f"{count(new, 'file')} built{kept}, in {out}{rest}",
        f"next: {_command('audit', '--plan', str(out / 'plan.json'))}",
    ]


def after_audit(wheels: Sequence[Path], config: Path | None, *, is_good: bool) -> str:
    """Return what comes after an audit: the command that tries the wheels, or the page about the broken rules."""
    if not is_good:
        return f"next: see Fatwheel's {DOCUMENTATION}reference/audit-rules.md, and build again"
    named = _name_wheels([wheel for wheel in wheels if wheel.suffix == ".whl"])
    said = ["--config", str(config)] if config else []
    return f"next: {_command('validate', *named, *said)}" if named else ""


def after_validation(wheels: Sequence[Path]) -> str:
    """Return the command that shows what publishing the wheels would change."""
    from ci_tools.plan.plan_file import PLAN

    if not wheels:
        return ""
    folder = wheels[0].parent
    if (folder / PLAN).is_file():
        place = folder / "index"
        return f"next: {_command('publish', str(folder), '--to', f'dir:{place}', '--dry-run')}"
    return f"next: {_command('index', 'add', 'dir:index', *_name_wheels(wheels), '--dry-run')}"


def _name_wheels(wheels: Sequence[Path]) -> list[str]:
    folders = {wheel.parent for wheel in wheels}
    if len(wheels) > MAX_NAMED and len(folders) == 1:
        return [str(folders.pop() / ALL_WHEELS)]
    return [str(wheel) for wheel in wheels]


def after_publication(shown: Sequence[Shown]) -> str:
    """Return the command that checks the first index, or makes one over the first releases on GitHub."""
    from ci_tools.catalog.targets import kind_of
    from ci_tools.index.file_names import project_and_version

    for target, files in shown:
        kind, (prefix, _, place) = kind_of(target), target.partition(":")
        if kind and kind.is_index:
            is_path = kind.is_local and Path(place).is_absolute()
            address = f"{prefix}:{near(Path(place).as_uri())}" if is_path else target
            return f"next: {_command('index', 'verify', address)}"
        if kind and kind.takes_aliases and files:
            project, _ = project_and_version(files[0].file)
            return f"next: {_command('index', 'pages', target, project, '--out', 'public')}"
    return ""


def after_advice(options: argparse.Namespace) -> str:
    """Return the command that applies the patches."""
    again = [str(options.config)] if options.config else []
    return f"next: {_command('advise', *again, '--format', 'diff')} | git apply"


def after_doctor(checked: Checked) -> str:
    """Return the command that makes the possible fixes, or checks again what a person has fixed."""
    if not checked.findings:
        return ""
    fixes = ["--fix"] if any(finding.fix for finding in checked.findings) else []
    first = "" if fixes else "do what the arrows say, then "
    return f"next: {first}{_command('doctor', checked.folder or checked.repository, *fixes)}"
