"""Reads how a setup.py was seen to call cmake, so that the same configure step can be observed.

The arguments that only say where a builder has its programs and puts its files are left out: the stage has its own.
"""

from __future__ import annotations

import posixpath
import re
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.source.backends.cmake_call import UNFOLLOWED_NAMES, CmakeCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_tools.observe.observation import Observed

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
        tuple(sorted({**env, **changes_of(changes)}.items())),
        written=tuple(sorted(observed.generated.items())),
        variable=variable,
    )


def changes_of(words: Iterable[str]) -> dict[str, str]:
    """Return the variables in words such as `CXXFLAGS=-O3`."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}


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
