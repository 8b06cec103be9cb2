"""The verbs about plans: init, plan, summary, evidence and advise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from ci_tools import catalog
from ci_tools.cli.tables.change import advice_tables, comparison_tables, move_table, patch_proof_table
from ci_tools.cli.tables.layout import show
from ci_tools.cli.tables.plan import evidence_table, plan_tables, proof_table
from ci_tools.cli.values import DONE, make_plan, narrow, outputs, share
from ci_tools.config import migration, starter
from ci_tools.errors import InputError
from ci_tools.machine.storage import write_atomically
from ci_tools.model.request import UNTAGGED
from ci_tools.plan import make, matrix, plan_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ci_tools.machine.context import Outside
    from ci_tools.model.plan import Plan
    from ci_tools.plan.make import Planned

    Verb = Callable[[argparse.Namespace, Outside], int]


def run_init(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel init`."""
    if options.from_test_infra:
        written = migration.write_from_test_infra(
            options.folder, options.from_test_infra, catalog.load(), outside.environ
        )
        show([move_table(written.rows)], on_stderr=True)
        print(*written.paths, sep="\n")
        outside.reporter.say(f"wrote both; do what needs you, then run `fatwheel plan {written.paths[0]}`")
        return DONE
    path = starter.write(options.folder, catalog.load(), outside.environ)
    print(path)
    outside.reporter.say(f"wrote {path}; look through it, then run `fatwheel plan {path}`")
    return DONE


def run_plan(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel plan`."""
    if options.prove and options.format in {"github", "markdown"}:
        msg = f"--prove: --format {options.format} holds no proof, expected --format table or json"
        raise InputError(msg)
    if options.against and (options.prove or options.only):
        msg = "--against compares whole plans, expected no --prove or --only beside it"
        raise InputError(msg)
    if options.to:
        from ci_tools.publish.targets import addresses

        addresses.refuse_wrong(options.to, distant=options.distant)
    planned = make_plan(options, options.config, outside)
    _refuse_another(planned.plan, options.package)
    text = plan_file.dumps(planned.plan)
    if options.out:
        if options.out.is_dir():
            msg = f"--out: {options.out} is a folder, expected a file such as plan.json"
            raise InputError(msg)
        with write_atomically(options.out) as file:
            file.write(text.encode())
    if options.ask_targets:
        _say_held(planned.plan, outside)
    if options.against:
        return _compare(planned, options, outside)
    narrowed = share if options.format == "github" else narrow
    planned = planned._replace(plan=narrowed(planned.plan, options.only))
    if options.prove:
        return _prove(planned, options, outside)
    _print_plan(planned, options.format, explain=options.explain)
    return DONE


def _say_held(plan: Plan, outside: Outside) -> None:
    """Report the targets that already have files of this version; a commit without its tag releases nothing."""
    from ci_tools.publish import foresight, publishing
    from ci_tools.publish.targets.addresses import targets_of

    addresses = [address for address in plan.request.publish.targets if not address.startswith(publishing.LOCAL)]
    addresses += ["pypi"] if plan_file.pypi_files(plan) else []
    if plan.edition != UNTAGGED:
        core = foresight.core_of(plan, plan.edition)
        foresight.report_existing(core, targets_of(dict.fromkeys(addresses), outside), outside.reporter.say)


def _refuse_another(plan: Plan, package: str | None) -> None:
    if package and canonicalize_name(package) != canonicalize_name(plan.project.name):
        msg = f'--package: the config names "{plan.project.name}", not "{package}"'
        raise InputError(msg)


def _prove(planned: Planned, options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.verify import prover

    if options.format == "table":
        _print_plan(planned, options.format, explain=options.explain)
    proofs = prover.prove(planned, outside)
    if options.format == "table":
        show(proof_table(proofs, planned.plan))
    else:
        whole = {**plan_file.to_json(planned.plan), "proof": prover.to_json(proofs)}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
    return prover.status(proofs)


def _compare(planned: Planned, options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.cli import pages
    from ci_tools.plan.compare import baseline, sentences
    from ci_tools.publish import folder

    if folder.is_plan(Path(options.against)):
        found = folder.compare_folders(folder.Finished(planned.plan, {}), Path(options.against))
    else:
        found = baseline.compare_with_revision(planned, options.config, options.against, outside)
    if options.format == "github":
        compared = {"base": options.against, "changed": json.dumps(found.is_change)}
        print(outputs({**matrix.outputs(plan_file.together(planned.plan)), **compared}), end="")
    elif options.format == "json":
        whole = {**plan_file.to_json(planned.plan), "comparison": sentences.to_json(found)}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
    elif options.format == "markdown":
        shared = plan_file.together(planned.plan)
        print(pages.plan_page(shared, found, most=pages.MOST_OF_A_COMMENT), end="")
    else:
        _print_plan(planned, options.format, explain=options.explain)
        show(comparison_tables(found))
    return DONE


def run_summary(options: argparse.Namespace, outside: Outside) -> int:  # noqa: ARG001 - a verb
    """Run `fatwheel summary`."""
    from ci_tools.cli import pages
    from ci_tools.publish import folder

    found = folder.read(options.path, options.only or "")
    change = folder.compare_folders(found, options.against) if options.against else None
    if options.path.is_dir():
        print(pages.release_page(found, change), end="")
    else:
        print(pages.plan_page(found.plan, change), end="")
    return DONE


def _print_plan(planned: Planned, form: str, *, explain: bool) -> None:
    plan = planned.plan
    if form == "markdown":
        from ci_tools.cli import pages

        print(pages.plan_page(plan, most=pages.MOST_OF_A_COMMENT), end="")
        return
    if form != "table":
        print(plan_file.dumps(plan) if form == "json" else outputs(matrix.outputs(plan)), end="")
        return
    show(plan_tables(plan, explain=explain))
    if explain:
        show(evidence_table(planned.evidence, plan))


def run_evidence(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel evidence`."""
    planned = make.make_plan(options.config, outside)
    print(plan_file.evidence_json(planned.evidence, planned.plan), end="")
    return DONE


def run_advise(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel advise`."""
    from ci_tools.verify import patches

    planned = make.make_plan(options.config, outside)
    advised, patched = patches.consult(planned, options.out)
    if options.format == "table":
        show(advice_tables(planned.plan, advised, patched))
    proofs = patches.prove(planned, patched, outside) if options.prove else None
    if options.format == "diff":
        print(patches.patch_of_all(planned, patched), end="")
    elif options.format == "json":
        print(json.dumps(patches.to_json(advised, patched, proofs), indent=1, ensure_ascii=False))
    elif proofs is not None:
        show(patch_proof_table(proofs))
    return patches.status(proofs or ())
