"""Says in one sentence what to do where torch is missing, or not the one that an installed wheel was chosen for.

A file of Fatwheel's for any package: `fatwheel install guard > src/demo/_guard.py`, and then, where demo is imported:

    with for_this_torch("demo"):
        from demo import _C

Where demo has a generic body beside its kernels, `if has_kernel("demo", x.device)` chooses between them.
"""

from __future__ import annotations

import functools
import re
import warnings
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def _missing_torch(package: str) -> str:
    """Return what installs the torch that a package requires."""
    try:
        requires = distribution(package).requires or []
    except PackageNotFoundError:  # it runs from its source, or is not named like its package
        requires = []
    wanted = next((one.partition(";")[0].strip() for one in requires if re.match(r"torch(?![\w.-])", one)), "torch")
    return f'{package} needs torch, which is missing: `pip install "{wanted}"`, or `uv pip install "{wanted}"`.'


try:
    import torch
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ImportError(_missing_torch((__package__ or __name__).partition(".")[0])) from missing

LIBRARY = re.compile(
    r"undefined symbol|cannot open shared object|symbol not found|image not found|DLL load", re.IGNORECASE
)


@contextmanager
def for_this_torch(project: str) -> Iterator[None]:
    """Import what is compiled in the body; raise ImportError with what mends it if it is for another torch."""
    if reason := find_mismatch(project):
        raise ImportError(f"{reason}. {find_remedy(project)}")
    with explain_errors(project):
        yield


@contextmanager
def explain_errors(project: str) -> Iterator[None]:
    """Load a library in the body; if it does not load, raise ImportError with what mends it."""
    try:
        yield
    except (ImportError, OSError) as error:
        reason = error.__cause__ or error  # torch.ops.load_library of torch 2.13 itself names only the file
        if not LIBRARY.search(str(reason)):
            raise
        raise ImportError(f"{project} does not fit the torch here: {reason}. {find_remedy(project)}") from error


def has_kernel(project: str, device: torch.device | int | None = None, archs: str = "") -> bool:
    """Whether a wheel has a kernel for a GPU; if not, warn, once for each kind of GPU, that its generic body serves.

    `archs` are those of the wheel, such as "9.0 10.0+PTX". A wheel from a smart sdist knows them itself; of one that
    says none, and with a torch that is not for CUDA, this is always true.
    """
    return torch.version.cuda is None or has_code(project, torch.cuda.get_device_capability(device), archs)


@functools.cache
def has_code(project: str, gpu: tuple[int, int], archs: str) -> bool:
    """Whether a wheel has a kernel for a compute capability; the first time that it has none, warn."""
    known = archs or _read_file(project, "gpu_archs")
    if not known or any(runs_code(arch, gpu) for arch in known.split()):
        return True
    here = ".".join(map(str, gpu))
    what = (
        f"{project} has no kernel for this GPU, of compute capability {here}, but for {known}: its generic body serves"
    )
    warnings.warn(what, stacklevel=3)
    return False


def runs_code(arch: str, gpu: tuple[int, int]) -> bool:
    """Whether a GPU runs the code of an architecture: 9.0, 9.0a for no other, 10.0f, 10.0+PTX for later ones too."""
    found = re.fullmatch(r"(\d+)\.(\d+)([af]?)(\+PTX)?", arch)
    own = (int(found[1]), int(found[2])) if found else (1000, 0)
    if found and found[3] == "a":
        return own == gpu
    return own <= gpu and (own[0] == gpu[0] or bool(found and found[4] and not found[3]))


def find_mismatch(project: str) -> str:
    """Return how a wheel and the torch here differ, by the wheel's label such as cu130torch2.10; "" if they do not.

    A torch without CUDA does not count: what the wheel has beside its kernels may serve.
    """
    has, label = f"torch {torch.__version__}", _read_version(project)[1]
    cuda, minor = re.search(r"cu(\d+)(\d)", label), re.search(r"torch(\d+\.\d+(?:\.0\.dev\d+)?)", label)
    if cuda and torch.version.cuda and cuda[1] != torch.version.cuda.split(".")[0]:
        return f"{project} is for CUDA {cuda[1]}.{cuda[2]}, and {has} has CUDA {torch.version.cuda}"
    is_other = minor and not re.match(rf"{re.escape(minor[1])}\b", torch.__version__)
    return f"{project} is for torch {minor[1]}, and {has} is here" if minor and is_other else ""


def find_remedy(project: str) -> str:
    """Return the commands that choose the wheel of a project again."""
    version, label, is_labelled = _read_version(project)
    wanted, folder = f"{project}=={version}" if version else project, _own_label()
    pip, uv = (
        "pip install --force-reinstall --no-deps --no-cache-dir",
        "uv pip install --reinstall --no-deps --no-cache",
    )
    if is_labelled:  # it came from an index with a folder for each label
        public = torch.__version__.partition("+")[0]
        version = public if ".dev" in public else ".".join(public.split(".")[:2])
        folder += f"torch{version}" if "torch" in label else ""
        option = f"--index-url INDEX/{folder}"
        return (
            f"Choose again, from the index that it came from: `{pip} {option} {wanted}`, or `{uv} {option} {wanted}`."
        )
    own = f"{torch.__version__.partition('+')[0]}+{folder}"
    return f"Choose again: `{pip} {wanted}`, or `{uv} -C for-torch={own} {wanted}`."


def _own_label() -> str:
    """Return the label of the torch here: cu130, rocm7.1, xpu, cpu."""
    cuda, rocm = torch.version.cuda, torch.version.hip
    if cuda or rocm:
        return f"cu{cuda.replace('.', '')}" if cuda else f"rocm{'.'.join(str(rocm).split('.')[:2])}"
    return "xpu" if getattr(torch.version, "xpu", None) else "cpu"


def _read_version(project: str) -> tuple[str, str, bool]:
    """Return a wheel's public version and its label, and whether its version has the label; "" if it is not there."""
    try:
        wheel = distribution(project)
    except PackageNotFoundError:  # it runs from its source
        return "", "", False
    version, _, label = wheel.version.partition("+")
    return version, label or _read_file(project, "local_version"), bool(label)


def _read_file(project: str, name: str) -> str:
    """Return what a smart sdist noted of a wheel beside its METADATA; "" if there is nothing."""
    try:
        return distribution(project).read_text(name) or ""
    except PackageNotFoundError:  # it runs from its source
        return ""
