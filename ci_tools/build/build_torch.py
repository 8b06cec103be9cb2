"""Checks that the torch in a build's environment is the one that the job's cells name."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import FatwheelError, MachineError
from ci_tools.machine.python import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ci_tools.build.bench.copies import Copies
    from ci_tools.machine.python import Environment
    from ci_tools.model.plan import Job

CPU = "cpu"
NIGHTLY = re.compile(r"\.dev\d+$")
WHOSE = {CPU: "CPU", "cu": "CUDA", "rocm": "ROCm", "xpu": "XPU"}


class Expected(NamedTuple):
    """The torch that a build may have: the start of its version, and its accelerator; an empty field allows any."""

    version: str = ""
    label: str = ""  # cu130, rocm7.1, xpu, cpu


class _Torch(NamedTuple):
    """An installed torch: its version with the local part, and its accelerator."""

    version: str
    label: str

    @property
    def public(self) -> str:
        """The version without its local part."""
        return self.version.partition("+")[0]


def torch_of_job(job: Job) -> Expected:
    """Return the torch that a job's cells name.

    The headers of the stable ABI are the same for every accelerator, so that only the version matters for them.
    For ROCm, torch also translates the sources of an extension (hipify), so the build always needs a ROCm torch.
    """
    kind = job.accelerator.kind if job.accelerator else None
    is_stable = job.torch is not None and not job.requires_torch
    is_told = job.torch is not None or job.accelerator is not None
    by_version = not is_told or (is_stable and not (kind and kind.needs_whole_torch))
    label = "" if by_version else job.accelerator.label if job.accelerator else CPU
    return Expected(str(job.torch) if job.torch else "", label)


def require_torch(environment: Environment, expected: Expected, variables: Mapping[str, str] | None = None) -> None:
    """Raise MachineError if the environment has another torch than the expected one; `variables` are for pip.

    If pip installed the right release for another accelerator, it is run again with the right local version:
    of the wheels on all indexes pip prefers the highest local version, so that cu130 hides cu126.
    """
    found = _find_torch(environment.path)
    if found is None or _fits(found, expected):
        return
    if _is_release(found, expected):
        try:
            environment.install(f"torch=={found.public}+{expected.label}", variables=variables)
        except FatwheelError as error:
            raise _other(found, expected) from error
        found = _find_torch(environment.path)
    if found and not _fits(found, expected):
        raise _other(found, expected)


def _fits(found: _Torch, expected: Expected) -> bool:
    label = found.label or CPU
    return _is_release(found, expected) and (not expected.label or f"{label}.".startswith(f"{expected.label}."))


def _is_release(found: _Torch, expected: Expected) -> bool:
    if NIGHTLY.search(found.public):  # pip takes one by itself where an index has nothing else
        return found.public == expected.version
    return not expected.version or f"{found.public}.".startswith(f"{expected.version}.")


def _other(found: _Torch, expected: Expected) -> MachineError:
    wanted = f"{expected.version or 'one'} for {expected.label}" if expected.label else expected.version
    # On PyPI there are no local versions, so that the version may not say the accelerator.
    whose_found = f" for {found.label}" if found.label and found.label not in found.version else ""
    msg = f"the build would get torch {found.version}{whose_found}, expected {wanted}"
    kind = re.sub(r"[\d.]+$", "", expected.label)
    whose = f"{WHOSE[kind]} wheels" if kind else f"torch {expected.version}"
    where = "in the shell or in the platform's `env`"
    hint = f"let pip find upstream's: PIP_EXTRA_INDEX_URL names the index of its {whose}, {where}"
    return MachineError(msg, hint=hint, page="how-to/choose-a-toolchain.md#which-torch-a-build-gets")


# ---------------------------------------------------------------- the installed torch


def installed_version(environment: Environment) -> str:
    """Return the version of an environment's torch with its local part, or "" if it has none."""
    found = _find_torch(environment.path)
    return found.version if found else ""


def torch_headers(environment: Environment) -> Path | None:
    """Return the folder of the headers of an environment's torch, or None if it has none."""
    found = (path for pattern in PACKAGES for path in environment.path.glob(f"{pattern}/torch/include"))
    return next(found, None)


def provide_headers(fetch: Callable[[], Path], isolated: Environment, folder: Path, copies: Copies) -> None:
    """Put torch's headers into `folder`: those of the torch in a build's environment, or else fetched ones."""
    if own := torch_headers(isolated):
        folder.symlink_to(own)
    else:
        copies.put(folder, fetch())


def _find_torch(environment: Path) -> _Torch | None:
    """Return an environment's torch, or None if it has none; torch is not imported."""
    folders = (folder for pattern in PACKAGES for folder in environment.glob(pattern))
    return next((torch for folder in folders for torch in _torches(folder)), None)


def _torches(packages: Path) -> Iterator[_Torch]:
    for found in packages.glob("torch-*.dist-info"):
        version = found.name.removeprefix("torch-").removesuffix(".dist-info")
        said = _constants(packages / "torch" / "version.py")
        version = said.get("__version__") or version
        yield _Torch(version, _label(said, version.partition("+")[2]))


def _label(said: dict[str, str], local: str) -> str:
    """Return the accelerator of a torch: from its version.py, or else from its local version."""
    if said.get("cuda"):
        return f"cu{''.join(said['cuda'].split('.')[:2])}"
    if said.get("hip"):
        return local if local.startswith("rocm") else f"rocm{'.'.join(said['hip'].split('.')[:2])}"
    if said.get("xpu"):
        return "xpu"
    return CPU if "cuda" in said else local


def _constants(path: Path) -> dict[str, str]:
    """Return the string constants of a module by name; any other constant is ""."""
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return {}
    found = {}
    for node in module.body:
        if isinstance(node, (ast.AnnAssign, ast.Assign)) and isinstance(node.value, ast.Constant):
            name = ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
            found[name] = node.value.value if isinstance(node.value.value, str) else ""
    return found
