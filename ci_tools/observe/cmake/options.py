"""Reads from a configure step's trace what compiles kernels of CUDA, and the options that may turn that on.

An option is a name in a condition that was evaluated, or one that `option()` declares, whose words say CUDA: who asks
for a platform with CUDA asks for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.model.evidence import LeftOut

if TYPE_CHECKING:
    from ci_tools.observe.cmake.run import Configured
    from ci_tools.source.backends.cmake_call import CmakeCall


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
        old = found.get(one[:2], one)
        found[one[:2]] = old._replace(condition=old.condition or one.condition, declared=old.declared or one.declared)
    off = (one for one in found.values() if one.is_variable or _is_off(one, values.get(one.name)))
    yield from sorted(off, key=_rank)


def _rank(option: CmakeOption) -> tuple[bool, bool, int]:
    return "CUDA" not in f"{option.name} {option.value}".upper(), not option.is_listed, len(option.name)


def _is_off(option: CmakeOption, value: str | None) -> bool:
    if value is None or option.value != ON:
        return value != option.value
    return value.upper() in OFF or value.upper().endswith("NOTFOUND")


# ---------------------------------------------------------------- kernels that a wheel would lack

CONFIGURED = "observed by running cmake's configure step"
MAX_TRIED = 6  # options
MAX_LISTED = 8
PATTERN = "*.cu"
ANOTHER_PROJECT = "another project"  # in the doubt of a step that leaves some of the build to a second one


class LeftOff(NamedTuple):
    """The options that a configure step leaves off, a kernel that nothing else would compile, and warnings of both."""

    off: tuple[tuple[str, str], ...] = ()
    left_out: LeftOut | None = None
    warnings: tuple[str, ...] = ()

    @property
    def unsupported(self) -> str | None:
        """Why a wheel of the cell would be hollow; None if it is not known to be."""
        if not self.left_out:
            return None
        switch = "=".join(self.left_out.switches[0]) if self.left_out.switches else self.left_out.definition
        source, where = self.left_out[:2]
        return f"without {switch} its build compiles no kernel, {source} for example ({where})"


def find_lacking(configure: Callable[[CmakeCall], Configured], call: CmakeCall, kernels: Sequence[str]) -> LeftOff:
    """Return what the configure step of a platform with CUDA leaves off, of a source that has these kernels.

    Where no kernel is compiled, each option of CUDA that is off is tried: the first that brings one in, or enables the
    language, is the condition that the cell does not meet. Both steps get the same answers to all other questions.
    """
    found = configure(call)
    off = tuple(_list_off(found.off, call.variable))
    if call.doubt or _compiles_kernels(found):
        return LeftOff(off)
    is_known = not found.failure and not _may_be_of_kernels(found)
    for option in found.off[:MAX_TRIED] if is_known else ():
        turned_on = _turn_on(call, option)
        if new := _find_new(found, configure(turned_on)):
            source, where = _choose_source(new, kernels), option.condition or option.place
            return LeftOff(off, LeftOut(source, where, _list_switches(turned_on, option), PATTERN, option.definition))
    return LeftOff(off, warnings=tuple(_warn(found, off, kernels)))


def _list_off(options: Sequence[CmakeOption], variable: str) -> Iterator[tuple[str, str]]:
    for one in [one for one in options if one.is_listed][:MAX_LISTED]:
        on = f"{variable}={one.definition}" if variable else f"{one.definition}, which its setup.py would have to pass"
        yield one.name, f"{one.place}; turn on with {f'{one.name}={one.value}' if one.is_variable else on}"


def _compiles_kernels(found: Configured) -> bool:
    """Whether a configure step compiles kernels: by its targets, by hand, or perhaps where its targets are unknown."""
    commands = [command for target in found.targets for command in target.compiles]
    if any(one.compiler == LANGUAGE or one.source.endswith(".cu") for one in commands):
        return True
    return any(what != LANGUAGE for what, _ in found.kernels)


def _may_be_of_kernels(found: Configured) -> bool:
    """Whether another answer to what a doubt is about may compile kernels: it says so, or the language is enabled."""
    is_enabled = any(what == LANGUAGE for what, _ in found.kernels)
    about = found.doubt.rpartition(": ")[2]
    return bool(about) and (is_enabled or ANOTHER_PROJECT in about or bool(SPEAKS_OF_CUDA.search(about.upper())))


def _find_new(before: Configured, after: Configured) -> list[str]:
    """Return what compiles kernels in the second configure step and not in the first: their sources first."""
    known = {what for what, _ in before.kernels}
    return sorted((what for what, _ in after.kernels if what not in known), key=lambda what: what == LANGUAGE)


def _turn_on(call: CmakeCall, option: CmakeOption) -> CmakeCall:
    env = dict(call.env)
    if option.is_variable:
        return call._replace(env=tuple({**env, option.name: option.value}.items()))
    told = {call.variable: f"{env.get(call.variable, '')} {option.definition}".strip()} if call.variable else {}
    return call._replace(arguments=(*call.arguments, option.definition), env=tuple({**env, **told}.items()))


def _list_switches(turned_on: CmakeCall, option: CmakeOption) -> tuple[tuple[str, str], ...]:
    name = option.name if option.is_variable else turned_on.variable
    return ((name, dict(turned_on.env)[name]),) if name else ()


def _choose_source(named: Sequence[str], kernels: Sequence[str]) -> str:
    """Return the kernel of the source that a command names; the first one where it only enables the language."""
    for name in named:
        for kernel in kernels:
            if f"/{kernel}".endswith(f"/{name.removeprefix('./')}"):
                return kernel
    return kernels[0]


def _warn(found: Configured, off: Sequence[tuple[str, str]], kernels: Sequence[str]) -> Iterator[str]:
    """Yield a warning where no kernel is compiled, or where that is not known."""
    listed = "; ".join(f"{name} ({place})" for name, place in off)
    more = f"; off by default: {listed}" if listed else ""
    if doubt := found.failure or found.doubt:
        if listed or SPEAKS_OF_CUDA.search(doubt.rpartition(": ")[2].upper()):
            yield f"{doubt}: whether {kernels[0]} is compiled is not known{more}"
    else:
        yield f"{CONFIGURED}: no kernel is compiled, though the source has {kernels[0]}{more}"
