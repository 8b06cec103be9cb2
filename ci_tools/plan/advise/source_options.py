"""Options that change the source of extensions: what binds them to one Python, one chip or Python.h."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from ci_tools.errors import count
from ci_tools.formats import edits, toml
from ci_tools.formats.edits import extension_lines
from ci_tools.model.evidence import OWN_SUFFIX, Binding, Extension, Extensions, PythonApi
from ci_tools.model.versions import Minor
from ci_tools.plan.advise.option import (
    BOUND,
    GENERATED,
    SCIKIT_BUILD,
    Change,
    Edit,
    Edits,
    Option,
    ProjectView,
    Situation,
    change_evidence,
    describe_include,
    keep,
)
from ci_tools.source.includes import PYTHON_HEADER, UNLIMITED_HEADER, Include, SourceLine
from ci_tools.source.python_api import (
    EXTENSION,
    Needless,
    closure,
    find_needless,
    narrower,
    replace_headers,
    users_of,
    uses,
)

# Sm_90a, sm_100f: code for one chip or family (CUDA C++ Programming Guide, feature sets).
ONE_CHIP = re.compile(r"\bsm_(\d+[af])\b")
# Instructions of `a` and `f` architectures only, and libraries whose headers may use them.
OF_ONE_CHIP = re.compile(
    r"\bwgmma\b|\bsetmaxnreg\b|\btcgen05\b|\bcp\.async\.bulk\b|\bkind::\w+|\be2m1\w*|\bCUTE_ARCH_\w+|\bCUTLASS_ARCH_\w+"
    r"|__CUDA_ARCH_FEAT_|__CUDA_ARCH_SPECIFIC__|__CUDA_ARCH_FAMILY_SPECIFIC__"
)
MAY_USE_IT = re.compile(r"^(cutlass|cute|kittens|cuda/ptx)\b")


def find_chip_options(source: ProjectView) -> Iterator[Option]:
    """Yield the libraries whose files are all compiled for only one chip, although only some need it."""
    seen: set[str] = set()
    # Lazy, so that `seen` counts: each Python and torch builds it again.
    for built in (built for shown in source.shown for built in shown.built if built.member not in seen):
        seen.add(built.member)
        for arch in sorted({arch for one in built.compiles for flag in one.flags for arch in ONE_CHIP.findall(flag)}):
            yield from _chip_options(source, built, arch)


def _chip_options(source: ProjectView, built: Extension, arch: str) -> Iterator[Option]:
    files = [one.source for one in built.compiles if any(arch in ONE_CHIP.findall(flag) for flag in one.flags)]
    needing = {file: place for file in files if (place := _find_chip_use(source, file))}
    if not 0 < len(needing) < len(files):  # if all need it, or none visibly, there is nothing to split
        return
    member = built.member.replace(OWN_SUFFIX, "")
    verb = "uses" if len(needing) == 1 else "use"
    yield Option(
        name="one-chip",
        what=f"{len(needing)} of {len(files)} files of {member} {verb} features that only sm_{arch} has, "
        f"and all {len(files)} are compiled for it",
        places=(*needing.values(), *_forcing(source, arch)),
        how=f"give {', '.join(needing)} a separate library, compiled for sm_{arch}, "
        f"and compile the rest for sm_{arch[:-1]}",
    )


def _find_chip_use(source: ProjectView, file: str) -> str:
    """Return where a file or its includes use, or may use, features of only one chip; "" if they do not."""
    for own in closure(source.includes, [file]):
        text = source.includes.text(own)
        if match := OF_ONE_CHIP.search(text):
            return f"{SourceLine.at(own, text, match.start())}: {match[0]}"
        for include in source.includes.of(own):
            if MAY_USE_IT.match(include.header):
                return describe_include(include)
    return ""


def _forcing(source: ProjectView, arch: str) -> Iterator[str]:
    """Yield the places that request an architecture."""
    words = re.compile(rf"(?:sm_|compute_){arch}\b|\b{arch[:-2]}\.{arch[-2:]}")
    for file in source.build_files():
        for number, line in enumerate(source.tree.text(file).splitlines(), 1):
            if match := words.search(line):
                yield f"{SourceLine(file, number)}: {match[0]}"


# ---------------------------------------------------------------- headers

FIRST_CXX20 = Minor(2, 13)  # torch.utils.cpp_extension adds c++20 where no standard is stated, and c++17 before
STATED = re.compile(r"[-/]std[=:]")  # -std=c++17 of GCC and nvcc, /std:c++17 of MSVC, --std=c++17


def list_needless(source: ProjectView) -> tuple[Needless, ...]:
    """Return the files that each Python of a plan compiles again, though they use nothing of it."""
    pythons = {job.python for job in source.plan.jobs if job.python_stays}
    if len(pythons) < 2:  # noqa: PLR2004 - with one Python, each file is compiled once anyway
        return ()
    return find_needless(source.includes, source.compiled, is_setuptools=source.is_setuptools)


def find_header_options(source: ProjectView) -> Iterator[Option]:
    """Yield the option to include torch without Python where nothing of Python is used."""
    needless = list_needless(source)
    if not needless:
        return
    lines = narrower(needless, source.includes, source.compiled)
    changes: list[tuple[str, Edit]] = [(file, partial(replace_headers, headers=new)) for file, new in lines.items()]
    first = f"#include <{EXTENSION}>\n{{}}".format  # Python.h is to precede the standard headers
    changes += [(file, first) for file in users_of(lines, source.includes, source.compiled)]
    places = dict.fromkeys(describe_include(one) for found in needless for one in found.includes)
    some = count(len(needless), "file")
    yield Option(
        name="python-header",
        what=f"{some} of {len(source.compiled)} reach Python.h and use nothing of it: each Python compiles them again",
        places=tuple(places),
        how="ATen/ATen.h, torch/types.h or torch/all.h, by what is used; what has the bindings keeps torch/extension.h",
        edits=source.possible(tuple(changes)),
    )


def find_standard_options(source: ProjectView) -> Iterator[Option]:
    """Yield the option to state the C++ standard that torch's BuildExtension would else change between two torches."""
    torches = [job.torch for job in source.plan.jobs if job.torch and job.requires_torch]
    name = source.project.path("setup.py")
    text = source.tree.text(name) if source.is_setuptools and torches else ""
    if "BuildExtension" in text and not STATED.search(text) and min(torches) < FIRST_CXX20 <= max(torches):
        yield Option(
            name="cxx-standard",
            what="no C++ standard is stated, so that builds for older and newer torches share no compile unit",
            places=tuple(f"{SourceLine(name, line)}: an extension" for line in extension_lines(text)),
            how=f"-std=c++20 in extra_compile_args, for cxx and nvcc: BuildExtension adds it from {FIRST_CXX20} on,"
            " and c++17 before",
        )


# ---------------------------------------------------------------- the Python axis

FIRST_STABLE_NANOBIND = Minor(3, 12)  # nanobind_add_module's STABLE_ABI has an effect from 3.12 on
PULLS_PYBIND = "torch/torch.h"  # as torch's BuildExtension compiles it
PULLED = ", which includes pybind11 in torch's BuildExtension"


def find_python_options(source: ProjectView) -> Iterator[Option]:
    """Yield the options that remove the Python axis."""
    bound = [one for one in source.shown if one.python_api.kind in BOUND and one.extensions is Extensions.SOME]
    if not bound or source.oldest is None:
        return
    where = tuple(dict.fromkeys(shown.python_api.where for shown in bound))
    pulled = PULLS_PYBIND if source.is_setuptools else None
    found = source.external_includes
    pybind = [one for one in found if one.header == pulled or UNLIMITED_HEADER.match(one.header)]
    if pybind:
        yield _pybind(source, pybind, source.oldest)
    elif source.generators or not source.compiled:  # generated C is not in the source, so its includes are not known
        yield from _generator_options(source, where, source.oldest)
    elif any(PYTHON_HEADER.match(include.header) for include in source.external_includes):
        yield _python_api_option(source, where, source.oldest)
    else:
        yield _unbound(source, where, source.oldest)


def _limit_api(lowest: Minor, *, builds_older: bool = True) -> Change:
    return _assume_api(PythonApi(Binding.STABLE, "if it were limited", lowest, builds_older=builds_older))


def _assume_api(api: PythonApi) -> Change:
    """Return a Change that gives an API to each build whose own keeps the Python axis."""
    return change_evidence(lambda shown: replace(shown, python_api=api) if shown.python_api.kind in BOUND else shown)


def _pybind(source: ProjectView, pybind: list[Include], oldest: Minor) -> Option:
    uses_torch = any(include.is_torch for include in source.external_includes)
    # TORCH_LIBRARY takes Python out of the code, so any Python will do.
    lowest = oldest if uses_torch else max(oldest, FIRST_STABLE_NANOBIND)
    nanobind = f"nanobind has a stable ABI, from Python {FIRST_STABLE_NANOBIND} on"
    library = "operators registered with TORCH_LIBRARY need no Python symbol at all"
    return Option(
        name="python-bindings",
        what=f"{count(len(pybind), 'include')} of pybind11 or the like {keep(len(pybind))} the Python axis",
        places=tuple(f"{describe_include(one)}{PULLED if one.header == PULLS_PYBIND else ''}" for one in pybind),
        how=f"pybind11 cannot keep to the limited API: {f'{library}; {nanobind}' if uses_torch else nanobind}",
        change=_limit_api(lowest),
    )


def _generator_options(source: ProjectView, where: tuple[str, ...], oldest: Minor) -> Iterator[Option]:
    """Yield the option for generated code to use the limited API; no text shows whether the code keeps to it."""
    tools = {name: GENERATED[PurePosixPath(name).suffix] for name in source.generators}
    found = [f"{SourceLine(name, 1)}: {tool}" for name, (tool, _) in tools.items()]
    known = dict.fromkeys(way.format(digits=oldest.digits) for _, way in tools.values())
    if known and all(known):  # one that cannot use it keeps the axis for all
        yield Option(
            name="python-limited-api",
            what=f"the limited API of Python {oldest} is not declared, which keeps the Python axis",
            places=(*where, *found),
            how="; ".join(known),
            change=_limit_api(oldest),
        )


def _python_api_option(source: ProjectView, where: tuple[str, ...], oldest: Minor) -> Option:
    """Return the option for code that includes Python.h to declare the limited API."""
    lacking = uses(source.includes, source.compiled, oldest)
    never = [use for use in lacking if use.since is None]
    if never:
        return Option(
            name="python-limited-api",
            what=f"{count(len(never), 'name')} that the limited API lacks {keep(len(never))} the Python axis",
            places=tuple(f"{use.place}: {use.name}" for use in never),
            how="write them with functions of the limited API; see “C API Stability” in Python's documentation",
            change=_limit_api(oldest),
        )
    floors = [use.since for use in lacking if use.since]
    floors += [FIRST_STABLE_NANOBIND for one in source.external_includes if one.header.startswith("nanobind/")]
    return _declaration_option(source, where, max([oldest, *floors]), oldest)


def _declaration_option(source: ProjectView, where: tuple[str, ...], lowest: Minor, oldest: Minor) -> Option:
    is_scikit = source.project.backend == SCIKIT_BUILD
    wanted = _limiting(source, lowest) if is_scikit or lowest == oldest else ()
    return Option(
        name="python-limited-api",
        what=f"the limited API of Python {lowest} is not declared, which keeps the Python axis",
        places=(*where, *_extension_places(source)),
        how=_describe_declaration(source, lowest),
        change=_limit_api(lowest, builds_older=is_scikit or lowest > oldest),
        edits=source.possible(wanted),
    )


def _limiting(source: ProjectView, lowest: Minor) -> Edits:
    """Return the edits that declare the limited API for the project's backend."""
    if source.is_setuptools:
        edit = partial(edits.declare_limited_api, lowest=lowest, free_threaded=source.has_free_threaded)
        return ((source.project.path("setup.py"), edit),)
    if source.project.backend == SCIKIT_BUILD:
        return (
            (source.project.name, partial(toml.set_py_api, tag=f"cp{lowest.digits}")),
            (source.project.path("CMakeLists.txt"), edits.declare_cmake_limited_api),
        )
    # meson-python refuses the limited API for a free-threaded Python that lacks it.
    if source.project.backend == "mesonpy" and not source.has_free_threaded:
        return (
            (source.project.name, toml.tag_meson_limited_api),
            *((name, partial(edits.declare_meson_limited_api, lowest=lowest)) for name in source.meson_files()),
        )
    return ()


def _extension_places(source: ProjectView) -> Iterator[str]:
    if source.is_setuptools:
        name = source.project.path("setup.py")
        for line in edits.extension_lines(source.tree.text(name)):
            yield f"{SourceLine(name, line)}: an extension without py_limited_api"


def _describe_declaration(source: ProjectView, lowest: Minor) -> str:
    if source.is_setuptools:
        macro = "Py_LIMITED_API among its macros"
        return f"py_limited_api=True for each extension, {macro}, and bdist_wheel's py_limited_api cp{lowest.digits}"
    if source.project.backend == SCIKIT_BUILD:
        return f'wheel.py-api = "cp{lowest.digits}", and USE_SABI or STABLE_ABI where CMake makes the module'
    if source.project.backend == "mesonpy":
        return f"limited-api = true in [tool.meson-python], and limited_api: '{lowest}' for each extension_module"
    return "declare it as the build backend requires"


def _unbound(source: ProjectView, where: tuple[str, ...], oldest: Minor) -> Option:
    """Return the option for a library that includes no Python header to serve every Python."""
    what = "nothing that is compiled includes Python.h, but the wheel's tag keeps the Python axis"
    option = _declaration_option(source, where, oldest, oldest)._replace(what=what)
    is_scikit = source.project.backend == SCIKIT_BUILD
    cmake = source.tree.text(source.project.path("CMakeLists.txt")) if is_scikit else ""
    if not is_scikit or re.search(r"Python3?_add_library|pybind11|nanobind|Development", cmake):
        return option
    return option._replace(
        how='wheel.py-api = "py3": the library is loaded by path, and needs no Python symbol',
        change=_assume_api(PythonApi(Binding.NONE, "if it were declared")),
        edits=source.possible(((source.project.name, partial(toml.set_py_api, tag="py3")),)),
    )


def find_name_options(source: ProjectView) -> Iterator[Option]:
    """Yield the libraries that are named for the Python that builds them, in a wheel for every Python."""
    named = [shown for shown in source.shown if shown.python_api.named_by_builder]
    built = (one.member for shown in named for one in shown.built)
    members = {member.removesuffix(OWN_SUFFIX) for member in built if member.endswith(OWN_SUFFIX)}
    if members:
        verb = "is" if len(members) == 1 else "are"
        yield Option(
            name="python-name",
            what=f"{', '.join(sorted(members))} {verb} named for the Python that builds, in a wheel for every Python",
            places=tuple(_extension_places(source)),
            how="py_limited_api=True for that extension names it .abi3.so; now only the loader's pattern finds it",
        )


def find_old_python_options(source: ProjectView) -> Iterator[Option]:
    """Yield the option to drop the Pythons that are older than the declared limited API."""
    limited = [one.python_api for one in source.shown if one.python_api.kind is Binding.STABLE]
    starts = [(api.lowest, api.where) for api in limited if api.lowest]
    if not starts or source.oldest is None or source.oldest >= max(starts)[0]:  # no Python asked for is older
        return
    lowest, where = max(starts)
    older = [str(one) for one in source.request.pythons if one.version < lowest and not one.free_threaded]
    edit = partial(toml.raise_requires_python, lowest=lowest)
    yield Option(
        name="requires-python",
        what=f"the limited API starts at {lowest}, so Python {' and '.join(older)} need their own wheels; without them",
        places=(where, f"{source.plan.project.where}: requires-python"),
        how=f'requires-python = ">={lowest}" gives up {" and ".join(older)}: their users stay with the last release',
        change=partial(_requiring, lowest=lowest),
        edits=source.possible(((source.project.name, edit),)),
        gives_up=True,
    )


def _requiring(situation: Situation, lowest: Minor) -> Situation:
    project = situation.evidence.project._replace(requires_python=f">={lowest}")
    return situation._replace(evidence=replace(situation.evidence, project=project))
