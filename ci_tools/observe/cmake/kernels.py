"""Finds the kernels that a wheel for CUDA would lack: those behind an option that its configure step leaves off."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.evidence import LeftOut
from ci_tools.observe.cmake.options import LANGUAGE, SPEAKS_OF_CUDA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ci_tools.observe.cmake.options import CmakeOption
    from ci_tools.observe.cmake.run import Configured
    from ci_tools.source.backends.cmake_call import CmakeCall

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
        given = (
            f"{variable}={one.definition}" if variable else f"{one.definition}, which its setup.py would have to pass"
        )
        yield one.name, f"{one.place}; turn on with {f'{one.name}={one.value}' if one.is_variable else given}"


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
