"""Finds cells that a wheel with more libraries than their own build makes can serve: the package does without them.

A setup.py may compile a library only with a newer torch, whose stable ABI it needs. Where the package passes over a
library that cannot be loaded, the wheel of the newer torch is also good for the older one: there it has what the older
one's own wheel would have. Such a library is called *spared*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.model.evidence import OWN_SUFFIX, Binding, Extensions
from ci_tools.plan.axes import explain_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ci_tools.model.cell import Cell
    from ci_tools.model.evidence import CellEvidence, Spared
    from ci_tools.model.versions import Minor
    from ci_tools.plan.axes import Axes, Key

WITHOUT_TORCH_AXIS = frozenset({Binding.NONE, Binding.STABLE})


def find_builds(served: Iterable[tuple[Cell, Axes]]) -> dict[Cell, Axes]:
    """Return for each cell the build whose wheel serves it: its own, or another one that has more libraries."""
    served = list(served)
    groups: dict[object, dict[CellEvidence, Axes]] = {}
    for cell, axes in served:
        groups.setdefault(_place(cell, axes), {})[axes.evidence] = axes
    chosen: dict[object, Axes] = {}
    found: dict[Cell, Axes] = {}
    for cell, axes in served:
        place = _place(cell, axes)
        known = place, axes.evidence, cell.torch  # the cells of all Pythons ask the same question
        if known not in chosen:
            chosen[known] = _find_fullest(axes, cell.torch, list(groups[place].values()))
        found[cell] = chosen[known]
    return found


def _place(cell: Cell, axes: Axes) -> object:
    """Return the part of a wheel's key that no build shares with another one."""
    return cell.platform, axes.builders[cell.accelerator]


def _find_fullest(axes: Axes, torch: Minor | None, others: Sequence[Axes]) -> Axes:
    fuller = [other for other in others if torch and _has_more(axes.evidence, other.evidence, torch)]
    return max(fuller, key=lambda other: len(other.evidence.built), default=axes)


def _has_more(shown: CellEvidence, other: CellEvidence, torch: Minor) -> bool:
    """Whether another build makes the same wheel but for libraries that the package does without on a torch."""
    more = find_spared(shown, other)
    return (
        bool(more)
        and len(more) == len(other.built) - len(shown.built)  # every further library is spared
        and all(one.target > torch for one in more)  # one that this torch loads is missed by its users
        and {*shown.built} < {*other.built}
        and (parts := _remaining_parts(shown, names := list_only_for(other, [one.member for one in more]))) is not None
        and parts == _remaining_parts(other, names)
    )


def find_spared(shown: CellEvidence, other: CellEvidence) -> tuple[Spared, ...]:
    """Return the spared libraries that only the other build makes."""
    built = {one.member for one in shown.built}
    return tuple(one for one in other.spared if one.member not in built)


def list_only_for(shown: CellEvidence, libraries: Iterable[str]) -> frozenset[str]:
    """Return the members of a wheel that are there only for some of its libraries: these, and their sources.

    setuptools takes the sources of an extension for data of its package, where they lie in it.
    """
    named = frozenset(libraries)
    sources: dict[bool, set[str]] = {True: set(), False: set()}
    for library in shown.built:
        sources[library.member in named].update(one.source.removeprefix("src/") for one in library.compiles)
    return named | (sources[True] - sources[False])


def _remaining_parts(shown: CellEvidence, names: Collection[str]) -> tuple[object, ...] | None:
    """Return everything but some members that two builds must have in common; None if some of it is not known."""
    api = shown.python_api
    is_known = shown.extensions is Extensions.SOME and shown.recipe is not None
    if not is_known or shown.torch_abi.kind not in WITHOUT_TORCH_AXIS:
        return None
    return (
        (api.kind, api.lowest, api.lowest_free_threaded, shown.pure_tag),
        (shown.unsupported, shown.switches, shown.build_requires),
        (shown.written, shown.configured, shown.metadata),
        tuple(content for content in shown.contents if content.partition(" ")[0] not in names),
        shown.members and tuple(member for member in shown.members if member not in names),
    )


def explain_build(key: Key, axes: Axes, built: Axes) -> str:
    """Return why the wheel of a build serves the cells with certain axes, and what is spared there."""
    if built is axes:
        return explain_key(key, axes)
    spared = find_spared(axes.evidence, built.evidence)
    names = ", ".join(one.member.removesuffix(OWN_SUFFIX) for one in spared)
    needs = f"which {'needs' if len(spared) == 1 else 'need'} torch {max(one.target for one in spared)}"
    tolerant = f"{spared[0].where} passes over a library that cannot be loaded"
    return f"{explain_key(key, built._replace(torch=axes.torch))}; without {names}, {needs}: {tolerant}"
