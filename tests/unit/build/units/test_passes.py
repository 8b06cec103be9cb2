"""A text is what a compiler reads, without where it is from; nvcc's passes are those that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ci_tools.build.units import passes
from ci_tools.build.units.calls import read_call
from tests.builders.sources import write

TEXT = b'# 0 "a.cpp"\n# 1 "/usr/include/s.h" 1 3\nint s;\n# 2 "a.cpp" 2\n\n\nint a;\n'
SAME = {
    "other-lines": b'# 0 "a.cpp"\n# 9 "/opt/s.h" 1 3\nint s;\n# 44 "a.cpp" 2\nint a;\n',
    "an-empty-header": b'# 0 "a.cpp"\n# 1 "/usr/include/s.h" 1 3\nint s;\n# 1 "e.h" 1\n# 2 "a.cpp" 2\nint a;\n',
    "a-name-with-a-quote": b'# 0 "a.cpp"\n# 1 "/usr/\\"i/s.h" 1 3\nint s;\n# 2 "a.cpp" 2\nint a;\n',
}
OTHER = {
    "not-of-the-system": TEXT.replace(b" 1 3", b" 1"),
    "another-text": TEXT.replace(b"int a", b"int b"),
    "a-word-less": TEXT.replace(b"int s;\n", b""),
}


@pytest.mark.parametrize("name", SAME)
def test_where_a_text_is_from_is_no_part_of_it(name: str) -> None:
    assert passes._drop_lines(SAME[name]) == passes._drop_lines(TEXT)  # noqa: SLF001 - the rule itself


@pytest.mark.parametrize("name", OTHER)
def test_all_else_is(name: str) -> None:
    assert passes._drop_lines(OTHER[name]) != passes._drop_lines(TEXT)  # noqa: SLF001


def test_a_trace_that_was_cut_says_nothing(tmp_path: Path) -> None:
    own = tmp_path / "own"
    write(tmp_path, {"a.cpp": "", "own/b.cpp": ""})
    whole = b"ra.cpp\0a/none/h.h\0ra.cpp\0rgone.s\0r%s/b.cpp\0" % bytes(own)
    found = passes._read_trace(whole, tmp_path, own)  # noqa: SLF001
    assert found == passes.Lookups(frozenset({f"{tmp_path}/a.cpp"}), frozenset({"/none/h.h"}))
    for cut in (whole[:-1], whole.replace(b"a/none", b"!/none")):
        assert passes._read_trace(cut, tmp_path, own) == passes.Lookups()  # noqa: SLF001


def test_the_passes_of_nvcc_are_read_from_what_it_shows(tmp_path: Path) -> None:
    shown = tmp_path / "dryrun.err"
    shown.write_text(
        '#$ PATH=/x\n#$ gcc -E -x c++ -D "S=\\"a b\\"" "a.cu" -o "/tmp/1.ii" > /tmp/o 2>/tmp/e\n'
        "#$ cicc -arch compute_90 1.ii -o 1.ptx\n#$ gcc -c -x c++ /tmp/a.cudafe1.cpp -o a.o\nwarning: x\n"
    )
    found = [*passes._list_passes(shown, Path("/last.cpp"))]  # noqa: SLF001
    assert found == [
        (["gcc", "-E", "-x", "c++", "-D", 'S="a b"', "a.cu"], "/tmp/1.ii"),  # noqa: S108 - a name
        (["gcc", "-E", "-x", "c++", "/last.cpp"], "a.o"),
    ]


LATER = {
    "incbin": b'asm(".incbin \\"data\\"");\n',
    "embed": b'unsigned char data[] = {\n#embed "data"\n};\n',
    "embed-with-a-blank": b'unsigned char data[] = {\n# embed "data"\n};\n',
    "include": b'asm(".include \\"data\\"");\n',
    "include-of-rewritten-headers": b'\n#include "h.h"\n',
    "import": b'\n#import "h.h"\n',
}


@pytest.mark.parametrize("name", [*LATER, "nothing"])
def test_a_text_that_is_not_all_is_no_unit_s(name: str, tmp_path: Path) -> None:
    call = read_call(Path("/usr/bin/c++"), ["-c", "a.cpp", "-o", "a.o"], tmp_path, {})
    assert call is not None

    def preprocess(words: Sequence[str], _: Path, trace: Path | None) -> passes.RanProgram:
        """Leave what is read later in the text, as compilers may that embed by themselves."""
        assert trace is not None
        Path(words[-1]).write_bytes(TEXT + LATER.get(name, b""))
        return passes.RanProgram(0)

    found = passes.Preprocessor("/site", tmp_path / "last.cpp", {}).read(call, (), preprocess, tmp_path)
    assert bool(found.plain) == (name in LATER)
