"""Collects the options of a plan; here are those of the request, of torch's axis, and those that mend a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ci_tools.config import include as config_edit
from ci_tools.errors import count
from ci_tools.formats import edits
from ci_tools.model.evidence import Binding, CellEvidence, Evidence, Extensions, PythonApi, TorchAbi
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.request import Enabled, Torch
from ci_tools.model.versions import Minor
from ci_tools.plan.advise.option import (
    BOUND,
    Option,
    ProjectView,
    Situation,
    change_evidence,
    change_platform,
    describe_include,
    keep,
)
from ci_tools.plan.advise.source_options import (
    find_chip_options,
    find_header_options,
    find_name_options,
    find_old_python_options,
    find_python_options,
    find_standard_options,
)
from ci_tools.source.files import Tree


def find_cuda_minor_options(source: ProjectView) -> Iterator[Option]:
    """Yield the platforms on which one wheel for each major version of CUDA would be enough."""
    for platform in source.native:
        versions = [one.version for one in platform.accelerators if one.version]  # ROCm and XPU may have none
        majors = [version.major for version in versions]
        if platform.one_per_major or len(set(majors)) == len(majors):  # each major is asked for once: nothing to join
            continue
        shared = [str(version) for version in versions if majors.count(version.major) > 1]
        edit = partial(config_edit.set_platform_key, platform=str(platform.platform), key="one-per-major", value="true")
        yield Option(
            name="one-per-major",
            what=f"CUDA {' and '.join(shared)} have one wheel each on {platform.platform}, not one for each major",
            places=(f"{platform.where}: no `one-per-major`",),
            how="`one-per-major: true`: by CUDA's minor version compatibility the oldest one's wheel serves the newer",
            change=change_platform(platform.platform, one_per_major=True),
            edits=source.possible(source.config(edit)),
        )


def find_needless_options(source: ProjectView) -> Iterator[Option]:
    """Yield the platforms that have their own jobs although nothing is compiled for them."""
    for platform in source.native:
        found = source.platforms[platform.platform]
        if any(one.extensions is not Extensions.NONE for one in (found.shown, *found.apart.values())):
            continue
        if found.native_files:
            files = (
                f"{found.native_files[0]}{f' and {len(found.native_files) - 1} more' if found.native_files[1:] else ''}"
            )
            yield Option(
                name="native-globs",
                what=f"the native globs of {platform.platform} match {files}, but nothing is compiled",
                places=(f"{platform.where}: native", found.shown.extensions_where),
                how="let the globs match what is compiled, or compile it: a wheel without it is empty",
                change=partial(_drop_native_files, platform=platform.platform),
            )
        elif platform.enabled is Enabled.TRUE:
            edit = partial(config_edit.set_platform_key, platform=str(platform.platform), key="enabled", value="auto")
            yield Option(
                name="enabled",
                what=f"`enabled: true` gives {platform.platform} a wheel of its own, though nothing is compiled for it",
                places=(f"{platform.where}: enabled", found.shown.extensions_where),
                how="`enabled: auto`: its users get the pure wheel until there is native code",
                change=change_platform(platform.platform, enabled=Enabled.AUTO),
                edits=source.possible(source.config(edit)),
            )


def _drop_native_files(situation: Situation, platform: Platform) -> Situation:
    platforms = tuple(
        replace(found, native_files=()) if found.platform is platform else found
        for found in situation.evidence.platforms
    )
    return situation._replace(evidence=replace(situation.evidence, platforms=platforms))


# ---------------------------------------------------------------- options that mend a plan


def find_tag_options(shown: Iterable[CellEvidence], tree: Tree) -> Iterator[Option]:
    """Yield, for each tag that is lower than the limited API of the code, the option to raise it."""
    for api in dict.fromkeys(one.python_api for one in shown):
        file, _, _ = api.tagged_at.rpartition(":")  # file:line, and a file may have a colon in its name
        if not api.label or not api.lowest or file not in tree.names:
            continue
        old, new = f"cp{api.label.digits}", f"cp{api.lowest.digits}"
        edit = partial(edits.replace_once, old=old, new=new)
        yield Option(
            name="python-tag",
            what=f"the wheel's tag {old}-abi3 is lower than the limited API that its code is compiled for",
            places=(api.tagged_at, api.where),
            how=f"tag it {new}: the Pythons before {api.lowest} then do not install it",
            edits=((file, edit),) if edit(tree.text(file)) else (),  # None where the tag is not written once
        )


def find_guard_options(shown: Iterable[CellEvidence], tree: Tree) -> Iterator[Option]:
    """Yield, for kernels that are compiled only where the build finds a GPU, the option to let a variable ask for them.

    FORCE_CUDA is the name that projects have for it: torchvision's, pytorch3d's, mmcv's.
    """
    # What has a switch is already asked for by a variable.
    left = dict.fromkeys(left for one in shown for left in one.left_out if not left.switches)
    for file in dict.fromkeys(one.where.rpartition(":")[0] for one in left):
        sources = [one.source for one in left if one.where.startswith(f"{file}:")]
        edited = file in tree.names and edits.let_variable_ask(tree.text(file))
        yield Option(
            name="gpu-guard",
            what=f"{sources[0]} is compiled only where the build finds a GPU, and builders have none",
            places=tuple(dict.fromkeys(one.where for one in left if one.where.startswith(f"{file}:"))),
            how="let FORCE_CUDA=1 ask for it too: the plan finds the variable, and sets it",
            edits=((file, edits.let_variable_ask),) if edited else (),
        )


# ---------------------------------------------------------------- the torch axis

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


# ---------------------------------------------------------------- all options


def options(plan: Plan, evidence: Evidence, tree: Tree) -> Iterator[Option]:
    """Yield the possible changes to the source and the request of a plan."""
    source = ProjectView(plan, evidence, tree)
    yield from _unknown(source)  # first: what follows is only as good as what is known
    yield from find_torch_options(source)
    yield from find_python_options(source)
    yield from find_old_python_options(source)
    yield from find_name_options(source)
    yield from find_tag_options(source.shown, tree)
    refused = {item.cell.platform for item in plan.skipped} - {item.cell.platform for item in plan.covered}
    unserved = (source.platforms[name] for name in refused)
    yield from find_guard_options([one for found in unserved for one in (found.shown, *found.apart.values())], tree)
    yield from find_cuda_minor_options(source)
    yield from find_header_options(source)
    yield from find_standard_options(source)
    yield from find_needless_options(source)
    yield from find_chip_options(source)


# ---------------------------------------------------------------- unknown builds


def _unknown(source: ProjectView) -> Iterator[Option]:
    """Yield the best case of builds that are not understood: that they need no ABI of their own."""
    places = tuple(dict.fromkeys(filter(None, map(_find_doubt, source.shown))))
    if places:
        yield Option(
            name="unknown-build",
            what="it is not known what the build compiles, which keeps every axis; at best",
            places=places,
            how="state what the build compiles in a file that can be read or run: the plan then follows it",
            change=change_evidence(_assume_no_binding),
            is_known=False,
        )


def _find_doubt(shown: CellEvidence) -> str:
    return shown.extensions_where if shown.extensions is Extensions.UNKNOWN else shown.doubt


def _assume_no_binding(shown: CellEvidence) -> CellEvidence:
    if not _find_doubt(shown):
        return shown
    where = "if it were known"  # stands in the plan's reasons in the place of file:line
    return replace(shown, python_api=PythonApi(Binding.NONE, where), torch_abi=TorchAbi(Binding.NONE, where))
