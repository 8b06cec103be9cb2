"""The parts of a wheel's file name, and of the paths in it, that a plan predicts, and what is wrong with its tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.tags import compatible_tags, cpython_tags, parse_tag
from packaging.utils import canonicalize_name

from ci_tools.config.release_names import label_archs
from ci_tools.errors import Problem
from ci_tools.model.evidence import OWN_SUFFIX, Binding
from ci_tools.model.versions import Minor, admits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from packaging.specifiers import SpecifierSet

    from ci_tools.model.evidence import PythonApi
    from ci_tools.model.platforms import Accelerator, Platform
    from ci_tools.model.versions import Python

PY_API = "py-api"  # the setting of scikit-build-core that tags a wheel
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
    """Return the path of a library with the suffix of the Python that builds it."""
    return member.replace(OWN_SUFFIX, suffix)


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
    what = ""
    if pythons and api.mislabel and api.mislabel.is_certain:
        what = f"the wheel is tagged {_tag(api)}, though {api.mislabel.what}: {_explain_way_out(api)}"
    elif (older := _list_older(api, admitted)) and (api.mislabel or {*older} & {one.version for one in pythons}):
        why = api.mislabel.what if api.mislabel else api.where
        who = f"Python {', '.join(map(str, older))}"
        what = f"the wheel is tagged {_tag(api)}, so {who} installs it, but {why}: {_explain_floor(api, older[0])}"
    elif refused := [one for one in pythons if api.tag and not _installs(one, api.tag)]:
        what = f"Python {refused[0]} tags the wheel {api.tag}, and does not install it: {_explain_way_out(api)}"
    if what:
        yield Problem(api.tagged_at, f"{platform}: {what}")


def warn_of_tag(api: PythonApi, admitted: SpecifierSet) -> Iterator[str]:
    """Yield a warning about a tag that is too low, or that may not be true; `admitted` is the project's Pythons."""
    if api.mislabel and not api.mislabel.is_certain and not api.label:
        yield f"{api.tagged_at}: the wheel is tagged {_tag(api)}, though {api.mislabel.what}: the audit of it decides"
    if api.label and api.lowest:
        older = ", ".join(map(str, _list_older(api, admitted)))
        who = f"; Python {older} would install it, and may not load it" if older else ""
        yield f"{api.tagged_at}: the tag {_tag(api)} is too low, as {api.where}: expected cp{api.lowest.digits}{who}"


def _list_older(api: PythonApi, admitted: SpecifierSet) -> list[Minor]:
    """Return the Pythons that install a wheel by its tag though its code is compiled for a newer one."""
    between = range(api.label.minor, api.lowest.minor) if api.label and api.lowest else ()  # both are of Python 3
    return [python for minor in between if admits(admitted, python := Minor(3, minor))]


def _installs(python: Python, tag: str) -> bool:
    """Whether installers of a Python take a wheel with these tags of interpreter and ABI."""
    version, abi = (python.version.major, python.version.minor), python.abi_tag
    known = (*cpython_tags(version, [abi], ["any"]), *compatible_tags(version, python.interpreter_tag, ["any"]))
    return not {*known}.isdisjoint(parse_tag(f"{tag}-any"))  # one tag of a compressed set is enough (PEP 425)


def _tag(api: PythonApi) -> str:
    lowest = api.label or api.lowest
    return f"cp{lowest.digits}-abi3" if api.kind is Binding.STABLE and lowest else api.tag or "py3-none"


def _explain_floor(api: PythonApi, oldest: Minor) -> str:
    """Return what to change about code that is compiled for a newer limited API than its wheel's tag."""
    macro = f"Py_LIMITED_API 0x03{oldest.minor:02X}0000"  # as PY_VERSION_HEX: major, minor, micro and level
    return f'expected cp{api.lowest and api.lowest.digits} with `requires-python = ">={api.lowest}"`, or {macro}'


def _explain_way_out(api: PythonApi) -> str:
    """Return what to change about a tag that is not true."""
    if api.kind is Binding.STABLE and api.lowest:
        if PY_API in api.where:
            nanobind = "from cp312 on nanobind's STABLE_ABI, with Python's component Development.SABIModule"
            asked = f"USE_SABI {api.lowest} (or {nanobind}) for each module, on each system"
            return f"expected {asked}, or no wheel.{PY_API}"
        macro = f"0x03{api.lowest.minor:02X}0000"  # 3.12 is 0x030C0000
        return f"expected py_limited_api=True and Py_LIMITED_API {macro} for what is compiled, or no tag of its own"
    return "expected no tag of its own, or one that is true (get_tag and root_is_pure of bdist_wheel)"
