"""The verb that prints a shell's completion."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_tools.cli.arguments import Parser
    from ci_tools.machine.context import Outside

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")  # shtab.SUPPORTED_SHELLS, which `--help` need not import


def declare_completion(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}")


def run_completion(options: argparse.Namespace, outside: Outside) -> None:  # noqa: ARG001 - as every verb
    """Run `fatwheel completion`: a script that knows all verbs and options by itself, and starts no Python."""
    import shtab

    print(shtab.complete(_make_whole_parser(), options.shell))


def _make_whole_parser() -> argparse.ArgumentParser:
    """Return one parser of the whole command line; each call of `fatwheel` makes only that of its verb."""
    import shtab

    from ci_tools.cli.verbs import ABOUT, GROUPS, VERBS, parser_of

    whole = argparse.ArgumentParser(prog="fatwheel", description=ABOUT)  # `Parser` adds options of its own
    whole.add_argument("--version", action="store_true", help="print the version")
    top = whole.add_subparsers()
    groups = {one: top.add_parser(one, help=text.partition(":")[0]).add_subparsers() for one, text in GROUPS.items()}
    for name, verb in VERBS.items():
        group, _, word = name.rpartition(" ")
        parser = parser_of(name)
        for action in parser._actions:  # noqa: SLF001 - argparse has no other way
            if action.type is Path:
                paths = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
                action.complete = paths  # type: ignore[attr-defined]  # shtab reads it
        add_to = groups[group] if group else top
        add_to.add_parser(word, help=verb.text, parents=[parser], add_help=False)  # that of `parser`
    return whole
