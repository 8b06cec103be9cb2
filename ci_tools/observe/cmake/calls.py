"""Follows a setup.py into cmake: what its build compiles is what the configure step shows that it was seen to start.

The arguments that only say where a builder has its programs and puts its files are left out: the stage has its own.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from ci_tools.model.evidence import Binding, CellEvidence
from ci_tools.observe.cmake.witness import Ask, CmakeWitness, OpenFacts
from ci_tools.observe.observation import Observed
from ci_tools.observe.setup_py.run import Observer
from ci_tools.observe.views import View
from ci_tools.source.backends.cmake_call import UNFOLLOWED_NAMES, CmakeCall
from ci_tools.source.includes import Includes

ARGUMENTS = "CMAKE_ARGS"  # the variable by which setup.py files take arguments for cmake, as scikit-build-core does
PROBE = "-DFATWHEEL_PROBE=1"  # an argument that no project makes by itself
SOURCE = "<source>"  # the root of the source in a recorded call
CHANGE = re.compile(r"[A-Za-z_]\w*=")  # a variable that the project changes for cmake
VALUED = re.compile(r"(-[ABCDGSTU])(.*)", re.DOTALL)
BUILDS = frozenset({"--build", "--install", "--open"})
# Options that change nothing of what is compiled, or only name the build's own folder and tool.
IDLE_OPTIONS = frozenset({"-A", "-B", "-G", "-T", "--install-prefix"})
IDLE_WORDS = re.compile(r"-W.*|-L.*|--(?:debug|fresh|log-|no-warn|trace|warn).*")
IDLE_NAMES = re.compile(
    r"""
    CMAKE_(?:MAKE_PROGRAM|INSTALL_PREFIX|VERBOSE_MAKEFILE|EXPORT_COMPILE_COMMANDS|JOB_POOLS?|JOB_POOL_\w+)
    | CMAKE_\w*OUTPUT_DIRECTORY\w* | CMAKE_(?:ASM|C|CXX|CUDA|OBJC|OBJCXX)_COMPILER(?:_LAUNCHER)?
    | Python3?_(?:EXECUTABLE|ROOT_DIR|(?:NumPy_|EXTRA_)?(?:INCLUDE|LIBRARY|LIBRARIES)\w*)
    | PYTHON_(?:EXECUTABLE|INCLUDE\w*|LIBRAR\w+)
    | (?:pybind11|nanobind|Torch)_(?:DIR|ROOT)
    """,
    re.VERBOSE,
)


class _Parsed(NamedTuple):
    """The folder of a call, its definitions, and why it cannot be followed."""

    folder: str = ""
    arguments: tuple[str, ...] = ()
    doubt: str = ""


def read_observed_call(observed: Observed, env: Mapping[str, str], folder: str, variable: str) -> CmakeCall:
    """Return the call of cmake that an observed build of the project in `folder` makes, with the config's variables.

    `variable` is the one whose arguments the build passes on; "" if there is none. The call has a doubt if there are
    several, or if it cannot be followed.
    """
    calls = dict.fromkeys(_read_calls(observed))
    if len(calls) != 1:
        return CmakeCall(doubt=f"setup.py configures {len(calls)} builds of cmake, expected one")
    ((changes, call),) = calls
    path = posixpath.normpath(call.folder)
    if call.doubt or not f"{path}/".startswith(f"{SOURCE}/"):
        return CmakeCall(doubt=call.doubt or f"setup.py has cmake configure {path}, which is not in the source")
    return CmakeCall(
        posixpath.relpath(path, posixpath.normpath(f"{SOURCE}/{folder}")),
        call.arguments,
        tuple(sorted({**env, **dict(word.split("=", 1) for word in changes)}.items())),
        written=tuple(sorted(observed.generated.items())),
        variable=variable,
    )


def _read_calls(observed: Observed) -> Iterator[tuple[tuple[str, ...], _Parsed]]:
    for words in observed.configured:
        changes = tuple(takewhile(CHANGE.match, words))
        arguments = words[len(changes) :]
        if arguments and arguments[0] not in BUILDS:
            yield changes, _parse(arguments)


def _parse(arguments: Iterable[str]) -> _Parsed:
    found = _Parsed()
    waiting = iter(arguments)
    for word in waiting:
        found = _add(found, *_split(word, waiting))
    return found


def _split(word: str, waiting: Iterator[str]) -> tuple[str, str]:
    """Return an option and its value; the option is "" for a folder, and the value is "" where it takes none."""
    if not word.startswith("-"):
        return "", word
    if match := VALUED.fullmatch(word):
        return match[1], match[2] or next(waiting, "")
    option, equals, value = word.partition("=")
    return option, value if equals or option not in IDLE_OPTIONS else next(waiting, "")


def _add(found: _Parsed, option: str, value: str) -> _Parsed:
    if option in {"", "-S"}:
        return found._replace(folder=value)
    if option == "-D":
        name = re.split("[:=]", value, maxsplit=1)[0]
        if UNFOLLOWED_NAMES.fullmatch(name):
            return found._replace(doubt=f"setup.py calls cmake with -D{name}, which is not followed")
        return found if IDLE_NAMES.fullmatch(name) else found._replace(arguments=(*found.arguments, f"-D{value}"))
    if option in IDLE_OPTIONS or IDLE_WORDS.fullmatch(option):
        return found
    return found._replace(doubt=f"setup.py calls cmake with {option}, which is not followed")


# ---------------------------------------------------------------- the step that it starts


class CmakeBuild(NamedTuple):
    """An observed build that runs cmake: its view, its evidence, and the kernels that its wheel is to have."""

    observed: Observed
    view: View
    evidence: CellEvidence
    kernels: tuple[str, ...]
    is_torch_asked: bool


def follow(
    one: CmakeBuild, observer: Observer, cmake: Callable[[Includes], CmakeWitness], includes: Includes
) -> CellEvidence:
    """Return the evidence of a build that runs cmake with what its configure step shows; a warning if that is unknown.

    cmake is asked only where something is open: how a wheel is bound to torch, and which kernels are compiled. What
    binds a wheel to torch is not only what cmake compiles where setup.py compiles as well, or ships compiled files.
    """
    found, view, observed = one.evidence, one.view, one.observed
    is_whole = not observed.commands and not observed.shipped
    is_open = is_whole and one.is_torch_asked and found.torch_abi.kind in {Binding.FULL, Binding.UNKNOWN}
    kernels = one.kernels if not observed.device_sources else ()
    is_claimed = found.python_api.kind is Binding.STABLE and found.python_api.mislabel is None
    if found.unsupported or not (is_open or kernels or is_claimed):
        return found
    witness = cmake(includes).with_generated(observed.generated)
    folder = observer.subject.folder
    call = read_observed_call(observed, dict(view.env), folder, _find_variable(one, observer))
    if not call.doubt and not witness.includes.has(witness.configurer.script_of(call)):
        call = call._replace(doubt=f"setup.py has cmake configure {call.folder}, which has no CMakeLists.txt")
    if call.doubt:
        said = f"{call.doubt}: every file of the source counts as compiled"
        return replace(found, warnings=(*found.warnings, said))
    open_ = OpenFacts(is_open, is_whole and bool(kernels), kernels, is_claimed)
    return witness.refine(found, [Ask(view, call)], None, open_)


def _find_variable(one: CmakeBuild, observer: Observer) -> str:
    """Return the variable whose arguments the build passes to cmake; "" if it passes none."""
    if f"env:{ARGUMENTS}" not in one.observed.asked:
        return ""
    given = dict(one.view.env).get(ARGUMENTS, "")
    tried = observer.observe(one.view._replace(env=(*one.view.env, (ARGUMENTS, f"{given} {PROBE}".strip()))))
    return ARGUMENTS if any(PROBE in words for words in tried.configured) else ""
