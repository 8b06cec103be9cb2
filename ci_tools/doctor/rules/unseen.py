"""The finding for a fact that the token could not read: nothing passes unchecked."""

from __future__ import annotations

from ci_tools.doctor.report import DoctorFinding, Unseen, Weight


def report_unseen(where: str, fact: Unseen) -> DoctorFinding:
    """Return the finding for a fact that could not be read."""
    why = "a setting that was not read is not reported as good"
    return DoctorFinding("unseen", Weight.UNSEEN, where, f"not seen: {fact.what}", why, f"needs {fact.needs}")
