"""docs/reference/audit-rules.md: the docstrings of the audit's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.verify import audit
from docs.pages.markdown import table
from tests.proof.flawed.argued import ARGUED as NOT_NAMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


AUDIT = """\
# The audit's rules

`fatwheel audit` reads a wheel without installing it, and `fatwheel release` publishes none with an error. A file that
is not a zip file has one finding, `archive`. With `--config`, a wheel is also compared with the plan's job of the same
file name. `fatwheel release` always does so.

Files of one version are compared with each other as well. Wheels whose requirements, Pythons, extras or entry points
differ have the warning `together`, and so has an sdist that says another thing than they do (from Metadata-Version 2.2,
but for `Dynamic`). A release into a folder also reports which files the newest wheel of another project there installs.
The manifests of an index do not list members, so a bucket or GitHub is not asked."""

WHY = """\
## Errors and warnings

A finding is an error if the wheel, or something else of its users, is certain to break. Some rules need more words:
"""

SEEN = """\
## See it yourself

Each finding has a command that shows it; `{wheel}` is its file, `{package}` its package:
"""

ARGUED = """\
## What others name

pip, uv, twine, check-wheel-contents, pydistcheck, wheel-inspect and abi3audit are asked about 540 kinds of flawed
wheels (`python -m tests.proof.flawed.oracle`), and Pythons import them. What they refuse or name has a finding here,
but for:
"""

FINDING = """\
## A finding

`fatwheel audit --format json` prints a list of objects with the keys `wheel`, `rule`, `level` (`error` or `warning`),
`message`, `found`, `expected`, `effect` (what happens to a user) and `command` (one that shows it), in the order of the
rules above. An empty list means that nothing was found."""


def describe() -> Iterator[str]:
    """Give each rule's docstring: what must hold."""
    yield AUDIT
    yield from table(
        ("rule", "what must hold", "where it does not"),
        ((f"`{name}`", _first(rule.check), rule.effect) for name, rule in audit.RULES.items()),
    )
    yield from ("", WHY)
    for name, rule in audit.RULES.items():
        yield from (f"- `{name}`: {line}" for line in _further(rule.check))
    yield from ("", SEEN)
    yield from table(("rule", "command"), ((f"`{name}`", f"`{rule.command}`") for name, rule in audit.RULES.items()))
    yield from ("", ARGUED)
    yield from table(
        ("what", "who names it", "why the audit does not"), ((one.what, one.who, one.why) for one in NOT_NAMED)
    )
    yield from ("", FINDING)


def _further(rule: Callable[..., object]) -> Iterator[str]:
    """Yield what a rule's docstring says beyond its first paragraph, on one line."""
    more = " ".join((rule.__doc__ or "").partition("\n\n")[2].split())
    yield from [more] if more else []


def _first(rule: Callable[..., object]) -> str:
    """Return the first paragraph of a rule's docstring, on one line."""
    return " ".join((rule.__doc__ or "").partition("\n\n")[0].split())
