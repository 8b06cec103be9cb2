"""The verbs about plans: init, plan, advise and evidence."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import Parser, add_config, add_edition, add_format, parse_minor
from ci_tools.cli.next_command import after_advice, after_plan, say_next
from ci_tools.cli.tables.layout import show
from ci_tools.errors import DONE, InputError, LeftUndone, TagError
from ci_tools.machine.python import find

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside
    from ci_tools.model.plan import Plan
    from ci_tools.plan.advise.advice import Advised
    from ci_tools.plan.make import Planned
    from ci_tools.verify.patches import Patched


def declare_init(parser: Parser) -> None:
    text = "the project; default: this folder, or the nearest above with a pyproject.toml or setup.py"
    parser.add_path("folder", "DIR", text, nargs="?")
    text = "the package to write for, by its name or folder, where the source has several"
    parser.add_text("--package", "NAME", text)
    text = "the torch to begin with; default: the newest that serves most of the project's Pythons"
    parser.add_argument("--torch", type=parse_minor, metavar="VERSION", help=text)
    text = "write for an sdist on the package index instead: its newest final version, or the one named"
    parser.add_text("--sdist", "NAME[==VERSION]", text)
    text = "ask for what the workflows that call pytorch/test-infra do, these or all, and report on each input"
    parser.add_path("--from-test-infra", "WORKFLOW", text, nargs="*", action="extend")
    text = "let PyPI have an sdist with which `pip install` finds the release's wheel that fits"
    parser.add_flag("--smart-install", text)
    text = "write the workflow that builds on GitHub instead, for the config that is here: .github/workflows/wheels.yml"
    parser.add_flag("--workflow", text)


def run_init(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools import catalog
    from ci_tools.cli.tables.change import describe_starter
    from ci_tools.cli.values import find_project
    from ci_tools.config import starter
    from ci_tools.config.starter.sdist_choice import choose_sdist

    folder = options.folder or (Path() if options.sdist else find_project(outside))  # without a project
    if options.from_test_infra is not None:
        _refuse_beside(options, "--from-test-infra writes what the workflows ask for")
        _move(folder, options.from_test_infra, outside)
        return
    if options.workflow:
        _refuse_beside(options, "--workflow calls by the config that is here")
        _call_from_github(options, outside)
        return
    written = starter.write(
        folder,
        catalog.load(),
        outside,
        package=options.package or "",
        torch=options.torch,
        smart=options.smart_install,
        sdist=choose_sdist(options.sdist, outside) if options.sdist else None,
    )
    print(written.path)
    for line in describe_starter(written):
        outside.reporter.say(line)
    if not options.sdist:
        outside.reporter.say("  to build it on GitHub: `fatwheel init --workflow` writes the workflow to commit")
    named = [str(written.path)] if written.path.parent != Path() else []  # else the command finds it by itself
    outside.reporter.say(f"next: look through {written.path}, then run `{shlex.join(['fatwheel', 'plan', *named])}`")


def _call_from_github(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.values import find_config
    from ci_tools.config.calling_workflow import write_caller

    options.config = options.folder
    print(write_caller(find_config(options, outside)))
    outside.reporter.say("next: put Fatwheel's repository and commit into it, commit it, and run `fatwheel doctor`")


def _refuse_beside(options: argparse.Namespace, why: str) -> None:
    """Raise InputError for options of a new config, where none is made of the source."""
    names = ("smart_install", "package", "torch", "sdist")
    said = {f"--{name.replace('_', '-')}": getattr(options, name) for name in names}
    if given := next((name for name, value in said.items() if value), None):
        msg = f"{given} is for a new config, and {why}"
        hint = "add `publish: { pypi: smart }` to what it writes" if given == "--smart-install" else ""
        raise InputError(msg, hint=hint)


def _move(folder: Path, workflows: Sequence[Path], outside: Outside) -> None:
    """Write a config and a workflow with what the callers of test-infra ask for, and report on each input."""
    from ci_tools import catalog
    from ci_tools.cli.tables.change import move_table
    from ci_tools.config.test_infra import migration

    written = migration.write_from_test_infra(folder, workflows, catalog.load(), outside.environ)
    show([move_table(written.rows)], on_stderr=True)
    print(*written.paths, sep="\n")
    outside.reporter.say(f"wrote both; do what needs you, then run `fatwheel plan {written.paths[0]}`")


def declare_plan(parser: Parser) -> None:
    add_config(parser)
    parser.add_flag("--explain", "give every cell a line, and all of the evidence")
    forms = "a table, JSON, a workflow's outputs, or the text of a comment"
    add_format(parser, "json", "github", "markdown", forms=forms)
    parser.add_argument("--only", metavar="PLATFORM", help="show only this platform")
    parser.add_path("--out", "FILE", "write the whole plan to this file as JSON as well")
    add_edition(parser)
    parser.add_text("--package", "NAME", "the expected project name: fail if the config names a different one")
    text = "a target of the release in place of the config's: fail now if it is invalid"
    parser.add_text("--to", "TARGET", text, many=True)
    parser.add_flag("--distant", "fail if such a target is a folder: it would be lost with the machine that publishes")
    parser.add_flag("--ask-targets", "ask the targets whether they already have the version, and report it")
    parser.add_flag("--prove", "also build what the plan calls redundant, as far as this machine can, and compare")
    text = "also show the differences from the plan of a git revision such as main, a plan.json, or a release's folder"
    parser.add_text("--against", "REV", text)


def run_plan(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.build.containers.engines import foretell_levels
    from ci_tools.cli.tables.change import describe_cost
    from ci_tools.cli.values import find_config, narrow, share
    from ci_tools.machine.storage import write_atomically
    from ci_tools.plan import plan_file
    from ci_tools.plan.matrix import list_runners

    _refuse_contradictions(options)
    if options.to:
        from ci_tools.publish.targets import addresses

        addresses.refuse_wrong(options.to, distant=options.distant)
    path = find_config(options, outside)
    planned = _make_plan(options, path, outside)
    _refuse_another(planned.plan, options.package)
    if options.out:
        if options.out.is_dir():  # before anything is written
            raise InputError(f"--out: {options.out} is a folder, expected a file such as plan.json")
        with write_atomically(options.out) as file:
            file.write(plan_file.dumps(planned.plan).encode())
    if options.ask_targets:
        _ask_targets(planned.plan, outside)
    if options.against:
        _compare(planned, path, options, outside)
        return DONE
    narrowed = share if options.format == "github" else narrow  # a workflow leaves what has its own
    planned = planned._replace(plan=narrowed(planned.plan, options.only))
    if options.format == "table" and not options.explain:
        outside.reporter.say(describe_cost(list_runners(planned.plan, planned.catalog.tables["minutes"]["jobs"])))
        for line in foretell_levels(planned.plan.jobs, planned.catalog, outside):
            outside.reporter.say(line)
    if options.prove:
        return _prove(planned, options, outside)
    if options.explain and options.format == "table":
        from ci_tools.cli.tables.plan import request_table
        from ci_tools.config.location import describe

        show(request_table(describe(path), options.variables, planned.plan.request))
    _print_plan(planned, options.format, outside, explain=options.explain)
    say_next(after_plan(planned, options, partial(find, environ=outside.environ)), outside)
    return DONE


def _make_plan(options: argparse.Namespace, path: Path, outside: Outside) -> Planned:
    """Make the plan; raise LeftUndone if the ref is a tag of another config of the repository."""
    from ci_tools.cli.values import make_plan
    from ci_tools.plan import make
    from ci_tools.plan.claims import find_owner

    tag = make.resolve_tag(options.ref, path, outside) if options.ref else ""
    if tag and (owner := find_owner(path, tag, outside)):
        raise _leave(tag, owner, path, options)
    try:
        return make_plan(options, path, outside, targets=options.to)
    except TagError as error:
        named = tag or options.tag
        # Some projects take their version from the tag: only a plan of their own shows whether this is one.
        owner = named and find_owner(path, named, outside, lambda one: make.make_plan(one, outside, tag=named))
        if not owner:
            raise
        if not tag:  # a person named it for this config
            raise TagError(error.message, hint=f"it is a tag of {owner}") from error
    raise _leave(tag, owner, path, options)


def _leave(tag: str, owner: str, path: Path, options: argparse.Namespace) -> LeftUndone:
    """Return the error that leaves a tag to the config it belongs to, and print the outputs of an empty plan."""
    from ci_tools.cli.values import outputs
    from ci_tools.plan import matrix

    why = " ".join(f"the tag {tag} is of {owner}, and {path} has nothing to release at it".split())
    if options.format == "github":
        print(outputs(matrix.no_outputs(why)), end="")
    return LeftUndone(why)


def _refuse_contradictions(options: argparse.Namespace) -> None:
    """Raise InputError for options that do not go together."""
    if options.prove and options.format in {"github", "markdown"}:
        raise InputError(f"--prove: --format {options.format} holds no proof, expected --format table or json")
    if options.against and (options.prove or options.only):
        raise InputError("--against compares whole plans, expected no --prove or --only beside it")


def _ask_targets(plan: Plan, outside: Outside) -> None:
    """Report the targets that already have files of this version; a commit without its tag releases nothing.

    Raises InputError if no target of a smart release gives its wheels an address for users.
    """
    from ci_tools.catalog.targets import is_local
    from ci_tools.model.request import UNTAGGED
    from ci_tools.plan import plan_file
    from ci_tools.publish import foresight
    from ci_tools.publish.smart import refuse_unreachable
    from ci_tools.publish.targets.addresses import targets_of

    if plan.edition == UNTAGGED:  # it publishes nothing
        return
    addresses = plan_file.targets(plan)
    core = foresight.core_of(plan, plan.edition)
    refuse_unreachable(core, targets_of(addresses, outside), outside.reporter.say)
    distant = [address for address in addresses if not is_local(address)]  # a folder there is not this machine's
    foresight.report_existing(core, targets_of(distant, outside), outside.reporter.say)


def _refuse_another(plan: Plan, package: str | None) -> None:
    from packaging.utils import canonicalize_name

    if package and canonicalize_name(package) != canonicalize_name(plan.project.name):  # as PEP 503 compares
        raise InputError(f'--package: the config names "{plan.project.name}", not "{package}"')


def _prove(planned: Planned, options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.cli.tables.plan import proof_table
    from ci_tools.plan import plan_file
    from ci_tools.verify import prover

    if options.format == "table":  # before the proof, which takes minutes
        _print_plan(planned, options.format, outside, explain=options.explain)
    proofs = prover.prove(planned, outside)
    status = prover.status(proofs)
    if options.format == "table":
        show(proof_table(proofs, planned.plan))
        if status == DONE:
            say_next(after_plan(planned, options, partial(find, environ=outside.environ)), outside)
    else:
        whole = {**plan_file.to_json(planned.plan), "proof": prover.to_json(proofs)}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
    return status


def _compare(planned: Planned, path: Path, options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli import pages
    from ci_tools.cli.tables.change import comparison_tables
    from ci_tools.cli.values import outputs
    from ci_tools.plan import matrix, plan_file
    from ci_tools.plan.compare import baseline, sentences
    from ci_tools.publish import folder

    if folder.is_plan(Path(options.against)):  # a revision may be named like a folder: the folder wins
        found = folder.compare_folders(folder.Finished(planned.plan, {}), Path(options.against))
    else:
        found = baseline.compare_with_revision(planned, path, options.against, outside)
    if options.format == "github":
        compared = {"base": options.against, "changed": json.dumps(not (found.is_same and found.same_source))}
        print(outputs({**matrix.outputs(plan_file.together(planned.plan)), **compared}), end="")
    elif options.format == "json":
        whole = {**plan_file.to_json(planned.plan), "comparison": sentences.to_json(found)}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
    elif options.format == "markdown":
        shared = plan_file.together(planned.plan)
        print(pages.plan_page(shared, found, most=pages.MAX_COMMENT), end="")
    else:
        _print_plan(planned, options.format, outside, explain=options.explain)
        show(comparison_tables(found))


def _print_plan(planned: Planned, form: str, outside: Outside, *, explain: bool) -> None:
    plan = planned.plan
    if form == "markdown":
        from ci_tools.cli import pages

        print(pages.plan_page(plan, most=pages.MAX_COMMENT), end="")
        return
    if form != "table":
        from ci_tools.cli.values import outputs
        from ci_tools.plan import matrix, plan_file

        print(plan_file.dumps(plan) if form == "json" else outputs(matrix.outputs(plan)), end="")
        return
    from ci_tools.build.units.forecast import forecast
    from ci_tools.build.units.launchers import find_store
    from ci_tools.cli.tables import plan as tables
    from ci_tools.cli.tables.change import cost_table
    from ci_tools.plan.matrix import list_runners

    show(tables.plan_tables(plan, explain=explain), is_page=not explain)
    if explain:
        show(tables.units_table(forecast(plan, planned.tree, find_store(outside))))
        from ci_tools.build import headers, room
        from ci_tools.plan.advise.option import ProjectView
        from ci_tools.plan.advise.source_options import list_needless

        show(cost_table(list_runners(plan, planned.catalog.tables["minutes"]["jobs"])))
        show(tables.batch_table(plan))
        show(tables.shard_table(plan))
        show(tables.needless_table(list_needless(ProjectView(plan, planned.evidence, planned.tree))))
        includes = headers.all_includes(planned.tree)
        show(tables.parts_table(room.list_parts(plan.jobs, includes, torch=plan.request.build.torch)))
        show(tables.evidence_table(planned.evidence, plan))


def declare_evidence(parser: Parser) -> None:
    add_config(parser)


def run_evidence(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.values import find_config
    from ci_tools.plan import make, plan_file

    planned = make.make_plan(find_config(options, outside), outside)
    print(plan_file.evidence_json(planned.evidence, planned.plan), end="")


def declare_advise(parser: Parser) -> None:
    add_config(parser)
    add_format(parser, "json", "diff", forms="a table, JSON, or all patches as one diff for `git apply`")
    text = "the folder with receipts of earlier builds, which have time and size; default: %(default)s"
    parser.add_path("--out", "DIR", text, default=Path("dist"))
    parser.add_flag("--prove", "apply each patch to a copy, plan again, and build and try what this machine can")


def run_advise(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.cli.tables.change import advice_tables, cost_table, patch_proof_table
    from ci_tools.plan.matrix import list_runners
    from ci_tools.verify import patches

    planned, advised, patched = _find_advice(options, outside)
    limits = planned.catalog.tables["minutes"]["jobs"]
    now, later = (list_runners(plan, limits) for plan in (planned.plan, advised.smaller or planned.plan))
    if options.format == "table":
        show(advice_tables(planned.plan, advised, patched))
        show(cost_table(now, later) if later != now else ())
    proofs = patches.prove(planned, patched, outside) if options.prove else None
    if options.format == "diff":
        print(patches.patch_of_all(planned, patched), end="")
    elif options.format == "json":
        runners = {"before": [one._asdict() for one in now], "after": [one._asdict() for one in later]}
        value = {**patches.to_json(advised, patched, proofs), "runners": runners}
        print(json.dumps(value, indent=1, ensure_ascii=False))
    elif proofs is not None:
        show(patch_proof_table(proofs))
    status = patches.status(proofs or ())
    if options.format == "table" and status == DONE and patches.patch_of_all(planned, patched):
        say_next(after_advice(options), outside)
    return status


def _find_advice(options: argparse.Namespace, outside: Outside) -> tuple[Planned, Advised, tuple[Patched, ...]]:
    """Return the plan of a config and the advice for it; of a refused plan, what mends it, and the plan with that."""
    from ci_tools.cli.values import find_config
    from ci_tools.errors import RejectedInput
    from ci_tools.plan import make
    from ci_tools.verify import patches

    path = find_config(options, outside)
    try:
        planned = make.make_plan(path, outside)
    except RejectedInput as error:
        found = None if options.prove else patches.find_mends(path, outside)  # which builds jobs, and mends have none
        if found is None:
            raise
        outside.reporter.say(f"the plan is refused: {error.message}")
        return found
    return planned, *patches.consult(planned, options.out, outside)
