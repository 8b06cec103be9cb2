"""Options that change the request: CUDA's minor versions, and platforms that compile nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ci_tools.config import include as config_edit
from ci_tools.model.evidence import Extensions
from ci_tools.model.request import Enabled
from ci_tools.plan.advise.option import Option, Situation, change_platform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.model.platforms import Platform
    from ci_tools.plan.advise.project_view import ProjectView


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
