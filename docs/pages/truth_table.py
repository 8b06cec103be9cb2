"""docs/reference/truth-table.md: what `make proof` recorded of other people's projects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from docs.pages import REPOSITORY
from docs.pages.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


TRUTH = """\
# The truth table

Other people's projects, as their sdists are on the package index. What is true of each was read by hand in its build
scripts, before Fatwheel saw it, and is kept in [`tests/proof/projects.toml`](../../tests/proof/projects.toml). `make
proof` then asks Fatwheel, builds what two cores can build in minutes, and writes the results to
[`tests/proof/record.json`](../../tests/proof/record.json). `make test` asks again for some of each kind, `make proof`
for all, and both expect the same evidence.

*Seen* is what Fatwheel says for `linux-cuda` and `linux-cpu`: what is compiled, for which Python, against which torch.
*Wheels* are those that its plan makes of the covered cells of a request of six Pythons, six torch releases, two CUDA
versions and four platforms. **Agrees** means that all four platforms are as the truth says; **safe side** means that
something could not be known, which costs wheels and makes none wrong."""


def describe() -> Iterator[str]:
    """Give the record of `make proof`, one line a project."""
    record = json.loads((REPOSITORY / "tests" / "proof" / "record.json").read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    yield TRUTH
    yield ("")
    yield f"Recorded on {record['date']} with {versions}, Python {record['python']}."
    heads = ("project", "seen for linux-cuda", "seen for linux-cpu", "truth", "wheels", "a real build")
    yield from table(heads, map(_proven, record["projects"]))
    yield from ("", *_differences(record["projects"]))


def _proven(found: Mapping[str, Any]) -> tuple[str, ...]:
    platforms = found["platforms"]
    verdicts = {row["verdict"] for row in platforms.values()}
    return (
        f"{found['name']} {found['version']}",
        *(_seen(platforms[name]) for name in ("linux-cuda", "linux-cpu")),
        "agrees" if verdicts == {"agrees"} else "safe side",
        _wheels(found["plan"], found["platforms"].values()),
        _built(found["build"]),
    )


def _seen(row: Mapping[str, Any]) -> str:
    parts = [row["python"], f"torch: {row['torch']}", f"with {row['switch']}" if row["switch"] else ""]
    return f"{row['native']}: {', '.join(filter(None, parts))}" if row["native"] == "some" else str(row["native"])


def _wheels(plan: Mapping[str, Any] | None, rows: Iterable[Mapping[str, Any]]) -> str:
    if plan is None:
        is_unknown = any(row["native"] == "not known" for row in rows)
        return "one for each cell, where it is not known" if is_unknown else "not counted"
    return "refused" if "refused" in plan else f"{plan['wheels']} for {plan['covered']} cells"


def _built(build: Mapping[str, Any] | None) -> str:
    if build is None:
        return "by evidence only"
    return "failed" if "failed" in build else f"`{build['wheel']}`, {build['seconds']} s, audit good"


def _differences(projects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Give what is not known of those that do not agree, and why."""
    yield from ("## What errs to the safe side", "")
    for found in projects:
        rows = {row["difference"]: row for row in found["platforms"].values() if row["difference"]}
        for difference, row in rows.items():
            yield f"- **{found['name']}**: {difference}. {row['why']}"
