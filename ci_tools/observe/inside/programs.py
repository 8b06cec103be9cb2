"""Watches the programs that a project starts and its other external actions: each is known, or a doubt."""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.observe.inside import files, text
from ci_tools.observe.inside.environ import list_changes
from ci_tools.observe.inside.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Mapping

SHELLS = ("bash", "dash", "sh")
CMAKE = "cmake"
GIT = "git"
NPROC = "nproc"
# Of each call of cmake, the variables that the project changes and the arguments, except how many compilers it starts.
CONFIGURED: list[list[str]] = []
JOBS = re.compile(r"(-j|--parallel)?[= ]?\d*")
SOURCE = "<source>"  # the root of the source in these arguments
VALUED = frozenset({"-A", "-B", "-C", "-D", "-G", "-T", "-U", "--install-prefix", "--preset", "--toolchain"})
PYTHON = re.compile(r"python(\d(\.\d+)?)?")
# Characters with a meaning to a shell, beside those that connect commands.
BEYOND_WORDS = re.compile(r"[<>()$`\\*?\[\]{}~#!\n]")
CONNECTORS = frozenset({";", "&&", "||", "|"})
DROPS_OUTPUT = re.compile(r"(?<!\S)(&>|[12]?>) ?/dev/null(?=[\s;&|]|$)|(?<!\S)2>&1(?=[\s;&|]|$)")
# The arguments of a GPU's program that the stage's own answers.
TOLD_BY_DRIVER = re.compile(r"-L|--list-gpus|--query-gpu=(?:compute_cap|count|index)|--format=csv[,\w]*|--showid|-i|\d")
LOOKS_UP = frozenset({"type", "which"})  # print where a shell finds a program
RUNS = "command"  # runs a program, or with -v prints where it is
BUILTINS = frozenset({":", RUNS, "cd", "echo", "exit", "false", "pwd", "true", *LOOKS_UP})
STARTS = {
    "ctypes.dlopen": "loads a library of the machine",
    "os.exec": "replaces itself by another program",
    "os.fork": "forks, and one of the two processes is not observed",
    "os.forkpty": "forks, and one of the two processes is not observed",
    "os.posix_spawn": "starts a program in a way that is not observed",
    "os.spawn": "starts a program in a way that is not observed",
    "os.startfile": "starts a program in a way that is not observed",
    "pty.spawn": "starts a program in a way that is not observed",
    "socket.gethostname": "asks for the name of its machine",
}
# After these, a file can be read under another name; sqlite opens its own without `open`.
MOVES = frozenset({"os.link", "os.rename", "sqlite3.connect"})
NETWORK = frozenset({"socket.connect", "socket.getaddrinfo", "urllib.Request"})


def watch() -> None:
    """Install the audit hook, and make `subprocess` use the one way of starting programs that all versions have."""
    subprocess._USE_POSIX_SPAWN = False  # noqa: SLF001 - its documentation names this switch
    sys.addaudithook(heard)


def heard(event: str, details: tuple[Any, ...]) -> None:
    """Record the commands that the project runs, the outside files that it reads, and network use (PEP 578)."""
    if event == "exec":
        text.note_code(details[0])
    elif event == "compile":
        text.note_text(*details)
    elif event == "open" and isinstance(details[0], (str, bytes, Path)):
        files.note_read(*details[:3])
        files.note_content(*details[:3])
    elif event in MOVES:
        files.note_contents(details[0], *details[2:3])
    elif event == "os.symlink":  # its target is named from the link's folder
        files.note_contents(os.path.join(os.path.dirname(os.fsdecode(details[1])), os.fsdecode(details[0])), details[2])
    elif event == "subprocess.Popen":
        program, words, folder, env = details
        _ran(words or [program], _Start(os.fsdecode(folder or ""), env))
    elif event == "os.system":
        _ran(["sh", "-c", details[0]], _Start("", None))
    elif event in STARTS and FACTS.lets_ask():
        FACTS.doubt(STARTS[event])
    elif event in NETWORK and FACTS.place():
        FACTS.doubt("opens the network, so what it builds depends on what it finds there")


class _Start(NamedTuple):
    """Where and with which variables a program starts; empty and None: those of this process."""

    folder: str
    env: Mapping[Any, Any] | None


def _ran(command: Any, start: _Start) -> None:
    words = [os.fsdecode(word) for word in ([command] if isinstance(command, (str, bytes)) else command)]
    if not FACTS.place():
        return
    if os.path.basename(words[0]) in SHELLS:
        _ran_by_shell(words, start)
    else:
        _ran_program(words, start)


def _ran_program(words: list[str], start: _Start) -> None:
    program = os.path.basename(words[0])
    if program == GIT:
        FACTS.note_git()
    if program in files.GPU_PROGRAMS:
        _ask_driver(words)
    elif not _is_found_here(words[0], start):
        FACTS.doubt(f"runs {words[0]}, which is not in the source")
    elif program in FACTS.known["compilers"]:
        FACTS.ask("accelerator")
        FACTS.ask("oneapi")  # which a compiler may say, and by which cells of one accelerator differ
    elif not _answers(program, words, start):
        own = ", a program of its own" if _is_its_own(words[0], start) else ""
        FACTS.doubt(f"runs {program}{own}, whose answer no cell defines")


def _ask_driver(words: list[str]) -> None:
    """Record a question to a GPU's driver: whether there is one, and what the stage's program does not say of it.

    Raises FileNotFoundError, in the build, for a program that is named by its place on a machine without a GPU.
    """
    if not FACTS.ask("gpu"):
        if os.path.dirname(words[0]):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), words[0])
    elif os.path.dirname(words[0]) or not all(map(TOLD_BY_DRIVER.fullmatch, words[1:])):
        FACTS.doubt(f"runs {' '.join(words)}, whose answer no cell defines")


def _is_its_own(program: str, start: _Start) -> bool:
    """Whether the project names a program by its place, which it has compiled there or brought along."""
    folder = os.path.dirname(os.path.abspath(os.path.join(start.folder, program)))
    tools = {FACTS.known["tools_folder"], os.path.join(FACTS.known["accelerator_home"], "bin")}
    return bool(os.path.dirname(program)) and folder not in tools


def _is_found_here(program: str, start: _Start) -> bool:
    """Whether a program is one of this observation: found on PATH, or named in one of its folders.

    Raises FileNotFoundError, in the build, for a program in the usual place of a toolkit, where no cell has one.
    """
    if not os.path.dirname(program):
        return True
    name = os.path.abspath(os.path.join(start.folder, program))
    if name.startswith(files.USUAL_PLACES):
        FACTS.ask("accelerator")
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    ours = (FACTS.known["tools_folder"], FACTS.known["accelerator_home"], *FACTS.known["folders"])
    return any(folder and name.startswith(f"{folder}/") for folder in ours)


def _ran_by_shell(words: list[str], start: _Start) -> None:
    """Record the commands of a shell's line; a doubt unless all of them are plain words, and in a cell of Windows."""
    found = _split_line(words[2]) if words[1:2] == ["-c"] and len(words) > 2 else []  # noqa: PLR2004 - sh -c LINE
    is_plain = len(found) == 1 and found[0][0] not in BUILTINS
    if not found or any("=" in one[0] for one in found) or not (is_plain or FACTS.ask("os") != "windows"):
        FACTS.doubt("runs a shell, whose answer no cell defines")
        return
    for one in found:
        if one[0] in LOOKS_UP or one[:2] == [RUNS, "-v"]:
            for name in (word for word in one[1:] if not word.startswith("-")):
                files.note_program(name)
        elif one[0] == RUNS:
            _ran_program(one[1:], start)
        elif one[0] == "cd":
            start = start._replace(folder=os.path.join(start.folder, one[-1]))
            files.is_there(os.path.abspath(start.folder))
        elif one[0] not in BUILTINS:
            _ran_program(one, start)


def _split_line(line: str) -> list[list[str]]:
    """Return the commands of a shell's line, in words; an empty list if it has more than words and connectors."""
    line = DROPS_OUTPUT.sub("", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    try:
        words = [] if BEYOND_WORDS.search(line) else list(lexer)
    except ValueError:
        return []
    commands: list[list[str]] = [[]]
    for word in words:
        if word in CONNECTORS:
            commands.append([])
        elif set(word) <= set(";&|"):
            return []
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def _answers(program: str, words: list[str], start: _Start) -> bool:
    """Whether a program's answer is the cell's."""
    if program == CMAKE:
        return _runs_cmake(words[1:], start)
    if program == GIT:
        FACTS.note(GIT)
    if program == NPROC:  # it asks as Python would
        return FACTS.ask("os") == "linux"
    if PYTHON.fullmatch(program):  # found on PATH, which has only the observer's Python
        return os.path.dirname(words[0]) in {"", FACTS.known["tools_folder"]}
    return program in FACTS.known["tools"]


def _runs_cmake(arguments: list[str], start: _Start) -> bool:
    """Record that cmake configures or builds; False if it is to do anything else, whose answer nobody knows."""
    if arguments in (["--version"], ["-version"], ["-E", "capabilities"]):
        return True
    if not arguments or arguments[0] in {"-E", "-N", "-P", "-L", "-LA", "--find-package", "--system-information"}:
        return False
    FACTS.note(CMAKE)
    FACTS.tell(configured=arguments)
    told = [one for one in arguments if not JOBS.fullmatch(one)]
    CONFIGURED.append([*list_changes(start.env), *(_name_source(told, start) if told[:1] != ["--build"] else told)])
    if arguments[0] == "--build" and len(arguments) > 1:
        _place_libraries(os.path.join(start.folder, arguments[1]))
    return True


def _name_source(arguments: list[str], start: _Start) -> list[str]:
    """Return the arguments of a configure step with the folder that it configures, and `<source>` for the root.

    That folder is named by -S or by itself, or is the one in which cmake starts.
    """
    found = list(arguments)
    places = [index for index, word in enumerate(found) if _names_folder(word, found[index - 1] if index else "")]
    for index in places:
        option = "-S" if found[index].startswith("-S") else ""
        found[index] = option + os.path.abspath(os.path.join(start.folder, found[index].removeprefix(option)))
    if not places:
        found += ["-S", os.path.abspath(start.folder)]
    root = FACTS.root.rstrip("/")
    return [f"{word}/".replace(f"{root}/", f"{SOURCE}/").removesuffix("/") for word in found]


def _names_folder(word: str, before: str) -> bool:
    """Whether a word among cmake's arguments is the folder of its CMakeLists.txt."""
    is_joined = word.startswith("-S") and word != "-S"
    return is_joined or before == "-S" or (not word.startswith("-") and before not in VALUED)


def _place_libraries(folder: str) -> None:
    """Create, in cmake's build folder, files in place of the extension modules that have no other sources.

    Some projects look whether cmake built them, or copy them from there.
    """
    import distutils.core

    made = distutils.core._setup_distribution  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other way
    named = made.get_command_obj("build_ext").get_ext_filename if made else str
    for extension in (made and made.ext_modules) or ():
        if not extension.sources:
            for name in {(whole := named(extension.name)), os.path.basename(whole)}:
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("in place of what cmake would build\n", encoding="utf-8")
