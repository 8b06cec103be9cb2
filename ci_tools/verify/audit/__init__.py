"""Static checks on a finished wheel: one generator per rule, each finding with the found and the expected value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.errors import Rejected
from ci_tools.formats.wheel import open_wheel
from ci_tools.machine.workplace import workplace
from ci_tools.model.files import Finding, Level
from ci_tools.verify.audit.archive import container, content, files, foreign, hidden
from ci_tools.verify.audit.libraries import binaries, device, instructions, system, torch
from ci_tools.verify.audit.metadata import entry_points, labels, sbom
from ci_tools.verify.audit.subject import Flaw, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from ci_tools.model.plan import Job

__all__ = ["RULES", "audit", "device_images"]


def audit(
    path: Path,
    *,
    job: Job | None,
    limits: Mapping[str, int],
    work: Path,
    to_pypi: bool | None = None,
    only: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Return everything wrong with the wheel at `path`, in the order of `RULES`; an empty result means it is good.

    `job` is the plan's; without one, only the rules that hold for every wheel are checked. `to_pypi` says whether the
    wheel goes to PyPI (None: it does unless it has a local version). The members are unpacked below `work` during the
    audit. `only` names the rules to check; empty means all. A file that is not a wheel has one finding.
    """
    try:
        wheel = open_wheel(path)
    except Rejected as error:
        return (Finding(path.name, "archive", Level.ERROR, error.message, "another file", "a zip file (PEP 427)"),)
    with wheel.archive, workplace(work) as folder:  # another run may audit the same wheel at once
        could = wheel.named is not None and not wheel.named[1].local
        subject = Subject(wheel, job, limits, could if to_pypi is None else to_pypi, folder)
        return tuple(
            Finding(path.name, name, flaw.level, flaw.message, flaw.found, flaw.expected)
            for name, rule in RULES.items()
            if not only or name in only
            for flaw in _flaws(rule, subject)
        )


def device_images(path: Path, work: Path) -> tuple[str, ...]:
    """Return the device images in the wheel's own members, such as sm_90 and compute_100, sorted.

    Raises Rejected if the wheel at `path`, or a library in it, cannot be read.
    """
    wheel = open_wheel(path)
    with wheel.archive, workplace(work) as folder:
        return device.held_images(Subject(wheel, None, {}, to_pypi=False, work=folder))


def _flaws(rule: Callable[[Subject], Iterator[Flaw]], subject: Subject) -> Iterator[Flaw]:
    """Yield a rule's flaws; a member that cannot be read counts as a flaw."""
    try:
        yield from rule(subject)
    except Rejected as error:
        yield Flaw(error.message, "unreadable", "a whole file")


RULES: Mapping[str, Callable[[Subject], Iterator[Flaw]]] = {
    "container": container.container,
    "paths": files.paths,
    "record": files.record,
    "members": files.members,
    "names": labels.names,
    "tags": labels.tags,
    "requires-python": labels.requires_python,
    "requires-torch": labels.requires_torch,
    "metadata": labels.metadata,
    "index": labels.index,
    "entry-points": entry_points.entry_points,
    "licence": labels.licence,
    "sbom": sbom.sbom,
    "secrets": hidden.secrets,
    "startup": hidden.startup,
    "overwritten": foreign.overwritten,
    "pure": content.pure,
    "hidden": hidden.hidden,
    "bundled": foreign.bundled,
    "prediction": content.prediction,
    "text": content.text,
    "pointers": content.pointers,
    "build-paths": content.build_paths,
    "python-symbols": binaries.python_symbols,
    "platform": system.platform,
    "imports": binaries.imports,
    "python-library": binaries.python_library,
    "rpath": system.rpath,
    "stack": system.stack,
    "text-relocations": system.text_relocations,
    "instructions": instructions.instructions,
    "debug": system.debug,
    "abi3": binaries.abi3,
    "fatbinary": device.fatbinary,
    "kernels": device.kernels,
    "torch-requirement": torch.torch_requirement,
    "torch-symbols": torch.torch_symbols,
    "sycl-runtime": torch.sycl_runtime,
    "size": files.size,
}
