"""Applies the settings of one run over the config: a torch whose wheels are added to a release, runners, targets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ci_tools.catalog import Catalog
from ci_tools.config.torch_axis import NEWEST, explain_unproven, find_asked
from ci_tools.errors import InputError, nearest
from ci_tools.model.request import Request, Run, Torch, Validation
from ci_tools.model.versions import Minor


def run_of(plan: Mapping[str, Any]) -> Run:
    """Return the run settings in a plan.json; raise InputError if they are not valid."""
    request = plan.get("request")
    said = request.get("run", {}) if isinstance(request, dict) else {}
    lists = [said.get(name, []) if isinstance(said, dict) else None for name in Run._fields]
    if not all(isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in lists):
        msg = "the plan does not say what its run asked for, expected lists of texts at request.run"
        raise InputError(msg, hint="`fatwheel plan --out plan.json` writes one")
    return Run(*(tuple(texts or ()) for texts in lists))


def apply_run(request: Request, run: Run, catalog: Catalog) -> Request:
    """Return the config's request with a run's changes; raise InputError if the run names unknown things."""
    torches = tuple(sorted({_torch(text, request, catalog) for text in run.torch}))  # a run may name one twice
    for shim in request.build.shims:
        if what := explain_unproven(shim, map(str, torches)):
            raise InputError(f"--torch: {what}")
    runners = dict(_runner(text, request) for text in run.gpu_runner)
    labels = tuple(sorted(f"{name}={','.join(runners[name])}" for name in runners))  # their order changes no plan
    publish = request.publish._replace(targets=run.to or request.publish.targets)
    platforms = tuple(
        replace(
            one,
            gpu_runner=runners.get(str(one.platform), one.gpu_runner),
            container=one.container and (*run.container, one.container)[0],  # a platform without one stays so
        )
        for one in request.platforms
    )
    said = Run(tuple(map(str, torches)), labels, run.to, container=run.container, requires=run.requires)
    request = take_levels(replace(request, run=said, platforms=platforms, publish=publish), run.level)
    if not torches or request.torch is None:
        return request
    validation = _with_torch(request.validate, torches, catalog)
    return replace(request, torch=Torch(versions=torches, instead_of=_shown(request.torch)), validate=validation)


def take_levels(request: Request, levels: Sequence[str]) -> Request:
    """Return a request whose platforms have the levels of texts such as linux-cuda=manylinux_2_36."""
    named = dict(text.split("=", 1) for text in levels)  # the last one counts, as of any option
    platforms = tuple(
        replace(one, wheel_platform=named.get(str(one.platform), one.wheel_platform)) for one in request.platforms
    )
    return replace(request, platforms=platforms, run=request.run._replace(level=tuple(levels)))


def _torch(text: str, request: Request, catalog: Catalog) -> Minor:
    nightly = next((version for version in catalog.torch if version.nightly), None)  # one at most, the run's
    if nightly and find_asked(text) in {NEWEST, nightly.nightly}:
        return nightly
    known = {str(version): version for version in catalog.torch}
    if request.torch is None:
        msg = f"--torch {text}: {request.config} names no torch, so no wheel is built for one"
        raise InputError(msg, hint="`torch:` in the config says which versions of it are served")
    if text not in known:
        msg = f'--torch: there is no torch "{text}" in the catalog, {nearest(text, known)}'
        hint = "`fatwheel catalog update --index URL` writes the newest there" if find_asked(text) else ""
        raise InputError(msg, hint=hint)
    return known[text]


def _shown(torch: Torch) -> str:
    """Return the torch of a config in words."""
    if torch.last:
        return f"the last {torch.last}"
    return ", ".join(map(str, torch.versions)) or f"{torch.lowest} and later"


def find_nightly(run: Run) -> str | None:
    """Return which torch nightly a run names, as a config would: its date, or `newest`; None if it names none."""
    dates = (re.search(r"\.dev(\d{8})$", text) for text in run.torch)
    return find_asked(list(run.torch)) or next((found[1] for found in dates if found), None)


def _with_torch(validation: Validation, torches: Sequence[Minor], catalog: Catalog) -> Validation:
    """Return a validation that installs a torch of these wheels, if it installs one; a local version stays."""
    known = [str(torch) for torch in torches if torch.nightly]
    is_theirs = validation.torch and validation.torch.partition("+")[0] in known  # it is one of these nightlies already
    if not validation.torch or is_theirs or any(validation.torch.startswith(f"{torch}.") for torch in torches):
        return validation
    local = validation.torch.partition("+")[2]
    return validation._replace(torch=f"{catalog.torch[torches[0]].patch}{f'+{local}' if local else ''}")


def _runner(text: str, request: Request) -> tuple[str, tuple[str, ...]]:
    """Return the platform and the labels of a text such as linux-cuda=self-hosted,h100."""
    name, _, rest = text.partition("=")
    labels = tuple(label.strip() for label in rest.split(",") if label.strip())
    asked = [str(platform.platform) for platform in request.platforms]
    if name not in asked:
        msg = f'--gpu-runner: the request has no platform "{name}", {nearest(name, asked)}'
        raise InputError(msg, hint="it names a platform and the labels of a runner: linux-cuda=self-hosted,h100")
    if not labels or not all(label.isprintable() for label in labels):
        raise InputError(f"--gpu-runner: {name} has no label, expected something like {name}=self-hosted,h100")
    return name, labels
