"""Every verb: its name, the module of its group in this folder, a sentence and an example.

A module has two functions for each of its verbs: `declare_plan` adds its arguments, if it has any, and `run_plan` runs
it; what that returns is the exit status, None for a verb that has done its work. A module is imported when one of its
verbs is called, and it imports the rooms only inside its functions: start-up is short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError, nearest

if TYPE_CHECKING:
    import argparse

    from ci_tools.cli.arguments import Parser
    from ci_tools.machine.context import Outside

    Run = Callable[[argparse.Namespace, Outside], int | None]  # the exit status; None: done


# Verbs that write no temporary files themselves, so that none is prepared: who asks for a plan waits for it.
WITHOUT_FILES = frozenset({"plan", "evidence"})


class Verb(NamedTuple):
    """A verb of the command line."""

    text: str
    example: str
    module: str = ""  # of its group in this folder; empty: the first word of its name


VERBS: Mapping[str, Verb] = {
    "init": Verb("write a first fatwheel.yml from what the source shows", "fatwheel init", "plan"),
    "plan": Verb("show which wheels serve the request, and why", "fatwheel plan --explain"),
    "advise": Verb(
        "show what would make the plan smaller, with a patch where an edit is enough",
        "fatwheel advise --format diff | git apply",
        "plan",
    ),
    "build": Verb("build one job of the plan", "fatwheel build --job linux-cuda-cu130 --out dist"),
    "report": Verb(
        "show where the time and the memory of a build went, or compare two",
        "fatwheel report dist --html times.html",
        "build",
    ),
    "audit": Verb("check what is inside wheels", "fatwheel audit dist/*.whl --config fatwheel.yml", "build"),
    "validate": Verb(
        "install wheels in clean environments and run them", "fatwheel validate dist/*.whl --python 3.12", "build"
    ),
    "verify": Verb(
        "make a published wheel again from its commit, and compare every byte",
        "fatwheel verify demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        "build",
    ),
    "release": Verb(
        "plan, build, audit, validate, publish and install, on this machine",
        "fatwheel release --to dir:dist/index --here",
        "publish",
    ),
    "publish": Verb(
        "publish finished files, each release unit at every target or at none",
        "fatwheel publish dist --to s3://my-bucket/whl --dry-run",
    ),
    "doctor": Verb(
        "report what in a checkout's workflows, or in a GitHub repository, would stop a release, and how to fix it",
        "fatwheel doctor",
        "repository",
    ),
    "status": Verb(
        "show how the last builds of recipes and platforms went, who owns each, and write a page and a badge of it",
        "fatwheel status github:my-org/wheels --page public/status.html --badge public/status.svg",
        "repository",
    ),
    "evidence": Verb(
        "print the evidence for every cell, with its places in the source, as JSON",
        "fatwheel evidence > evidence.json",
        "plan",
    ),
    "completion": Verb("print the completion of a shell, to be loaded by it", "fatwheel completion bash"),
    "index adopt": Verb(
        "take over the files of an index that other tools filled",
        "fatwheel index adopt s3://my-bucket/whl --project demo",
    ),
    "index add": Verb(
        "publish wheels and sdists that Fatwheel did not build, once they are audited",
        "fatwheel index add dir:index wheels/*.whl --dry-run",
    ),
    "index verify": Verb(
        "report where an index differs from its manifests", "fatwheel index verify s3://my-bucket/whl"
    ),
    "index repair": Verb("repair what `verify` finds", "fatwheel index repair s3://my-bucket/whl"),
    "index pages": Verb(
        "write an index over the GitHub Releases of one or several repositories, as for GitHub Pages",
        "fatwheel index pages github:my-org/demo github:my-org/wheels --out public",
    ),
    "index find": Verb(
        "list every package with a wheel for a machine: from whom, attested or not; for none the recipe that makes it",
        "fatwheel index find https://my-org.github.io/wheels --torch 2.10 --cuda 13.0 --python 3.14",
    ),
    "index promote": Verb(
        "publish the same bytes of a release from one index to another",
        "fatwheel index promote s3://my-bucket/whl/test s3://my-bucket/whl demo==1.0",
    ),
    "index yank": Verb(
        "yank a release of an index, or a part of it: only users who pin it still get it",
        'fatwheel index yank s3://my-bucket/whl demo==1.0 --reason "wrong results on Hopper"',
    ),
    "index unyank": Verb("undo `yank`", "fatwheel index unyank s3://my-bucket/whl demo==1.0"),
    "index remade": Verb(
        "note in an index who made its wheels again, for the finder: runs that signed it, or a person's word",
        "fatwheel index remade dir:public --by github:my-org/demo",
    ),
    "index retract": Verb(
        "mark a bad release at every target that supports it, and say what you have to do by hand",
        'fatwheel index retract demo==1.0 --reason "wrong results on Hopper, use 1.0.1"',
    ),
    "install facts": Verb(
        "print what of this machine decides which wheel it gets, as JSON", "fatwheel install facts > cluster.json"
    ),
    "install choose": Verb(
        "show which wheel of a smart sdist a machine gets, and why not the others",
        "fatwheel install choose demo-1.0.tar.gz --for cluster.json",
    ),
    "install bundle": Verb(
        "fetch the wheel of a smart sdist for a machine without a network",
        "fatwheel install bundle demo-1.0.tar.gz --for cluster.json --out wheels",
    ),
    "install guard": Verb(
        "print a file for your package: it says what to do where torch is no longer the one its wheel is for",
        "fatwheel install guard > src/demo/_guard.py",
    ),
    "install explain": Verb(
        "say why a package cannot be installed or loaded, by what was printed, and what mends it",
        "pip install demo 2>&1 | fatwheel install explain -",
    ),
    "catalog update": Verb(
        "add what upstream has published of torch since to the project's catalog", "fatwheel catalog update --check"
    ),
    "recipe list": Verb("list the releases of all recipes, yours and ours", "fatwheel recipe list"),
    "recipe show": Verb(
        "show the releases that a recipe gives for a choice", "fatwheel recipe show cupy-cuda13x --python 3.14t"
    ),
    "recipe check": Verb(
        "fetch the sources of recipes, apply their patches and plan every release",
        "fatwheel recipe check sageattention --archs 8.0,8.9",
    ),
    "recipe new": Verb(
        "write a first recipe from what a repository or an sdist shows",
        "fatwheel recipe new https://github.com/rusty1s/pytorch_scatter",
    ),
    "recipe copy": Verb(
        "copy a recipe to change it, or write the config of one of its releases",
        "fatwheel recipe copy sageattention build --release --python 3.14",
    ),
    "recipe outdated": Verb("show what upstream has published and recipes do not name", "fatwheel recipe outdated"),
    "recipe watch": Verb(
        "say which releases of recipes are due, which are not, and why",
        "fatwheel recipe watch --to github:my-org/wheels --follow version",
    ),
    "recipe answer": Verb(
        "answer an issue that asks for a wheel: published, to be built, or refused, and why",
        "fatwheel recipe answer event.json --to github:my-org/wheels",
    ),
    "releases list": Verb(
        "list the GitHub Releases of a repository, and say which are superseded and which tags no template gives",
        "fatwheel releases list github:my-org/wheels",
    ),
    "releases prune": Verb(
        "remove superseded nightlies, and what exceeds a project's quota; without --yes only show them",
        "fatwheel releases prune github:my-org/wheels --keep 'v1.*'",
    ),
    "releases readme": Verb(
        "write the table of the newest wheels, and how to install each, between two markers of a README",
        "fatwheel releases readme github:my-org/wheels --check",
    ),
    "ci step": Verb(
        "run a verb with the inputs of a workflow's step, given as variables (WITH_CONFIG and so on)",
        "WITH_OUT=plan.json fatwheel ci step plan",
    ),
    "ci summary": Verb("print a page for GitHub: a plan, or a release with its results", "fatwheel ci summary dist"),
    "ci prepare": Verb(
        "free disk space and add swap on a hosted runner, as the plan says for its jobs",
        "fatwheel ci prepare --plan plan.json --job linux-cuda-cu130",
    ),
    "ci channel": Verb("print the channel of a plan's release", "fatwheel ci channel --plan plan.json"),
    "ci units": Verb(
        "copy a project's compile units from one place to another",
        "fatwheel ci units --plan plan.json --source s3://my-bucket/units --target dir:units",
    ),
    "ci gather": Verb(
        "collect the files that several machines made by one plan, and audit them here",
        "fatwheel ci gather from-arm from-cuda --plan plan.json --out dist",
    ),
    "ci trials": Verb(
        "print the trials of a plan that need a runner: those of the wheels that were built",
        "fatwheel ci trials dist --plan plan.json",
    ),
    "ci projects": Verb(
        "print the projects of a repository with several configs, as a matrix of calls",
        "fatwheel ci projects alpha/fatwheel.yml beta/fatwheel.yml",
    ),
    "ci remakes": Verb(
        "list the wheels of a repository's last release, each with the runner and the Python that make it again",
        "fatwheel ci remakes github:my-org/demo",
    ),
    "ci attested": Verb(
        "verify that a GitHub workflow signed every file of a release",
        "fatwheel ci attested dist --repository my-org/demo --signer my-org/fatwheel/.github/workflows/wheels.yml",
    ),
    "ci unattested": Verb(
        "compare every file of a release with its receipt, and print a page that says that it is not signed",
        "fatwheel ci unattested dist",
    ),
    "ci tell": Verb(
        "open an issue for the owner of a platform whose scheduled run failed, and close it after a success",
        "fatwheel ci tell --platform linux-rocm --result failure --repository my-org/demo",
    ),
    "ci comment": Verb(
        "write a file into one comment of a pull request or an issue, or update that comment",
        "fatwheel ci comment plan.md --pull 7 --repository my-org/demo",
    ),
}
GROUPS: Mapping[str, str] = {
    "index": "look after a published index: {verbs}",
    "install": "explain and prepare installations from a smart sdist: {verbs}",
    "catalog": "use a torch that Fatwheel does not know yet: {verbs}",
    "recipe": "make wheels of packages that others publish: {verbs}",
    "releases": "look after the GitHub Releases of a repository: {verbs}",
    "ci": "the steps of a workflow, not for people",
}
FIRST_PAGE = {
    "plan": ("init", "plan", "advise"),
    "make wheels": ("build", "audit", "validate"),
    "publish": ("release", "publish", "doctor"),
}
WIDEST = 100  # columns of a page
ABOUT = "The fewest wheels that serve everybody: plan, build, audit, validate, publish."


def split(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Split a command line into the name of its verb, such as `index verify`, and the verb's arguments.

    Raises InputError if it names no verb.
    """
    count = 2 if words and words[0] in GROUPS else 1
    name = " ".join(words[:count])
    if name in VERBS:
        return name, words[count:]
    if len(words) < count:
        what = f"`fatwheel {name}` needs a verb" if words else "no verb is named"
        raise InputError(f"{what}, known: {', '.join(_listed(words))}", hint=_help_of(words))
    word = words[count - 1]
    moved = [verb for verb in VERBS if verb.endswith(f" {word}")]  # verbs were moved into groups
    found = f'did you mean "{moved[0]}"?' if moved else nearest(word, _listed(words))
    raise InputError(f'there is no verb "{name}", {found}', hint=_help_of(words))


def _listed(words: Sequence[str]) -> list[str]:
    """Return the verbs of the group that a command line begins with, or all outside the groups, and the groups."""
    if words and words[0] in GROUPS:
        return _verbs_of(words[0])
    return [*(verb for verb in VERBS if " " not in verb), *GROUPS]


def _verbs_of(group: str) -> list[str]:
    return [verb.partition(" ")[2] for verb in VERBS if verb.startswith(f"{group} ")]


def _help_of(words: Sequence[str]) -> str:
    group = [words[0]] if words and words[0] in GROUPS else []
    return f"`{' '.join(['fatwheel', *group, '--help'])}` lists the verbs"


def parser_of(name: str) -> Parser:
    """Return the parser of a verb's arguments."""
    from ci_tools.cli.arguments import Parser
    from ci_tools.cli.variables import VARIABLES

    verb = VERBS[name]
    parser = Parser(name, verb.text, verb.example)
    getattr(_module(name), f"declare_{_function(name)}", lambda _: None)(parser)  # some take no arguments
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        action.help = f"{action.help} [{VARIABLES[action.dest]}]" if action.dest in VARIABLES else action.help
    return parser


def find_run(name: str) -> Run:
    """Return the function that runs a verb: `run_verify` of the module `index` for "index verify"."""
    run: Run = getattr(_module(name), f"run_{_function(name)}")  # see the head of this module
    return run


def _module(name: str) -> object:
    return import_module(f"{__name__}.{VERBS[name].module or name.partition(' ')[0]}")


def _function(name: str) -> str:
    return name.rpartition(" ")[2].replace("-", "_")


# ---------------------------------------------------------------- help


def first_page() -> str:
    """Return what `fatwheel --help` prints: the verbs of people, then the groups."""
    lines = ["usage: fatwheel VERB ...", "", ABOUT]
    for title, names in FIRST_PAGE.items():
        lines += ["", f"{title}:", *(_line(name, VERBS[name].text) for name in names)]
    groups = (_line(name, text.format(verbs=", ".join(_verbs_of(name)))) for name, text in GROUPS.items())
    lines += ["", "groups of verbs, each with a --help of its own:", *groups]
    shown = {name for names in FIRST_PAGE.values() for name in names}
    more = [verb for verb in VERBS if " " not in verb and verb not in shown]
    lines += ["", f"more verbs: {', '.join(more)}"]
    lines += [
        "",
        "`fatwheel VERB --help` has a verb's options and an example; `fatwheel --version` prints the version.",
    ]
    return "\n".join(lines) + "\n"


def group_page(group: str) -> str:
    """Return what `fatwheel index --help` prints."""
    text = GROUPS[group].partition(":")[0]
    lines = [f"usage: fatwheel {group} VERB ...", "", f"{text[0].upper()}{text[1:]}.", ""]
    lines += [_line(name, VERBS[f"{group} {name}"].text) for name in _verbs_of(group)]
    lines += ["", f"`fatwheel {group} VERB --help` has a verb's options and an example."]
    return "\n".join(lines) + "\n"


def _line(name: str, text: str) -> str:
    from shutil import get_terminal_size
    from textwrap import fill

    width = min(get_terminal_size().columns, WIDEST)  # a page has the same lines in a log
    # Options and file names stay whole.
    return fill(text, width, initial_indent=f"  {name:<14}", subsequent_indent=" " * 16, break_on_hyphens=False)
