"""A published wheel made again: the verdict, what differs, and what could not be checked."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools import __version__
from ci_tools.formats.wheel import SBOM
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import write_atomically
from ci_tools.machine.workplace import scratch
from ci_tools.verify.remake.attested import WheelAttestation, find_attestation
from ci_tools.verify.remake.difference import (
    MemberDifference,
    ToolDifference,
    list_changes,
    list_different_members,
    list_different_tools,
)
from ci_tools.verify.remake.replay import Named, replay
from ci_tools.verify.remake.stated import StatedBuild, read_stated


class WheelVerdict(NamedTuple):
    """The result of making a wheel again."""

    stated: StatedBuild
    source: str
    remake: Path
    remade_sha256: str
    changes: tuple[str, ...]  # where it is not what its own RECORD says
    members: tuple[MemberDifference, ...]  # those that differ
    tools: tuple[ToolDifference, ...]
    attestation: WheelAttestation
    notes: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether the remake has the wheel's bytes."""
        return self.remade_sha256 == self.stated.sha256

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What could not be checked, each in a sentence."""
        unhashed = [one.name for one in self.stated.requires if not one.sha256]
        why = f"the wheel states no hash of {', '.join(unhashed)}: the index decides which file its version is"
        return tuple(filter(None, (self.attestation.unchecked, why if unhashed else "")))


def verify(path: Path, named: Named, bundle: Path | None, outside: Outside, *, address: str = "") -> WheelVerdict:
    """Make the wheel at `path` again, and return what that shows; `address` is where the wheel came from."""
    stated = read_stated(path)
    changes = list_changes(path, outside.cache / "audit")  # before what takes long, or fails
    for what in changes:
        outside.reporter.say(f"warning: {stated.wheel} is not as its own RECORD has it: {what}")
    with scratch() as folder:
        made = replay(stated, named, folder, outside)
        is_same = made.stated.sha256 == stated.sha256
        return WheelVerdict(
            stated=stated,
            source=made.source,
            remake=made.path,
            remade_sha256=made.stated.sha256,
            changes=() if is_same else changes,
            members=() if is_same else list_different_members(path, made.path),
            tools=list_different_tools(stated, made.stated),
            attestation=find_attestation(stated.sha256, (stated.address, address), bundle, outside.environ),
            notes=made.notes,
        )


def to_json(verdict: WheelVerdict) -> dict[str, Any]:
    """Return a verdict as one JSON object; `on` is the time of the remake (RFC 3339)."""
    stated = verdict.stated
    return {
        "schema": 1,
        "wheel": stated.wheel,
        "sha256": stated.sha256,
        "remade": verdict.remade_sha256,
        "same": verdict.is_same,
        "job": stated.job,
        "source": verdict.source,
        "commit": stated.said.get("source:commit", ""),
        "changes": list(verdict.changes),
        "members": [one._asdict() for one in verdict.members],
        "environment": [one._asdict() for one in verdict.tools],
        "attestation": verdict.attestation._asdict(),
        "notes": list(verdict.notes),
        "unchecked": list(verdict.unchecked),
        "fatwheel": __version__,
        "on": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def keep(verdict: WheelVerdict, out: Path) -> None:
    """Put the remake into a folder, and beside it the verdict in `verdicts/`."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(verdict.remake, out / verdict.remake.name)
    with write_atomically(out / "verdicts" / f"{verdict.stated.wheel}.json") as file:
        file.write(json.dumps(to_json(verdict), indent=1).encode())


def forget(verdict: WheelVerdict) -> None:
    """Remove the remake and its log."""
    shutil.rmtree(verdict.remake.parent)


def list_lines(verdict: WheelVerdict) -> list[str]:
    """Return a verdict in sentences."""
    stated, commit = verdict.stated, verdict.stated.said.get("source:commit", "")
    of_commit = f"commit {commit}{f' of {verdict.source}' if verdict.source else ''}"
    whence = f"job {stated.job} of {of_commit if commit else 'an sdist'}"
    if verdict.is_same:
        lines = [f"same: {stated.wheel} was made again from {whence}, and has the same bytes: {stated.sha256}"]
    else:
        made = f"what {whence} makes here: {verdict.remake}"
        changed = (f"it was changed after it was built: {what}" for what in verdict.changes)
        lines = [f"differs: {stated.wheel} is not {made}", *changed, *_list_differences(verdict)]
    lines += [f"  {one.what}: {one.wheel} for the wheel, {one.here} here" for one in verdict.tools]
    lines += [f"note: {note}" for note in verdict.notes]
    if verdict.attestation.by:
        how = "signed, by its own certificate" if verdict.attestation.unchecked else "attested"
        lines.append(f"{how}: by a run of {verdict.attestation.by}, {verdict.attestation.signer}")
    return [*lines, *(f"not checked: {what}" for what in verdict.unchecked)]


def _list_differences(verdict: WheelVerdict) -> list[str]:
    first, *others = verdict.members
    place = f"section {first.section}, {first.place}" if first.section else first.place
    symbol = f", in the symbol {first.symbol}" if first.symbol else ""
    lines = [f"  first in {first.member}: {place}{symbol}" if first.member else f"  {first.place}"]
    if first.member.endswith(f"/{SBOM}"):
        lines.append("  all that the project made is the same: only what the wheel says of its build differs")
    elif others:
        lines.append(f"  then in {', '.join(one.member for one in others)}")
    if not verdict.tools and not verdict.changes:
        lines.append("  nothing that is known of the two builds' environments differs")
    return lines
