"""Options that mend a plan rather than make it smaller: a tag that is too low, and kernels that wait for a GPU."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ci_tools.formats import edits
from ci_tools.plan.advise.option import Option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.model.evidence import CellEvidence
    from ci_tools.source.files import Tree


def find_tag_options(shown: Iterable[CellEvidence], tree: Tree) -> Iterator[Option]:
    """Yield, for each tag that is lower than the limited API of the code, the option to raise it."""
    for api in dict.fromkeys(one.python_api for one in shown):
        file, _, _ = api.tagged_at.rpartition(":")  # file:line, and a file may have a colon in its name
        if not api.label or not api.lowest or file not in tree.names:
            continue
        old, new = f"cp{api.label.digits}", f"cp{api.lowest.digits}"
        edit = partial(edits.replace_once, old=old, new=new)
        yield Option(
            name="python-tag",
            what=f"the wheel's tag {old}-abi3 is lower than the limited API that its code is compiled for",
            places=(api.tagged_at, api.where),
            how=f"tag it {new}: the Pythons before {api.lowest} then do not install it",
            edits=((file, edit),) if edit(tree.text(file)) else (),  # None where the tag is not written once
        )


def find_guard_options(shown: Iterable[CellEvidence], tree: Tree) -> Iterator[Option]:
    """Yield, for kernels that are compiled only where torch finds a GPU, the option to let a variable ask for them.

    FORCE_CUDA is the name that projects have for it: torchvision's, pytorch3d's, mmcv's.
    """
    # What has a switch is already asked for by a variable.
    left = dict.fromkeys(left for one in shown for left in one.left_out if not left.switches)
    for file in dict.fromkeys(one.where.rpartition(":")[0] for one in left):
        sources = [one.source for one in left if one.where.startswith(f"{file}:")]
        edited = file in tree.names and edits.let_variable_ask(tree.text(file))
        yield Option(
            name="gpu-guard",
            what=f"{sources[0]} is compiled only where the build finds a GPU, and builders have none",
            places=tuple(dict.fromkeys(one.where for one in left if one.where.startswith(f"{file}:"))),
            how="let FORCE_CUDA=1 ask for it too: the plan finds the variable, and sets it",
            edits=((file, edits.let_variable_ask),) if edited else (),
        )
