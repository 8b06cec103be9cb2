"""The parts of a wheel's file name, and of the paths in it, that a plan predicts, and what is wrong with its tag."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from packaging.specifiers import SpecifierSet
from packaging.tags import compatible_tags, cpython_tags, parse_tag
from packaging.utils import canonicalize_name

from ci_tools.config.release_names import label_archs
from ci_tools.errors import Problem
from ci_tools.model.evidence import OWN_SUFFIX, PythonApi, explain_false_tag, explain_way_out, name_tag
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.versions import Minor, Python, admits

# PEP 600, "Legacy manylinux tags".
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
    """Return the path of a library with the suffix of the Python that builds it; Windows' look for no `.abi3`."""
    named = member.replace(OWN_SUFFIX, suffix)
    return re.sub(r"\.abi3\.so$", ".pyd", named) if suffix.endswith(".pyd") else named


def list_platform_tags(platform: str) -> str:
    """Return a wheel's platform tag, preceded by its legacy alias if it has one, as auditwheel writes it (PEP 600)."""
    for level, older in OLDER_NAMES.items():
        if platform.startswith(f"{level}_"):
            return f"{platform.replace(level, older)}.{platform}"
    return platform


def find_false_tags(
    platform: Platform, api: PythonApi, pythons: Collection[Python], admitted: SpecifierSet
) -> Iterator[Problem]:
    """Yield where the tag that a build gives its wheel is not true, so that no plan can predict a wheel that is right.

    `pythons` are those that the build's wheels are to serve, `admitted` are the project's.
    """
    what = (explain_false_tag(api) if pythons else "") or _explain_refusal(api, pythons, admitted)
    if what:
        yield Problem(api.tagged_at, f"{platform}: {what}")


def _explain_refusal(api: PythonApi, pythons: Collection[Python], admitted: SpecifierSet) -> str:
    """Return which Pythons install a wheel that they cannot load, or do not install it though it is theirs; or ""."""
    if (older := _list_older(api, admitted)) and (api.mislabel or {*older} & {one.version for one in pythons}):
        why = api.mislabel.what if api.mislabel else api.where
        who = f"Python {', '.join(map(str, older))}"
        return f"the wheel is tagged {name_tag(api)}, so {who} installs it, but {why}: {_explain_floor(api, older[0])}"
    if refused := [one for one in pythons if api.tag and not _installs(one, api.tag)]:
        return f"Python {refused[0]} tags the wheel {api.tag}, and does not install it: {explain_way_out(api)}"
    return ""


def warn_of_tag(api: PythonApi, admitted: SpecifierSet) -> Iterator[str]:
    """Yield a warning about a tag that is too low, or that may not be true; `admitted` is the project's Pythons."""
    tag = name_tag(api)
    if api.mislabel and not api.mislabel.is_certain and not api.label:
        yield f"{api.tagged_at}: the wheel is tagged {tag}, though {api.mislabel.what}: the audit of it decides"
    if api.label and api.lowest:
        older = ", ".join(map(str, _list_older(api, admitted)))
        who = f"; Python {older} would install it, and may not load it" if older else ""
        yield f"{api.tagged_at}: the tag {tag} is too low, as {api.where}: expected cp{api.lowest.digits}{who}"


def _list_older(api: PythonApi, admitted: SpecifierSet) -> list[Minor]:
    """Return the Pythons that install a wheel by its tag though its code is compiled for a newer one."""
    between = range(api.label.minor, api.lowest.minor) if api.label and api.lowest else ()  # both are of Python 3
    return [python for minor in between if admits(admitted, python := Minor(3, minor))]


def _installs(python: Python, tag: str) -> bool:
    """Whether installers of a Python take a wheel with these tags of interpreter and ABI."""
    version, abi = (python.version.major, python.version.minor), python.abi_tag
    known = (*cpython_tags(version, [abi], ["any"]), *compatible_tags(version, python.interpreter_tag, ["any"]))
    return not {*known}.isdisjoint(parse_tag(f"{tag}-any"))  # one tag of a compressed set is enough (PEP 425)


def _explain_floor(api: PythonApi, oldest: Minor) -> str:
    """Return what to change about code that is compiled for a newer limited API than its wheel's tag."""
    macro = f"Py_LIMITED_API 0x03{oldest.minor:02X}0000"  # as PY_VERSION_HEX: major, minor, micro and level
    return f'expected cp{api.lowest and api.lowest.digits} with `requires-python = ">={api.lowest}"`, or {macro}'
