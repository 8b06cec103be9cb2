"""Reads from a configure step's trace what compiles kernels of CUDA, and the options that may turn that on.

An option is a name in a condition that was evaluated, or one that `option()` declares, whose words say CUDA: who asks
for a platform with CUDA asks for that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog.accelerators.cuda import CUDA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

LANGUAGE = "CUDA"  # noted among the kernels where a step enables the language, which by itself compiles nothing
KERNEL = re.compile(r"[^;\s<>:]+\.cu\b")
# Commands that name the sources of a target, or a compiler call by hand.
MAKING = frozenset(
    {
        *("add_custom_command", "add_custom_target", "add_executable", "add_library", "target_sources"),
        *("cuda_add_executable", "cuda_add_library", "cuda_compile", "cuda_compile_fatbin", "cuda_compile_ptx"),
    }
)
ENABLES = "/Modules/CMakeDetermineCUDACompiler.cmake"  # what cmake itself runs for the language
CONDITIONS = frozenset({"elseif", "if"})
DECLARING = frozenset({"cmake_dependent_option", "option"})
NAME = re.compile(r"[A-Za-z_]\w*")
REFERENCE = re.compile(r"\$\{(\w+)\}")
VARIABLE = re.compile(r"\bENV\{(\w+)\}")
CHOICE = re.compile(r'"?(?:\$\{)?(\w+)\}?"?\s+(?:STREQUAL|MATCHES)\s+"?(\w+)', re.IGNORECASE)
SPEAKS_OF_CUDA = re.compile(CUDA.switches)
# Names that say something else of CUDA than whether to compile for it, and those of cmake's own.
NO_OPTION = re.compile(
    r"""
    ^(?:CMAKE_|CUDA$|CUDAToolkit|NVCC$|CUDA_(?:VERSION|FOUND|NVCC|TOOLKIT|HOME|PATH)) | _FOUND$
    | (?:^|_)(?:NO|DISABLE|SKIP|WITHOUT|TESTS?|TESTING|BENCHMARKS?|EXAMPLES?|DEBUG|STATIC)(?:_|$)
    | VERSION | ARCH | FLAGS | COMPILER | _(?:DIR|HOME|LIBRARY|LIBRARIES|PATH|ROOT)(?:_|$) | INCLUDE
    """,
    re.VERBOSE | re.IGNORECASE,
)
SAYS_ON = re.compile(r"(?:^|_)(?:BUILD|ENABLE|USE|WITH)(?:_|$)", re.IGNORECASE)
OFF = frozenset({"", "0", "FALSE", "IGNORE", "N", "NO", "OFF"})  # cmake-language's false constants
ON = "ON"


class CmakeOption(NamedTuple):
    """A variable that may turn kernels on: the value that would, the condition, and the line that declares it."""

    name: str
    value: str = ON
    condition: str = ""
    declared: str = ""
    is_variable: bool = False  # whether it is one of the environment

    @property
    def place(self) -> str:
        """The line that declares it, or else asks for it."""
        return self.declared or self.condition

    @property
    def is_listed(self) -> bool:
        """Whether it is declared, or its name says by itself that it turns something on."""
        return bool(self.declared or SAYS_ON.search(self.name))

    @property
    def definition(self) -> str:
        """The argument of cmake that turns it on."""
        return f"-D{self.name}={self.value}"


def read_kernels(event: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """Yield the kernels that a command compiles, or LANGUAGE where it enables the language, with their place."""
    if str(event["file"]).endswith(ENABLES):
        yield LANGUAGE, place
    if str(event["cmd"]).lower() in MAKING:
        for word in event.get("args", ()):
            yield from ((name, place) for name in KERNEL.findall(str(word)))


def read_options(event: Mapping[str, Any], place: str, line: Callable[[str], str]) -> Iterator[CmakeOption]:
    """Yield the options of CUDA in a command of the project; `line` gives the text of a place.

    The trace has `${NAME}` replaced by its value: only the text has the name.
    """
    command, words = str(event["cmd"]).lower(), [str(word) for word in event.get("args", ())]
    if command in DECLARING and words and _is_switch(words[0]):
        yield CmakeOption(words[0], declared=place)
    if command == "set" and words[2:4] == ["CACHE", "BOOL"] and _is_switch(words[0]):
        yield CmakeOption(words[0], declared=place)
    if command in CONDITIONS:
        yield from _read_condition(words, line(place), place)


def _read_condition(words: Sequence[str], text: str, place: str) -> Iterator[CmakeOption]:
    names = [word for word in words if NAME.fullmatch(word)] + REFERENCE.findall(text)
    for name in dict.fromkeys(names):
        if _is_switch(name):
            yield CmakeOption(name, condition=place)
    for name in VARIABLE.findall(text):
        if _is_switch(name):
            yield CmakeOption(name, "1", place, is_variable=True)
    for name, value in CHOICE.findall(text):
        if SPEAKS_OF_CUDA.search(value.upper()) and not NO_OPTION.search(name) and NAME.fullmatch(name):
            yield CmakeOption(name, value, place)


def _is_switch(name: str) -> bool:
    return bool(SPEAKS_OF_CUDA.search(name.upper())) and not NO_OPTION.search(name)


def select_off(options: Iterable[CmakeOption], values: Mapping[str, str]) -> Iterator[CmakeOption]:
    """Yield the options that are off after a configure step, each once, with its first condition and declaration.

    The likeliest come first: those that say CUDA by name, those that are declared, and of those the shortest.
    """
    found: dict[tuple[str, str], CmakeOption] = {}
    for one in options:
        first = found.get(one[:2], one)
        found[one[:2]] = first._replace(
            condition=first.condition or one.condition, declared=first.declared or one.declared
        )
    off = (one for one in found.values() if one.is_variable or _is_off(one, values.get(one.name)))
    yield from sorted(off, key=_rank)


def _rank(option: CmakeOption) -> tuple[bool, bool, int]:
    return "CUDA" not in f"{option.name} {option.value}".upper(), not option.is_listed, len(option.name)


def _is_off(option: CmakeOption, value: str | None) -> bool:
    if value is None or option.value != ON:
        return value != option.value
    return value.upper() in OFF or value.upper().endswith("NOTFOUND")
