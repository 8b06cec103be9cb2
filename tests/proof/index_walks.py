"""Two thousand random walks through the life of an index, beside a model of what installers see.

`python -m tests.proof.index_walks` takes them all and writes the record; one that goes wrong is printed step by step.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from ci_tools.machine.storage import sha256_of, write_atomically
from tests.builders import index_peers, index_views, index_walks
from tests.builders.index_walks import Ended
from tests.proof.truth import HERE

RECORD = HERE / "index_walks.json"
WALKS = 2000
MODEL = (index_walks, index_views, index_peers)


def main() -> None:
    """Take every walk, or some again, and write the record; end with status 1 if one went wrong."""
    again = [int(word) for word in sys.argv[1:]]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        ended = list(pool.map(index_walks.walk, again or range(WALKS), chunksize=20))
    wrong = [one for one in ended if one.complaints]
    for one in wrong:
        sys.stdout.write("\n".join([f"seed {one.seed}: {one.kind}", *one.steps, *one.complaints, ""]))
    found = record(ended)
    if again:  # of the walks that went wrong, after a change
        known = json.loads(RECORD.read_text(encoding="utf-8"))
        left = sorted({*known["wrong"], *again} - {one.seed for one in ended if not one.complaints})
        found = {**known, "wrong": left, "retaken": sorted({*known.get("retaken", ()), *again})}
    with write_atomically(RECORD) as file:
        file.write(f"{json.dumps(found, indent=1)}\n".encode())
    sys.exit(bool(wrong))


def record(ended: Sequence[Ended]) -> dict[str, object]:
    """Return what came of some walks."""
    steps = [step for one in ended for step in one.steps]
    return {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "model": model(),
        "walks": len(ended),
        "kinds": dict(sorted(Counter(one.kind for one in ended).items())),
        "steps": len(steps),
        "by": dict(sorted(Counter(step.split(" ")[0] for step in steps).items())),
        "refused": sum(step.endswith("(refused)") for step in steps),
        "kills": sum(one.kills for one in ended),
        "wrong": [one.seed for one in ended if one.complaints],
    }


def model() -> dict[str, str]:
    """Return the sha256 of each part of the model, by its name."""
    names = [one.__name__.rpartition(".")[2] for one in MODEL]
    return {name: sha256_of(HERE.parent / "builders" / f"{name}.py") for name in names}


if __name__ == "__main__":
    main()
