"""The command line: parse, call one function, print."""

from __future__ import annotations

import argparse
import io
import json
import os
import secrets
import shlex
import signal
import sys
from contextlib import contextmanager, redirect_stdout
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from packaging.utils import canonicalize_name
from rich.console import Console
from rich.text import Text

from ci_tools import (
    __version__,
    catalog,
    config,
    edition,
    matrix,
    planfile,
    planning,
    starter,
    steps,
    terminal,
    workflowcommands,
)
from ci_tools.errors import FatwheelError, InputError, MachineError, nearest
from ci_tools.model import STABLE, Level, Platform, Python
from ci_tools.outside import Outside
from ci_tools.storage import cache_folder, write_atomically
from ci_tools.targets import UPLOADERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ci_tools.model import Plan, Trial
    from ci_tools.planning import Planned

    Verb = Callable[[argparse.Namespace, Outside], int]
    Verbs = argparse._SubParsersAction["_Parser"]  # noqa: SLF001 - argparse has no other name for it

__all__ = ["main"]

DONE, BAD = 0, 1  # the others are the errors' own
INTERRUPTED = 130  # 128 + SIGINT, as shells say it


class _Parser(argparse.ArgumentParser):
    """Argument errors in the same voice as every other."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, hint=f"`{self.prog} --help` lists what there is")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 1 judged bad, 2 wrong input, 3 the machine failed."""
    stderr = Console(stderr=True)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(stderr, arguments)
    except FatwheelError as error:
        return _told(stderr, error)
    except KeyboardInterrupt:
        stderr.print("interrupted; the same command goes on where this one stopped", highlight=False)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        return _told(
            stderr, MachineError(f"{error.strerror or error}{place}", hint="mend it and run the same command again")
        )


def _run(stderr: Console, arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    return int(options.verb(options, _outside(stderr, options)))


def _interrupt(*_: object) -> NoReturn:
    """Take a polite kill as Ctrl-C, so that what was begun is cleaned up."""
    raise KeyboardInterrupt


def _told(stderr: Console, error: FatwheelError) -> int:
    with _inert(os.environ):
        text = Text(terminal.plain(f"fatwheel: {error}"), style="red" if stderr.is_terminal and error.status else "")
        stderr.print(text, soft_wrap=True)
    for line in workflowcommands.annotations_of(error) if steps.is_on(os.environ) else ():
        print(line, file=sys.stderr)
    return error.status


@contextmanager
def _inert(environ: Mapping[str, str]) -> Iterator[None]:
    """Keep GitHub from taking anything printed meanwhile for a command: much of it is a project's own words."""
    token = secrets.token_hex(16) if steps.is_on(environ) else ""
    if token:
        print(workflowcommands.stop(token), file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if token:
            print(workflowcommands.resume(token), file=sys.stderr, flush=True)


def _outside(stderr: Console, options: argparse.Namespace) -> Outside:
    return Outside(
        environ=os.environ,
        cache=cache_folder(os.environ),
        reporter=terminal.Talk(stderr),
        trusts_source=getattr(options, "trust_source", False),
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fatwheel", description="The fewest wheels that serve everybody: plan, build, audit, validate, publish."
    )
    parser.add_argument("--version", action="version", version=f"fatwheel {__version__}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    _add_planning(verbs)
    _add_preparation(verbs)
    _add_work(verbs)
    _add_upkeep(verbs)
    return parser


def _add_planning(verbs: Verbs) -> None:
    init = _verb(verbs, "init", _init, "write a first fatwheel.yml from what the source shows")
    init.add_argument("folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: this folder")
    callers = "workflow files that build wheels by pytorch/test-infra: ask for the same, and report on each input"
    init.add_argument("--from-test-infra", nargs="+", action="extend", type=Path, metavar="WORKFLOW", help=callers)

    plan = _verb(verbs, "plan", _plan, "say which wheels serve the request, and why")
    _config_argument(plan)
    plan.add_argument("--explain", action="store_true", help="give every cell a line, and all that the source shows")
    forms = "what stdout gets: a table, JSON, a workflow's outputs, or the text of a comment; default: %(default)s"
    plan.add_argument("--format", choices=("table", "json", "github", "markdown"), default="table", help=forms)
    plan.add_argument("--only", metavar="PLATFORM", help="show this platform alone")
    plan.add_argument("--out", type=Path, metavar="FILE", help="write the whole plan to this file as JSON as well")
    _edition_arguments(plan)
    text = "the project's name, as a check: end where the config names another"
    plan.add_argument("--package", type=_filled, metavar="NAME", help=text)
    prove = "build what the plan calls redundant too, as far as this machine can, and compare"
    plan.add_argument("--prove", action="store_true", help=prove)
    text = "say too what differs from the plan of a git revision such as main, of a plan.json, or of a release's folder"
    plan.add_argument("--against", type=_filled, metavar="REV", help=text)

    summary = _verb(verbs, "summary", _summary, "print a page for GitHub: a plan, or a release and what became of it")
    text = "a plan.json, or a folder with one, as `fatwheel build` and `release` leave it"
    summary.add_argument("path", type=Path, metavar="DIR_OR_PLAN", help=text)
    text = "say too what differs from an earlier one"
    summary.add_argument("--against", type=Path, metavar="DIR_OR_PLAN", help=text)

    advise = _verb(verbs, "advise", _advise, "say what would make the plan smaller, with a patch where an edit does it")
    _config_argument(advise)
    forms = "what stdout gets: a table, JSON, or all patches as one diff for `git apply`; default: %(default)s"
    advise.add_argument("--format", choices=("table", "json", "diff"), default="table", help=forms)
    text = "where earlier builds left their receipts, which say what a wheel takes; default: %(default)s"
    advise.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help=text)
    prove = "apply each patch to a copy, plan again, and build and try there what this machine can"
    advise.add_argument("--prove", action="store_true", help=prove)

    text = "run what a step of a workflow asks for in its variables (WITH_CONFIG and so on)"
    step = _verb(verbs, "step", _step, text)
    step.add_argument("name", metavar="VERB", help=f"one of {', '.join(steps.VERBS)}")

    evidence = _verb(verbs, "evidence", _evidence, "print what the source shows of every cell, and where, as JSON")
    _config_argument(evidence)


def _add_preparation(verbs: Verbs) -> None:
    text = "make room on a hosted runner: free its disk and give it swap, as far as the plan says so of its jobs"
    prepare = _verb(verbs, "prepare", _prepare, text)
    prepare.add_argument("--plan", type=Path, required=True, metavar="FILE", help="a plan.json")
    text = "a job of the plan, or sdist; several are separated by commas"
    prepare.add_argument("--job", required=True, type=_filled, metavar="NAME", help=text)
    text = "where a container sees the runner's own disk; default: %(default)s"
    prepare.add_argument("--root", type=Path, default=Path("/"), metavar="DIR", help=text)


def _add_work(verbs: Verbs) -> None:
    build = _verb(verbs, "build", _build, "build one job of the plan")
    _config_argument(build)
    build.add_argument(
        "--plan", type=Path, metavar="FILE", help="a plan.json that the plan made here must equal; it names the config"
    )
    _edition_arguments(build)
    text = "a job of the plan, or sdist; several are separated by commas"
    build.add_argument("--job", required=True, type=_filled, metavar="NAME", help=text)
    build.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the file goes")

    audit = _verb(verbs, "audit", _audit, "check what is inside wheels")
    text = "a wheel file; default: all of the plan's that lie beside --plan"
    audit.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL", help=text)
    fitting = audit.add_mutually_exclusive_group()
    fitting.add_argument("--config", type=Path, metavar="FILE", help="the fatwheel.yml whose plan the wheels must fit")
    text = "the plan.json that the wheels must fit; nothing of the project is run"
    fitting.add_argument("--plan", type=Path, metavar="FILE", help=text)
    _trust_argument(audit)
    forms = "what stdout gets; default: %(default)s"
    audit.add_argument("--format", choices=("table", "json"), default="table", help=forms)

    validate = _verb(verbs, "validate", _validate, "install wheels in clean environments and run them")
    text = "a wheel file; default: what the --site tries, beside the --plan"
    validate.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL", help=text)
    validate.add_argument("--config", type=Path, metavar="FILE", help="the fatwheel.yml that says what must work")
    validate.add_argument("--python", metavar="VERSION", help="the Python to install into; default: this one")
    text = "the plan.json whose --site this machine is; it lies beside the wheels"
    validate.add_argument("--plan", type=Path, metavar="FILE", help=text)
    text = "the place of the plan that this machine is; it says which files are tried, and with which Python"
    validate.add_argument("--site", type=_filled, metavar="NAME", help=text)
    _trust_argument(validate)

    gather = _verb(verbs, "gather", _gather, "bring what several machines made by one plan together, and audit it here")
    gather.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="what the machines left, in any subfolder")
    gather.add_argument("--plan", type=Path, required=True, metavar="FILE", help="the plan.json they worked by")
    gather.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the release is put together")
    text = "a folder for those files of it that go to PyPI"
    gather.add_argument("--pypi", type=Path, metavar="DIR", help=text)
    text = "say whether every file of a release is what a workflow of GitHub signed"
    attested = _verb(verbs, "attested", _attested, text)
    attested.add_argument("folder", type=Path, metavar="DIR", help="the release")
    text = "OWNER/REPO, where the workflow ran"
    attested.add_argument("--repository", required=True, type=_filled, metavar="REPO", help=text)
    text = "OWNER/REPO/.github/workflows/FILE, the workflow that signed"
    attested.add_argument("--signer", required=True, type=_filled, metavar="WORKFLOW", help=text)
    text = "a folder with the attestation; default: GitHub is asked for it"
    attested.add_argument("--bundles", type=Path, metavar="DIR", help=text)

    gather.add_argument("--only", type=_filled, metavar="UNIT", help="this unit alone has to be whole")
    forms = "what stdout gets: a table for people, or a workflow's outputs; default: %(default)s"
    gather.add_argument("--format", choices=("table", "github"), default="table", help=forms)

    publish = _verb(verbs, "publish", _publish, "publish finished files, each release unit at every target or at none")
    publish.add_argument("folder", type=Path, metavar="DIR", help="what `fatwheel build` or `release` wrote")
    _target_arguments(publish)
    text = "publish this alone: core, or an optional platform"
    publish.add_argument("--only", type=_filled, metavar="UNIT", help=text)
    text = "a target besides those; may be given several times"
    publish.add_argument("--also", action="append", default=[], metavar="TARGET", help=text)
    publish.add_argument(
        "--dry-run", action="store_true", help="show what would change at each target, and change nothing"
    )

    release = _verb(verbs, "release", _release, "plan, build, audit, validate, publish and install, on this machine")
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
    index = _verb(verbs, "index", None, "read a published index whole, and mend it")
    parts = index.add_subparsers(title="verbs", required=True, metavar="VERB")
    verify = _verb(parts, "verify", _index_verify, "say where an index is not what its manifests say")
    repair = _verb(parts, "repair", _index_repair, "mend what `verify` finds")
    text = "remove files that no page lists too; only while no publisher is at work"
    repair.add_argument("--remove-unlisted", action="store_true", help=text)

    pages = _verb(parts, "pages", _index_pages, "write an index over a project's GitHub Releases, as for GitHub Pages")
    pages.add_argument("target", metavar="TARGET", help="github:OWNER/REPO")
    pages.add_argument("project", metavar="PROJECT", help="the project whose releases they are")
    pages.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the pages go")

    yank = _verb(verbs, "yank", _yank, "mark a release of an index, so that only who pins it still gets it")
    unyank = _verb(verbs, "unyank", _unyank, "take that mark away")
    for parser in (verify, repair, yank, unyank):
        parser.add_argument("target", metavar="TARGET", help="dir:PATH or s3://BUCKET/PREFIX, down to the channel")
    for parser in (yank, unyank):
        parser.add_argument("release", metavar="RELEASE", help="such as demo==1.0")
    yank.add_argument("--reason", default="", help="what those who pin it are told")

    promote = _verb(verbs, "promote", _promote, "publish the very bytes of a release that one index holds to another")
    promote.add_argument("source", metavar="FROM", help="the index that has it: s3://BUCKET/whl/test")
    promote.add_argument("target", metavar="TO", help="the index that gets it, as a stable release: s3://BUCKET/whl")
    promote.add_argument("release", metavar="RELEASE", help="such as demo==1.0")

    doctor = _verb(verbs, "doctor", _doctor, "say what in a GitHub repository would stop a release, and how to mend it")
    doctor.add_argument("repository", metavar="OWNER/REPO", help="the repository that calls Fatwheel")
    text = "say what would be mended over the API, mend it, and look again"
    doctor.add_argument("--fix", action="store_true", help=text)
    forms = "what stdout gets; default: %(default)s"
    doctor.add_argument("--format", choices=("table", "json"), default="table", help=forms)


def _verb(verbs: Verbs, name: str, call: Verb | None, text: str) -> _Parser:
    parser = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    if call:
        parser.set_defaults(verb=call)
    return parser


def _config_argument(parser: argparse.ArgumentParser) -> None:
    default = Path(config.DEFAULT_NAME)
    text = "the config; default: %(default)s"
    parser.add_argument("config", nargs="?", type=Path, default=default, metavar="fatwheel.yml", help=text)
    _trust_argument(parser)


def _edition_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--tag",
        type=_filled,
        metavar="TAG",
        help="the git tag this is a release of: v1.2.0, or v1.2.0-rc1 for a candidate",
    )
    text = "make a nightly of that date, such as 20261121"
    group.add_argument("--nightly", type=_filled, metavar="DATE", help=text)


def _filled(text: str) -> str:
    """Return an argument; refuse one that is empty, as a variable is that nobody set."""
    if not text.strip():
        msg = "it is empty, expected a value: leave the option out where there is none"
        raise argparse.ArgumentTypeError(msg)
    return text


def _trust_argument(parser: argparse.ArgumentParser) -> None:
    text = "run the project's own setup.py also where this machine cannot confine it"
    parser.add_argument("--trust-source", action="store_true", help=text)


def _target_arguments(parser: argparse.ArgumentParser) -> None:
    text = (
        "dir:PATH, s3://BUCKET/PREFIX, github:OWNER/REPO or pypi[:NAME or URL]; may be given several times; "
        "default: the config's publish: targets"
    )
    parser.add_argument("--to", action="append", default=[], metavar="TARGET", help=text)
    text = "the program that uploads to PyPI and its like; default: %(default)s"
    parser.add_argument("--uploader", choices=UPLOADERS, default=UPLOADERS[0], help=text)
    parser.add_argument(
        "--replace",
        action="store_true",
        help="let a file take the place of one with other bytes, in an index of your own",
    )


# ---------------------------------------------------------------- verbs


def _init(options: argparse.Namespace, outside: Outside) -> int:
    if options.from_test_infra:
        written = starter.write_moved(options.folder, options.from_test_infra, catalog.load(), outside.environ)
        terminal.show([terminal.move_table(written.rows)], on_stderr=True)
        print(*written.paths, sep="\n")
        outside.reporter.say(f"wrote both; do what needs you, then run `fatwheel plan {written.paths[0]}`")
        return DONE
    path = starter.write(options.folder, catalog.load(), outside.environ)
    print(path)
    outside.reporter.say(f"wrote {path}; look through it, then run `fatwheel plan {path}`")
    return DONE


def _plan(options: argparse.Namespace, outside: Outside) -> int:
    if options.prove and options.format in {"github", "markdown"}:
        msg = f"--prove: --format {options.format} holds no proof, expected --format table or json"
        raise InputError(msg)
    if options.against and (options.prove or options.only):
        msg = "--against compares whole plans, expected no --prove or --only beside it"
        raise InputError(msg)
    planned = _planned(options, options.config, outside)
    _refuse_another(planned.plan, options.package)
    text = planfile.dumps(planned.plan)
    if options.out:
        if options.out.is_dir():
            msg = f"--out: {options.out} is a folder, expected a file such as plan.json"
            raise InputError(msg)
        with write_atomically(options.out) as file:
            file.write(text.encode())
    if options.against:
        return _compare(planned, options, outside)
    planned = planned._replace(plan=_only(planned.plan, options.only))
    if options.only and options.format == "github":
        planned = planned._replace(plan=planfile.own(planned.plan, Platform(options.only)))
    if options.prove:
        return _prove(planned, options, outside)
    _print_plan(planned, options.format, explain=options.explain)
    return DONE


def _refuse_another(plan: Plan, package: str | None) -> None:
    if package and canonicalize_name(package) != canonicalize_name(plan.project.name):
        msg = f'--package: the config names "{plan.project.name}", not "{package}"'
        raise InputError(msg)


def _planned(options: argparse.Namespace, path: Path, outside: Outside) -> Planned:
    """Plan the edition that was asked for."""
    wanted = edition.nightly(options.nightly) if options.nightly else STABLE
    pinned = getattr(options, "plan", None)
    return planning.make_plan(path, outside, pinned=pinned, edition=wanted, tag=options.tag or "")


def _prove(planned: Planned, options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import prover

    if options.format == "table":
        _print_plan(planned, options.format, explain=options.explain)
    proofs = prover.prove(planned, outside)
    if options.format == "table":
        terminal.show(terminal.proof_table(proofs, planned.plan))
    else:
        whole = {**planfile.to_json(planned.plan), "proof": prover.to_json(proofs)}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
    return prover.status(proofs)


def _compare(planned: Planned, options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import baseline, comparison, summary

    found = baseline.compared(planned, options.config, options.against, outside)
    if options.format == "github":
        compared = {"base": options.against, "changed": json.dumps(found.is_change)}
        print(_outputs({**matrix.outputs(planned.plan), **compared}), end="")
    elif options.format == "json":
        whole = {**planfile.to_json(planned.plan), "comparison": comparison.to_json(found)}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
    elif options.format == "markdown":
        print(summary.plan_page(planned.plan, found, most=summary.MOST_OF_A_COMMENT), end="")
    else:
        _print_plan(planned, options.format, explain=options.explain)
        terminal.show(terminal.comparison_tables(found))
    return DONE


def _summary(options: argparse.Namespace, outside: Outside) -> int:  # noqa: ARG001 - a verb
    from ci_tools import baseline, finished, summary

    found = finished.read(options.path)
    change = baseline.compared_files(found, options.against) if options.against else None
    if options.path.is_dir():
        print(summary.release_page(found, change), end="")
    else:
        print(summary.plan_page(found.plan, change), end="")
    return DONE


def _only(plan: Plan, name: str | None) -> Plan:
    if name is None:
        return plan
    asked = [str(platform.platform) for platform in plan.request.platforms]
    if name not in asked:
        msg = f'the request has no platform "{name}", {nearest(name, asked)}'
        raise InputError(msg)
    return planfile.only(plan, Platform(name))


def _print_plan(planned: Planned, form: str, *, explain: bool) -> None:
    plan = planned.plan
    if form == "markdown":
        from ci_tools import summary

        print(summary.plan_page(plan, most=summary.MOST_OF_A_COMMENT), end="")
        return
    if form != "table":
        print(planfile.dumps(plan) if form == "json" else _outputs(matrix.outputs(plan)), end="")
        return
    terminal.show(terminal.plan_tables(plan, explain=explain))
    if explain:
        terminal.show(terminal.evidence_table(planned.evidence, plan))


def _outputs(values: Mapping[str, str]) -> str:
    """Return what a workflow's step writes to $GITHUB_OUTPUT; no value has a second line."""
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _step(options: argparse.Namespace, outside: Outside) -> int:
    """Run the verb that a workflow's step asks for; what it prints is the step's outputs, its page, or its log."""
    today = datetime.now(timezone.utc).strftime("%Y%m%d")
    step = steps.step_of(options.name, outside.environ, today)
    files = [Path(_file_of(variable, outside.environ)) for variable in step.files]
    words = io.StringIO()
    with _inert(outside.environ), redirect_stdout(words if files else sys.stderr):
        outside.reporter.say(f"$ {shlex.join(['fatwheel', *step.arguments])}")
        status = _run(Console(stderr=True), step.arguments)
    for path in files:
        with path.open("a", encoding="utf-8") as file:
            file.write(words.getvalue())
    return status


def _file_of(variable: str, environ: Mapping[str, str]) -> str:
    if not environ.get(variable):
        msg = f"{variable} names no file: `fatwheel step` is for steps of a workflow"
        raise InputError(msg)
    return environ[variable]


def _evidence(options: argparse.Namespace, outside: Outside) -> int:
    planned = planning.make_plan(options.config, outside)
    print(planfile.evidence_json(planned.evidence, planned.plan), end="")
    return DONE


def _advise(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import advisor

    planned = planning.make_plan(options.config, outside)
    advised, patched = advisor.consult(planned, options.out)
    if options.format == "table":
        terminal.show(terminal.advice_tables(planned.plan, advised, patched))
    proofs = advisor.prove(planned, patched, outside) if options.prove else None
    if options.format == "diff":
        print(advisor.patch_of_all(planned, patched), end="")
    elif options.format == "json":
        print(json.dumps(advisor.to_json(advised, patched, proofs), indent=1, ensure_ascii=False))
    elif proofs is not None:
        terminal.show(terminal.patch_proof_table(proofs))
    return advisor.status(proofs or ())


def _build(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import pipeline

    path = options.config
    if options.plan and path == Path(config.DEFAULT_NAME):
        path = planfile.config_of(options.plan)
    if options.plan and (options.tag or options.nightly):
        msg = "--plan says which edition is built, expected neither --tag nor --nightly beside it"
        raise InputError(msg)
    planned = _planned(options, path, outside)
    for made in pipeline.build(planned, options.job.split(","), options.out, outside):
        print(made.path)
    return DONE


def _prepare(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import planvalues, runner

    host = runner.Host(
        environ=outside.environ,
        say=outside.reporter.say,
        call=runner.with_rights(outside.cache / "prepare.log"),
        root=options.root,
    )
    runner.prepare(runner.care_of(planvalues.read(options.plan), options.job.split(",")), host)
    return DONE


def _audit(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import pipeline, planvalues

    plan = planning.make_plan(options.config, outside).plan if options.config else None
    plan = planvalues.read(options.plan) if options.plan else plan
    files = options.wheels or (pipeline.planned_files(plan, options.plan.parent) if plan and options.plan else ())
    if not files:
        msg = "there is nothing to audit: no wheel is named, and none of a --plan lies beside it"
        raise InputError(msg, hint="name wheels, or with --plan the plan that they lie beside")
    findings = pipeline.audit_files(files, plan, outside)
    if options.format == "json":
        print(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        terminal.show(terminal.findings_table(findings, len(files)))
    return BAD if any(finding.level is Level.ERROR for finding in findings) else DONE


def _validate(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import pipeline

    if bool(options.plan) != bool(options.site):
        msg = "--plan and --site go together: the plan says what is tried at which place"
        raise InputError(msg)
    if options.plan and (options.wheels or options.python):
        msg = "--site says what is tried and with which Python, expected no WHEEL or --python beside it"
        raise InputError(msg)
    if not (options.plan or options.wheels):
        msg = "no wheel is named"
        raise InputError(msg, hint="`fatwheel validate dist/*.whl` tries those of a folder")
    trials = _tried_at_site(options, outside) if options.plan else _tried_here(options, outside)
    terminal.show(terminal.trials_table(trials))
    pipeline.refuse_failures(trials)
    return DONE


def _tried_at_site(options: argparse.Namespace, outside: Outside) -> Mapping[str, Sequence[Trial]]:
    """Try what the plan says of a site; the source is asked for its scripts, or to build from the sdist."""
    from ci_tools import pipeline, planvalues

    plan, folder = planvalues.read(options.plan), options.plan.parent
    sites = {site.name: site for site in plan.sites}
    if options.site not in sites:
        msg = f'--site: the plan has no site "{options.site}", {nearest(options.site, sites)}'
        raise InputError(msg)
    path = options.config or planfile.config_of(options.plan)
    return pipeline.validate_site(
        sites[options.site], plan, folder, outside, lambda: planning.make_plan(path, outside, pinned=options.plan)
    )


def _tried_here(options: argparse.Namespace, outside: Outside) -> Mapping[str, Sequence[Trial]]:
    from ci_tools import pipeline

    request = config.load(options.config, catalog.load()) if options.config else None
    python = _python(options.python) if options.python else None
    root = planning.place_of_scripts(request, options.config, outside) if request else None
    return pipeline.validate_files(options.wheels, request, pipeline.Here(python, root), outside)


def _attested(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import attestation

    for path in attestation.verify(options.folder, options.repository, options.signer, options.bundles, outside):
        print(path)
    return DONE


def _gather(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import pipeline

    found = pipeline.assemble(options.folders, options.plan, options.out, options.only or "", outside)
    if options.pypi:
        pipeline.copy_for_pypi(found, options.pypi)
    if options.format == "github":
        print(_outputs(pipeline.outputs(found)), end="")
    else:
        terminal.show(terminal.assembled_tables(found))
    return DONE


def _python(text: str) -> Python:
    known = {str(python): python for python in catalog.load().pythons}
    if text not in known:
        msg = f'--python: there is no Python "{text}" in the catalog, {nearest(text, known)}'
        raise InputError(msg)
    return known[text]


def _publish(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import publishing

    to = publishing.Destination(
        tuple(options.to),
        also=tuple(options.also),
        only=options.only or "",
        replace=options.replace,
        uploader=options.uploader,
    )
    if options.dry_run:
        terminal.show(terminal.preview_tables(*publishing.preview(options.folder, to, outside)))
        return DONE
    outcome = publishing.publish(options.folder, to, outside)
    terminal.show(terminal.published_tables(outcome.shown, outcome.withheld))
    return DONE


def _release(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import pipeline
    from ci_tools.publishing import Destination

    planned = _planned(options, options.config, outside)
    terminal.show(terminal.plan_tables(planned.plan, explain=False))
    to = Destination(tuple(options.to), replace=options.replace, uploader=options.uploader)
    released = pipeline.release(planned, to, options.out, outside, here=options.here)
    terminal.show(terminal.released_tables(released))
    if released.install:
        print(released.install)
    return DONE


def _index_verify(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import upkeep
    from ci_tools.targets.addresses import index_of

    flaws = upkeep.verify(index_of(options.target, outside), outside)
    terminal.show(terminal.flaws_table(flaws))
    return BAD if flaws else DONE


def _index_repair(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import upkeep
    from ci_tools.targets.addresses import index_of

    index = index_of(options.target, outside)
    flaws = upkeep.repair(index, outside, remove_unlisted=options.remove_unlisted)
    terminal.show(terminal.flaws_table(flaws))
    return BAD if any(flaw.is_left for flaw in flaws) else DONE


def _index_pages(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import upkeep

    for path in upkeep.write_pages(options.target, options.project, options.out, outside):
        print(path)
    return DONE


def _yank(options: argparse.Namespace, outside: Outside) -> int:
    return _mark(options, outside, options.reason)


def _unyank(options: argparse.Namespace, outside: Outside) -> int:
    return _mark(options, outside, None)


def _mark(options: argparse.Namespace, outside: Outside, reason: str | None) -> int:
    from ci_tools import upkeep
    from ci_tools.targets.addresses import index_of

    for name in upkeep.yank(index_of(options.target, outside), options.release, reason):
        print(name)
    return DONE


def _promote(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import upkeep
    from ci_tools.targets.addresses import index_of

    source, target = index_of(options.source, outside), index_of(options.target, outside)
    shown = upkeep.promote(source, (target,), options.release, outside)
    terminal.show(terminal.published_tables(shown, ()))
    return DONE


def _doctor(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools import doctor
    from ci_tools.targets.hub import Hub

    checked = doctor.check(Hub(options.repository, outside), fix=options.fix)
    if options.format == "json":
        print(json.dumps(doctor.to_json(checked), indent=1))
    else:
        terminal.show(terminal.checked_tables(checked))
    return doctor.status(checked)


if __name__ == "__main__":
    sys.exit(main())
