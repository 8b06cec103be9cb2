"""The parts of a wheel's file name, and of the paths in it, that a plan predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from ci_tools.config.release_names import label_archs
from ci_tools.model.evidence import OWN_SUFFIX

if TYPE_CHECKING:
    from ci_tools.model.platforms import Accelerator
    from ci_tools.model.versions import Minor

__all__ = ["distribution_of", "library_path", "list_platform_tags", "local_version"]

OLDER_NAMES = {"manylinux_2_5": "manylinux1", "manylinux_2_12": "manylinux2010", "manylinux_2_17": "manylinux2014"}


def distribution_of(name: str) -> str:
    """Return the name as sdist file names spell it (PEP 625)."""
    return canonicalize_name(name).replace("-", "_")


def local_version(
    template: str | None,
    accelerator: Accelerator | None,
    bound: Minor | None,
    archs: tuple[str, ...],
    patch: str | None,
) -> str:
    """Return the local version of a native wheel: by the config's template, or else its accelerator and bound torch.

    `patch` is the whole version of the torch that it is built with.
    """
    if template is None:
        return (accelerator.label if accelerator else "") + (f"torch{bound}" if bound else "")
    cuda = accelerator.version.digits if accelerator and accelerator.version else ""
    return template.format(archs=label_archs(archs), cuda=cuda, torch=patch or "")


def library_path(member: str, suffix: str) -> str:
    """Return the path of a library with the suffix of the Python that builds it."""
    return member.replace(OWN_SUFFIX, suffix)


def list_platform_tags(platform: str) -> str:
    """Return a wheel's platform tag, preceded by its legacy alias if it has one, as auditwheel writes it (PEP 600)."""
    for level, older in OLDER_NAMES.items():
        if platform.startswith(f"{level}_"):
            return f"{platform.replace(level, older)}.{platform}"
    return platform
