"""Fake distutils compilers: they record each command and create a placeholder file in place of its output.

Each linked file contains its own number, so that it is recognised in a wheel wherever the project moves it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import os
import re
import shlex
import shutil
import sys
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any

import setuptools.command.build_ext  # first: it installs its own distutils

import distutils.ccompiler  # isort: skip
import distutils.command.build_clib
import distutils.command.build_ext
import distutils.command.config
import distutils.command.install
import distutils.core
import distutils.unixccompiler
from distutils.command.build import build
from distutils.errors import CompileError, LinkError
from distutils.unixccompiler import UnixCCompiler

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

from ci_tools.observe.inside.cell import platform_tag, python_tags
from ci_tools.observe.inside.facts import FACTS

# Keywords of setup() that set no attribute of their name, or of a plugin that adds only the version. setuptools ignores
# the arguments of Extension among them: "Unknown distribution option".
HARMLESS_KEYWORDS = frozenset(
    {
        *("features", "licence", "options", "setuptools_git_versioning"),
        *("test_loader", "test_suite", "tests_require", "use_scm_version"),
        *("define_macros", "extra_compile_args", "extra_link_args", "language"),
    }
)
VARIABLES = ("CPPFLAGS", "CFLAGS", "CXXFLAGS", "CPLUS_INCLUDE_PATH", "CPATH")
DEVICE_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)", re.MULTILINE)
OF_FAKES = re.compile("/fakes/(numpy|pybind11)/")  # all their headers are in a folder of the same name
# Headers of C, C++, POSIX and Linux, and of Python, which every builder has.
USUAL_HEADER = re.compile(
    r"(linux|sys|asm|arpa|net|netinet)/[\w./]+|c?(assert|ctype|errno|float|inttypes|iso646|limits|locale|math|setjmp|"
    r"signal|stdarg|stddef|stdint|stdio|stdlib|string|time|uchar|wchar)(\.h)?|(pthread|unistd|fcntl|dlfcn|Python)\.h|[a-z_]+"
)
# Headers that come with the compilers of some systems: Apple's has no OpenMP.
SYSTEMS_WITH = {"omp.h": frozenset({"linux", "windows"})}
WORD = re.compile(r"\w+")
NAMED_LIBRARY = re.compile(r"[^*?\[]+\.(?:so|pyd|dll|dylib)")  # without a wildcard, which may match nothing
TWINS = ("ccompiler", "unixccompiler")  # modules that distutils and setuptools each have
# Endings of a compiler's files, and those on Windows.
ENDINGS = {
    "exe_extension": ".exe",
    "obj_extension": ".obj",
    "shared_lib_extension": ".dll",
    "static_lib_extension": ".lib",
}
# What distutils' compiler for Windows has beside that for Unix, once it has found its programs (_msvccompiler.py).
OF_MSVC: dict[str, Any] = {
    "cc": "cl.exe",
    "linker": "link.exe",
    "lib": "lib.exe",
    "initialized": True,
    "initialize": lambda *_: None,
    "_c_extensions": [".c"],
    "_cpp_extensions": [".cc", ".cpp", ".cxx"],
    "compile_options": ["/nologo", "/O2", "/W3", "/GL", "/DNDEBUG", "/MD"],
    "compile_options_debug": ["/nologo", "/Od", "/MDd", "/Zi", "/W3", "/D_DEBUG"],
    "ldflags_shared": ["/nologo", "/INCREMENTAL:NO", "/LTCG", "/DLL", "/MANIFEST:EMBED,ID=2", "/MANIFESTUAC:NO"],
}
OF_LANGUAGE = re.compile("^/T[cp](?=.)")  # before a source, for cl.exe
OUTPUT = "/Fo"
# Words in the keywords of plugins that compile.
COMPILES = re.compile("c(?:uda|ython|make|ffi)|ext|kernel|module|rust|sourc")
# Distutils' and the recorder.
OF_COMPILERS = re.compile(r"/observe/inside/\w+\.py$|/_distutils/compilers/|ccompiler\.py$")
PROBES = ("check_func", "check_header", "check_lib", "search_cpp", "search_text", "try_cpp", "try_link", "try_run")
OBJECTS: dict[str, str] = {}  # each object's source
LACKED: list[str] = []  # the programs that the build runs and its cell's system does not have, each with its place
OPENED: dict[str, None] = {}  # the sources whose objects the project's code opens
LEFT: dict[str, str] = {}  # package data that is not copied: its place in the wheel, and its source
MAX_SAID = 60  # characters of a question
SOURCES = (".c", ".cc", ".cpp", ".cu", ".cxx", ".hip", ".sycl")
MARK = "in place of what would be linked as number {}\n"
FAILS = "#!/bin/sh\nexit 1 # "


class Recorder(UnixCCompiler):
    """A compiler for every platform: distutils sees Unix, the project's code sees the cell's."""

    compiles: list[dict[str, Any]] = []  # noqa: RUF012 - of all compilers of this process
    links: list[dict[str, Any]] = []  # noqa: RUF012 - see above

    @property
    def compiler_type(self) -> str:
        """The kind of compiler: many projects detect the system by it."""
        return "msvc" if FACTS.asks() and FACTS.ask("os") == "windows" else "unix"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.src_extensions = list(self.src_extensions)  # a project may append to it
        self.made_of: dict[str, dict[str, None]] = {}  # object → the sources that it was named for

    def object_filenames(self, source_filenames: Any, *args: Any, **kwargs: Any) -> list[str]:
        sources = [*map(str, source_filenames)]
        objects: list[str] = super().object_filenames(sources, *args, **kwargs)
        for source, made in zip(sources, objects, strict=True):
            self.made_of.setdefault(made, {})[source] = None
        return objects

    def _compile(self, obj: str, src: str, ext: str, cc_args: Any, extra_postargs: Any, pp_opts: Any) -> None:
        flags = [*_flat(cc_args), *_flat(extra_postargs), *_flat(pp_opts)]
        record(src, obj, os.path.basename(self.compiler_so[0]), [*_variable_flags(src), *flags])

    def link(
        self,
        target_desc: str,
        objects: Any,
        output_filename: str,
        output_dir: Any = None,
        libraries: Any = None,
        library_dirs: Any = None,
        runtime_library_dirs: Any = None,
        export_symbols: Any = None,
        debug: Any = False,
        extra_preargs: Any = None,
        extra_postargs: Any = None,
        *_: Any,
        **__: Any,
    ) -> None:
        self._refuse_objects([*map(str, objects or ())])
        flags = [f"-Wl,-rpath,{path}" for path in runtime_library_dirs or ()]
        flags += [*_flat(extra_preargs), *_flat(extra_postargs)]
        output = os.path.join(output_dir or "", output_filename)
        record_link(output, objects, libraries, flags, is_program=target_desc == self.EXECUTABLE)
        if target_desc == self.EXECUTABLE:  # of a test of the compiler, mostly: it fails when the project runs it
            Path(output).write_text(f"{FAILS}{Path(output).read_text(encoding='utf-8')}", encoding="utf-8")

    def _refuse_objects(self, objects: list[str]) -> None:
        """Fail as the linker would, for what a program that no builder of the cell has should have made.

        And of two sources with one stem, distutils compiles only one and links it twice.
        """
        for made in objects:
            if LACKED and not FACTS.doubts and not os.path.exists(made):
                raise LinkError(f"{made}: no such file ({LACKED[0]})")
            if objects.count(made) > 1:
                sources = " and ".join(self.made_of.get(made, ()))
                msg = f"{sources} would be compiled into one object, {os.path.basename(made)}, and linked twice"
                raise LinkError(msg)

    def create_static_lib(
        self, objects: Any, output_libname: str, output_dir: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        record_link(self.library_filename(output_libname, output_dir=output_dir or ""), objects, None, [])

    def has_function(self, funcname: str, *args: Any, **kwargs: Any) -> bool:
        return FACTS.suppose(f"the compiler finds {_show_call('the function', (funcname, *args), kwargs)}")

    def preprocess(self, *_: Any, **__: Any) -> None:
        FACTS.doubt("asks the preprocessor, whose answer no cell defines")

    def __getattr__(self, name: str) -> Any:
        if name in OF_MSVC and FACTS.ask("os") == "windows":
            return vars(self).setdefault(name, copy(OF_MSVC[name]))  # a project may append to it
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def spawn(self, cmd: Any, **_: Any) -> None:
        words = [OF_LANGUAGE.sub("", str(word)) for word in cmd]
        made = next((word.removeprefix(OUTPUT) for word in words if word.startswith(OUTPUT)), "")
        made = words[words.index("-o") + 1] if "-o" in words[:-1] else made
        sources = [word for word in words[1:] if word.endswith(SOURCES) and not word.startswith("-")]
        for source in sources or [" ".join(words)]:
            record(source, made, words[0], [word for word in words[1:] if word != source])


def _read_ending(name: str, windows: str) -> property:
    """Return an attribute of the compiler that the project sees as the cell has it."""
    here = getattr(UnixCCompiler, name)

    def read(self: Any) -> Any:
        own = vars(self).get(name, here)
        return windows if FACTS.asks() and FACTS.ask("os") == "windows" else own

    def write(self: Any, value: Any) -> None:
        vars(self)[name] = value

    return property(read, write)


for _name, _windows in ENDINGS.items():
    setattr(Recorder, _name, _read_ending(_name, _windows))


def record(source: str, made: str, compiler: str, flags: list[str]) -> None:
    """Record one compilation and create its object; a test of the compiler with an outside file is not recorded."""
    if made:
        _make(made, f"object of {source}\n")
        OBJECTS[os.path.abspath(made)] = source
    is_outside = not os.path.abspath(source).startswith(FACTS.root)
    if is_outside or FACTS.is_asked_by(_find_caller()):
        _compile_includes(source, flags)
    if is_outside:
        return
    FACTS.tell(compiled=source)
    Recorder.compiles.append({"source": source, "object": made, "compiler": compiler, "flags": flags})


def _find_caller() -> Any:
    """Return the code that has a compiler compile: a project's own tests the compiler, setuptools builds the wheel."""
    frame: Any = sys._getframe(1)  # noqa: SLF001 - the only way to see who asks
    while frame and OF_COMPILERS.search(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _compile_includes(source: str, flags: list[str]) -> None:
    """Raise CompileError for a header in the file of a compiler test that the cell's compiler does not bring along.

    Whether it finds a header that only some builders have is supposed.
    """
    if not os.path.isfile(source):
        return
    text = re.sub(r"/\*.*?\*/", "", Path(source).read_text(encoding="utf-8", errors="replace"), flags=re.DOTALL)
    folders = [os.path.dirname(source), *(flag[2:] for flag in flags if flag.startswith("-I"))]
    packages = {folder: found[1] for folder in folders if (found := OF_FAKES.search(folder))}
    named = [name for name in INCLUDED.findall(text) if not USUAL_HEADER.fullmatch(name)]
    named = [name for name in named if name.partition("/")[0] not in packages.values()]
    own = [folder for folder in folders if folder not in packages]
    unusual = [name for name in named if not any(os.path.isfile(os.path.join(folder, name)) for folder in own)]
    for name in unusual:
        if name in SYSTEMS_WITH and FACTS.ask("os") not in SYSTEMS_WITH[name]:
            raise CompileError(f"fatal error: {name}: No such file or directory")
    for name in unusual:
        if name not in SYSTEMS_WITH and not FACTS.suppose(f"the compiler finds {name}"):
            raise CompileError(f"fatal error: {name}: No such file or directory")


def _variable_flags(source: str) -> list[str]:
    """Return the flags that environment variables add to a command, read as distutils and nvcc do."""
    is_device = source.endswith((".cu", ".cuh"))
    names = DEVICE_VARIABLES if is_device else VARIABLES
    return [flag for name in names for flag in shlex.split(FACTS.variable(name))]


def record_link(output: str, objects: Any, libraries: Any, flags: list[str], *, is_program: bool = False) -> None:
    """Record a library that is linked, and create it."""
    _make(output, MARK.format(len(Recorder.links)))
    linked = [*map(str, objects or ())]
    FACTS.tell(linked=output)
    Recorder.links.append(
        {
            "output": output,
            "objects": linked,
            "libraries": [*map(str, libraries or ())],
            "flags": flags,
            "compiled": len(Recorder.compiles),
            "is_program": is_program,
        }
    )


def _make(path: str, content: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content, encoding="utf-8")


def extend_command(distribution: Any, kind: type, more: Any) -> None:
    """Have a command of setuptools, or the project's own in its place, do more at its end, as plugins do."""
    base: Any = distribution.cmdclass.get(kind.__name__, kind)

    def run(command: Any) -> None:
        base.run(command)
        more(command)

    distribution.cmdclass[kind.__name__] = type(kind.__name__, (base,), {"run": run})


def _flat(flags: Any) -> list[str]:
    if isinstance(flags, str):
        return flags.splitlines()
    if isinstance(flags, dict):
        return [str(flag) for values in flags.values() for flag in values]
    return [str(flag) for flag in flags or ()]


def _show_platform(kind: Any) -> None:
    """Let the project see the cell's `plat_name` of a command; all other code sees this machine's."""

    def read(self: Any) -> Any:
        own = vars(self).get("plat_name")
        return platform_tag() if own and FACTS.asks() else own

    def write(self: Any, value: Any) -> None:
        vars(self)["plat_name"] = value

    kind.plat_name = property(read, write)


def _watch_tags() -> None:
    """Note a method of the project's own that tags its wheel; it sees the tags that the cell's Python would give."""
    run, get_tag = bdist_wheel.run, bdist_wheel.get_tag

    def note(self: Any) -> None:
        code = getattr(type(self).get_tag, "__code__", None)
        if code and FACTS.is_own(code.co_filename):
            FACTS.note("get_tag", f"{FACTS.shown(code.co_filename)}:{code.co_firstlineno}")
        run(self)

    def tag(self: Any) -> tuple[str, str, str]:
        found: tuple[str, str, str] = get_tag(self)
        is_pure = self.root_is_pure or "abi3" in found[1]
        return found if is_pure or not FACTS.asks() else (*python_tags(), re.sub("[-.]", "_", platform_tag()))

    bdist_wheel.run, bdist_wheel.get_tag = note, tag  # type: ignore[method-assign]


def _leave_data(real: Any) -> Any:
    """Leave package data where it is: to copy thousands of files takes longer than the rest of a build."""

    @functools.wraps(real)
    def build(self: Any) -> None:
        for name in itertools.chain.from_iterable((self.package_data or {}).values()):
            if NAMED_LIBRARY.fullmatch(name):
                FACTS.note(f"library:{name}")
        known = frozenset(FACTS.known["data"])
        if self.editable_mode or not known or any(FACTS.is_own(one.__code__.co_filename) for one in _methods(self)):
            real(self)
            return
        for target, source in self._get_package_data_output_mapping():
            name = os.path.normpath(source)
            if name in known:
                LEFT[os.path.relpath(target, self.build_lib)] = name
            else:
                self.mkpath(os.path.dirname(target))
                self.copy_file(source, target)

    return build


def _methods(command: Any) -> list[Any]:
    return [getattr(type(command), name) for name in ("build_package_data", "copy_file", "run")]


def place_data() -> None:
    """Copy what was left, before the project's code looks for it, to where the build's next step takes it from."""
    commands: Any = distutils.core._setup_distribution.command_obj  # type: ignore[attr-defined]  # noqa: SLF001
    installed = commands.get("install_lib")
    top = installed.install_dir if installed and installed.finalized else commands["build_py"].build_lib
    left = dict(LEFT)
    LEFT.clear()
    for member, source in left.items():
        path = os.path.join(top, member)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copyfile(source, path)


def install() -> None:
    """Install the recorder as the compiler of distutils and setuptools."""
    for command in (build, distutils.command.build_ext.build_ext, bdist_wheel):
        _show_platform(command)
    _watch_tags()
    setuptools.extension._have_cython = lambda: False  # noqa: SLF001 - a `.pyx` stands for the C file beside it
    build_py.build_package_data = _leave_data(build_py.build_package_data)  # type: ignore[method-assign]
    distutils.command.build_ext.build_ext.get_ext_filename = _name_module  # type: ignore[method-assign]
    for name in TWINS:
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"setuptools._distutils.{name}")
    for name, module in list(sys.modules.items()):
        if "distutils" in name or name == "setuptools.command.build_ext":
            _replace(module)
    distutils.command.install.subst_vars = _substitute_few(distutils.command.install.subst_vars)
    setuptools.Distribution.__init__ = _doubt_plugins(setuptools.Distribution.__init__)  # type: ignore[method-assign]
    setuptools.Distribution.fetch_build_eggs = lambda *_, **__: []  # type: ignore[method-assign]  # they are simulated


def _substitute_few(real: Any) -> Any:
    """Give a function only the variables that its text may name: it makes a text of each of a thousand, eight times."""

    @functools.wraps(real)
    def substitute(text: str, variables: Any) -> Any:
        return real(text, {name: variables[name] for name in WORD.findall(text) if name in variables})

    return substitute


def _name_module(_: Any, ext_name: str) -> str:
    """Return the path of a module as setuptools names it; distutils' own command knows only this host's suffix."""
    suffix: str = FACTS.known["suffix"]
    return os.path.join(*ext_name.split(".")) + suffix


def _replace(module: Any) -> None:
    """Put the recorder in the place of a module's compilers, and fakes in that of its probes."""
    names = vars(module)
    if "new_compiler" in names:
        module.new_compiler = _new_compiler
    if "UnixCCompiler" in names:
        module.UnixCCompiler = Recorder
    for probe in PROBES if isinstance(names.get("config"), type) else ():
        setattr(module.config, probe, _fake_probe(probe))


def _fake_probe(name: str) -> Any:
    """Return a fake for a probe of the machine by distutils' `config` command."""

    def probe(_: Any, *args: Any, **kwargs: Any) -> bool:
        return FACTS.suppose(f"the machine passes {_show_call(name, args, kwargs)}")

    return probe


def _show_call(name: str, args: Any, kwargs: Any) -> str:
    """Return a call in words, the same for the same arguments; of long ones, the start and a hash."""
    said = ", ".join([*(f"{one}" for one in args), *(f"{key}={value}" for key, value in sorted(kwargs.items()))])
    said = said.replace(FACTS.root, "")
    if len(said) <= MAX_SAID and "\n" not in said:
        return f"{name} {said}"
    first = said.lstrip().partition("\n")[0][:MAX_SAID]
    return f"{name} {first}… ({hashlib.sha256(said.encode()).hexdigest()[:8]})"


def _doubt_plugins(real: Any) -> Any:
    """Record a doubt for each keyword of setup() that only a plugin understands, and each plugin it asks for."""

    @functools.wraps(real)
    def made(self: Any, attrs: Any = None) -> None:
        real(self, attrs)
        # Where all that is installed is known, none of it adds a keyword but the plugins that are simulated.
        for name in (attrs or {}).keys() - HARMLESS_KEYWORDS:
            if FACTS.known["installed"] is not None and not COMPILES.search(name):
                continue
            if not any(hasattr(place, found) for place in (self, self.metadata) for found in (name, f"set_{name}")):
                FACTS.doubt(f"gives setup() the keyword {name}, which setuptools itself does not read")
        for requirement in _flat((attrs or {}).get("setup_requires")):
            name = re.split(r"[^A-Za-z0-9._-]", requirement.strip())[0].lower().replace("_", "-").replace(".", "-")
            if name not in FACTS.known["simulated"]:
                FACTS.doubt(f"asks for {requirement} by setup_requires, and what that adds is not known")

    return made


def _new_compiler(plat: Any = None, compiler: Any = None, verbose: Any = False, force: Any = False, **_: Any) -> Any:
    return Recorder(force=force)
