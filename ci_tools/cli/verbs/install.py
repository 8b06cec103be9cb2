"""The verbs about installing: facts, choose, bundle and guard of smart sdists, and explain."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.errors import BAD, DONE

if TYPE_CHECKING:
    import argparse

    from ci_tools.cli.arguments import Parser
    from ci_tools.install.fatwheel_backend import Facts
    from ci_tools.machine.context import Outside

FOR = "the facts of the machine, as `fatwheel install facts` prints them there; default: this machine and its Python"


def run_facts(options: argparse.Namespace, outside: Outside) -> None:  # noqa: ARG001 - as every verb
    from ci_tools.install.bundle import here, write_facts

    sys.stdout.write(write_facts(here()))  # it is the file itself, to the last line end


def declare_choose(parser: Parser) -> None:
    parser.add_path("sdist", "SDIST", "a smart sdist")
    parser.add_argument("--for", dest="facts", type=Path, metavar="FILE", help=FOR)


def _facts(options: argparse.Namespace) -> Facts:
    from ci_tools.install.bundle import here, read_facts

    return read_facts(options.facts) if options.facts else here()


def run_choose(options: argparse.Namespace, outside: Outside) -> int:  # noqa: ARG001 - as every verb
    from ci_tools.install.bundle import explain

    text, fits = explain(options.sdist, _facts(options))
    sys.stdout.write(text)
    return DONE if fits else BAD  # for scripts: is there a wheel?


def declare_bundle(parser: Parser) -> None:
    declare_choose(parser)
    parser.add_path("--out", "DIR", "the folder to put the wheel into", required=True)


def run_bundle(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.install.bundle import make_bundle

    bundle = make_bundle(options.sdist, _facts(options), options.out, outside.environ)
    outside.reporter.say(f"{bundle.wheel} is the wheel for it; take that folder there, and with what it requires:")
    print(bundle.command)


def run_guard(options: argparse.Namespace, outside: Outside) -> None:  # noqa: ARG001 - as every verb
    from ci_tools import install

    # Other packages take it as it stands, so it imports no part of Fatwheel.
    sys.stdout.write(Path(install.__file__).with_name("guard.py").read_text(encoding="utf-8"))


def declare_explain(parser: Parser) -> None:
    """Add the arguments of `fatwheel install explain`."""
    parser.add_argument(
        "file", metavar="FILE", help="the file with what was printed when it failed; - is the standard input"
    )


def run_explain(options: argparse.Namespace, outside: Outside) -> int:  # noqa: ARG001 - as every verb
    """Run `fatwheel install explain`."""
    from ci_tools.index.finder.causes import explain_file

    text, is_known = explain_file(options.file)
    sys.stdout.write(text)
    return DONE if is_known else BAD
