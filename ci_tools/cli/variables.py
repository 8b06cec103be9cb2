"""The environment variables that stand for options: the command line goes before them, and they before the config.

An option has a variable if it means the same for every verb that takes it: a workflow sets it once for all of its
steps. `--out`, `--only` and `--format` do not: one verb writes a file, another fills a folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError, close_names
from ci_tools.github.step import spell

if TYPE_CHECKING:
    from ci_tools.cli.arguments import Parser

PREFIX = "FATWHEEL_"
# The variable of each option, by its name in the result of the parser.
VARIABLES: Mapping[str, str] = {
    option: f"{PREFIX}{option.upper()}"
    # ruff: noqa: SIM905 - as words they fit on a page
    for option in "config distant dry_run gpu_runner here job keep_going nightly package plan python ref released "
    "replace site tag to torch trust_source unattested untagged uploader".split()
}

OURS = "set by Fatwheel"


class Variable(NamedTuple):
    """A variable of no option: what it has, what that names, and the module that reads it."""

    kind: str
    meaning: str
    reader: str


OTHERS: Mapping[str, Variable] = {
    f"{PREFIX}{name}": Variable(*row)
    for name, *row in (
        ("CACHE", "folder", "cache of what is fetched and observed, not the user's own", "machine.storage"),
        ("COMPILES", OURS, "mark of a build backend at work", "install.fatwheel_backend"),
        ("CONTAINERS", "podman, docker, none", "program for builds in images", "build.containers.engines"),
        ("CUDA_REDIST", "address", "a mirror of NVIDIA's archives, for `toolchain: redist`", "build.sdk.redist"),
        ("IMAGE", "name", "the container image of a workflow's job", "build.built_with"),
        ("INSTALLER", "pip, uv", "program that installs; default: pip", "machine.installers"),
        ("TORCH_INCLUDE", OURS, "the folder of torch's headers, for a build", "build.toolchain"),
        ("UNITS", "address, off", "a place to share compile units by; off: all is compiled", "build.units.launchers"),
        ("UNITS_TRACE", OURS, "the file that tells what a compiler looks for", "build.units.desk"),
        ("VERBOSE", "1", "`--verbose`", "cli.failures"),
        ("WHEEL", OURS, "the wheel that was built, for `build.after`", "build.bench.shell"),
        ("WORD", OURS, "the secret word of an observation", "observe.setup_py.run"),
    )
}
CLOSE = 0.6  # how alike the name of an unknown variable is to that of a known one


def parse(parser: Parser, words: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Parse a verb's arguments; an option that they leave out takes its value from its variable, if that is set.

    `variables` has those that set one. Of options that exclude each other, one on the command line goes before the
    variables of all. Raises InputError if the command line or a variable is wrong.
    """
    parser.refuse_unknown(words)
    told = {
        action: environ[variable]
        for action in parser._actions  # noqa: SLF001 - argparse has no other way, here and below
        # A workflow sets an empty one for an input that is left out.
        if (variable := VARIABLES.get(action.dest, "")) and environ.get(variable, "").strip()
    }
    if not told or {"-h", "--help"} & {*words}:  # help is printed whatever the variables hold
        return parser.parse_args(words, argparse.Namespace(variables={}))
    given = _find_given(parser, words)
    used = {action: text for action, text in told.items() if action.dest not in given}
    options = {action: text for action, text in used.items() if action.option_strings}
    extra = [word for action, text in options.items() for word in spell(action, VARIABLES[action.dest], text)]
    variables = {VARIABLES[action.dest]: text for action, text in used.items()}
    # A positional argument cannot be added as a word: it would come before those of the command line.
    defaults = {action.dest: Path(text) for action, text in used.items() if not action.option_strings}
    try:
        parser.set_defaults(**defaults)
        # of two, argparse keeps the later
        return parser.parse_args([*extra, *words], argparse.Namespace(variables=variables))
    except InputError as error:  # it may be of a variable
        if not variables:
            raise
        # The person may not know which variables are set here.
        raise InputError(error.message, hint=f"set here: {', '.join(variables)}; {error.hint}") from error


def _find_given(parser: Parser, words: Sequence[str]) -> set[str]:
    """Return the names of the options on a command line, and of those that they exclude."""
    known = [(action, action.default, action.required) for action in parser._actions]  # noqa: SLF001
    try:
        for action, *_ in known:
            # A positional argument would be given the text of SUPPRESS.
            # A variable may give it: it is not required here.
            action.default, action.required = (argparse.SUPPRESS if action.option_strings else None), False
        given = {name for name, value in vars(parser.parse_args(words)).items() if value is not None}
    finally:
        for action, default, required in known:
            action.default, action.required = default, required
    for group in parser._mutually_exclusive_groups:  # noqa: SLF001
        names = {action.dest for action in group._group_actions}  # noqa: SLF001
        given |= names if names & given else set()  # --tag on the command line overrules FATWHEEL_NIGHTLY
    return given


def find_unknown(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each variable whose name is close to that of one above."""
    known = {*VARIABLES.values(), *OTHERS}
    strange = [name for name in environ if name.startswith(PREFIX) and name not in known]
    for name in sorted(strange):
        if near := close_names(name[len(PREFIX) :], [one[len(PREFIX) :] for one in known], cutoff=CLOSE):
            yield f'there is no variable "{name}", did you mean "{PREFIX}{near[0]}"?'
