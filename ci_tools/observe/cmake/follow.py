"""Follows a setup.py into cmake: what its build compiles is what the configure step shows that it was seen to start."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.evidence import Binding
from ci_tools.observe.cmake.calls import PROBE, read_observed_call
from ci_tools.observe.cmake.witness import Ask, OpenFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_tools.model.evidence import CellEvidence
    from ci_tools.observe.cmake.witness import CmakeWitness
    from ci_tools.observe.observation import Observed
    from ci_tools.observe.setup_py.run import Observer
    from ci_tools.observe.views import View
    from ci_tools.source.includes import Includes

ARGUMENTS = "CMAKE_ARGS"  # the variable by which setup.py files take arguments for cmake, as scikit-build-core does


class Followed(NamedTuple):
    """An observed build that runs cmake: its view, its evidence, and the kernels that its wheel is to have."""

    observed: Observed
    view: View
    evidence: CellEvidence
    kernels: tuple[str, ...]
    is_torch_asked: bool


def follow(
    one: Followed, observer: Observer, cmake: Callable[[Includes], CmakeWitness], includes: Includes
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


def _find_variable(one: Followed, observer: Observer) -> str:
    """Return the variable whose arguments the build passes to cmake; "" if it passes none."""
    if f"env:{ARGUMENTS}" not in one.observed.asked:
        return ""
    given = dict(one.view.env).get(ARGUMENTS, "")
    tried = observer.observe(one.view._replace(env=(*one.view.env, (ARGUMENTS, f"{given} {PROBE}".strip()))))
    return ARGUMENTS if any(PROBE in words for words in tried.configured) else ""
