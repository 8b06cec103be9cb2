"""Judges the tag that an observed build gives its wheel: for which Pythons, and whether what it compiles agrees.

The build names its wheel by that tag whatever it compiles, so a plan predicts this very name, or stops. It stops where
the sources make certain that the tag is not true; what they leave open, the audit reads in the libraries' symbols.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.evidence import ABI3, OWN_SUFFIX, Binding, Compile, Extension, Mislabel, PythonApi, read_tag
from ci_tools.model.versions import Python, admits, parse_specifiers
from ci_tools.observe.views import View
from ci_tools.source.backends.facts import fits_platform
from ci_tools.source.includes import (
    Include,
    Includes,
    SourceLine,
    find_contradiction,
    list_forced_headers,
    list_forced_includes,
)
from ci_tools.source.python_api import Limit, closure, find_limit, names_python, read_limit, uses

if TYPE_CHECKING:
    from ci_tools.observe.build import ObservedBuild
    from ci_tools.observe.observation import Observed

    Observe = Callable[[View], Observed]

RAN = "observed by running setup.py"
GET_TAG = "get_tag"  # noted among the questions where a project has a method of its own that tags its wheel
CYTHON = (".pyx", ".py")
SOABI = ".cpython-"  # in the file name of a library that only the Python that builds it looks for
REQUIRES = "Requires-Python: "
LIMITED_FLAG = re.compile(r"[-/](D(Py|CYTHON)|U(?P<undone>Py))_LIMITED_API\b")
PULLS_PYBIND = frozenset({"torch/torch.h"})  # with the macro that torch's BuildExtension defines
DECLARES = ("setup.py", "setup.cfg", "pyproject.toml")  # files in which a project states the tag of its wheel


class Excess(NamedTuple):
    """A part of a build that is beyond the Python API of its tag; `is_certain` if its code is seen to use that."""

    why: str
    is_certain: bool


def _read_tag(tag: str) -> PythonApi:
    """Return the Python API of an observed wheel's tag; "" stands for that of the building Python."""
    return read_tag(tag, f"{RAN}: its wheel is tagged {tag or 'for the Python that builds it'}")


def judge_tag(build: ObservedBuild) -> PythonApi:
    """Return the Python API of a build's tag, from the newest limited API on that it compiles for, and what it breaks.

    A tag such as cp39-abi3 on code for the limited API of 3.10 serves Python 3.10 and later.
    """
    tag = build.observed.tag
    api = _read_tag(tag)._replace(tagged_at=_find_place(build, tag.partition("-")[0]))
    api = _blame(api, _list_excess(api, build))
    api = api._replace(named_by_builder=_is_shared(api) and bool(_list_named(build)))
    return _raise_floor(api, build.compiles, build.includes)


def judge_targets(api: PythonApi, libraries: Iterable[Extension], includes: Includes) -> PythonApi:
    """Return the limited API that a wheel's settings declare, with what its libraries, as cmake makes them, break."""
    libraries = list(libraries)
    commands = [command for library in libraries for command in library.compiles]
    found = [one for command in commands for one in _list_excess_of_command(command, api, includes)]
    for library in libraries:
        binds = any(_find_python(_list_reached(command, includes)) for command in library.compiles)
        if binds and SOABI in library.member:
            found.append(Excess(f"{library.member.partition('.')[0]} is named for the Python that builds it", binds))
    return _raise_floor(_blame(api, found), commands, includes)


def _blame(api: PythonApi, excess: Iterable[Excess]) -> PythonApi:
    """Return an API with the first that is beyond it, certain things first."""
    found = sorted(excess, key=lambda one: not one.is_certain)
    return api._replace(mislabel=Mislabel(*found[0])) if found else api


def _raise_floor(api: PythonApi, commands: Iterable[Compile], includes: Includes) -> PythonApi:
    """Return an API from the newest limited API on that a command compiles for."""
    limits = list(_list_limits(commands, includes)) if api.lowest else []
    floors = [(one.lowest, f"{command.source} is compiled with {one.what}") for command, one in limits if one.lowest]
    floor, where = max(floors, default=(api.lowest, ""))
    if floor is None or api.lowest is None or floor == api.lowest:
        return api
    if floor > api.lowest:
        used = uses(includes, [command.source for command, _ in limits], api.lowest)
        newer = next((use for use in used if use.since), None)
        what = f"{newer.place} uses {newer.name}, which Python {newer.since} has first" if newer else ""
        mislabel = api.mislabel or (Mislabel(what, is_certain=False) if what else None)
        return api._replace(lowest=floor, label=api.lowest, where=where, mislabel=mislabel)
    return api._replace(where=f"{api.where} ({api.tagged_at}), though {where}")


def explain_platform(build: ObservedBuild, view: View) -> str:
    """Return why a wheel is not for the platform that it is built on, by its tag or by what it ships; or ""."""
    shipped, own = build.observed.systems, f"{view.os} {view.machine}"
    if shipped and not any(own in systems.split(", ") for systems in shipped.values()):
        name, systems = next(iter(shipped.items()))
        return f"its wheel ships {name}, which is for {systems}"
    if fits_platform(build.observed.platform, view.os, view.machine):
        return ""
    return f"its wheel is tagged {build.observed.platform} ({_find_place(build, build.observed.platform)})"


def trust_tag(observed: Observed) -> PythonApi | None:
    """Return the Python API of a build that is not understood, by its tag; None if that is no tag for several Pythons.

    The build names its wheel so, whatever else is not known of it: the audit decides whether the tag is true.
    """
    api = _read_tag(observed.tag)
    return api if _is_shared(api) and not observed.is_pure else None


def name_by_oldest(observed: Observed, view: View, pythons: Iterable[Python], observe: Observe) -> Observed:
    """Return a build whose tag names the limited API of the Python that builds it with the tag of the oldest such.

    One wheel then serves all from that on, and that Python builds it. `pythons` are those of the request.
    """
    if not ABI3.fullmatch(observed.tag):
        return observed
    usual = sorted(one for one in _admit(pythons, observed.metadata) if not one.free_threaded)
    if view.python not in usual or observed.tag != _name_limited_api(view.python):
        return observed
    own, at = _drop_own_limit(observed, view.python).gist, usual.index(view.python)
    for python in (*usual[:at], *usual[:at:-1]):  # the older ones first
        other = observe(view._replace(python=python))
        if other.tag == _name_limited_api(python) and _drop_own_limit(other, python).gist == own:
            first = other if python < view.python else observed
            return observed._replace(tag=first.tag, commands=first.commands, libraries=first.libraries)
    return observed


def _drop_own_limit(observed: Observed, python: Python) -> Observed:
    """Return a build without the flags for the limited API of the Python that builds it."""

    def drop(one: Compile) -> Compile:
        own = {flag for flag in one.flags if LIMITED_FLAG.match(flag) and read_limit(flag).lowest == python.version}
        return one._replace(flags=tuple(flag for flag in one.flags if flag not in own))

    libraries = tuple(one._replace(compiles=tuple(map(drop, one.compiles))) for one in observed.libraries)
    return observed._replace(commands=tuple(map(drop, observed.commands)), libraries=libraries)


def _admit(pythons: Iterable[Python], metadata: Iterable[str]) -> Iterator[Python]:
    """Yield the Pythons that METADATA admits; none if its specifier is invalid, which the plan says."""
    said = next((line.removeprefix(REQUIRES) for line in metadata if line.startswith(REQUIRES)), "")
    with suppress(ValueError):
        specifier = parse_specifiers(said)
        yield from (one for one in pythons if admits(specifier, one.version))


def _name_limited_api(python: Python) -> str:
    return f"{python.interpreter_tag}-abi3"


def _is_shared(api: PythonApi) -> bool:
    """Whether a wheel is tagged for more than one Python."""
    return api.kind in {Binding.NONE, Binding.STABLE}


def _find_place(build: ObservedBuild, tag: str) -> str:
    """Return the line that tags the wheel, by the project's own method or by a setting of bdist_wheel."""
    if place := build.observed.asked.get(GET_TAG):
        return place
    said = re.compile(rf"\b{re.escape(tag)}\b")
    files = [posixpath.normpath(posixpath.join(build.folder, name)) for name in DECLARES]
    for file in filter(build.includes.has, files):
        for number, line in enumerate(build.includes.text(file).splitlines(), 1):
            if said.search(line):
                return str(SourceLine(file, number))
    return str(SourceLine(files[0], 1))


# ---------------------------------------------------------------- what speaks against a tag


def _list_excess(api: PythonApi, build: ObservedBuild) -> Iterator[Excess]:
    """Yield what a build compiles beyond the API of its tag."""
    if not _is_shared(api):
        return
    members = [*(one.member.replace(OWN_SUFFIX, "") for one in build.built), *build.observed.shipped]
    if build.observed.is_pure and members:
        yield Excess(f"{members[0]} is compiled, and the wheel is for any machine", is_certain=True)
    for library in _list_named(build):
        yield from _list_excess_of_named(library, build)
    for command in build.compiles:
        yield from _list_excess_of_command(command, api, build.includes)
    if build.runs_other and (found := find_contradiction(api, build.includes.external_includes(build.sources))):
        yield Excess(found.where.partition(", against")[0], is_certain=False)  # nobody knows that it is compiled


def _list_named(build: ObservedBuild) -> tuple[Extension, ...]:
    """Return the libraries whose file names only the Python that builds them looks for."""
    return tuple(one for one in build.built if one.member.endswith(OWN_SUFFIX))


def _list_excess_of_named(library: Extension, build: ObservedBuild) -> Iterator[Excess]:
    """Yield why only one Python can load a library that is named for it.

    Every Python can if no `import` looks for it, and its code needs nothing of Python.
    """
    name, is_loaded = library.member.removesuffix(OWN_SUFFIX), build.find_loader(library.member) is not None
    none = PythonApi(Binding.NONE, "")
    found = [one for command in library.compiles for one in _list_excess_of_command(command, none, build.includes)]
    found.sort(key=lambda one: not one.is_certain)
    if found:
        yield Excess(f"{name} is compiled for one Python ({found[0].why})", found[0].is_certain)
    elif not is_loaded:
        yield Excess(f"{name} is named for one Python, and nothing is known to load it by a pattern", is_certain=False)


def _list_excess_of_command(command: Compile, api: PythonApi, includes: Includes) -> Iterator[Excess]:
    """Yield why one command goes beyond the API that the tag declares."""
    if not includes.has(command.source):
        yield Excess(f"{command.source} is compiled, and is not in the source", is_certain=False)
        return
    reached = _list_reached(command, includes)
    if contradiction := find_contradiction(api, reached):
        yield Excess(contradiction.where.partition(", against")[0], _names_python(command, api, includes))
    elif "-DTORCH_API_INCLUDE_EXTENSION_H" in command.flags:
        pulled = (place for header, place, _ in reached if header in PULLS_PYBIND)
        for place in list(pulled)[:1]:
            what = f"{place}: torch/torch.h includes pybind11, as torch's BuildExtension compiles it"
            yield Excess(what, _names_python(command, api, includes))
    if api.kind is Binding.STABLE and (python := _find_python(reached)) and not _find_limit(command, includes):
        what = f"{python.place}: includes {python.header}, and nothing defines Py_LIMITED_API before it"
        yield Excess(what, is_certain=True)


def _names_python(command: Compile, api: PythonApi, includes: Includes) -> bool:
    """Whether a command that reaches Python's headers is known to bind to Python: a library may need none of it."""
    is_bound = api.kind is Binding.STABLE or command.source.endswith(CYTHON)
    return is_bound or names_python(includes, closure(includes, [command.source]))


def _list_reached(command: Compile, includes: Includes) -> tuple[Include, ...]:
    """Return the headers outside the source that a command may reach."""
    reached = (*includes.external_includes([command.source]), *list_forced_includes(command, includes))
    python = Include("Python.h", SourceLine(command.source, 1))
    return (*reached, python) if command.source.endswith(CYTHON) else reached


# ---------------------------------------------------------------- the limited API


def _list_limits(commands: Iterable[Compile], includes: Includes) -> Iterator[tuple[Compile, Limit]]:
    """Yield each command that compiles for a limited API, and which."""
    for command in commands:
        is_known = includes.has(command.source) and _find_python(_list_reached(command, includes))
        if is_known and (limit := _find_limit(command, includes)):
            yield command, limit


def _find_python(reached: tuple[Include, ...]) -> Include | None:
    """Return the include of Python.h by a command, or of nanobind's headers, which include it."""
    return next((one for one in reached if one.header == "Python.h" or one.header.startswith("nanobind/")), None)


def _find_limit(command: Compile, includes: Includes) -> Limit | None:
    """Return the limited API of a command that includes Python.h: by its flags, or as its files define it before."""
    flags = [(flag, found["undone"]) for flag in command.flags if (found := LIMITED_FLAG.match(flag))]
    undone = max((index for index, (_, is_undone) in enumerate(flags) if is_undone), default=-1)
    limits = [read_limit(flag) for flag, _ in flags[undone + 1 :]]
    flagged = max(limits, key=lambda one: (one.lowest is not None, one.lowest), default=None)
    forced = (own for header in list_forced_headers(command) for own in includes.own(header))
    return find_limit(includes, (*forced, command.source), flagged)
