"""Decides which builds of a cell are tried beside its own: with GPUs, with the switches that it reads, with both.

`observe.interpretation` reads what a build shows, and runs none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from ci_tools.observe.build import CMAKE, list_request_archs
from ci_tools.observe.images import DEVICE_SOURCES
from ci_tools.observe.observation import BUILDERS, Observed
from ci_tools.observe.owned import Owned
from ci_tools.observe.switches import (
    SWITCH,
    VALUES,
    find_turned_on,
    is_opt_in,
    list_arch_variables,
    list_choices,
    list_named,
    list_switches,
)
from ci_tools.observe.views import Switches, View, kind_of
from ci_tools.source.files import Tree

if TYPE_CHECKING:
    from ci_tools.observe.setup_py.run import Observer

OWN_COMMAND = "compiles by its own command"  # the start of that doubt's text
MAX_TRIED = 8  # switches of one build


class BuildTrials:
    """The builds of a project that are tried for one cell after another."""

    def __init__(self, observer: Observer, owned: Owned, tree: Tree) -> None:
        self.observer = observer
        self.owned = owned
        self.tree = tree
        self.remedies: dict[tuple[str, str, str], tuple[Switches, object]] = {}

    def find_build(self, view: View) -> tuple[Observed, Switches]:
        """Return the build of a view, with the switches that it needs."""
        found = self._try_remedy(view)
        if found is None:
            observed, needed = self._repair(view, self.observer.observe(view))
            seen, switches = self._add_switch(view._replace(env=(*view.env, *needed)), observed)
            found = seen, (*needed, *switches)
        seen, switches = found
        if switches:
            self.remedies[kind_of(view)] = switches, seen.gist
        return seen, switches

    @cached_property
    def has_kernels(self) -> bool:
        """Whether the source has GPU sources."""
        return any(name.endswith(DEVICE_SOURCES) for name in self.tree.files)

    def _try_remedy(self, view: View) -> tuple[Observed, Switches] | None:
        """Return the build with the switch that a cell of the same kind needed, if it has the same effect; else None.

        To find a switch takes many builds, and few projects have different switches for each Python or torch.
        """
        if kind_of(view) not in self.remedies:
            return None
        switches, gist = self.remedies[kind_of(view)]
        tried = self.observer.observe(view._replace(env=(*view.env, *switches)))
        return (tried, switches) if tried.gist == gist else None

    def _repair(self, view: View, observed: Observed) -> tuple[Observed, Switches]:
        """Return the build with a variable that its error names, if it succeeds with that; else the build as it is."""
        if observed.failure and not observed.doubts:
            for switch in list_named(observed.failure.text, view):
                tried = self.observer.observe(view._replace(env=(*view.env, switch)))
                if _adds_no_doubt(tried, observed):
                    return tried, (switch,)
        return observed, ()

    def _add_switch(self, view: View, observed: Observed) -> tuple[Observed, Switches]:
        """Return the build with the switch that it needs, if it needs one.

        A build needs a switch if it leaves its kernels out on a builder without a GPU, or looks for a wheel online.
        Without such a reason, only a switch that names the platform's hardware is set; all others stay off.
        """
        if CMAKE in observed.asked and not observed.opens_network:
            return self._switch_cmake_on(view, observed) or (observed, ())
        wanted = self.find_kernels(view, observed)
        if not wanted - observed.device_sources and not observed.opens_network:
            return self._find_other_builder(view, observed) or (observed, ())
        of_gpus = observed.opens_network or self._find_kernels_of_gpus(view, observed)
        for switches, tried in self.try_switches(view, observed) if of_gpus else self._try_for_hardware(view, observed):
            if wanted <= tried.device_sources and _adds_no_doubt(tried, observed):
                return tried, switches
        return observed, ()

    def _switch_cmake_on(self, view: View, observed: Observed) -> tuple[Observed, Switches] | None:
        """Return the build that gives cmake what it would give it where there is a GPU, if this one turns that off."""
        on_gpu = self.find_turned_on_by_gpus(view, observed)
        for switches, tried in self.try_switches(view, observed) if on_gpu else self._try_for_hardware(view, observed):
            if find_turned_on(observed, tried) and _adds_no_doubt(tried, observed):
                return tried, switches
        return None

    def find_turned_on_by_gpus(self, view: View, observed: Observed) -> str:
        """Return a definition that the build gives cmake only because it finds no GPU; "" if there is none."""
        return next(filter(None, (find_turned_on(observed, one) for one in self.run_with_gpus(view, observed))), "")

    def _find_other_builder(self, view: View, observed: Observed) -> tuple[Observed, Switches] | None:
        """Return the build whose switch starts another build system, if the build compiles nothing without a switch."""
        is_empty = view.accelerator and not observed.commands and not observed.doubts and not observed.failure
        if not is_empty or not self.has_kernels or any(name in observed.asked for name in BUILDERS):
            return None
        for switches, tried in self._try_for_hardware(view, observed):
            if any(name in tried.asked for name in BUILDERS) or any(
                what.startswith(OWN_COMMAND) for what in tried.doubts
            ):
                return tried, switches
        return None

    def find_kernels(self, view: View, observed: Observed) -> frozenset[str]:
        """Return the kernels that the build compiles with a GPU present, or with a switch if it compiles none then.

        Empty if it runs cmake: what that compiles is not seen.
        """
        if view.accelerator is None or CMAKE in observed.asked:
            return frozenset()
        seen = self._find_kernels_of_gpus(view, observed) or observed.device_sources
        if seen or not self.has_kernels:
            return seen - self.owned.excluded(view)
        switched = (tried.device_sources for _, tried in self._try_for_hardware(view, observed))
        return next(filter(None, switched), frozenset()) - self.owned.excluded(view)

    def _find_kernels_of_gpus(self, view: View, observed: Observed) -> frozenset[str]:
        """Return the kernels that the build compiles where it finds a GPU."""
        return frozenset[str]().union(*(one.device_sources for one in self.run_with_gpus(view, observed)))

    def run_with_gpus(self, view: View, observed: Observed) -> tuple[Observed, ...]:
        """Return what the build does with each GPU that the request names; nothing if it never asks for one."""
        if view.kind is None or "gpu" not in observed.asked:
            return ()
        capabilities = dict.fromkeys(map(view.kind.capability, list_request_archs(view))) or ["9.0"]  # as torch says it
        return tuple(self.observer.observe(view._replace(gpu=True, capability=one)) for one in capabilities)

    def _try_for_hardware(self, view: View, observed: Observed) -> Iterator[tuple[Switches, Observed]]:
        """Yield the build with each variable that names the hardware of the platform, but for those to opt in."""
        return self.try_switches(view, observed, re.compile(view.kind.switches)) if view.kind else iter(())

    def try_switches(
        self, view: View, observed: Observed, words: re.Pattern[str] = SWITCH
    ) -> Iterator[tuple[Switches, Observed]]:
        """Yield the build with each variable that may switch kernels on, the likeliest first.

        First all variables are set together: if that changes nothing, none of them is tried by itself. A build that
        then looks for a wheel online, as mamba's does, is tried with another variable beside it.
        """
        names = [name for name in list_switches(observed, view) if words.search(name)]
        if words is not SWITCH:
            names = [name for name in names if not is_opt_in(name, observed, self.tree)]
        names = names[:MAX_TRIED]
        archs = ";".join(arch.removesuffix("+PTX") for arch in list_request_archs(view))
        sets = [[(name, value) for name in names] for value in VALUES if names]
        sets += [[choice] for choice in list_choices(observed, view, self.tree)]
        sets += [[(name, archs)] for name in list_arch_variables(observed, view) if archs]
        for switches in sets:
            together = self.observer.observe(view._replace(env=(*view.env, *switches)))
            if together.gist == observed.gist:
                continue
            for switch in switches:
                switched = view._replace(env=(*view.env, switch))
                seen = self.observer.observe(switched)
                yield (switch,), seen
                if seen.opens_network and not observed.opens_network:
                    yield from (((switch, *more), each) for more, each in self.try_switches(switched, seen))


def _adds_no_doubt(tried: Observed, observed: Observed) -> bool:
    return not tried.opens_network and not tried.failure and tried.doubts.keys() <= observed.doubts.keys()
