"""The parser of one verb, and the arguments that several verbs have."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, NoReturn

from ci_tools.errors import InputError, nearest
from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

NEAREST_CONFIG = "the fatwheel.yml or [tool.fatwheel] of this folder, or of the nearest above"


class Parser(argparse.ArgumentParser):
    """The parser of one verb; its errors have the form of all other errors, and its help ends with an example."""

    def __init__(self, name: str, text: str, example: str) -> None:
        super().__init__(
            prog=f"fatwheel {name}",
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=f"example:\n  $ {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,  # it keeps the lines of the example
        )
        self.set_defaults(verb=name)  # `dispatch` runs it by this name
        self.add_argument("-v", "--verbose", action="store_true", help="log commands, requests and cache use on stderr")

    def format_help(self) -> str:
        """Return the help page, its description wrapped: the formatter wraps only the texts of arguments."""
        whole, self.description = (
            self.description,
            # argparse's own margin (HelpFormatter)
            textwrap.fill(self.description or "", get_terminal_size().columns - 2),
        )
        try:
            return super().format_help()
        finally:  # the parser may be asked again
            self.description = whole

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help page; argparse would ignore that the disk is full."""
        (file or sys.stdout).write(self.format_help())

    def add_flag(self, name: str, text: str) -> None:
        """Add an option without a value."""
        self.add_argument(name, action="store_true", help=text)

    def add_text(self, name: str, metavar: str, text: str, *, many: bool = False, **more: Any) -> None:  # noqa: ANN401
        """Add an argument with a text that is not blank; several such options make a list, in their order."""
        if many:  # not `nargs`: it would swallow the arguments behind it
            more, text = {"action": "append", "default": [], **more}, f"{text}; may be given several times"
        self.add_argument(name, type=parse_nonempty, metavar=metavar, help=text, **more)

    def add_path(self, name: str, metavar: str, text: str, **more: Any) -> None:  # noqa: ANN401 - argparse's own
        """Add an argument with the path of a file or folder, which need not exist."""
        self.add_argument(name, type=Path, metavar=metavar, help=text, **more)

    def error(self, message: str) -> NoReturn:
        """Raise InputError."""  # argparse would print a usage, and exit by itself
        raise InputError(message.removeprefix("argument "), hint=f"`{self.prog} --help` lists the options")

    def refuse_unknown(self, words: Sequence[str]) -> None:
        """Raise InputError for an option that the verb does not have: argparse names no similar one."""
        known = [option for option in self._option_string_actions if option.startswith("--")]
        for name in (word.partition("=")[0] for word in words[: [*words, "--"].index("--")]):
            if name.startswith("--") and " " not in name and not any(one.startswith(name) for one in known):
                self.error(f'there is no option "{name}", {nearest(name, known)}')

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:  # argparse names no nearest
            msg = f'there is no "{value}", {nearest(str(value), map(str, action.choices))}'
            raise argparse.ArgumentError(action, msg)


def add_config(parser: Parser) -> None:
    """Add the config as a positional argument, and the option to trust the source that it names."""
    add_config_path(parser)
    add_trust(parser)


def add_config_path(parser: Parser) -> None:
    """Add the config as a positional argument."""
    parser.add_path("config", "fatwheel.yml", f"the config, or its folder; default: {NEAREST_CONFIG}", nargs="?")


def add_trust(parser: Parser) -> None:
    """Add the option for machines without a sandbox."""
    parser.add_flag("--trust-source", "run the project's own setup.py also where this machine cannot confine it")


def add_format(parser: Parser, *more: str, first: str = "table", forms: str = "") -> None:
    """Add the choice of the form of the output: by default the first, or one of some more."""
    text = f"what stdout gets{forms and f': {forms}'}; default: %(default)s"
    parser.add_argument("--format", choices=(first, *more), default=first, help=text)


def add_edition(parser: Parser) -> None:
    """Add the options that say which edition of which wheels is made."""
    text = "a torch such as 2.15 in place of the config's: build only wheels bound to it, to be added to a release"
    parser.add_text("--torch", "VERSION", text, many=True)
    text = "the GPU runner of a platform, in place of the config's: linux-cuda=self-hosted,h100"
    parser.add_text("--gpu-runner", "PLATFORM=LABELS", text, many=True)
    group = parser.add_mutually_exclusive_group()  # each of them decides the edition
    text = "the git tag this is a release of: v1.2.0, or v1.2.0-rc1 for a candidate"
    group.add_argument("--tag", type=parse_nonempty, metavar="TAG", help=text)
    text = "the branch, tag or commit that is checked out; a tag is released; default: git's tags of the commit"
    group.add_argument("--ref", type=parse_nonempty, metavar="REF", help=text)
    text = "not a release: build and try the version as it stands, for folders only"
    group.add_argument("--untagged", action="store_true", help=text)
    text = "make a nightly with that date, such as 20261121"
    group.add_argument("--nightly", type=parse_nonempty, metavar="DATE", help=text)


def add_targets(parser: Parser) -> None:
    """Add the options that say where files are published, and how."""
    from ci_tools.publish.targets import UPLOADERS

    text = (
        "dir:PATH, s3://BUCKET/PREFIX, github:OWNER/REPO or pypi[:NAME or URL]; "
        "a bucket and its mirror are one: s3://A/whl|s3://B/whl; default: the config's publish: targets"
    )
    parser.add_text("--to", "TARGET", text, many=True)
    text = "the program that uploads to PyPI and its like; default: %(default)s"
    parser.add_argument("--uploader", choices=UPLOADERS, default=UPLOADERS[0], help=text)
    parser.add_flag("--replace", "overwrite published files whose contents differ, in an index of your own only")


def parse_nonempty(text: str) -> str:
    """Return an argument; refuse an empty one, which often comes from an unset variable."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty, expected a value, or no such option")
    return text  # blanks around it may belong to a path


def parse_minor(text: str) -> Minor:
    """Return a version such as 2.13."""
    try:
        return Minor.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, expected one such as 2.13") from error


def parse_number(text: str) -> int:
    """Return a whole number above 0."""
    if not re.fullmatch("[1-9][0-9]{0,9}", text):  # int() also reads "+7", "1_000" and other scripts' digits
        raise argparse.ArgumentTypeError(f'"{text}" is not a number, expected one such as 7')
    return int(text)
