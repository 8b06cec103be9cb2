"""The arguments of the command line: every verb with its options."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ci_tools import __version__
from ci_tools.config import loader
from ci_tools.errors import InputError
from ci_tools.github import step as steps
from ci_tools.publish.targets import UPLOADERS

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction["_Parser"]  # noqa: SLF001 - argparse has no other name for it

__all__ = ["parser"]


class _Parser(argparse.ArgumentParser):
    """An argparse parser whose errors have the same form as all other errors."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, hint=f"`{self.prog} --help` lists the options")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; the attribute `verb` of its result names the verb."""
    whole = _Parser(
        prog="fatwheel", description="The fewest wheels that serve everybody: plan, build, audit, validate, publish."
    )
    whole.add_argument("--version", action="version", version=f"fatwheel {__version__}")
    verbs = whole.add_subparsers(title="verbs", required=True, metavar="VERB")
    for add in (
        _add_planning,
        _add_work,
        _add_gathering,
        _add_publishing,
        _add_upkeep,
        _add_doctor,
        _add_preparation,
        _add_conversation,
        _add_canary,
    ):
        add(verbs)
    return whole


def _add_planning(verbs: Verbs) -> None:
    init = _verb(verbs, "init", "write a first fatwheel.yml from what the source shows")
    init.add_argument("folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: this folder")
    callers = "workflow files that build wheels by pytorch/test-infra: ask for the same, and report on each input"
    init.add_argument("--from-test-infra", nargs="+", action="extend", type=Path, metavar="WORKFLOW", help=callers)

    plan = _verb(verbs, "plan", "show which wheels serve the request, and why")
    _config_argument(plan)
    plan.add_argument("--explain", action="store_true", help="give every cell a line, and all of the evidence")
    forms = "what stdout gets: a table, JSON, a workflow's outputs, or the text of a comment; default: %(default)s"
    plan.add_argument("--format", choices=("table", "json", "github", "markdown"), default="table", help=forms)
    plan.add_argument("--only", metavar="PLATFORM", help="show only this platform")
    plan.add_argument("--out", type=Path, metavar="FILE", help="write the whole plan to this file as JSON as well")
    _edition_arguments(plan)
    text = "the expected project name: fail if the config names a different one"
    plan.add_argument("--package", type=_parse_nonempty, metavar="NAME", help=text)
    text = "a target that the release will go to: fail now if it is invalid; may be given several times"
    plan.add_argument("--to", action="append", default=[], metavar="TARGET", help=text)
    text = "fail if such a target is a folder: it would be lost with the machine that publishes"
    plan.add_argument("--distant", action="store_true", help=text)
    text = "ask the config's targets whether they already have the version, and report it"
    plan.add_argument("--ask-targets", action="store_true", help=text)
    prove = "also build what the plan calls redundant, as far as this machine can, and compare"
    plan.add_argument("--prove", action="store_true", help=prove)
    text = "also show the differences from the plan of a git revision such as main, a plan.json, or a release's folder"
    plan.add_argument("--against", type=_parse_nonempty, metavar="REV", help=text)

    summary = _verb(verbs, "summary", "print a page for GitHub: a plan, or a release with its results")
    text = "a plan.json, or a folder with one, as `fatwheel build` and `release` leave it"
    summary.add_argument("path", type=Path, metavar="DIR_OR_PLAN", help=text)
    summary.add_argument("--only", metavar="PLATFORM", help="show only this platform's own jobs")
    text = "also show the differences from an earlier one"
    summary.add_argument("--against", type=Path, metavar="DIR_OR_PLAN", help=text)

    advise = _verb(verbs, "advise", "show what would make the plan smaller, with a patch where an edit is enough")
    _config_argument(advise)
    forms = "what stdout gets: a table, JSON, or all patches as one diff for `git apply`; default: %(default)s"
    advise.add_argument("--format", choices=("table", "json", "diff"), default="table", help=forms)
    text = "the folder with receipts of earlier builds, which have time and size; default: %(default)s"
    advise.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help=text)
    prove = "apply each patch to a copy, plan again, and build and try what this machine can"
    advise.add_argument("--prove", action="store_true", help=prove)

    text = "run a verb with the inputs of a workflow's step, given as variables (WITH_CONFIG and so on)"
    step = _verb(verbs, "step", text)
    step.add_argument("name", metavar="VERB", help=f"one of {', '.join(steps.VERBS)}")

    evidence = _verb(verbs, "evidence", "print the evidence for every cell, with its places in the source, as JSON")
    _config_argument(evidence)


def _add_preparation(verbs: Verbs) -> None:
    text = "free disk space and add swap on a hosted runner, as the plan says for its jobs"
    prepare = _verb(verbs, "prepare", text)
    prepare.add_argument("--plan", type=Path, required=True, metavar="FILE", help="a plan.json")
    text = "a job of the plan, or sdist; several are separated by commas"
    prepare.add_argument("--job", required=True, type=_parse_nonempty, metavar="NAME", help=text)
    text = "the path at which a container sees the runner's disk; default: %(default)s"
    prepare.add_argument("--root", type=Path, default=Path("/"), metavar="DIR", help=text)


def _add_work(verbs: Verbs) -> None:
    build = _verb(verbs, "build", "build one job of the plan")
    _config_argument(build)
    build.add_argument(
        "--plan", type=Path, metavar="FILE", help="a plan.json that the plan made here must equal; it names the config"
    )
    _edition_arguments(build)
    text = "a job of the plan, or sdist; several are separated by commas"
    build.add_argument("--job", required=True, type=_parse_nonempty, metavar="NAME", help=text)
    build.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the file goes")
    text = "if one of several jobs fails, build and audit the others, and fail at the end"
    build.add_argument("--keep-going", action="store_true", help=text)

    audit = _verb(verbs, "audit", "check what is inside wheels")
    text = "a wheel file; default: all of the plan's wheels beside --plan"
    audit.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL", help=text)
    fitting = audit.add_mutually_exclusive_group()
    fitting.add_argument("--config", type=Path, metavar="FILE", help="the fatwheel.yml whose plan the wheels must fit")
    text = "the plan.json that the wheels must fit; nothing of the project is run"
    fitting.add_argument("--plan", type=Path, metavar="FILE", help=text)
    _trust_argument(audit)
    forms = "what stdout gets; default: %(default)s"
    audit.add_argument("--format", choices=("table", "json"), default="table", help=forms)

    validate = _verb(verbs, "validate", "install wheels in clean environments and run them")
    text = "a wheel file; default: those that the --site tries, beside the --plan"
    validate.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL", help=text)
    validate.add_argument("--config", type=Path, metavar="FILE", help="the fatwheel.yml that says what must work")
    validate.add_argument("--python", metavar="VERSION", help="the Python to install into; default: this one")
    text = "the plan.json whose --site this machine is, in the folder of the wheels"
    validate.add_argument("--plan", type=Path, metavar="FILE", help=text)
    text = "the site of the plan that this machine is; it says which files are tried, and with which Python"
    text += "; several by their numbers in the plan, each with this option"
    validate.add_argument("--site", type=_parse_nonempty, action="append", default=[], metavar="NAME", help=text)
    _trust_argument(validate)


def _add_gathering(verbs: Verbs) -> None:
    gather = _verb(verbs, "gather", "collect the files that several machines made by one plan, and audit them here")
    gather.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="files of the machines, in any subfolder")
    gather.add_argument("--plan", type=Path, required=True, metavar="FILE", help="the plan.json they worked by")
    gather.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write the release to")
    text = "a folder for the files that go to PyPI"
    gather.add_argument("--pypi", type=Path, metavar="DIR", help=text)
    text = "a folder for only its plan and receipts, which later releases are compared with"
    gather.add_argument("--kept", type=Path, metavar="DIR", help=text)
    gather.add_argument("--only", type=_parse_nonempty, metavar="UNIT", help="only this unit has to be complete")
    forms = "what stdout gets: a table for people, or a workflow's outputs; default: %(default)s"
    gather.add_argument("--format", choices=("table", "github"), default="table", help=forms)

    text = "print the trials of a plan that need a runner: those of the wheels that were built"
    trials = _verb(verbs, "trials", text)
    trials.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="the receipts, in any subfolder")
    trials.add_argument("--plan", type=Path, required=True, metavar="FILE", help="the plan.json they were made by")
    trials.add_argument("--only", type=_parse_nonempty, metavar="PLATFORM", help="only those of its own wheels")

    text = "verify that a GitHub workflow signed every file of a release"
    attested = _verb(verbs, "attested", text)
    attested.add_argument("folder", type=Path, metavar="DIR", help="the release")
    text = "OWNER/REPO, where the workflow ran"
    attested.add_argument("--repository", required=True, type=_parse_nonempty, metavar="REPO", help=text)
    text = "OWNER/REPO/.github/workflows/FILE, the workflow that signed"
    attested.add_argument("--signer", required=True, type=_parse_nonempty, metavar="WORKFLOW", help=text)
    text = "a folder with the attestation; default: GitHub is asked for it"
    attested.add_argument("--bundles", type=Path, metavar="DIR", help=text)

    text = "compare every file of a release with its receipt, and print a page that says that it is not signed"
    unattested = _verb(verbs, "unattested", text)
    unattested.add_argument("folder", type=Path, metavar="DIR", help="the release")


def _add_publishing(verbs: Verbs) -> None:
    publish = _verb(verbs, "publish", "publish finished files, each release unit at every target or at none")
    publish.add_argument("folder", type=Path, metavar="DIR", help="what `fatwheel build` or `release` wrote")
    _target_arguments(publish)
    text = "publish only this: core, or an optional platform"
    publish.add_argument("--only", type=_parse_nonempty, metavar="UNIT", help=text)
    text = "another target besides those; may be given several times"
    publish.add_argument("--also", action="append", default=[], metavar="TARGET", help=text)
    publish.add_argument(
        "--dry-run", action="store_true", help="show what would change at each target, and change nothing"
    )
    text = "refuse a commit without the version's tag, as a workflow does"
    publish.add_argument("--released", action="store_true", help=text)
    text = "refuse a folder as a target: it would be lost with this machine"
    publish.add_argument("--distant", action="store_true", help=text)
    text = "note in the release notes that its files are not attested"
    publish.add_argument("--unattested", action="store_true", help=text)

    release = _verb(verbs, "release", "plan, build, audit, validate, publish and install, on this machine")
    _config_argument(release)
    _target_arguments(release)
    release.add_argument(
        "--out",
        type=Path,
        default=Path("dist"),
        metavar="DIR",
        help="where files, logs and receipts go; default: %(default)s",
    )
    _edition_arguments(release)
    release.add_argument("--here", action="store_true", help="go on without the jobs this machine cannot build")


def _add_upkeep(verbs: Verbs) -> None:
    index = _verb(verbs, "index", "verify and repair a published index")
    parts = index.add_subparsers(title="verbs", required=True, metavar="VERB")
    adopt = _verb(parts, "adopt", "take over the files of an index that other tools filled")
    adopt.add_argument("target", metavar="TARGET", help="dir:PATH or s3://BUCKET/PREFIX, down to the channel")
    text = "take over only this project, and share the root with the others; may be given several times"
    adopt.add_argument("--project", action="append", default=[], type=_parse_nonempty, metavar="NAME", help=text)
    adopt.add_argument("--yes", action="store_true", help="do it; without this, only show what would be done")
    verify = _verb(parts, "verify", "report where an index differs from its manifests")
    repair = _verb(parts, "repair", "repair what `verify` finds")
    what = repair.add_mutually_exclusive_group()
    text = "also remove files that a stopped publisher left and no page lists; only while no publisher runs"
    what.add_argument("--remove-unlisted", action="store_true", help=text)
    text = "undo the last repair, except for files that were changed since"
    what.add_argument("--undo", action="store_true", help=text)
    add = _verb(parts, "add", "publish wheels and sdists that Fatwheel did not build, once they are audited")

    pages = _verb(parts, "pages", "write an index over a project's GitHub Releases, as for GitHub Pages")
    pages.add_argument("target", metavar="TARGET", help="github:OWNER/REPO")
    pages.add_argument("project", metavar="PROJECT", help="the project whose releases they are")
    pages.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the pages go")

    yank = _verb(verbs, "yank", "yank a release of an index, or a part of it: only users who pin it still get it")
    unyank = _verb(verbs, "unyank", "undo `yank`")
    for parser in (verify, repair, add, yank, unyank):
        parser.add_argument("target", metavar="TARGET", help="dir:PATH or s3://BUCKET/PREFIX, down to the channel")
    for parser in (yank, unyank):
        text = "such as demo==1.0, only a part of it as demo==1.0+cu130, or one file by its name"
        parser.add_argument("release", metavar="RELEASE", help=text)
    yank.add_argument("--reason", default="", help="the reason that users who pin it see")
    _add_addition(add)

    text = "mark a bad release at every target that supports it, and say what you have to do by hand"
    retract = _verb(verbs, "retract", text)
    retract.add_argument("release", metavar="NAME==VERSION", help="such as demo==1.0")
    text = "a target that may have it; may be given several times; default: the config's publish: targets"
    retract.add_argument("--to", action="append", default=[], metavar="TARGET", help=text)
    text = "the config that names the targets; default: %(default)s"
    retract.add_argument("--config", type=Path, default=Path(loader.DEFAULT_NAME), metavar="FILE", help=text)
    text = "the reason and what to use instead, shown by the finder, pip and uv"
    retract.add_argument("--reason", metavar="TEXT", help=text)
    retract.add_argument("--undo", action="store_true", help="remove the mark, and restore everything as it was before")

    promote = _verb(verbs, "promote", "publish the same bytes of a release from one index to another")
    promote.add_argument("source", metavar="FROM", help="the index that has it: s3://BUCKET/whl/test")
    promote.add_argument("target", metavar="TO", help="the index that gets it, as a stable release: s3://BUCKET/whl")
    promote.add_argument("release", metavar="RELEASE", help="such as demo==1.0")


def _add_addition(add: _Parser) -> None:
    add.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a wheel or an sdist, of any project")
    text = "the folder that lists them, such as cu130; default: what their local versions name, or every folder"
    add.add_argument("--folder", type=_parse_nonempty, metavar="FOLDER", help=text)
    text = "a folder that lists them too; may be given several times"
    add.add_argument("--also", type=_parse_nonempty, action="append", default=[], metavar="FOLDER", help=text)
    text = "add them although this rule of the audit finds something wrong; may be given several times"
    add.add_argument("--despite", type=_parse_nonempty, action="append", default=[], metavar="RULE", help=text)
    add.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")


def _add_doctor(verbs: Verbs) -> None:
    doctor = _verb(verbs, "doctor", "report what in a GitHub repository would stop a release, and how to fix it")
    doctor.add_argument("repository", metavar="OWNER/REPO", help="the repository that calls Fatwheel")
    text = "say what can be fixed over the API, fix it, and check again"
    doctor.add_argument("--fix", action="store_true", help=text)
    forms = "what stdout gets; default: %(default)s"
    doctor.add_argument("--format", choices=("table", "json"), default="table", help=forms)


def _add_conversation(verbs: Verbs) -> None:
    """Add the verbs with which a workflow writes issues and comments for people."""
    text = "open an issue for the owner of a platform whose scheduled run failed, and close it after a success"
    tell = _verb(verbs, "tell", text)
    default = Path(loader.DEFAULT_NAME)
    text = "the config that names the owner; default: %(default)s"
    tell.add_argument("config", nargs="?", type=Path, default=default, metavar="fatwheel.yml", help=text)
    tell.add_argument("--platform", required=True, type=_parse_nonempty, metavar="PLATFORM", help="such as linux-rocm")
    text = "the result of a job: success, failure, cancelled or skipped; may be given several times"
    tell.add_argument("--result", action="append", default=[], metavar="RESULT", help=text)

    comment = _verb(verbs, "comment", "write a file into one comment of a pull request, or update that comment")
    comment.add_argument("file", type=Path, metavar="FILE", help="its text, as Markdown")
    comment.add_argument("--pull", type=_number, required=True, metavar="NUMBER", help="the pull request")
    text = "the name of the comment, if a pull request has several; default: %(default)s"
    comment.add_argument("--name", type=_parse_nonempty, default="plan", metavar="NAME", help=text)
    for parser in (tell, comment):
        text = "the repository to write to; default: the one whose workflow this is (GITHUB_REPOSITORY)"
        parser.add_argument("--repository", type=_parse_nonempty, metavar="OWNER/REPO", help=text)


def _add_canary(verbs: Verbs) -> None:
    """Add the verbs with which canary.yml tests GitHub."""
    canary = _verb(verbs, "canary", "check one thing that only GitHub can show, and record the result")
    canary.add_argument("check", metavar="CHECK", help="the name of the check in canary.yml")
    canary.add_argument("--name", default="", metavar="NAME", help="the name of this job, if several run it")
    canary.add_argument("--expected", default="", metavar="TEXT", help="the expected result")
    table = _verb(verbs, "canary-table", "print the results of all checks of canary.yml")
    text = "the context `needs` of the job, as JSON"
    table.add_argument("--needs", required=True, type=_parse_nonempty, metavar="JSON", help=text)
    table.add_argument("--only", default="", metavar="PLATFORM", help="the one platform that wheels were built for")
    text = "a repository that calls this one's wheels.yml, whose newest run is checked"
    table.add_argument("--elsewhere", default="", metavar="OWNER/REPO", help=text)
    table.add_argument("--repository", default="", metavar="OWNER/REPO", help="this repository")
    for parser in (canary, table):
        text = "the folder of the results; default: %(default)s"
        parser.add_argument("--folder", type=Path, default=Path("canary"), metavar="DIR", help=text)


def _verb(verbs: Verbs, name: str, text: str) -> _Parser:
    parser = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(verb=parser.prog.partition(" ")[2])
    parser.add_argument("-v", "--verbose", action="store_true", help="log commands, requests and cache use on stderr")
    return parser


def _config_argument(parser: argparse.ArgumentParser) -> None:
    default = Path(loader.DEFAULT_NAME)
    text = "the config; default: %(default)s"
    parser.add_argument("config", nargs="?", type=Path, default=default, metavar="fatwheel.yml", help=text)
    _trust_argument(parser)


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a torch such as 2.15 in place of the config's: build only wheels bound to it, to be added to a release"
    parser.add_argument("--torch", action="append", default=[], type=_parse_nonempty, metavar="VERSION", help=text)
    text = "the GPU runner of a platform, in place of the config's: linux-cuda=self-hosted,h100"
    parser.add_argument(
        "--gpu-runner", action="append", default=[], type=_parse_nonempty, metavar="PLATFORM=LABELS", help=text
    )


def _edition_arguments(parser: argparse.ArgumentParser) -> None:
    _run_arguments(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--tag",
        type=_parse_nonempty,
        metavar="TAG",
        help="the git tag this is a release of: v1.2.0, or v1.2.0-rc1 for a candidate",
    )
    text = "the branch, tag or commit that is checked out; a tag is released; default: git's tags of the commit"
    group.add_argument("--ref", type=_parse_nonempty, metavar="REF", help=text)
    text = "not a release: build and try the version as it stands, for folders only"
    group.add_argument("--untagged", action="store_true", help=text)
    text = "make a nightly with that date, such as 20261121"
    group.add_argument("--nightly", type=_parse_nonempty, metavar="DATE", help=text)


def _parse_nonempty(text: str) -> str:
    """Return an argument; refuse an empty one, which often comes from an unset variable."""
    if not text.strip():
        msg = "it is empty, expected a value, or no such option"
        raise argparse.ArgumentTypeError(msg)
    return text


def _number(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,9}", text):
        msg = f'"{text}" is not a number, expected one such as 7'
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _trust_argument(parser: argparse.ArgumentParser) -> None:
    text = "run the project's own setup.py also where this machine cannot confine it"
    parser.add_argument("--trust-source", action="store_true", help=text)


def _target_arguments(parser: argparse.ArgumentParser) -> None:
    text = (
        "dir:PATH, s3://BUCKET/PREFIX, github:OWNER/REPO or pypi[:NAME or URL]; may be given several times; "
        "a bucket and its mirror are one: s3://A/whl|s3://B/whl; "
        "default: the config's publish: targets"
    )
    parser.add_argument("--to", action="append", default=[], metavar="TARGET", help=text)
    text = "the program that uploads to PyPI and its like; default: %(default)s"
    parser.add_argument("--uploader", choices=UPLOADERS, default=UPLOADERS[0], help=text)
    parser.add_argument(
        "--replace",
        action="store_true",
        help="overwrite published files whose contents differ, in an index of your own only",
    )
