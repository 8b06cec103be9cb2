"""The verbs that make and test wheels: build, audit, validate and verify."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import Parser, add_config, add_edition, add_format, add_trust, parse_nonempty, parse_number
from ci_tools.cli.next_command import after_audit, after_build, after_validation, say_next
from ci_tools.cli.tables.layout import plain, show, show_as, show_json
from ci_tools.cli.tables.release import findings_table, trials_table
from ci_tools.errors import BAD, DONE, InputError, nearest
from ci_tools.github import step as steps
from ci_tools.model.files import Trial

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside
    from ci_tools.model.plan import Plan, Site
    from ci_tools.plan.make import Planned


MOST_COMPARED = 2  # the tables have two columns
SPARE = 10  # minutes of a time limit, a tenth of it at most, for what comes before a build and after it


def declare_build(parser: Parser) -> None:
    add_config(parser)
    parser.add_path("--plan", "FILE", "a plan.json that the plan made here must equal; it names the config")
    add_edition(parser)
    parser.add_text("--job", "NAME", "a job of the plan, or sdist; several are separated by commas", required=True)
    parser.add_path("--out", "DIR", "where the file goes", required=True)
    parts = parser.add_mutually_exclusive_group()
    text = "build nothing: list the compile units of the job, with the seconds of one core for each, as JSON"
    parts.add_argument("--list", action="store_true", help=text)
    text = "compile only the units of one of N shards, into DIR/shards/NAME/K-of-N"
    parts.add_argument("--shard", type=parse_nonempty, metavar="K/N", help=text)
    text = "take the units that shards have compiled from DIR/shards, and compile only what is missing"
    parts.add_argument("--link", action="store_true", help=text)
    text = "compile the units in N processes on this machine, each its share of them, and link"
    parts.add_argument("--shards", type=parse_number, metavar="N", help=text)
    text = "minutes after which this machine ends the command; it stops before, and keeps what it compiled"
    parser.add_argument("--time-limit", type=parse_number, metavar="MINUTES", help=text)
    parser.add_flag("--keep-going", "if one of several jobs fails, build and audit the others, and fail at the end")


def run_build(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.build import jobs
    from ci_tools.build.shards.local import compile_here
    from ci_tools.cli.reporter import TimedReporter
    from ci_tools.cli.values import find_config, make_plan
    from ci_tools.plan import plan_file
    from ci_tools.publish.release import say_clashes
    from ci_tools.publish.shared_units import share_units
    from ci_tools.verify.files import CHECKS
    from ci_tools.verify.left_out import warn_left_out

    if options.plan and (options.tag or options.nightly or options.ref or options.untagged):
        msg = "--plan says which edition is built, expected no --tag, --ref, --nightly or --untagged beside it"
        raise InputError(msg)
    if options.plan and (options.torch or options.gpu_runner):
        raise InputError("--plan says what its run asked for, expected no --torch or --gpu-runner beside it")
    limit = options.time_limit  # the build stops earlier, to keep elsewhere what it compiled
    ends = time.monotonic() + 60 * (limit - min(limit / 10, SPARE)) if limit else math.inf
    outside = replace(outside, reporter=(times := TimedReporter(outside.reporter)), ends=ends)
    is_named = options.config or not options.plan
    path = find_config(options, outside) if is_named else plan_file.config_of(options.plan)
    planned = make_plan(options, path, outside)
    times.book("planning")
    names = options.job.split(",")
    if options.list or options.shard:
        with share_units(planned.plan, names, outside, keeps=False):  # the link keeps what its shards compiled
            _run_part(options, planned, outside)
        return
    checks = CHECKS._replace(look=say_clashes(planned, outside), links=options.link or bool(options.shards))
    with share_units(planned.plan, names, outside):
        if options.shards:
            compile_here(planned, options.job, options.shards, options.out, outside)
        built = jobs.build(planned, names, options.out, outside, checks, keep_going=options.keep_going)
    for made in built:
        print(made.path)
    warn_left_out(planned, [made.path for made in built if made.path.suffix == ".whl"], outside)
    times.say_times(built, outside.environ, options.job)
    for line in after_build({made.path: made.built for made in built}, names, planned.plan, options.out):
        outside.reporter.say(line)  # stdout has the paths, for scripts


def _run_part(options: argparse.Namespace, planned: Planned, outside: Outside) -> None:
    """List the units of a job, or compile a shard of them."""
    from ci_tools.build.shards import parts
    from ci_tools.build.shards.assignment import ShardNumber

    if options.shard:
        print(parts.compile_shard(planned, options.job, ShardNumber.parse(options.shard), options.out, outside))
        return
    listed = parts.list_units(planned, options.job, options.out, outside)
    outside.reporter.say(listed.describe())
    units = sorted(listed.units, key=lambda unit: -listed.seconds[unit.seed])  # the longest first
    shown = [{"source": unit.source, "seconds": round(listed.seconds[unit.seed], 2)} for unit in units]
    show_json({"job": listed.job, "whole": listed.whole, "units": shown})


def declare_audit(parser: Parser) -> None:
    parser.add_path("wheels", "WHEEL", "a wheel file; default: all of the plan's wheels beside --plan", nargs="*")
    fitting = parser.add_mutually_exclusive_group()
    fitting.add_argument("--config", type=Path, metavar="FILE", help="the fatwheel.yml whose plan the wheels must fit")
    text = "the plan.json that the wheels must fit; nothing of the project is run"
    fitting.add_argument("--plan", type=Path, metavar="FILE", help=text)
    add_trust(parser)
    add_format(parser, "json")


def run_audit(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.model.files import Level
    from ci_tools.plan import make, plan_reader
    from ci_tools.verify import files

    plan = make.make_plan(options.config, outside).plan if options.config else None
    plan = plan_reader.read(options.plan) if options.plan else plan
    beside = files.find_planned_files(plan, options.plan.parent) if plan and options.plan else ()
    named = options.wheels or beside
    if not named:
        msg = "there is nothing to audit: no wheel is named, and no wheel of a --plan is beside it"
        raise InputError(msg, hint="name wheels, or a --plan in the folder of its wheels")
    findings = files.audit_files(named, plan, outside)
    is_good = all(finding.level is not Level.ERROR for finding in findings)  # warnings do not fail it
    if options.format == "json":
        show_json([finding._asdict() for finding in findings])
    else:
        show(findings_table(findings, len(named)))
        config = options.config or (Path(plan.request.config) if plan else None)
        say_next(after_audit(named, config if config and config.is_file() else None, is_good=is_good), outside)
    if steps.is_on(outside.environ):  # in GitHub Actions, errors are also shown as annotations
        files.refuse_findings(findings, plan)
    return DONE if is_good else BAD


def declare_report(parser: Parser) -> None:
    text = "the folder of a build, or the logs/JOB.trace.json of one of its jobs; default: dist; a second is compared"
    parser.add_path("builds", "DIR|FILE", text, nargs="*")
    parser.add_path("--html", "FILE", "write a page with a chart of each job")
    parser.add_path("--trace", "FILE", "write one trace of all their jobs, for ui.perfetto.dev or chrome://tracing")
    add_format(parser, "json")


def run_report(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.build.times.chart import write_chart
    from ci_tools.build.times.trace import dump, find_jobs
    from ci_tools.cli.tables.times import times_tables, times_values
    from ci_tools.machine.storage import write_atomically

    builds = {str(place): find_jobs(place) for place in options.builds or [Path("dist")]}
    if len(builds) > MOST_COMPARED:
        raise InputError(f"{len(options.builds)} builds are named, expected one, or two to compare")
    named = [(f"{place}: " if len(builds) > 1 else "", job) for place, found in builds.items() for job in found]
    jobs = [job._replace(name=f"{place}{job.name}") for place, job in named]
    for path, write in ((options.html, write_chart), (options.trace, dump)):  # both may be asked for
        if path:
            with write_atomically(path) as file:
                file.write(write(jobs))
            outside.reporter.say(f"{path} is written")
    show_as(options.format, times_tables(builds), times_values(builds))


def declare_validate(parser: Parser) -> None:
    text = "a wheel file; default: those that the --site tries, beside the --plan"
    parser.add_path("wheels", "WHEEL", text, nargs="*")
    parser.add_path("--config", "FILE", "the fatwheel.yml that says what must work")
    parser.add_argument("--python", metavar="VERSION", help="the Python to install into; default: this one")
    parser.add_path("--plan", "FILE", "the plan.json whose --site this machine is, in the folder of the wheels")
    text = "the site of the plan that this machine is; it says which files are tried, and with which Python"
    text += "; several by their numbers in the plan, each with this option"
    parser.add_argument("--site", type=parse_nonempty, action="append", default=[], metavar="NAME", help=text)
    add_trust(parser)


def run_validate(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.plan import plan_reader
    from ci_tools.verify import files

    if bool(options.plan) != bool(options.site):
        raise InputError("--plan and --site go together: the plan says what is tried at which place")
    if options.plan and (options.wheels or options.python):
        raise InputError("--site says what is tried and with which Python, expected no WHEEL or --python beside it")
    if not (options.plan or options.wheels):
        raise InputError("no wheel is named", hint="`fatwheel validate dist/*.whl` tries those of a folder")
    plan = plan_reader.read(options.plan) if options.plan else None
    trials = _tried_at_sites(plan, options, outside) if plan else _validate_here(options, outside)
    show(trials_table(trials))
    files.refuse_failures(trials, plan if steps.is_on(outside.environ) else None)
    say_next(after_validation(options.wheels or [options.plan.parent / name for name in trials]), outside)


def _tried_at_sites(plan: Plan, options: argparse.Namespace, outside: Outside) -> Mapping[str, Sequence[Trial]]:
    """Validate the files of some sites of the plan; the source is used only for its scripts or to build the sdist."""
    from ci_tools.plan import make, plan_file
    from ci_tools.verify import files

    path = options.config or plan_file.config_of(options.plan)
    return files.validate_sites(
        [_site(plan, word) for word in options.site],
        plan,
        options.plan.parent,
        outside,
        lambda: make.make_plan(path, outside, pinned=options.plan),  # only for the sdist, or scripts
    )


def _site(plan: Plan, word: str) -> Site:
    """Return the site with a name or number; raise InputError if there is none."""
    sites = {site.name: site for site in plan.sites}
    known = {**{str(number): site for number, site in enumerate(plan.sites)}, **sites}  # a matrix names sites by number
    if word not in known:
        raise InputError(f'--site: the plan has no site "{word}", {nearest(word, sites)}')
    return known[word]


def _validate_here(options: argparse.Namespace, outside: Outside) -> Mapping[str, Sequence[Trial]]:
    from ci_tools import catalog
    from ci_tools.cli.values import read_python
    from ci_tools.config import loader
    from ci_tools.plan import make
    from ci_tools.verify import files

    request = loader.load(options.config, catalog.load(), outside=outside) if options.config else None
    python = read_python(options.python, request.catalog if request else ()) if options.python else None
    root = make.place_of_scripts(request, options.config, outside) if request else None
    return files.validate_files(options.wheels, request, files.Here(python, root), outside)


def declare_verify(parser: Parser) -> None:
    parser.add_argument("wheel", metavar="WHEEL", help="the wheel: a file, or the address of one in any index")
    text = "the repository of its source, or of its recipe, or a folder with a clone; default: what the wheel states"
    parser.add_text("--source", "ADDRESS", text)
    parser.add_path("--config", "FILE", "the config of a wheel whose source is fetched, such as a recipe's")
    text = "where the remake goes, with what is found, as JSON in verdicts/; default: it is kept only if it differs"
    parser.add_path("--out", "DIR", text)
    text = "the wheel's attestation, a bundle of Sigstore's; default: what GitHub keeps of it"
    parser.add_path("--bundle", "FILE", text)
    add_trust(parser)
    add_format(parser, "json")


def run_verify(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.formats.markdown import one_line
    from ci_tools.machine.workplace import scratch
    from ci_tools.verify.remake import report
    from ci_tools.verify.remake.replay import Named
    from ci_tools.verify.remake.wheel_file import fetch_wheel

    with scratch() as folder:
        path = fetch_wheel(options.wheel, folder, outside)
        named = Named(options.source or "", options.config)
        verdict = report.verify(path, named, options.bundle, outside, address=options.wheel)
    if options.out:
        report.keep(verdict, options.out)  # also one that is the same: the verdict is the record
    if options.format == "json":
        show_json(report.to_json(verdict))
    else:
        print(*(plain(one_line(line)) for line in report.list_lines(verdict)), sep="\n")
    if verdict.is_same:  # one that differs is kept, to be looked at
        report.forget(verdict)
    return DONE if verdict.is_same else BAD
