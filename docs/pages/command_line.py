"""docs/reference/cli.md: the verbs, their arguments, the variables, and the exit statuses."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ci_tools import errors
from ci_tools.cli import variables
from ci_tools.cli import verbs as command_line
from ci_tools.cli.main import INTERRUPTED
from ci_tools.github import step as steps
from ci_tools.machine.http import policy
from docs.pages.markdown import table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping


CLI = """\
# The command line

Data goes to standard output, talk to standard error. Colours and bars appear on a terminal only, and `NO_COLOR` is
honoured. What is fetched is kept in the user's cache folder, or in the folder that `FATWHEEL_CACHE` names.
pip installs build requirements and the wheels under trial; with `FATWHEEL_INSTALLER=uv` it is uv, which does the same
in about a tenth of the time, from the indexes that pip's own settings name.
The key that [seals what is kept](../explanation/evidence.md#what-is-kept) is in `~/.local/state/fatwheel`.

A request to a server is tried {tries} times if it cannot connect, if its answer breaks off (the rest is asked for from
there), or if the status is {not_yet} or 5xx: again at once, then after {pauses} seconds, or after the time that a
`Retry-After` names, up to {asked:.0f} seconds. For GitHub these pauses are longer, and shown.

Every verb takes `--verbose` (`-v`): it then logs on standard error each command, HTTP request and use of the cache, and
after an error its causes. `FATWHEEL_VERBOSE=1` does the same, and so does debug logging in GitHub Actions
(`RUNNER_DEBUG=1`). Users, passwords, queries and fragments of addresses are left out, and headers.

An option whose meaning names a variable in brackets is also set by that environment variable, for every verb that has
the option. The command line goes before the variable, the variable before the config; one that is blank counts as
unset. A flag is set by `1` or `true`; several values are separated by blanks. `fatwheel plan --explain` says which
config and which variables it read. Options that mean different things to different verbs have none: `--out` is one."""


def describe() -> Iterator[str]:
    """Describe every verb and its arguments, then the exit statuses."""
    yield CLI.format(
        tries=policy.REQUEST.tries,
        not_yet=", ".join(map(str, policy.NOT_YET)),
        pauses=", ".join(f"{policy.REQUEST.pause(failed):g}" for failed in range(1, policy.REQUEST.tries - 1)),
        asked=policy.MAX_ASKED,
    )
    for name, verb in verbs().items():
        example = command_line.VERBS[name].example
        yield from ("", f"## fatwheel {name}", "", str(verb.description), "", "```", _usage(name, verb), "```")
        yield from ("", "```console", f"$ {example}", "```")
        yield from table(("argument", "meaning"), map(_argument, _arguments(verb)))
    yield from ("", "## Environment variables")
    yield from table(("variable", "what it has", "what that means"), _by_variable())
    yield from ("", "## Exit status")
    yield from table(("status", "meaning"), _statuses())
    yield from (
        "",
        "Wrong input never gives a traceback. Each mistake is one sentence with its place, all of them at once.",
    )


def _by_variable() -> Iterator[tuple[str, str, str]]:
    """Yield each variable, what it has and what that means, by name."""
    others = {name: (one.kind, one.meaning) for name, one in variables.OTHERS.items() if one.kind != variables.OURS}
    for name, (kind, meaning) in sorted({**others, **_variables()}.items()):
        yield f"`{name}`", kind, meaning


def _variables() -> Mapping[str, tuple[str, str]]:
    """Return each variable of an option with the option's kind, and the option."""
    found: dict[str, dict[str, None]] = {}
    kinds = {}
    for verb in verbs().values():
        for action in _arguments(verb):
            if name := variables.VARIABLES.get(action.dest):
                option = action.option_strings[-1] if action.option_strings else str(action.metavar)
                found.setdefault(name, {})[f"`{option}`"] = None
                kinds[name] = steps.kind_of(action)
    return {name: (kinds[name], " and ".join(options)) for name, options in found.items()}


@functools.cache
def verbs() -> Mapping[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    return {name: command_line.parser_of(name) for name in command_line.VERBS}


def _arguments(verb: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return a verb's arguments, the positional ones first, without those that every verb has."""
    actions = [action for action in verb._actions if action.dest not in {"help", "verbose"}]  # noqa: SLF001 - argparse has no other way
    return sorted(actions, key=lambda action: bool(action.option_strings))


def _usage(name: str, verb: argparse.ArgumentParser) -> str:
    return " ".join(["fatwheel", name, *map(_in_usage, _arguments(verb))])


def _in_usage(action: argparse.Action) -> str:
    text = _written(action) + ("..." if action.nargs == "+" else "")
    return text if action.required and action.nargs != "?" else f"[{text}]"


def _written(action: argparse.Action) -> str:
    """Return an argument as it is typed: `--format table|json`, `--here`, `WHEEL`."""
    value = "" if action.nargs == 0 else action.metavar or "|".join(map(str, action.choices or ()))
    return " ".join(part for part in (*action.option_strings, str(value)) if part)


def _argument(action: argparse.Action) -> tuple[str, str]:
    return f"`{_written(action)}`", (action.help or "") % vars(action)


def _statuses() -> Iterator[tuple[object, str]]:
    yield errors.DONE, "The work is done."
    for kind in (errors.Rejected, errors.InputError, errors.MachineError):
        yield kind.status, str(kind.__doc__)
    yield INTERRUPTED, "Interrupted; the same command goes on where this one stopped."
