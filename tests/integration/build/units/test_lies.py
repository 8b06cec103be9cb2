"""What a store of objects is easily wrong about: each object from it is the one that the compiler would make now."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.build.units.store import UnitStore
from tests.builders.sources import write
from tests.builders.units import Units, open_units

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")]

CALL = ("g++", "a.cpp")
COMPILED, PLAIN, SAME_TEXT, UNCHANGED = "compiled", "plain", "same text", "unchanged"


class Change(NamedTuple):
    """The files of a unit at first, those that change, and where its object comes from the second time."""

    first: Mapping[str, str]
    then: Mapping[str, str]
    how: str
    call: tuple[str, ...] = CALL
    then_call: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}


ASKS = '#if __has_include("x.h")\n#include "x.h"\n#else\nint n = 1;\n#endif\n'
FOLDERS = ("g++", "-Inone", "-Ione", "a.cpp")
LINES = {"a.cpp": "int f() { return 1; }\n"}
LATER = {"a.cpp": "\n\n\nint f() { return 1; }\n"}
COUNTS = {"a.cpp": '#include "h.h"\nint n = __COUNTER__;\n'}
WHERE = "int f(int line = __builtin_LINE()) { return line; } int g() { return f(); }\n"
RAW = 'auto s = R"x(1\n%s\n2)x";\n'
NAMED = "auto n = [](auto one) { return __PRETTY_FUNCTION__; }([] {});\n"
CHANGES = {
    "nothing": Change(LINES, {}, UNCHANGED),
    "a-comment": Change(LINES, LATER, SAME_TEXT),
    "lines-with-debug-information": Change(LINES, LATER, COMPILED, ("g++", "-g", "a.cpp")),
    "lines-with-lto": Change(LINES, LATER, COMPILED, ("g++", "-flto", "a.cpp")),
    "lines-that-the-compiler-counts": Change({"a.cpp": WHERE}, {"a.cpp": f"\n{WHERE}"}, COMPILED),
    "a-header-that-appears": Change({"a.cpp": ASKS}, {"x.h": "int n = 2;\n"}, COMPILED),
    "a-header-that-comes-first": Change({"a.cpp": "#include <h.h>\n", "one/h.h": "int n = 1;\n"},
                                        {"none/h.h": "int n = 2;\n"}, COMPILED, FOLDERS),
    "a-header-for-all": Change({"a.cpp": "int n = N;\n", "n.h": "#define N 1\n"}, {"n.h": "#define N 2\n"}, COMPILED,
                               ("g++", "-include", "n.h", "a.cpp")),
    "a-folder-in-a-variable": Change({"a.cpp": "#include <h.h>\n", "one/h.h": "int n = 1;\n"},
                                     {"one/h.h": "int n;\n"}, COMPILED, variables={"CPATH": "one"}),
    "counter": Change({**COUNTS, "h.h": "\n"}, {"h.h": "// __COUNTER__\n"}, SAME_TEXT),
    "counter-that-counts": Change({**COUNTS, "h.h": "\n"}, {"h.h": "#define N __COUNTER__\n#if N\n#endif\n"}, COMPILED),
    "incbin": Change({"a.cpp": 'asm(".incbin \\"data\\"");\n', "data": "1"}, {"data": "2"}, PLAIN),
    "incbin-in-two-strings": Change({"a.cpp": 'asm(".inc" "bin \\"data\\"");\n', "data": "1"}, {"data": "2"}, PLAIN),
    "an-included-assembler-file": Change({"a.cpp": 'asm(".include \\"data\\"");\n', "data": "nop\n"},
                                         {"data": "nop;nop\n"}, PLAIN),
    "a-member-that-is-no-include": Change({"a.cpp": "struct A { int included; } a;\nint n = a.included;\n"}, {},
                                          UNCHANGED),
    "blank-lines-of-a-raw-string": Change({"a.cpp": RAW % ""}, {"a.cpp": RAW % "\n"}, COMPILED),
    "a-mark-in-a-raw-string": Change({"a.cpp": RAW % '# 1 "a"'}, {"a.cpp": RAW % '# 2 "a"'}, COMPILED),
    "a-comment-beside-a-raw-string": Change({"a.cpp": RAW % ""}, {"a.cpp": f"// one\n{RAW % ''}"}, SAME_TEXT),
    "a-lambda-that-clang-names-by-its-line": Change({"a.cpp": NAMED}, {"a.cpp": f"\n{NAMED}"}, COMPILED,
                                                    ("clang++", "a.cpp")),
    "a-comment-behind-what-clang-sums-up": Change(LINES, {"a.cpp": LINES["a.cpp"] + "// one\n"}, COMPILED,
                                                  ("clang++", "-g", "a.cpp")),
    "a-macro": Change({"a.cpp": "int n = N;\n"}, {}, COMPILED, ("g++", "-DN=1", "a.cpp"), ("g++", "-DN=2", "a.cpp")),
    "a-macro-of-torch": Change(LINES, {}, SAME_TEXT, ("g++", "-D_GLIBCXX_USE_CXX11_ABI=1", "a.cpp"), CALL),
    "an-option": Change(LINES, {}, COMPILED, CALL, ("g++", "-O2", "a.cpp")),
    "a-standard-that-is-the-default": Change(LINES, {}, COMPILED, CALL, ("g++", "-std=gnu++17", "a.cpp")),
    "a-response-file": Change({**LINES, "with": "-O1"}, {"with": "-O2"}, COMPILED, ("g++", "@with", "a.cpp")),
    "another-language": Change({"a.c": "int f(void) { return 1; }\n"}, {}, COMPILED, ("gcc", "a.c"), ("g++", "a.c")),
    "a-file-name": Change({"a.cpp": "const char* f = __FILE__;\n"}, {}, COMPILED, CALL, ("g++", "./a.cpp")),
    "another-name": Change({**LINES, "b.cpp": LINES["a.cpp"]}, {}, COMPILED, CALL, ("g++", "b.cpp")),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_an_object_from_the_store_is_what_the_compiler_makes_now(
    name: str, units: Units, store: UnitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, folder = CHANGES[name], units.folder / name
    if not shutil.which(change.call[0]):
        pytest.skip(f"needs {change.call[0]}")
    write(folder, change.first)
    time.sleep(0.02)  # a file that changes while it is read is not relied on
    units.compile(*change.call, at=name, **change.variables)
    write(folder, change.then)
    call = change.then_call or change.call
    second, how = units.compile(*call, at=name, **change.variables)
    monkeypatch.setattr(store, "folder", tmp_path)
    assert (second, how) == (units.compile(*call, at=name, **change.variables)[0], change.how)


@pytest.mark.parametrize("clock", ["__TIME__", "__DATE__", "__TIMESTAMP__"])
def test_a_text_with_the_time_is_made_again(clock: str, units: Units) -> None:
    write(units.folder / clock, {"a.cpp": f"const char* t = {clock};\n"})
    time.sleep(0.02)
    call = ("env", "-u", "SOURCE_DATE_EPOCH", *CALL)
    assert UNCHANGED not in [units.compile(*call, at=clock)[1] for _ in range(2)]


def test_a_compiler_that_is_replaced_under_its_name_is_another(
    store: UnitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, own, found = shutil.which("g++"), tmp_path / "bin" / "g++", []
    monkeypatch.setenv("PATH", f"{own.parent}:{os.environ['PATH']}")
    write(tmp_path, {"source/r.cpp": "int f() { return 1; }\n"})
    for option in ("-O0", "-O2"):
        write(tmp_path, {"bin/g++": f'#!/bin/sh\nexec {real} {option} "$@"\n'})
        own.chmod(0o755)
        with open_units(tmp_path, store) as replaced:
            found.append(replaced.compile("g++", "r.cpp"))
    assert [how for _, how in found] == [COMPILED, COMPILED]
    assert found[0] != found[1]


def test_other_default_options_make_another_compiler_of_gcc(
    store: UnitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gcc reads them from the file `specs` beside its programs, if there is one, as conda's has it."""
    real, found = Path(shutil.which("g++") or "").resolve(), []
    library = Path(subprocess.run([real, "-print-libgcc-file-name"], capture_output=True, text=True, check=True).stdout)
    folder = tmp_path / "own/lib/gcc" / library.parent.relative_to(library.parents[2])
    write(tmp_path, {"source/r.cpp": "int f() { return 1; }\n", "own/bin/none": ""})
    shutil.copy2(real, tmp_path / "own/bin/g++")
    folder.mkdir(parents=True)
    for path in library.parent.iterdir():
        (folder / path.name).symlink_to(path)
    monkeypatch.setenv("PATH", f"{tmp_path}/own/bin:{os.environ['PATH']}")
    for option in ("-O0", "-O2"):
        write(folder, {"specs": f"*cc1plus:\n+ {option}\n\n"})
        with open_units(tmp_path, store) as own:
            found.append(own.compile("g++", "r.cpp"))
    assert [how for _, how in found] == [COMPILED, COMPILED]
    assert found[0] != found[1]


def test_an_object_of_a_header_that_changed_after_preprocessing_is_not_kept(
    store: UnitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, real, header = [], shutil.which("g++"), tmp_path / "source/h.h"
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    change = f'case " $* " in *" -c "*) echo "int n = 2;" >{header} ;; esac'
    write(tmp_path, {"bin/g++": f'#!/bin/sh\n{change}\nexec {real} "$@"\n'})
    (tmp_path / "bin/g++").chmod(0o755)
    for _ in range(2):
        write(tmp_path, {"source/a.cpp": '#include "h.h"\n', "source/h.h": "int n = 1;\n"})
        time.sleep(0.02)
        with open_units(tmp_path, store) as units:
            found.append(units.compile("g++", "a.cpp")[1])
    assert found == [COMPILED, COMPILED]


def test_what_is_embedded_is_what_the_compiler_embeds_now(
    units: Units, store: UnitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler without #embed, as gcc before 15, says so each time, and nothing is kept."""
    write(units.folder / "embed", {"a.cpp": 'unsigned char data[] = {\n#embed "data"\n};\n'})

    def embed(content: str) -> tuple[int, str, bytes]:
        write(units.folder / "embed", {"data": content})
        time.sleep(0.02)
        done, made = units.run("g++", "-c", "a.cpp", "-o", "x.o", at="embed"), units.folder / "embed/x.o"
        return done.returncode, done.stderr, made.read_bytes() if made.exists() else b""

    found = [embed("1"), embed("2")]
    if found[0][0]:
        assert "#embed" in found[0][1]
        assert found == [found[0], (*found[0][:2], b"")]
        assert units.report.units[-1].how == "failed"
        return
    monkeypatch.setattr(store, "folder", tmp_path)
    assert found[0] != found[1] == embed("2")


WHY = {
    "a-line": ({"h.h": "int n;\nint m = 1;\n"}, CALL, "<source>/told/{}/h.h:2"),
    "a-new-file": ({"x.h": ""}, CALL, "<source>/told/{}/x.h"),
    "an-option": ({}, ("g++", "-O2", "a.cpp"), "options: with -O2"),
    "a-macro": ({}, ("g++", "-DM=2", "a.cpp"), "macros: with -DM=2"),
}


@pytest.mark.parametrize("name", WHY)
def test_what_changed_is_told(name: str, units: Units) -> None:
    files, call, why = WHY[name]
    text = f'#include "h.h"\n{ASKS}'.replace("n =", "k =")
    write(units.folder / "told" / name, {"a.cpp": text, "h.h": "int n;\nint m;\n"})
    time.sleep(0.02)
    units.compile(*CALL, at=f"told/{name}")
    write(units.folder / "told" / name, files)
    units.compile(*call, at=f"told/{name}")
    assert units.report.units[-1].why == why.format(name)


def test_what_a_compiler_says_and_lists_is_said_again(units: Units) -> None:
    write(units.folder / "said", {"a.cpp": '#include "h.h"\nint f() { int unused; return 1; }\n', "h.h": ""})
    time.sleep(0.02)
    command, found = ("g++", "-Wall", "-MD", "-MT", "x.o", "-MF", "x.d", "-c", "a.cpp", "-o", "x.o"), []
    for _ in range(2):
        said = units.run(*command, at="said").stderr
        found.append((said, (units.folder / "said/x.d").read_text()))
        (units.folder / "said/x.d").unlink()
    assert (units.report.units[-1].how, found[0]) == (UNCHANGED, found[1])
    assert "unused variable" in found[0][0]
    assert found[0][1].startswith("x.o: a.cpp")


def test_a_unit_that_fails_fails_each_time_with_the_same_words(units: Units) -> None:
    write(units.folder / "bad", {"a.cpp": "int f( { }\n"})
    first, second = (units.run("g++", "-c", "a.cpp", "-o", "x.o", at="bad") for _ in range(2))
    assert (first.returncode, first.stderr) == (second.returncode, second.stderr)
    assert "error: " in first.stderr
    assert units.report.units[-1].how == "failed"


def test_a_link_to_a_launcher_under_another_name_is_that_compiler(units: Units) -> None:
    write(units.folder / "linked", LINES)
    time.sleep(0.02)
    (units.folder / "linked/mine").symlink_to(shutil.which("g++", path=units.environ["PATH"]) or "")
    assert units.compile("./mine", "a.cpp", at="linked")[1] == COMPILED
    assert units.compile("g++", "a.cpp", at="linked")[1] == UNCHANGED
