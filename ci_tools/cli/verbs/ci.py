"""The verbs that workflows call: step, and those that only a step needs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import Parser, add_config_path, add_format, parse_number
from ci_tools.errors import InputError, LeftUndone

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside


def declare_step(parser: Parser) -> None:
    from ci_tools.github import step as steps

    parser.add_argument("name", metavar="VERB", help=f"one of {', '.join(steps.VERBS)}")


def run_step(options: argparse.Namespace, outside: Outside) -> int:
    """Run the verb of a workflow step; its output becomes the step's outputs, its summary page, or its log."""
    import functools
    import io
    import shlex
    from contextlib import redirect_stdout
    from datetime import datetime, timezone

    from rich.console import Console

    from ci_tools.cli.dispatch import run
    from ci_tools.cli.failures import silence_commands
    from ci_tools.cli.verbs import parser_of
    from ci_tools.github import step as steps

    today = datetime.now(timezone.utc).strftime("%Y%m%d")  # a nightly's date is the same on each machine
    step = steps.step_of(options.name, outside.environ, today, parser_of)
    files = [Path(_file_of(variable, outside.environ)) for variable in step.files]  # before it runs for hours
    words = io.StringIO()
    try:
        with silence_commands(outside.environ), redirect_stdout(words if files else sys.stderr):
            outside.reporter.say(f"$ {shlex.join(['fatwheel', *step.arguments])}")
            return run(functools.cache(lambda: Console(stderr=True)), step.arguments)  # as a person would type it
    finally:  # an error may come with outputs for the jobs that go on
        for path in files:
            with path.open("a", encoding="utf-8") as file:
                file.write(words.getvalue())


def _file_of(variable: str, environ: Mapping[str, str]) -> str:
    if not environ.get(variable):
        raise InputError(f"{variable} names no file: `fatwheel ci step` is for steps of a workflow")
    return environ[variable]


# ---------------------------------------------------------------- plan and build


def declare_summary(parser: Parser) -> None:
    text = "a plan.json, or a folder with one, as `fatwheel build` and `release` leave it"
    parser.add_path("path", "DIR_OR_PLAN", text)
    parser.add_argument("--only", metavar="PLATFORM", help="show only this platform's own jobs")
    parser.add_path("--against", "DIR_OR_PLAN", "also show the differences from an earlier one")


def run_summary(options: argparse.Namespace, outside: Outside) -> None:  # noqa: ARG001 - a verb
    from ci_tools.cli import pages
    from ci_tools.publish import folder

    found = folder.read(options.path, options.only or "")
    change = folder.compare_folders(found, options.against) if options.against else None
    if options.path.is_dir():  # a release; else a plan.json
        print(pages.release_page(found, change), end="")
    else:
        print(pages.plan_page(found.plan, change), end="")


def declare_prepare(parser: Parser) -> None:
    parser.add_path("--plan", "FILE", "a plan.json", required=True)
    parser.add_text("--job", "NAME", "a job of the plan, or sdist; several are separated by commas; default: all jobs")
    text = "the path at which a container sees the runner's disk; default: %(default)s"
    parser.add_path("--root", "DIR", text, default=Path("/"))


def run_prepare(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.machine import runner
    from ci_tools.plan import plan_reader

    host = runner.Host(
        environ=outside.environ,
        say=outside.reporter.say,
        call=runner.make_root_call(outside.cache / "prepare.log"),  # by sudo, if need be
        root=options.root,
    )
    plan = plan_reader.read(options.plan)
    jobs = options.job.split(",") if options.job else [job.name for job in plan.jobs]
    runner.prepare(runner.care_of(plan, jobs), host)


def declare_channel(parser: Parser) -> None:
    parser.add_path("--plan", "FILE", "a plan.json", required=True)


def run_channel(options: argparse.Namespace, outside: Outside) -> None:  # noqa: ARG001 - a verb
    from ci_tools.cli.values import outputs
    from ci_tools.plan import matrix, plan_reader

    print(outputs({"channel": matrix.channel_of(plan_reader.read(options.plan))}), end="")


def declare_units(parser: Parser) -> None:
    parser.add_path("--plan", "FILE", "the plan.json of the project", required=True)
    parser.add_text("--source", "PLACE", "where to copy from: dir:PATH or s3://BUCKET/PREFIX", required=True)
    parser.add_text("--target", "PLACE", "where to copy to, in the same form", required=True)


def run_units(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.plan import plan_reader
    from ci_tools.publish.shared_units import copy_units, open_place, say_failure

    project = plan_reader.read(options.plan).project.name
    source, target = (open_place(address, outside) for address in (options.source, options.target))
    with say_failure("no more compile units are copied", outside):  # a store that fails loses time, not the release
        print(f"{copy_units(project, source, target)} files of compile units of {project} copied")


def declare_gather(parser: Parser) -> None:
    parser.add_path("folders", "DIR", "files of the machines, in any subfolder", nargs="+")
    parser.add_path("--plan", "FILE", "the plan.json they worked by", required=True)
    parser.add_path("--out", "DIR", "the folder to write the release to", required=True)
    parser.add_path("--pypi", "DIR", "a folder for the files that go to PyPI")
    parser.add_path("--kept", "DIR", "a folder for only its plan and receipts, which later releases are compared with")
    parser.add_text("--only", "UNIT", "only this unit has to be complete")
    add_format(parser, "github", forms="a table for people, or a workflow's outputs")


def run_gather(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.tables.layout import show
    from ci_tools.cli.tables.release import assembly_tables
    from ci_tools.cli.values import outputs
    from ci_tools.publish import assembly

    found = assembly.assemble(options.folders, options.plan, options.out, options.only or "", outside)
    if options.pypi:
        assembly.copy_for_pypi(found, options.pypi)
    if options.kept:
        assembly.copy_receipts(options.out, options.kept)
    if options.format == "github":
        print(outputs(assembly.outputs(found)), end="")
    else:
        show(assembly_tables(found))


def declare_trials(parser: Parser) -> None:
    parser.add_path("folders", "DIR", "the receipts, in any subfolder", nargs="+")
    parser.add_path("--plan", "FILE", "the plan.json they were made by", required=True)
    parser.add_text("--only", "PLATFORM", "only those of its own wheels")


def run_trials(options: argparse.Namespace, outside: Outside) -> None:  # noqa: ARG001 - a verb
    from ci_tools.cli.values import outputs, share
    from ci_tools.plan import matrix, plan_reader
    from ci_tools.publish import gathering

    whole = plan_reader.read(options.plan)
    plan = share(whole, options.only)
    found = matrix.trials(plan, gathering.find_built(options.folders, plan), whole)
    print(outputs(found.outputs()), end="")
    if found.unbuilt:  # after the outputs: the other trials are started
        raise LeftUndone(f"there is no wheel of {', '.join(found.unbuilt)}, so none of its trials is started")


def declare_projects(parser: Parser) -> None:
    """Add the arguments of `fatwheel ci projects`."""
    parser.add_argument("configs", nargs="+", metavar="CONFIG", help="a path in the repository")
    text = "the prefix of the names of the run's artifacts; default: %(default)s"
    parser.add_text("--artifacts", "PREFIX", text, default="fatwheel")
    text = "the artifacts with the outputs of each: print which of them are complete, in place of all"
    parser.add_path("--folder", "DIR", text)


def run_projects(options: argparse.Namespace, outside: Outside) -> None:  # noqa: ARG001 - a verb
    import json

    from ci_tools.github.projects import collect_outputs, list_projects

    listed = list_projects(options.configs, options.artifacts)
    found = collect_outputs(listed, options.folder) if options.folder else {"projects": json.dumps(listed)}
    print(*(f"{name}={text}" for name, text in found.items()), sep="\n")


def declare_remakes(parser: Parser) -> None:
    parser.add_argument("target", metavar="TARGET", help="the repository, as github:OWNER/REPO")
    parser.add_text("--tag", "TAG", "the release; default: the last stable one")


def run_remakes(options: argparse.Namespace, outside: Outside) -> None:
    import json

    from ci_tools.cli.values import outputs
    from ci_tools.github.client import open_hub
    from ci_tools.publish.targets.github_release.remakes import list_remakes

    found = list_remakes(open_hub(options.target, outside), options.tag or "")
    rows = [{"number": number, **one._asdict()} for number, one in enumerate(found)]  # which names its artifacts
    print(outputs({"count": str(len(rows)), "remakes": json.dumps({"include": rows})}), end="")


# ---------------------------------------------------------------- publish


def declare_attested(parser: Parser) -> None:
    parser.add_path("folder", "DIR", "the release")
    parser.add_text("--repository", "REPO", "OWNER/REPO, where the workflow ran", required=True)
    text = "OWNER/REPO/.github/workflows/FILE, the workflow that signed"
    parser.add_text("--signer", "WORKFLOW", text, required=True)
    parser.add_path("--bundles", "DIR", "a folder with the attestation; default: GitHub is asked for it")


def run_attested(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.github import attestation

    for path in attestation.verify(options.folder, options.repository, options.signer, options.bundles, outside):
        print(path)


def declare_unattested(parser: Parser) -> None:
    parser.add_path("folder", "DIR", "the release")


def run_unattested(options: argparse.Namespace, outside: Outside) -> None:  # noqa: ARG001 - a verb
    from ci_tools.cli import pages
    from ci_tools.github import attestation

    print(pages.unattested_page(attestation.hold_to_receipts(options.folder)), end="")
    raise LeftUndone(f"no file of {options.folder} is attested: each is only compared with its receipt")


# ---------------------------------------------------------------- issues and comments for people


def _add_repository(parser: Parser) -> None:
    text = "the repository to write to; default: the one whose workflow this is (GITHUB_REPOSITORY)"
    parser.add_text("--repository", "OWNER/REPO", text)


def _read_repository(options: argparse.Namespace, outside: Outside) -> str:
    """Return the repository to write to; raise InputError if none is named."""
    found = options.repository or outside.environ.get("GITHUB_REPOSITORY", "")
    if not found:
        msg = "no repository is named, expected --repository OWNER/REPO"
        raise InputError(msg, hint="in a workflow, GITHUB_REPOSITORY names it")
    return str(found)


def declare_tell(parser: Parser) -> None:
    add_config_path(parser)
    parser.add_text("--platform", "PLATFORM", "such as linux-rocm", required=True)
    text = "the result of a job: success, failure, cancelled or skipped; may be given several times"
    parser.add_argument("--result", action="append", default=[], metavar="RESULT", help=text)
    _add_repository(parser)


def run_tell(options: argparse.Namespace, outside: Outside) -> None:
    from datetime import datetime, timezone

    from ci_tools.cli.values import find_config
    from ci_tools.github import owners
    from ci_tools.github.client import Hub

    run, now = owners.run_of(outside.environ), datetime.now(timezone.utc)
    told = owners.news(find_config(options, outside), options.platform, options.result, run, now)
    print(owners.tell(Hub(_read_repository(options, outside), outside, permission=owners.PERMISSION), told))


def declare_comment(parser: Parser) -> None:
    parser.add_path("file", "FILE", "its text, as Markdown")
    parser.add_argument("--pull", type=parse_number, metavar="NUMBER", help="the pull request")
    parser.add_argument("--issue", type=parse_number, metavar="NUMBER", help="the issue, in place of a pull request")
    text = "the name of the comment, if there are several; default: %(default)s"
    parser.add_text("--name", "NAME", text, default="plan")
    _add_repository(parser)


def run_comment(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.github import comment
    from ci_tools.github.client import Hub

    if (options.pull is None) == (options.issue is None):
        raise InputError("expected --pull NUMBER or --issue NUMBER, one of them")
    text = comment.read(options.file)
    permission = "issues" if options.issue else comment.PERMISSION
    hub = Hub(_read_repository(options, outside), outside, permission=permission)
    if options.issue:
        print(comment.comment_on_issue(hub, options.issue, text, options.name))
    else:
        print(comment.comment(hub, options.pull, text, options.name))
