"""Tries both answers to what a build asks of its builder, where no cell defines the answer.

A file, a program or a function of the compiler is there or not. If every way through such questions makes the same
wheel, they decide nothing that a plan says; if not, they are a doubt that names the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.evidence import Binding, CellEvidence, Extensions, PythonApi, TorchAbi
from ci_tools.observe.build import CMAKE, MAKE
from ci_tools.observe.python_label import GET_TAG
from ci_tools.observe.torch_questions import is_question, is_same_everywhere, name_subject
from ci_tools.observe.views import SUPPOSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ci_tools.observe.views import View

MOST = 8  # ways that are tried
# Questions that make no difference to evidence by themselves.
UNTOLD = frozenset({"chance", CMAKE, MAKE, "free_threaded", GET_TAG, "hipify"})


class TriedWay(NamedTuple):
    """The evidence of one way, and the questions on it, in the order in which they were asked, each with its place."""

    evidence: CellEvidence
    questions: Mapping[str, str]


def decide(view: View, look: Callable[[View], TriedWay]) -> CellEvidence | str:
    """Return the evidence that all answers of a builder lead to, or why they lead to none."""
    waiting = [(view, 0)]
    found: list[CellEvidence] = []
    questions: dict[str, str] = {}
    while waiting:
        each, settled = waiting.pop()
        looked = look(each)
        found.append(looked.evidence)
        questions |= looked.questions
        is_unknown = looked.evidence.extensions is Extensions.UNKNOWN and not looked.evidence.unsupported
        if is_unknown or looked.evidence.doubt:
            return looked.evidence
        waiting += _suppose_otherwise(each, list(looked.questions), settled)
        if len(found) + len(waiting) > MOST:
            return _explain(questions)
    built = [
        one for one in found if not one.unsupported or one.is_hollow
    ] or found  # others give no wheel that is wrong
    return built[0] if len({_list_decided(one) for one in built}) == 1 else _explain(questions)


def _suppose_otherwise(view: View, questions: Sequence[str], settled: int) -> Iterator[tuple[View, int]]:
    """Yield a view for each question after the settled ones: it gets the other answer, and those before it the same.

    A build asks the same until the first answer that differs, so each way through its questions is taken once.
    """
    told = [name.removeprefix(SUPPOSED) for name in questions]
    for index in range(settled, len(told)):
        before = (name for name in told[:index] if name in view.supposed)
        yield view._replace(supposed=(*before, told[index])), index + 1


def _list_decided(one: CellEvidence) -> tuple[object, ...]:
    """Return what a plan takes from evidence, without the commands by which a library is made."""
    api = one.python_api._replace(where="", tagged_at="", mislabel=None)
    return (
        *(one.extensions, api, one.torch_abi._replace(where=""), one.unsupported),
        *(one.pure_tag, one.switches, one.build_requires, one.members, one.contents, one.metadata, one.warnings),
        *((library.member, library.images) for library in one.built),
    )


def _explain(questions: Mapping[str, str]) -> str:
    name, place = next(iter(questions.items()))
    others = f" (and {len(questions) - 1} more such)" if len(questions) > 1 else ""
    what = f"its result may depend on whether {name.removeprefix(SUPPOSED)}{others}, which no cell defines"
    return f"{place}: {what}" if place else what


def is_told(name: str) -> bool:
    """Whether a question is shown with the evidence."""
    if is_question(name):
        return not is_same_everywhere(name)
    return name not in UNTOLD and not name.startswith(SUPPOSED)


def describe_question(name: str) -> str:
    """Return a readable name for a question."""
    if is_question(name):
        return name_subject(name)
    words = {"gpu": "whether there is a GPU", "os": "the system", "machine": "the processor", "env": "the environment",
             "python": "the version of Python",
             "torch": "the version of torch", "accelerator": "the accelerator of torch"}  # fmt: skip
    return words.get(name) or name.removeprefix("env:")


def make_unknown(where: str, unsupported: str = "", *, imports_torch: bool = False) -> CellEvidence:
    """Return evidence of a build that is not understood, so that nothing collapses, or of an unsupported one."""
    return CellEvidence(
        extensions=Extensions.UNKNOWN,
        extensions_where=where,
        python_api=PythonApi(Binding.UNKNOWN, where),
        torch_abi=TorchAbi(Binding.UNKNOWN, where, uses_torch=imports_torch),
        unsupported=unsupported,
    )
