"""Finds the device code of a source, and what its build files leave off that would compile it.

The files are only read: where a build can be observed, `observe` says what it compiles.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from ci_tools.catalog.accelerators import KINDS
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.request import Globs
from ci_tools.model.versions import CudaArch
from ci_tools.observe.build import ObservedBuild, find_arch_warnings, list_request_archs
from ci_tools.observe.cmake.options import CHOICE, NO_OPTION
from ci_tools.observe.images import list_images
from ci_tools.observe.observation import Observed
from ci_tools.observe.python_label import RAN
from ci_tools.observe.switches import NO_SWITCH, OFF, OWN_ARCHS, list_arch_variables, list_definitions
from ci_tools.observe.views import View
from ci_tools.source.files import NOT_PACKED, Tree, matching
from ci_tools.source.includes import SourceLine, find_unconditional, uncommented
from ci_tools.source.project_file import ProjectFile, TomlFile

# hipify translates files for CUDA. Any C++ file may be SYCL.
METAL = "metal"  # of Apple's GPUs, which the wheel for macOS serves
METAL_ENDING = r"\.metal"
# Folders of tests and examples, and of other projects.
OTHERS = NOT_PACKED | frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "3rdparty bench benchmark deps example extern external submodules third-party third_party thirdparty vendor".split()
)
PROJECTS = ("/pyproject.toml", "/setup.py")
# What takes device code as text, when a program runs.
JIT = re.compile(
    r"cpp_extension|nvrtc|hiprtc|RawModule|RawKernel|SourceModule|load_inline|compile_(?:shader|kernel)|WithSource"
)
# Of a backend, the files that say what it compiles, and its table below [tool].
FILES = {
    "scikit_build_core": (r"CMakeLists\.txt|.*\.cmake", "scikit-build"),
    "mesonpy": (r"meson\.build|meson_options\.txt|meson\.options", "meson-python"),
    "maturin": (r"Cargo\.toml|build\.rs", "maturin"),
}
HOOKS = r"hatch_build\.py|pdm_build\.py|build\.py|setup\.py|(?:.*/)?(?:CMakeLists\.txt|Cargo\.toml|build\.rs)|.*\.cmake"
NAMED_HOOK = re.compile(r"""["']([\w/.-]+)\.py["']""")
OPTION = re.compile(r"\boption\s*\(\s*(\w+)(?:\s+\"[^\"]*\")?(?:\s+([\w${}]+))?\s*\)", re.IGNORECASE)
CHOSEN = re.compile(r"\bset\s*\(\s*(\w+)\s+\"?([\w.-]*)\"?\s+CACHE\b", re.IGNORECASE)
OF_MESON = re.compile(r"\boption\s*\(\s*'([\w-]+)'\s*,([^)]*)\)")
CHOICES = re.compile(r"\bchoices\s*:\s*\[([^\]]*)\]")
VALUE = re.compile(r"\bvalue\s*:\s*'?(\w+)")
ASKS = re.compile(r"""(?:getenv|environ\.get)\(\s*["'](\w+)["']\s*(?:,\s*["']?(\w*)["']?\s*)?\)""")
ASKS_GPU = re.compile(
    r"\b(?:is_available|device_count)\(|[\"'/](?:nvidia|rocm|amd|xpu)-smi|pynvml|rocminfo|/dev/(?:nvidia|kfd|dri)"
)
OFF_OF_MESON = frozenset({"FALSE", "DISABLED"})
MAX_NAMED = 4


class HardwareSwitch(NamedTuple):
    """A switch of a build that names hardware: its place, what turns it on, and whether it is on by default."""

    name: str
    place: str
    how: str
    is_on: bool

    def __str__(self) -> str:
        """Return it as warnings name it."""
        return f"{self.name} ({self.place}; turn on with {self.how})"


def list_device_sources(tree: Tree, kind: str, folder: str) -> tuple[str, ...]:
    """Return the kernels of the project in `folder` for a kind of GPUs, but for tests, examples and other projects."""
    known = KINDS.get(kind)
    ending = re.compile(rf"{known.kernels if known else METAL_ENDING}(?:\.\w+)?$")
    projects = {f"{path}/" for name in tree.files if name.endswith(PROJECTS) and (path := name.rpartition("/")[0])}
    others = tuple(one for one in projects if not f"{folder}/".startswith(one))
    mine = (name for name in tree.files if ending.search(name) and not name.startswith(others))
    found = (name for name in mine if OTHERS.isdisjoint(name.lower().split("/")[:-1]))
    return tuple(
        name
        for name in found
        if not known
        or re.search(known.sources.rstrip("$"), name)
        or re.search(known.includes, tree.text(name), re.MULTILINE)
    )


def select_kernels(tree: Tree, kind: str, folder: str, native: Globs) -> tuple[str, ...]:
    """Return the kernels that a platform's wheel is to have: not what its `native` excludes, or for ROCm leaves out.

    Files for CUDA are kernels for ROCm only where the config does not name others.
    """
    left = set(matching(tree.files, Globs(native.exclude)))
    if native.include and kind != CUDA:
        left |= {*tree.files} - {*matching(tree.files, native)}
    return tuple(name for name in list_device_sources(tree, kind, folder) if name not in left)


def explain_header(build: ObservedBuild, view: View) -> str:
    """Return where a source includes what only another accelerator's compiler has; "" if none does."""
    for kind, command in itertools.product(KINDS.values(), build.compiles):
        text = build.includes.text(command.source) if kind.own_headers and kind != view.kind else ""
        if found := find_unconditional(kind.own_headers, text) if text else None:
            return (
                f"{SourceLine.at(command.source, text, found.end())}: it includes a header that only {kind.named} has"
            )
    return ""


def warn_of_files(
    project: ProjectFile, kernels: Sequence[str], kind: AcceleratorKind, env: Mapping[str, str]
) -> Iterator[str]:
    """Yield a warning where the files of a build leave off, or do not name, what compiles for an accelerator."""
    files = {name: uncommented(name, project.tree.text(name)) for name in _list_build_files(project)}
    switches = [one for name, text in files.items() for one in _list_switches(name, text, kind, files, project.tree)]
    is_on = any(one.is_on or _is_told(one, project, env) for one in switches)
    what = f"{kernels[0]} is compiled" if kernels else "anything is compiled for it"
    asking = (_place(name, text, one.start()) for name, text in files.items() if (one := ASKS_GPU.search(text)))
    words = [re.compile(kind.file_words or kind.switches), *([re.compile(r"\.CU\b")] if kind == CUDA else [])]
    named = any(word.search(text.upper()) for text in files.values() for word in words)
    if switches and not is_on:
        listed = ", ".join(map(str, switches[:MAX_NAMED]))
        yield f"whether {what} is not known; off by default: {listed}"
    elif kernels and not switches and (place := next(asking, "")):
        yield f"whether {what} is not known; {place} asks for a GPU, and builders have none"
    elif kernels and not named:
        code = (project.tree.text(name) for name in project.tree.files if name.endswith(".py"))
        if files or not any(map(JIT.search, code)):
            yield f"no kernel is compiled for it, though the source has {kernels[0]}"


def _list_build_files(project: ProjectFile) -> Iterator[str]:
    """Yield the files that say what the project's backend compiles: those that it reads, or the project's own hooks."""
    pattern, _ = FILES.get(project.backend.partition(".")[0], ("", ""))
    hooks = map(re.escape, NAMED_HOOK.findall(str(project.table("tool")))) if not pattern else ()
    own = re.compile("|".join((pattern or HOOKS, *(rf"{name}\.py" for name in hooks))))
    for path in map(PurePosixPath, project.tree.files):
        if path.is_relative_to(project.folder) and OTHERS.isdisjoint(path.parts[:-1]):
            name = path.name if pattern else str(path.relative_to(project.folder))
            if own.fullmatch(name):
                yield str(path)


def _list_switches(
    name: str, text: str, kind: AcceleratorKind, files: Mapping[str, str], tree: Tree
) -> Iterator[HardwareSwitch]:
    words = re.compile(kind.file_words or kind.switches)
    if name.endswith(("CMakeLists.txt", ".cmake")):
        yield from _list_options(name, text, words, "\n".join(files.values()))
    elif name.endswith("Cargo.toml"):
        yield from list_features(tree, name, words)
    elif name.endswith(".py"):
        for one in ASKS.finditer(text):
            if words.search(one[1]) and not NO_SWITCH.search(one[1]):
                yield HardwareSwitch(
                    one[1], _place(name, text, one.start()), f"{one[1]}=1", (one[2] or "").upper() not in OFF
                )
    else:
        yield from _list_options_of_meson(name, text, words)


def _list_options(name: str, text: str, words: re.Pattern[str], whole: str) -> Iterator[HardwareSwitch]:
    for one in OPTION.finditer(text):
        if words.search(one[1].upper()) and not NO_OPTION.search(one[1]):
            is_on = (one[2] or "").upper() not in OFF
            yield HardwareSwitch(one[1], _place(name, text, one.start()), f"CMAKE_ARGS=-D{one[1]}=ON", is_on)
    for one in CHOSEN.finditer(text):
        choices = [value for variable, value in CHOICE.findall(whole) if variable == one[1]]
        if value := next((value for value in choices if words.search(value.upper())), ""):
            is_on = bool(words.search(one[2].upper()))
            yield HardwareSwitch(one[1], _place(name, text, one.start()), f"CMAKE_ARGS=-D{one[1]}={value}", is_on)


def _list_options_of_meson(name: str, text: str, words: re.Pattern[str]) -> Iterator[HardwareSwitch]:
    for one in OF_MESON.finditer(text):
        value = found[1] if (found := VALUE.search(one[2])) else "true"
        choices = re.findall(r"'(\w+)'", found[1]) if (found := CHOICES.search(one[2])) else ()
        choice = next((word for word in choices if words.search(word.upper())), "")
        if words.search(one[1].upper()) or choice:
            on = choice or ("enabled" if value == "disabled" else "true")
            is_on = bool(words.search(value.upper())) if choice else value.upper() not in OFF_OF_MESON
            how = f'`[tool.meson-python.args] setup = ["-D{one[1]}={on}"]`'
            yield HardwareSwitch(one[1], _place(name, text, one.start()), how, is_on)


def list_features(tree: Tree, name: str, words: re.Pattern[str]) -> Iterator[HardwareSwitch]:
    """Yield the features of a Cargo.toml that name an accelerator."""
    file = TomlFile.of(tree, name)
    features, on = file.table("features"), ["default"]
    for feature in on:  # the list grows in this loop
        on += [str(one) for one in features.get(feature, ()) if one not in on]
    for feature in features:
        if words.search(feature.upper()):
            how = f'`features = ["{feature}"]` for maturin or RustExtension'
            yield HardwareSwitch(feature, str(file.place(feature)), how, feature in on)


def _is_told(one: HardwareSwitch, project: ProjectFile, env: Mapping[str, str]) -> bool:
    """Whether the project's settings, or the config's variables, turn on what is off by default."""
    _, table = FILES.get(project.backend.partition(".")[0], ("", ""))
    is_off = r"(?::\w+)?['\"]?\s*[:=]\s*['\"]?(?:off|0|false|disabled|cpu)\b"
    said = rf"(?:(?<![\w-])|-D\s*){re.escape(one.name)}(?![\w-])(?!{is_off})"
    words = re.findall(r"""(["'])(.*?)\1""", "" if table else project.tree.text(project.path("setup.py")))
    told = (str(project.table("tool", table)) if table else " ".join(word for _, word in words), *env.values())
    is_variable = one.how.startswith(one.name)  # whose name in a script is a question
    found = not is_variable and any(re.search(said, text, re.IGNORECASE) for text in told)
    return env.get(one.name, "").upper() not in OFF or found


def _place(name: str, text: str, at: int) -> str:
    return f"{name}:{text.count(chr(10), 0, at) + 1}"


# ---------------------------------------------------------------- architectures of a project's own

NOTATIONS = ("{number}", "{version}")  # 90, 9.0
SETTING = re.compile(r'`arch-env: \{(?P<name>\w+): "(?P<notation>[^"]+)"\}`')  # as `find_setting` returns it
# One of CUDA_ARCHITECTURES (cmake-prop_tgt(7)); without an ending it is both machine code and PTX.
ENTRY = re.compile(r"(\d{2,3}[af]?)(-real|-virtual)?")


class CmakeArchs(NamedTuple):
    """The architectures that a build tells cmake and that are not those of the request, and a warning about them."""

    names: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find_cmake_archs(observed: Observed, view: View) -> CmakeArchs:
    """Return the architectures that the build gives cmake in its notation, as in -DNATTEN_CUDA_ARCH_LIST=90a-real.

    A list without any `-real` or `-virtual` may have a notation of the project's own, so that it says nothing.
    """
    asked = tuple(list_request_archs(view))
    for name, value in list_definitions(observed) if asked else ():
        entries = [ENTRY.fullmatch(one) for one in value.split(";")]
        found = [one for one in entries if one]
        if OWN_ARCHS.search(name) and len(found) == len(entries) and any(one[2] for one in found):
            images = {image for one in found for image in _images(one[1], one[2])}
            if images == list_images(CUDA, asked):
                return CmakeArchs()
            names = CUDA.name_archs(images)
            said = f"it gives cmake -D{name}={value}, and not {' '.join(asked)} of the request"
            return CmakeArchs(names, (f"{RAN}: {said}",))
    return CmakeArchs()


def _images(number: str, ending: str | None) -> tuple[str, ...]:
    both = {"-real": f"sm_{number}", "-virtual": f"compute_{number}"}
    return (both[ending],) if ending else (*both.values(),)


class ArchVariables:
    """The variables that choose the architectures of a project, each tried once: a build takes a second or more."""

    def __init__(self, look: Callable[[View], ObservedBuild | None]) -> None:
        self.look = look  # None: the build fails, or is not understood
        self.known: dict[tuple[object, ...], str] = {}

    def warn(self, build: ObservedBuild, view: View) -> Iterator[str]:
        """Yield the warnings about architectures, with the setting of the config that would answer them."""
        for warning in find_arch_warnings(build.built, view):
            setting = self.find_setting(build, view)
            yield f"{warning}; {setting} in the config chooses them" if setting else warning

    def find_setting(self, build: ObservedBuild, view: View) -> str:
        """Return the `arch-env` with which the machine code is what the request names; "" if none is known."""
        if view.kind != CUDA:
            return ""
        archs = tuple(map(CudaArch.parse, list_request_archs(view)))
        names = tuple(list_arch_variables(build.observed, view))
        key = (view.os, view.machine, archs, names)
        if key not in self.known:
            tried = (self.try_variable(name, text, archs, view) for name in names for text in NOTATIONS)
            self.known[key] = next(filter(None, tried), "") if archs else ""
        return self.known[key]

    def try_variable(self, name: str, text: str, archs: tuple[CudaArch, ...], view: View) -> str:
        """Return the setting if it leads to the machine code of these architectures, and of no others."""
        value = ";".join(arch.spell(text) for arch in archs)
        build = self.look(view._replace(env=(*view.env, (name, value))))
        images = {image for one in build.built for image in one.images or ("",)} if build else {""}
        found = {image for image in images if not image.startswith("compute_")}
        return f'`arch-env: {{{name}: "{text}"}}`' if found == {arch.sm for arch in archs} else ""
