"""Options that remove the torch axis: the stable ABI, and the version that it targets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ci_tools.errors import count
from ci_tools.formats import edits
from ci_tools.model.evidence import Binding, CellEvidence, Extensions, TorchAbi
from ci_tools.model.request import Torch
from ci_tools.model.versions import Minor
from ci_tools.plan.advise.option import Option, Situation, change_evidence
from ci_tools.plan.advise.project_view import BOUND, ProjectView, describe_include, keep

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_STABLE_TORCH = Minor(2, 10)  # the first version that TORCH_TARGET_VERSION can name


def find_torch_options(source: ProjectView) -> Iterator[Option]:
    """Yield the options that remove the torch axis."""
    bound = [one for one in source.shown if one.torch_abi.kind in BOUND and one.extensions is Extensions.SOME]
    versions = sorted({cell.torch for cell in source.plan.list_cells() if cell.torch})
    served = [torch for torch in versions if torch >= FIRST_STABLE_TORCH]
    if not bound or not served:
        return
    where = tuple(dict.fromkeys(shown.torch_abi.where for shown in bound))
    option = _torch_option(source, where, served[0])
    change = change_evidence(partial(_stable_torch, target=served[0]))
    if served == versions:
        yield option._replace(change=change)
        return
    older = f"the stable ABI starts at torch {FIRST_STABLE_TORCH}, so older ones need wheels of their own"
    base = partial(_replace_torches, versions=tuple(served))
    what = f"asked for only from torch {served[0]} up, {option.what}"
    how = f"{option.how}; {older}"
    # No edit: it would end the older torches' wheels.
    yield option._replace(what=what, how=how, change=change, edits=(), base=base, gives_up=True)


def _torch_option(source: ProjectView, where: tuple[str, ...], target: Minor) -> Option:
    torch = [include for include in source.external_includes if include.is_torch]
    unstable = [include for include in torch if not include.is_stable]
    if unstable:
        places = (*where, *(describe_include(include) for include in unstable))
        return Option(
            name="torch-stable-abi",
            what=f"{count(len(unstable), 'include')} {keep(len(unstable))} the torch axis",
            places=tuple(dict.fromkeys(places)),
            how="replace them by torch/csrc/stable and torch/headeronly, "
            "and set TORCH_TARGET_VERSION; see “LibTorch Stable ABI” in PyTorch's notes",
        )
    if torch and all("nothing sets TORCH_TARGET_VERSION" in one for one in where):
        return _target_option(source, where, target)
    return Option(
        name="torch-unknown",
        is_known=False,
        what="which torch ABI is needed is not known, which keeps the torch axis; if it were only the stable one",
        places=where,
        how="write the includes where they can be read",
    )


def _target_option(source: ProjectView, where: tuple[str, ...], target: Minor) -> Option:
    name = "setup.py" if source.is_setuptools else "CMakeLists.txt"
    edit = partial(edits.set_target if source.is_setuptools else edits.set_cmake_target, target=target)
    return Option(
        name="torch-target-version",
        what="only stable torch headers are included, but the missing TORCH_TARGET_VERSION keeps the torch axis",
        places=where,
        how=f"define TORCH_TARGET_VERSION for torch {target}, the lowest asked for",
        edits=source.possible(((source.project.path(name), edit),)),
    )


def _stable_torch(shown: CellEvidence, target: Minor) -> CellEvidence:
    if shown.torch_abi.kind not in BOUND:
        return shown
    return replace(shown, torch_abi=TorchAbi(Binding.STABLE, "if it were stable", target, uses_torch=True))


def _replace_torches(situation: Situation, versions: tuple[Minor, ...]) -> Situation:
    return situation._replace(request=replace(situation.request, torch=Torch(versions=versions)))
