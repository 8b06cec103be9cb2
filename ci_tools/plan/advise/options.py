"""Lists the changes to a source or a request with which fewer wheels might be enough: hypotheses with their places.

The savings of an option are not known here: `advise` makes another plan to measure them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ci_tools.model.evidence import Binding, CellEvidence, Evidence, Extensions, PythonApi, TorchAbi
from ci_tools.plan.advise.chip_options import find_chip_options
from ci_tools.plan.advise.header_options import find_header_options, find_standard_options
from ci_tools.plan.advise.mend_options import find_tag_options
from ci_tools.plan.advise.option import Option, change_evidence
from ci_tools.plan.advise.project_view import ProjectView
from ci_tools.plan.advise.python_options import find_name_options, find_old_python_options, find_python_options
from ci_tools.plan.advise.request_options import find_cuda_minor_options, find_needless_options
from ci_tools.plan.advise.torch_options import find_torch_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.model.plan import Plan
    from ci_tools.source.files import Tree


def options(plan: Plan, evidence: Evidence, tree: Tree) -> Iterator[Option]:
    """Yield the possible changes to the source and the request of a plan."""
    source = ProjectView(plan, evidence, tree)
    yield from _unknown(source)  # first: what follows is only as good as what is known
    yield from find_torch_options(source)
    yield from find_python_options(source)
    yield from find_old_python_options(source)
    yield from find_name_options(source)
    yield from find_tag_options(source.shown, tree)
    yield from find_cuda_minor_options(source)
    yield from find_header_options(source)
    yield from find_standard_options(source)
    yield from find_needless_options(source)
    yield from find_chip_options(source)


# ---------------------------------------------------------------- unknown builds


def _unknown(source: ProjectView) -> Iterator[Option]:
    """Yield the best case of builds that are not understood: that they need no ABI of their own."""
    places = tuple(dict.fromkeys(filter(None, map(_find_doubt, source.shown))))
    if places:
        yield Option(
            name="unknown-build",
            what="it is not known what the build compiles, which keeps every axis; at best",
            places=places,
            how="state what the build compiles in a file that can be read or run: the plan then follows it",
            change=change_evidence(_assume_no_binding),
            is_known=False,
        )


def _find_doubt(shown: CellEvidence) -> str:
    return shown.extensions_where if shown.extensions is Extensions.UNKNOWN else shown.doubt


def _assume_no_binding(shown: CellEvidence) -> CellEvidence:
    if not _find_doubt(shown):
        return shown
    where = "if it were known"  # stands in the plan's reasons in the place of file:line
    return replace(shown, python_api=PythonApi(Binding.NONE, where), torch_abi=TorchAbi(Binding.NONE, where))
