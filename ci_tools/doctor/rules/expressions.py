"""Rules for expressions that GitHub cannot read, or that mean something else than they say: the catalog has a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ci_tools.catalog import tables
from ci_tools.doctor.documents import LITERAL, WorkflowDocument, expressions_of, one_line, strings
from ci_tools.doctor.expressions import is_expression
from ci_tools.doctor.expressions.values import FUNCTIONS
from ci_tools.doctor.report import DoctorFinding, report
from ci_tools.doctor.rules.references import CONTEXTS, REFERENCE_RULES
from ci_tools.doctor.workflow_set import WorkflowSet, is_fatwheel
from ci_tools.errors import nearest

# https://docs.github.com/en/actions/reference/workflows-and-actions/expressions#functions
KNOWN = ("always", "cancelled", "contains", "failure", "hashfiles", "success", *FUNCTIONS)
CALLED = re.compile(r"(?<![\w.-])([A-Za-z_]\w*)\s*\(")
MISTAKES = tables.read("expressions")["mistake"]
NOBODY = "(?!)"  # a pattern that no text has
# A number whose last zero YAML drops, and the names that versions have outside of a matrix.
NUMBER = re.compile(r"(\d+\.\d*[1-9])0+(?=\s*(?:[],}#]|$))")
VERSION = re.compile(r"python|version|torch|cuda|rocm", re.IGNORECASE)


def check_mistakes(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the expressions that GitHub cannot read, and those that the catalog knows as mistakes."""
    rows = [(row, re.compile(_fill(row, file, known), re.IGNORECASE)) for row in MISTAKES]
    for keys, text in strings(file.value):
        place, where = "/".join(map(str, keys)), file.where(keys)
        for expression in expressions_of(text, is_condition=keys[-1:] == ("if",)) if keys[-1] != "description" else ():
            if expression.count("'") % 2 == 0 and not is_expression(expression):  # else a text may have `}}`
                yield report("expression", where, f"{one_line(expression.strip(), 60)} is not an expression")
            for name in CALLED.findall(LITERAL.sub("''", expression)):  # a text may look like a call
                if name.lower() not in KNOWN:
                    how = nearest(name.lower(), KNOWN)
                    yield report("function", where, f"no function of expressions is called {name}", how)
            for row, pattern in rows:
                found = pattern.search(expression) if re.fullmatch(row.get("at", ".*"), place) else None
                if found and not re.search(row.get("unless", NOBODY), expression):
                    verdict = row.get("is") or ("always holds" if "!=" in found[0] else "never holds")
                    how = row.get("how") or nearest(found[1], _words_of(row))
                    what = f"`{one_line(found[0].strip(' !&|('), 80)}` {verdict}"
                    yield report(row.get("rule", "comparison"), where, what, how)


def _fill(row: Mapping[str, Any], file: WorkflowDocument, known: WorkflowSet) -> str:
    """Return the pattern of a row, with what its words in capitals stand for in a file."""
    inputs = {} if file.is_action else file.declared("inputs")  # an action gets texts
    booleans = [name for name, (_, table) in inputs.items() if table.get("type") == "boolean"]
    ours = [job for job, value in file.jobs.items() if is_fatwheel(known, file, str(value.get("uses", "")))]
    signs = {"BOOLEAN": booleans, "OURS": ours, "WORDS": _words_of(row)}
    return re.sub("|".join(signs), lambda sign: "|".join(map(re.escape, signs[sign[0]])) or NOBODY, row["pattern"])


def _words_of(row: Mapping[str, Any]) -> list[str]:
    return list(CONTEXTS["events"] if row.get("words") == "events" else row.get("words", ()))


def check_versions(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the versions that YAML reads as numbers, without their last zero: 3.10 is 3.1."""
    for keys, place in file.document.values.items():
        found = NUMBER.match(file.lines[place.line - 1], place.column - 1)
        names = [key for key in keys[-2:] if isinstance(key, str)]  # the last is `default`, or the number of an item
        if found and ("matrix" in keys or VERSION.search(" ".join(names))):
            what = f"{found[0]} is a number here, and GitHub reads {found[1]}"
            yield report("version", file.where(keys), what, f'in quotes: "{found[0]}"')


TEXT_RULES = (*REFERENCE_RULES, check_mistakes, check_versions)
