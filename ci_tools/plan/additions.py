"""Limits a plan to the wheels that a run with `--torch` adds to an existing release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.errors import InputError
from ci_tools.model.plan import Job, Skipped

if TYPE_CHECKING:
    from ci_tools.model.request import Request
    from ci_tools.plan.axes import Decision, Key

MAX_REASONS = 8  # at most this many are shown in an error


def select_additions(
    jobs: dict[Key, Job], covered: list[Decision], skipped: list[Skipped], request: Request
) -> tuple[dict[Key, Job], list[Decision], list[Skipped]]:
    """Return the additions to an existing release: only wheels bound to a torch, as it has all others.

    Raises InputError if no wheel is bound to the torch that a run names.
    """
    bound = {key: job for key, job in jobs.items() if job.requires_torch}
    there = (
        Skipped(cell, f"the release has {jobs[key].wheel}: {why}") for cell, key, why in covered if key not in bound
    )
    skipped = [*skipped, *there]
    if not bound:
        reasons = dict.fromkeys(f"  {cell}: {reason}" for cell, reason in skipped)
        shown = "\n".join(list(reasons)[:MAX_REASONS])
        msg = f"--torch: no wheel is bound to torch {', '.join(request.run.torch)} only, so none can be added:\n{shown}"
        raise InputError(msg, hint="`fatwheel plan` without --torch says what serves each torch")
    return bound, [decision for decision in covered if decision[1] in bound], skipped
