"""The verbs of the command line: each parses its options, calls one function and prints the result."""

from __future__ import annotations

import io
import json
import os
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from packaging.utils import canonicalize_name
from rich.console import Console
from rich.text import Text

from ci_tools import catalog
from ci_tools.cli import tables
from ci_tools.cli.arguments import parser
from ci_tools.config import loader, migration, starter
from ci_tools.errors import FatwheelError, InputError, LeftUndone, MachineError, nearest
from ci_tools.github import commands
from ci_tools.github import step as steps
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import NO_ROOM, cache_folder, write_atomically
from ci_tools.machine.workplace import scratch
from ci_tools.model import edition
from ci_tools.model.files import Level
from ci_tools.model.platforms import Platform
from ci_tools.model.request import UNTAGGED, Run
from ci_tools.plan import make, matrix, plan_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ci_tools.model.files import Trial
    from ci_tools.model.plan import Plan, Site
    from ci_tools.model.request import Edition
    from ci_tools.model.versions import Python
    from ci_tools.plan.make import Planned
    from ci_tools.publish.index.maintain import Flaw
    from ci_tools.publish.index.wheel_index import WheelIndex

    Verb = Callable[[argparse.Namespace, Outside], int]

__all__ = ["main"]

DONE, BAD = 0, 1  # the other exit statuses belong to the errors
INTERRUPTED = 130  # 128 + SIGINT, as in shells
LITTLE = 1 << 20  # bytes: a disk with less free space counts as full
STDOUT = "standard output"
TEMPORARY = "TMPDIR"  # the variable for the folder of temporary files (POSIX); Python reads it on every system


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 1 rejected, 2 wrong input, 3 machine failure."""
    stderr = Console(stderr=True)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _own_temporary():
            return _run(stderr, arguments)
    except FatwheelError as error:
        return _print_error(stderr, error)
    except KeyboardInterrupt:
        stderr.print("interrupted; the same command goes on where this one stopped", highlight=False)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_stdout()
        return DONE
    except OSError as error:
        return _print_error(stderr, _explain_os_error(error))


def _run(stderr: Console, arguments: Sequence[str] | None) -> int:
    options = parser().parse_args(arguments)
    status = VERBS[options.verb](options, _outside(stderr, options))
    _flush_stdout()  # here, where a full disk is still reported as such
    return status


@contextmanager
def _own_temporary() -> Iterator[None]:
    """Put all temporary files of this run and its commands into one folder, which the next run can remove.

    If no such folder can be created, the run goes on; a verb that needs one will report that.
    """
    before, known = tempfile.tempdir, os.environ.get(TEMPORARY)
    with ExitStack() as stack:
        with suppress(OSError, MachineError):
            tempfile.tempdir = os.environ[TEMPORARY] = str(stack.enter_context(scratch()))
        try:
            yield
        finally:
            tempfile.tempdir = before
            os.environ.pop(TEMPORARY, None)
            os.environ.update({TEMPORARY: known} if known is not None else {})


def _flush_stdout() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        error.filename = STDOUT
        raise


def _explain_os_error(error: OSError) -> MachineError:
    """Return an error for the failed system call, with the file or the full disk that it failed on."""
    place = error.filename2 or error.filename
    if not place and error.errno in NO_ROOM:
        place = _full_disks()
    if place and STDOUT in place:
        _drop_stdout()
    said = f"{error.strerror or error}{f' ({place})' if place else ''}"
    cache = cache_folder(os.environ)
    # If a folder cannot be created, the system names the topmost missing folder above it.
    if place and error.errno not in NO_ROOM and _is_beside(Path(str(place)).absolute(), cache):
        msg = f"the cache {cache} cannot be used: {said}"
        return MachineError(msg, hint="let FATWHEEL_CACHE name a folder that is yours and can be written")
    return MachineError(said, hint="mend it and run the same command again")


def _is_beside(place: Path, cache: Path) -> bool:
    """Whether a path is the cache, lies in it, or contains it."""
    return place.is_relative_to(cache) or cache.is_relative_to(place)


def _drop_stdout() -> None:
    """Discard the unprinted output: otherwise Python would try again to write it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _full_disks() -> str:
    """Return the folders that this command writes to and that have no free space left."""
    folders = dict.fromkeys((Path.cwd(), cache_folder(os.environ), Path(tempfile.gettempdir())))
    full = [str(folder) for folder in folders if folder.exists() and shutil.disk_usage(folder).free < LITTLE]
    return " or ".join(full) or f"{STDOUT}, or a file that the system does not name"


def _interrupt(*_: object) -> NoReturn:
    """Handle SIGTERM like Ctrl-C, so that unfinished work is cleaned up."""
    raise KeyboardInterrupt


def _print_error(stderr: Console, error: FatwheelError) -> int:
    with _inert(os.environ):
        text = Text(tables.plain(f"fatwheel: {error}"), style="red" if stderr.is_terminal and error.status else "")
        stderr.print(text, soft_wrap=True)
    for line in commands.annotations_of(error) if steps.is_on(os.environ) else ():
        print(line, file=sys.stderr)
    return error.status


@contextmanager
def _inert(environ: Mapping[str, str]) -> Iterator[None]:
    """Stop GitHub from reading workflow commands in the output: much of it is untrusted text of a project."""
    token = secrets.token_hex(16) if steps.is_on(environ) else ""
    if token:
        print(commands.stop(token), file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if token:
            print(commands.resume(token), file=sys.stderr, flush=True)


def _outside(stderr: Console, options: argparse.Namespace) -> Outside:
    return Outside(
        environ=os.environ,
        cache=cache_folder(os.environ),
        reporter=tables.Talk(stderr),
        trusts_source=getattr(options, "trust_source", False),
    )


# ---------------------------------------------------------------- verbs


def _init(options: argparse.Namespace, outside: Outside) -> int:
    if options.from_test_infra:
        written = migration.write_from_test_infra(
            options.folder, options.from_test_infra, catalog.load(), outside.environ
        )
        tables.show([tables.move_table(written.rows)], on_stderr=True)
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
    if options.to:
        from ci_tools.publish.targets import addresses

        addresses.refuse_wrong(options.to, distant=options.distant)
    planned = _make_plan(options, options.config, outside)
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
    narrowed = _share if options.format == "github" else _only
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
        foresight.say_held(core, targets_of(dict.fromkeys(addresses), outside), outside.reporter.say)


def _refuse_another(plan: Plan, package: str | None) -> None:
    if package and canonicalize_name(package) != canonicalize_name(plan.project.name):
        msg = f'--package: the config names "{plan.project.name}", not "{package}"'
        raise InputError(msg)


def _make_plan(options: argparse.Namespace, path: Path, outside: Outside) -> Planned:
    """Make the plan of the requested edition."""
    pinned = getattr(options, "plan", None)
    tag = options.tag or (make.resolve_tag(options.ref, path, outside) if options.ref else "")
    run = Run(tuple(options.torch), tuple(options.gpu_runner))
    return make.make_plan(path, outside, pinned=pinned, edition=_edition(options), tag=tag, run=run)


def _edition(options: argparse.Namespace) -> Edition | None:
    """Return the edition that the command line names; None if git determines it."""
    if options.nightly:
        return edition.nightly(options.nightly)
    return UNTAGGED if options.untagged else None


def _prove(planned: Planned, options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.verify import prover

    if options.format == "table":
        _print_plan(planned, options.format, explain=options.explain)
    proofs = prover.prove(planned, outside)
    if options.format == "table":
        tables.show(tables.proof_table(proofs, planned.plan))
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
        print(_outputs({**matrix.outputs(plan_file.together(planned.plan)), **compared}), end="")
    elif options.format == "json":
        whole = {**plan_file.to_json(planned.plan), "comparison": sentences.to_json(found)}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
    elif options.format == "markdown":
        shared = plan_file.together(planned.plan)
        print(pages.plan_page(shared, found, most=pages.MOST_OF_A_COMMENT), end="")
    else:
        _print_plan(planned, options.format, explain=options.explain)
        tables.show(tables.comparison_tables(found))
    return DONE


def _summary(options: argparse.Namespace, outside: Outside) -> int:  # noqa: ARG001 - a verb
    from ci_tools.cli import pages
    from ci_tools.publish import folder

    found = folder.read(options.path, options.only or "")
    change = folder.compare_folders(found, options.against) if options.against else None
    if options.path.is_dir():
        print(pages.release_page(found, change), end="")
    else:
        print(pages.plan_page(found.plan, change), end="")
    return DONE


def _only(plan: Plan, name: str | None) -> Plan:
    if name is None:
        return plan
    asked = [str(platform.platform) for platform in plan.request.platforms]
    if name not in asked:
        msg = f'the request has no platform "{name}", {nearest(name, asked)}'
        raise InputError(msg)
    return plan_file.only(plan, Platform(name))


def _print_plan(planned: Planned, form: str, *, explain: bool) -> None:
    plan = planned.plan
    if form == "markdown":
        from ci_tools.cli import pages

        print(pages.plan_page(plan, most=pages.MOST_OF_A_COMMENT), end="")
        return
    if form != "table":
        print(plan_file.dumps(plan) if form == "json" else _outputs(matrix.outputs(plan)), end="")
        return
    tables.show(tables.plan_tables(plan, explain=explain))
    if explain:
        tables.show(tables.evidence_table(planned.evidence, plan))


def _outputs(values: Mapping[str, str]) -> str:
    """Return the lines that a workflow step writes to $GITHUB_OUTPUT; every value is a single line."""
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _step(options: argparse.Namespace, outside: Outside) -> int:
    """Run the verb of a workflow step; its output becomes the step's outputs, its summary page, or its log."""
    today = datetime.now(timezone.utc).strftime("%Y%m%d")
    step = steps.step_of(options.name, outside.environ, today)
    files = [Path(_file_of(variable, outside.environ)) for variable in step.files]
    words = io.StringIO()
    undone: LeftUndone | None = None
    with _inert(outside.environ), redirect_stdout(words if files else sys.stderr):
        outside.reporter.say(f"$ {shlex.join(['fatwheel', *step.arguments])}")
        try:
            status = _run(Console(stderr=True), step.arguments)
        except LeftUndone as error:  # not a failure: the output is still written
            undone = error
    for path in files:
        with path.open("a", encoding="utf-8") as file:
            file.write(words.getvalue())
    if undone:
        raise undone
    return status


def _file_of(variable: str, environ: Mapping[str, str]) -> str:
    if not environ.get(variable):
        msg = f"{variable} names no file: `fatwheel step` is for steps of a workflow"
        raise InputError(msg)
    return environ[variable]


def _evidence(options: argparse.Namespace, outside: Outside) -> int:
    planned = make.make_plan(options.config, outside)
    print(plan_file.evidence_json(planned.evidence, planned.plan), end="")
    return DONE


def _advise(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.verify import patches

    planned = make.make_plan(options.config, outside)
    advised, patched = patches.consult(planned, options.out)
    if options.format == "table":
        tables.show(tables.advice_tables(planned.plan, advised, patched))
    proofs = patches.prove(planned, patched, outside) if options.prove else None
    if options.format == "diff":
        print(patches.patch_of_all(planned, patched), end="")
    elif options.format == "json":
        print(json.dumps(patches.to_json(advised, patched, proofs), indent=1, ensure_ascii=False))
    elif proofs is not None:
        tables.show(tables.patch_proof_table(proofs))
    return patches.status(proofs or ())


def _build(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.build import jobs
    from ci_tools.publish.release import say_clashes
    from ci_tools.verify.files import CHECKS

    path = options.config
    if options.plan and path == Path(loader.DEFAULT_NAME):
        path = plan_file.config_of(options.plan)
    if options.plan and (options.tag or options.nightly or options.ref or options.untagged):
        msg = "--plan says which edition is built, expected no --tag, --ref, --nightly or --untagged beside it"
        raise InputError(msg)
    if options.plan and (options.torch or options.gpu_runner):
        msg = "--plan says what its run asked for, expected no --torch or --gpu-runner beside it"
        raise InputError(msg)
    planned = _make_plan(options, path, outside)
    names, checks = options.job.split(","), CHECKS._replace(look=say_clashes(planned, outside))
    for made in jobs.build(planned, names, options.out, outside, checks, keep_going=options.keep_going):
        print(made.path)
    return DONE


def _prepare(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.machine import runner
    from ci_tools.plan import plan_reader

    host = runner.Host(
        environ=outside.environ,
        say=outside.reporter.say,
        call=runner.make_root_call(outside.cache / "prepare.log"),
        root=options.root,
    )
    runner.prepare(runner.care_of(plan_reader.read(options.plan), options.job.split(",")), host)
    return DONE


def _audit(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.plan import plan_reader
    from ci_tools.verify import files

    plan = make.make_plan(options.config, outside).plan if options.config else None
    plan = plan_reader.read(options.plan) if options.plan else plan
    beside = files.find_planned_files(plan, options.plan.parent) if plan and options.plan else ()
    named = options.wheels or beside
    if not named:
        msg = "there is nothing to audit: no wheel is named, and none of a --plan lies beside it"
        raise InputError(msg, hint="name wheels, or with --plan the plan that they lie beside")
    findings = files.audit_files(named, plan, outside)
    if options.format == "json":
        print(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        tables.show(tables.findings_table(findings, len(named)))
    if steps.is_on(outside.environ):  # in GitHub Actions, errors are also shown as annotations
        files.refuse_findings(findings, plan)
    return BAD if any(finding.level is Level.ERROR for finding in findings) else DONE


def _validate(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.plan import plan_reader
    from ci_tools.verify import files

    if bool(options.plan) != bool(options.site):
        msg = "--plan and --site go together: the plan says what is tried at which place"
        raise InputError(msg)
    if options.plan and (options.wheels or options.python):
        msg = "--site says what is tried and with which Python, expected no WHEEL or --python beside it"
        raise InputError(msg)
    if not (options.plan or options.wheels):
        msg = "no wheel is named"
        raise InputError(msg, hint="`fatwheel validate dist/*.whl` tries those of a folder")
    plan = plan_reader.read(options.plan) if options.plan else None
    trials = _tried_at_sites(plan, options, outside) if plan else _validate_here(options, outside)
    tables.show(tables.trials_table(trials))
    files.refuse_failures(trials, plan)
    return DONE


def _tried_at_sites(plan: Plan, options: argparse.Namespace, outside: Outside) -> Mapping[str, Sequence[Trial]]:
    """Validate the files of some sites of the plan; the source is used only for its scripts or to build the sdist."""
    from ci_tools.verify import files

    path = options.config or plan_file.config_of(options.plan)
    return files.validate_sites(
        [_site(plan, word) for word in options.site],
        plan,
        options.plan.parent,
        outside,
        lambda: make.make_plan(path, outside, pinned=options.plan),
    )


def _site(plan: Plan, word: str) -> Site:
    """Return the site with a name or number; raise InputError if there is none."""
    sites = {site.name: site for site in plan.sites}
    known = {**{str(number): site for number, site in enumerate(plan.sites)}, **sites}
    if word not in known:
        msg = f'--site: the plan has no site "{word}", {nearest(word, sites)}'
        raise InputError(msg)
    return known[word]


def _validate_here(options: argparse.Namespace, outside: Outside) -> Mapping[str, Sequence[Trial]]:
    from ci_tools.verify import files

    request = loader.load(options.config, catalog.load()) if options.config else None
    python = _python(options.python) if options.python else None
    root = make.place_of_scripts(request, options.config, outside) if request else None
    return files.validate_files(options.wheels, request, files.Here(python, root), outside)


def _verify_attestations(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.github import attestation

    for path in attestation.verify(options.folder, options.repository, options.signer, options.bundles, outside):
        print(path)
    return DONE


def _unattested(options: argparse.Namespace, outside: Outside) -> int:  # noqa: ARG001 - a verb
    from ci_tools.cli import pages
    from ci_tools.github import attestation

    print(pages.unattested_page(attestation.hold_to_receipts(options.folder)), end="")
    msg = f"no file of {options.folder} is attested: each is held against its receipt only"
    raise LeftUndone(msg)


def _gather(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish import assembly

    found = assembly.assemble(options.folders, options.plan, options.out, options.only or "", outside)
    if options.pypi:
        assembly.copy_for_pypi(found, options.pypi)
    if options.kept:
        assembly.copy_receipts(options.out, options.kept)
    if options.format == "github":
        print(_outputs(assembly.outputs(found)), end="")
    else:
        tables.show(tables.assembly_tables(found))
    return DONE


def _trials(options: argparse.Namespace, outside: Outside) -> int:  # noqa: ARG001 - a verb
    from ci_tools.plan import plan_reader
    from ci_tools.publish import gathering

    whole = plan_reader.read(options.plan)
    plan = _share(whole, options.only)
    found = matrix.trials(plan, gathering.built(options.folders, plan), whole)
    print(_outputs(found.outputs()), end="")
    if found.unbuilt:
        msg = f"there is no wheel of {', '.join(found.unbuilt)}, so none of its trials is started"
        raise LeftUndone(msg)
    return DONE


def _share(plan: Plan, only: str | None) -> Plan:
    """Return the part of a plan that one workflow builds: one platform, or all without a separate workflow."""
    return plan_file.own(_only(plan, only), Platform(only)) if only else plan_file.together(plan)


def _python(text: str) -> Python:
    known = {str(python): python for python in catalog.load().pythons}
    if text not in known:
        msg = f'--python: there is no Python "{text}" in the catalog, {nearest(text, known)}'
        raise InputError(msg)
    return known[text]


def _publish(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish import publishing

    to = publishing.Destination(
        tuple(options.to),
        also=tuple(options.also),
        only=options.only or "",
        released=options.released,
        distant=options.distant,
        unattested=options.unattested,
        replace=options.replace,
        uploader=options.uploader,
    )
    if options.dry_run:
        tables.show(tables.preview_tables(*publishing.preview(options.folder, to, outside)))
        return DONE
    outcome = publishing.publish(options.folder, to, outside)
    tables.show(tables.publication_tables(outcome.shown, outcome.withheld))
    return DONE


def _release(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish import release
    from ci_tools.publish.publishing import Destination

    planned = _make_plan(options, options.config, outside)
    tables.show(tables.plan_tables(planned.plan, explain=False))
    to = Destination(tuple(options.to), replace=options.replace, uploader=options.uploader)
    released = release.release(planned, to, options.out, outside, here=options.here)
    tables.show(tables.release_tables(released))
    if released.install:
        print(released.install)
    return DONE


def _index_adopt(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish.index import adoption
    from ci_tools.publish.targets.addresses import index_of

    index = index_of(options.target, outside)
    if not options.yes:
        outline = adoption.survey(index, options.project, outside)
        tables.show(tables.adoption_tables(outline, done=False))
        way = "the same command with --yes does it; nothing is changed yet"
        outside.reporter.say("all of it is adopted, there is nothing to do" if outline.is_done else way)
        return DONE
    tables.show(tables.adoption_tables(adoption.adopt(index, options.project, outside), done=True))
    return DONE


def _index_verify(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish.index import maintain
    from ci_tools.publish.index.maintain import mirrors

    flaws = _find_flaws(options.target, outside, lambda index: maintain.verify(index, outside))
    flaws += _compare_mirrors(options.target, outside, mirrors.differences)
    tables.show(tables.flaws_table(flaws))
    return BAD if flaws else DONE


def _find_flaws(target: str, outside: Outside, look: Callable[[WheelIndex], Sequence[Flaw]]) -> tuple[Flaw, ...]:
    """Return the flaws of an index and its mirrors; if there are mirrors, with the full address of each flaw."""
    from ci_tools.publish.targets.addresses import indexes_of

    indexes = indexes_of(target, outside)
    flaws = ((index, flaw) for index in indexes for flaw in look(index))
    return tuple(flaw._replace(key=index.store.url(flaw.key)) if indexes[1:] else flaw for index, flaw in flaws)


def _compare_mirrors(
    target: str, outside: Outside, look: Callable[[WheelIndex, WheelIndex], Sequence[Flaw]]
) -> tuple[Flaw, ...]:
    """Return the differences between an index and its mirrors."""
    from ci_tools.publish.targets.addresses import indexes_of

    first, *others = indexes_of(target, outside)
    return tuple(flaw for mirror in others for flaw in look(first, mirror))


def _index_repair(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish.index import maintain
    from ci_tools.publish.index.maintain import mirrors

    def mend(index: WheelIndex) -> Sequence[Flaw]:
        if options.undo:
            return maintain.undo_repair(index, outside)
        return maintain.repair(index, outside, remove_unlisted=options.remove_unlisted)

    flaws = _find_flaws(options.target, outside, mend)
    if not options.undo:
        flaws += _compare_mirrors(options.target, outside, partial(mirrors.copy_missing, outside=outside))
    tables.show(tables.flaws_table(flaws))
    return BAD if any(flaw.is_left for flaw in flaws) else DONE


def _index_add(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish.index.maintain import additions
    from ci_tools.publish.targets.addresses import indexes_of

    targets, folders = indexes_of(options.target, outside), (options.folder or "", tuple(options.also))
    addition = additions.Addition(tuple(options.files), *folders, frozenset(options.despite))
    if options.dry_run:
        changes, findings = additions.preview(targets, addition, outside)
        tables.show(tables.preview_tables(changes, ()))
    else:
        shown, findings = additions.add(targets, addition, outside)
        tables.show(tables.publication_tables(shown, ()))
    if findings:
        tables.show(tables.findings_table(findings, len(addition.files)))
    return DONE


def _index_pages(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish.index import release_pages

    for path in release_pages.write_pages(options.target, options.project, options.out, outside):
        print(path)
    return DONE


def _yank(options: argparse.Namespace, outside: Outside) -> int:
    return _mark(options, outside, options.reason)


def _unyank(options: argparse.Namespace, outside: Outside) -> int:
    return _mark(options, outside, None)


def _mark(options: argparse.Namespace, outside: Outside, reason: str | None) -> int:
    from ci_tools.publish.index import maintain
    from ci_tools.publish.targets.addresses import indexes_of

    indexes = indexes_of(options.target, outside)
    marked = {name: None for index in indexes for name in maintain.yank(index, options.release, reason)}
    for name in marked:
        print(name)
    return DONE


def _retract(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish import retraction

    if options.undo == (options.reason is not None):
        msg = "expected --reason, which says what is wrong with the release, or --undo"
        raise InputError(msg, hint='such as --reason "wrong results on Hopper, use 1.2.1"')
    addresses = tuple(options.to) or retraction.targets_in(options.config)
    if options.undo:
        outcomes = retraction.restore(options.release, addresses, outside)
    else:
        outcomes = retraction.retract(options.release, options.reason, addresses, outside)
    tables.show(tables.retraction_table(options.release, outcomes))
    return DONE


def _promote(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.publish.index import maintain
    from ci_tools.publish.targets.addresses import index_of

    source, target = index_of(options.source, outside), index_of(options.target, outside)
    shown = maintain.promote(source, (target,), options.release, outside)
    tables.show(tables.publication_tables(shown, ()))
    return DONE


def _doctor(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.github.client import Hub
    from ci_tools.github.doctor import check

    checked = check.check(Hub(options.repository, outside), fix=options.fix)
    if options.format == "json":
        print(json.dumps(check.to_json(checked), indent=1))
    else:
        tables.show(tables.doctor_tables(checked))
    return check.status(checked)


def _canary(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.github import canary

    note = canary.take_note(options.check, options.name, options.expected, options.folder, outside)
    print(f"{note.check}: {'held' if note.held else 'did not hold'} {note.detail}".rstrip())
    return DONE


def _canary_table(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.github import canary

    results = canary.results_of(options.needs)
    asked = canary.Asked(results, options.only, options.elsewhere, options.repository)
    found = canary.rows(options.folder, asked, outside)
    print(canary.page(found), end="")
    return BAD if any(row.state is canary.State.NOT_HELD for row in found) else DONE


def _tell(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.github import owners
    from ci_tools.github.client import Hub

    run, now = owners.run_of(outside.environ), datetime.now(timezone.utc)
    told = owners.news(options.config, options.platform, options.result, run, now)
    print(owners.tell(Hub(_repository(options, outside), outside, permission=owners.PERMISSION), told))
    return DONE


def _comment(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.github import comment
    from ci_tools.github.client import Hub

    text = comment.read(options.file)
    hub = Hub(_repository(options, outside), outside, permission=comment.PERMISSION)
    print(comment.comment(hub, options.pull, text, options.name))
    return DONE


def _repository(options: argparse.Namespace, outside: Outside) -> str:
    found = options.repository or outside.environ.get("GITHUB_REPOSITORY", "")
    if not found:
        msg = "no repository is named, expected --repository OWNER/REPO"
        raise InputError(msg, hint="in a workflow, GITHUB_REPOSITORY names it")
    return str(found)


VERBS: Mapping[str, Verb] = {
    "init": _init,
    "plan": _plan,
    "summary": _summary,
    "advise": _advise,
    "step": _step,
    "evidence": _evidence,
    "prepare": _prepare,
    "build": _build,
    "audit": _audit,
    "validate": _validate,
    "gather": _gather,
    "trials": _trials,
    "attested": _verify_attestations,
    "unattested": _unattested,
    "publish": _publish,
    "release": _release,
    "index adopt": _index_adopt,
    "index verify": _index_verify,
    "index repair": _index_repair,
    "index add": _index_add,
    "index pages": _index_pages,
    "yank": _yank,
    "unyank": _unyank,
    "retract": _retract,
    "promote": _promote,
    "doctor": _doctor,
    "tell": _tell,
    "canary": _canary,
    "canary-table": _canary_table,
    "comment": _comment,
}
