"""Other people's projects, what is known to be true of their builds, and what Fatwheel reads in each of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.errors import FatwheelError
from ci_tools.model.evidence import OWN_SUFFIX, Binding, Extensions
from ci_tools.plan import make

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from ci_tools.machine.context import Outside
from ci_tools.model.evidence import CellEvidence, PlatformEvidence
from ci_tools.plan.make import Planned

HERE = Path(__file__).parent
PROJECT = """\
package: {name}
source:
  sdist: {{name: {name}, version: "{version}", sha256: {sha256}}}
version: "{version}"
build: {{env: {env}}}
"""
PLATFORMS = """\
  linux-cpu: {owner: "@proof"}
  macos-arm64: {owner: "@proof"}
  windows: {owner: "@proof"}
"""
CUDA = '  linux-cuda: {owner: "@proof", env: SWITCHES, archs: ["9.0", "10.0+PTX"], cuda: '
# What is asked for: one cell of each platform, many, and what this machine can build.
NARROW = f'python: ["PYTHON"]\ntorch: ["TORCH"]\nplatforms:\n{CUDA}["CUDA"]}}\n{PLATFORMS}'
WIDE = (
    'python: ["3.10", "3.11", "3.12", "3.13", "3.14", "3.14t"]\ntorch: {lowest: "2.10"}\n'
    f'platforms:\n{CUDA}["12.9", "13.0"]}}\n{PLATFORMS}'
)
BUILT = (
    'python: ["PYTHON"]\ntorch: ["TORCH"]\nplatforms:\n  linux-cpu: {owner: "@proof", wheel-platform: manylinux_2_36}\n'
)
AGREES, SAFE, WRONG = "agrees", "errs to the safe side", "WRONG"


class Seen(NamedTuple):
    """What was read or observed of a project for one platform, in the words of projects.toml."""

    native: str
    why: str
    python: str = ""
    torch: str = ""
    libraries: int = 0
    switch: str = ""
    images: tuple[str, ...] = ()


class Checked(NamedTuple):
    """One platform of a project: what was seen, and how that stands to the truth."""

    platform: str
    seen: Seen
    verdict: str
    difference: str

    def as_json(self) -> dict[str, Any]:
        """Return it as the record keeps it."""
        return {**self.seen._asdict(), "images": list(self.seen.images), "verdict": self.verdict,
                "difference": self.difference}  # fmt: skip


def projects() -> list[dict[str, Any]]:
    """Return the projects and their truth."""
    tables: list[dict[str, Any]] = tomllib.loads((HERE / "projects.toml").read_text(encoding="utf-8"))["project"]
    return tables


def planned(project: dict[str, Any], folder: Path, outside: Outside, request: str = NARROW, **cells: str) -> Planned:
    """Return the plan of a project's sdist, fetched and never run but confined."""
    return make.make_plan(write_config(project, folder, request, **cells), outside)


def write_config(project: dict[str, Any], folder: Path, request: str = NARROW, **cells: str) -> Path:
    """Write the config of a project's sdist for a request, and return its path."""
    path = folder / f"{project['name']}.yml"
    known = {"python": "3.12", "torch": "2.10", "cuda": "13.0", **cells}
    if "torch" in project:
        known |= {"torch": ".".join(project["torch"].split(".")[:2]), "cuda": project["cuda"]}
    for name, value in known.items():
        request = request.replace(name.upper(), value)
    request = request.replace("SWITCHES", json.dumps(project.get("cuda-env", {})))
    fields = {
        **{name: project[name] for name in ("name", "version", "sha256")},
        "env": json.dumps(project.get("env", {})),
    }
    path.write_text(PROJECT.format(**fields) + request, encoding="utf-8")
    return path


def checked(project: dict[str, Any], folder: Path, outside: Outside) -> list[Checked]:
    """Return what is seen of a project on every platform, beside the truth."""
    truth = project["truth"]
    try:
        evidence = planned(project, folder, outside).evidence
    except FatwheelError as error:
        why = str(error).splitlines()[0]
        return [Checked(platform, Seen("refused", why), SAFE, "no plan is made") for platform in truth]
    return [_checked(found, truth[str(found.platform)]) for found in evidence.platforms]


def _checked(found: PlatformEvidence, truth: dict[str, Any]) -> Checked:
    seen = seen_of(found.shown)
    differences = dict(_differences(seen, truth))
    if (
        found.shown.is_hollow and truth["native"] == "some"
    ):  # no wheel is made, where the project's own lacks its kernels
        differences = dict.fromkeys(differences, SAFE)
    verdict = WRONG if WRONG in differences.values() else SAFE if differences else AGREES
    return Checked(str(found.platform), seen, verdict, "; ".join(differences))


def seen_of(shown: CellEvidence) -> Seen:
    """Return evidence in the words of projects.toml."""
    if shown.unsupported:
        return Seen("unsupported", shown.unsupported)
    native = {Extensions.NONE: "none", Extensions.SOME: "some", Extensions.UNKNOWN: "not known"}[shown.extensions]
    if native != "some":
        return Seen(native, shown.extensions_where)
    return Seen(
        native,
        shown.extensions_where.replace(OWN_SUFFIX, ""),
        _python(shown),
        _torch(shown),
        len(shown.built),
        " ".join(f"{name}={value}" for name, value in shown.switches),
        tuple(sorted({image for one in shown.built for image in one.images or ()})),
    )


def _python(shown: CellEvidence) -> str:
    api = shown.python_api
    if api.kind is Binding.STABLE:
        return f"cp{(api.lowest or api.lowest_free_threaded or (3, 0))[0]}{(api.lowest or (3, 0))[1]}-abi3"
    return {Binding.NONE: "any", Binding.FULL: "one per Python"}.get(api.kind, "not known")


def _torch(shown: CellEvidence) -> str:
    abi = shown.torch_abi
    if abi.kind is Binding.STABLE:
        return f"stable {abi.target}"
    return {Binding.NONE: "none", Binding.FULL: "full"}.get(abi.kind, "not known")


def _differences(seen: Seen, truth: dict[str, Any]) -> list[tuple[str, str]]:
    """Return in what the two differ, each with how bad that is: more jobs than needed, or a wrong wheel."""
    if seen.native != truth["native"]:
        what = f"native: {seen.native}, in truth {truth['native']}"
        is_safe = seen.native == "not known" or (seen.native, truth["native"]) == ("some", "none")
        return [(what, SAFE if is_safe else WRONG)]
    found = []
    for axis, widest in (("python", "one per Python"), ("torch", "full")):
        mine, true = getattr(seen, axis), truth.get(axis, getattr(seen, axis))
        true = true.replace("abi3 from the Python that builds", "cp312-abi3")  # that is the one asked for
        if mine != true:
            found.append((f"{axis}: {mine}, in truth {true}", SAFE if mine in {widest, "not known"} else WRONG))
    wanted = " ".join(f"{name}={value}" for name, value in truth.get("switch", {}).items())
    if seen.native == "some" and _names(seen.switch) != _names(wanted):
        found.append((f"switch: {seen.switch or 'none'}, in truth {wanted or 'none'}", SAFE if seen.switch else WRONG))
    return found


def _names(switches: str) -> set[str]:
    return {word.partition("=")[0] for word in switches.split()}
