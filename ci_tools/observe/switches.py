"""Finds the variables that switch parts of a build on: those that name a platform's hardware, and all others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from ci_tools.catalog.accelerators import KINDS
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.observe.views import View

if TYPE_CHECKING:
    from ci_tools.observe.observation import Observed
    from ci_tools.observe.setup_py.run import Observer
    from ci_tools.source.files import Tree

# Variables that may switch kernels on, and words in variables that switch something off.
NO_SWITCH = re.compile(r"SKIP|NO_|DISABLE|_HOME|_PATH|_DIR|ARCH|JOBS|VERSION|FLAGS|CXX|(^|_)CC$|COMPILER")
VALUES = ("1", "TRUE", "ON")
# Words in a switch that stands for the hardware of a platform: who asks for the platform asks for that.
HARDWARE = "|".join(kind.switches for kind in KINDS.values())
SWITCH = re.compile(rf"{HARDWARE}|FORCE|WITH|USE|BUILD|ENABLE|KERNEL|EXT")
OWN_ARCHS = re.compile(rf"({HARDWARE}).*ARCH")
OF_VERSIONS = re.compile(r"VERSION|SUFFIX|LOCAL|LABEL|RELEASE")
OF_COMPILERS = re.compile(r"FLAGS|PATH")
# A call that asks for a variable, with its default, and the defaults with which a switch is off.
ASKS = r"""(?:getenv|environ\.get)\(\s*["']{}["']\s*(?:,\s*(?:default\s*=\s*)?([^()]*?)\s*)?\)"""
# Words beside the line that asks for a variable, by which only who wants what it turns on sets it.
OPT_IN = re.compile(
    r"\bopt(?:ed|s|ing)?[- ]?in\b|\bexplicit(?:ly)?[- ](?:ask|enabl|opt|request|want)"
    r"|\b(?:if|on|only|unless|upon|when) (?:ask|request)"
)
NAMED = re.compile(r"""\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b(?:["']?\s*=\s*["']?([\w.]+))?""")  # in an error
OF_ROCM = re.compile("ROCM|HIP|AMD")
MAX_TRIED = 8  # variables that may make a version, or switch something on
DEFINITION = re.compile(r"(\w+)(?::\w+)?=(.*)", re.DOTALL)
ON = frozenset({"1", "ON", "TRUE", "Y", "YES"})
OFF = frozenset({"", "0", "FALSE", "N", "NO", "NONE", "OFF"})


def list_switches(observed: Observed, view: View) -> Iterator[str]:
    """Yield the unset variables that the build reads and that may switch kernels on, the likeliest first."""
    is_rocm = view.kind == ROCM
    own = OF_ROCM if is_rocm else re.compile("CUDA")
    fit = (name for name in _list_unset_switches(observed, view) if "CPU" not in name)
    yield from sorted(fit, key=lambda name: ("FORCE" not in name, not own.search(name), name))


def list_named(error: str, view: View) -> Iterator[tuple[str, str]]:
    """Yield the variables that an error names, each with the value that it names or those of a switch that is on."""
    for name, value in NAMED.findall(error):
        is_foreign = re.search(HARDWARE, name) and not (view.kind and re.search(view.kind.switches, name))
        if not NO_SWITCH.search(name) and not is_foreign and name not in dict(view.env):
            yield from ((name, one) for one in ([value] if value else VALUES))


def is_opt_in(name: str, observed: Observed, tree: Tree) -> bool:
    """Whether the source itself says, beside a line that names a variable, that it is set only on request."""
    asking, _, number = observed.asked[f"env:{name}"].rpartition(":")
    setup = f"{asking.rpartition('/')[0]}/setup.py".removeprefix("/")
    for file in dict.fromkeys((asking, setup)):
        lines = tree.text(file).splitlines()
        named = {index for index, line in enumerate(lines, 1) if re.search(rf"\b{name}\b", line)}
        for line in {*named, int(number)} if file == asking else named:
            if OPT_IN.search(" ".join(" ".join(lines[max(line - 4, 0) : line + 1]).lower().replace("#", " ").split())):
                return True
    return False


def _list_unset(observed: Observed, view: View) -> Iterator[str]:
    """Yield the variables that the project's code reads and that are not set."""
    for name, place in observed.asked.items():
        variable = name.removeprefix("env:")
        if place and variable != name and variable not in dict(view.env):
            yield variable


def _list_unset_switches(observed: Observed, view: View) -> Iterator[str]:
    """Yield those that may switch something on."""
    return (name for name in _list_unset(observed, view) if SWITCH.search(name) and not NO_SWITCH.search(name))


def list_choices(observed: Observed, view: View, tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield the unset variables that the build compares with a word for the platform's hardware, each with that word.

    `backend = os.environ.get("BACKEND", "cpu")` is compared by == or in, itself or by the name that it is given.
    """
    for name in sorted(_list_unset(observed, view)):
        text = tree.text(observed.asked[f"env:{name}"].rpartition(":")[0])
        asks = ASKS.format(re.escape(name))
        names = (found[1] for found in re.finditer(rf"(?m)^\s*(\w+)\s*=[^=\n]*{asks}", text))
        either = "|".join((asks, *map(r"\b{}\b".format, names)))
        compared = rf"(?:{either})[.\w()]*\s+(?:==|in)\s[^\n:]*"
        words = (word for found in re.finditer(compared, text) for word in re.findall(r"""["'](\w+)["']""", found[0]))
        known = view.kind and re.compile(view.kind.switches)
        own = (word for word in words if known and known.search(word.upper()) and word != name)
        fits = sorted(
            dict.fromkeys(own), key=lambda word: (view.kind == ROCM) is not bool(OF_ROCM.search(word.upper()))
        )
        yield from ((name, word) for word in fits)


def list_arch_variables(observed: Observed, view: View) -> Iterator[str]:
    """Yield the project's own variables for architectures that the build reads and that are not set."""
    return filter(OWN_ARCHS.search, _list_unset(observed, view))


def list_off(observed: Observed, view: View, tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield the switches that are off by default, by the line that asks for each, and that line's place."""
    for name in sorted(_list_unset_switches(observed, view)):
        place = observed.asked[f"env:{name}"]
        file, _, line = place.rpartition(":")
        asks = re.search(ASKS.format(re.escape(name)), _line(tree, file, int(line)))
        if asks and (asks[1] or "").strip("'\"").upper() in OFF:
            yield name, place


def find_turned_on(before: Observed, after: Observed) -> str:
    """Return the first definition that one build gives cmake and the other turns on, as `-DNAME=OFF`; "" if none is.

    It is `no -DWITH_CUDA=ON` where only the other one gives it, and its name says what hardware it is for.
    """
    earlier, later = dict(list_definitions(before)), dict(list_definitions(after))
    for name, value in earlier.items():
        if value.upper() in OFF and later.get(name, "").upper() not in OFF:
            return f"-D{name}={value}"
    new = (name for name in later if name not in earlier and later[name].upper() in ON)
    return next((f"no -D{name}={later[name]}" for name in new if re.search(HARDWARE, name.upper())), "")


def list_definitions(observed: Observed) -> Iterator[tuple[str, str]]:
    """Yield the variables that a build defines for cmake, and their values: `-DNAME[:TYPE]=VALUE` or `-D NAME=…`."""
    for call in observed.configured:
        for before, argument in pairwise(("", *call)):
            text = argument if before == "-D" else argument.removeprefix("-D") if argument.startswith("-D") else ""
            if found := DEFINITION.fullmatch(text):
                yield found[1], found[2]


def _line(tree: Tree, file: str, number: int) -> str:
    lines = tree.text(file).splitlines()
    return lines[number - 1] if number <= len(lines) else ""


def explain_switch(observer: Observer, switches: tuple[tuple[str, str], ...], observed: Observed, view: View) -> str:
    """Return in words the switches that were set and the effect of a build without them; "" if none was set."""
    if not switches:
        return ""
    shown = " and ".join(f"{name}={value}" for name, value in switches)
    places = dict.fromkeys(observed.asked.get(f"env:{name}", "setup.py") for name, _ in switches)
    plain = observer.observe(view)
    lacking = "it fails" if plain.failure else "it would leave kernels out"
    without = "it would look for a wheel on the network" if plain.opens_network else lacking
    return f"built with {shown}, without which {without} ({', '.join(places)})"


def explain_local_version(observer: Observer, view: View) -> tuple[str, str] | None:
    """Return what makes the version of a build local, and what gives a public one.

    None if the version is public, or if no variable that the build asks for decides it.
    """
    observed = observer.observe(view)
    version = observed.version
    asked = (name for name in _list_unset(observed, view) if not OF_COMPILERS.search(name))
    likeliest = sorted(asked, key=lambda name: (not OF_VERSIONS.search(name), name))  # those that speak of a version
    for name in likeliest[:MAX_TRIED] if "+" in version else ():
        public = observer.observe(view._replace(env=(*view.env, (name, "")))).version
        if public and "+" not in public:
            place = observed.asked[f"env:{name}"]
            what = f"{name}, which is not set, makes the version {version}"
            msg = f"{place}: {what}, expected a public one: each wheel gets its own +label"
            return msg, f'`build: {{env: {{{name}: ""}}}}` in the config gives {public}'
    return None
