"""The doctor's evaluation of expressions, held against GitHub's own library: a table, and random ones."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_tools.doctor.expressions import UNKNOWN, evaluate

HERE = Path(__file__).parent
CONTEXTS: dict[str, Any] = {
    "github": {
        "event_name": "push",
        "ref": "refs/tags/v1.0",
        "run_attempt": 2,
        "event": {
            "labels": [{"name": "Build"}, {"name": "docs", "old": None}, 3],
            "draft": False,
            "nested": [[1], [2]],
        },
    },
    "inputs": {"dry-run": False, "only": "", "count": 0, "rate": 1.5},
    "needs": {"a": {"result": "success", "outputs": {"any": "true"}}, "b": {"result": "skipped", "outputs": {}}},
}
TABLE = (HERE.parent / "samples" / "expressions.txt").read_text(encoding="utf-8").splitlines()
NUMBERS = ("0", "1", "-1", "2.5", "1e3", "0x10", ".5", "1e-5", "0.1", "123456789012")
TEXTS = (
    "''",
    "'a'",
    "'A'",
    "'1'",
    "' 2.5 '",
    "'refs/tags/v1.0'",
    "'success'",
    "'true'",
    "'{0}'",
    "'[1, \"a\"]'",
    "'{\"a\": 1}'",
)
NAMES = (
    "github.ref",
    "github.event.labels",
    "github.event.labels.*.name",
    "github.event.nope",
    "inputs.dry-run",
    "inputs.only",
    "inputs['rate']",
    "needs.a.outputs.any",
    "needs.*.result",
    "needs.b.outputs",
)


def library(expressions: Sequence[str], contexts: dict[str, Any] = CONTEXTS) -> list[Any]:
    """Return what GitHub's library makes of expressions: a list with the value, or None if it refuses one."""
    if not (HERE / "node_modules").is_dir() or not shutil.which("node"):
        pytest.skip("the library is installed by `make lint`")
    given = json.dumps({"contexts": contexts, "expressions": expressions})
    done = subprocess.run(["node", HERE / "evaluate.mjs"], input=given, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def ours(expression: str) -> Any:  # noqa: ANN401
    """Return what the doctor makes of an expression, in the same form."""
    value = evaluate(expression, CONTEXTS)
    return None if value is UNKNOWN else [_shown(value)]


def _shown(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float) and not math.isfinite(value):
        return f"number {'NaN' if math.isnan(value) else str(value).replace('inf', 'Infinity')}"
    return value


def make_random(random_: random.Random, depth: int = 0) -> str:
    """Return a random expression."""
    if depth > 3 or random_.random() < 0.25:
        return random_.choice(random_.choice((NUMBERS, TEXTS, NAMES, ("true", "false", "null"))))
    one, two = make_random(random_, depth + 1), make_random(random_, depth + 1)
    sign = random_.choice(("&&", "||", "==", "!=", "<", "<=", ">", ">="))
    forms = (f"{one} {sign} {two}", f"({one}) {sign} {two}", f"!{one}", f"!({one} {sign} {two})", f"({one})[{two}]")
    named = random_.choice(("contains", "startsWith", "endsWith", "join", "format"))
    calls = (f"{named}({one}, {two})", f"format({one}, {two}, 1)", f"toJSON({one})", f"fromJSON({one})", f"({one}).*")
    return random_.choice(random_.choice((forms, forms, calls)))


def test_a_table_of_expressions_has_the_values_of_githubs_own_library() -> None:
    assert dict(zip(TABLE, map(ours, TABLE), strict=True)) == dict(zip(TABLE, library(TABLE), strict=True))


def test_random_expressions_have_the_values_of_githubs_own_library() -> None:
    random_ = random.Random(20261128)  # noqa: S311 - the same ones each time
    several = list(dict.fromkeys(make_random(random_) for _ in range(3000)))
    valued = {one: value for one, value in zip(several, library(several), strict=True) if value is not None}
    different = {one: (ours(one), value) for one, value in valued.items() if ours(one) != value}
    assert (different, len(valued) > 1500) == ({}, True)
