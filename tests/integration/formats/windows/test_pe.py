"""What is read of a Windows library that MinGW links."""

from __future__ import annotations

import io
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from ci_tools.formats.fatbinary import images
from tests.builders.wheels import PTX, SASS, entry, unit
from tests.unit.formats.windows.test_pe import read

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.slow

MINGW = shutil.which("x86_64-w64-mingw32-gcc")


@pytest.mark.skipif(not MINGW, reason="needs x86_64-w64-mingw32-gcc (Debian: gcc-mingw-w64-x86-64)")
def test_a_library_that_mingw_links_is_read(tmp_path: Path) -> None:
    numbers = ",".join(map(str, unit(entry(SASS, 90), entry(PTX, 100))))
    source = tmp_path / "c.c"
    source.write_text(
        f'__attribute__((section(".nv_fatb"))) const unsigned char code[] = {{{numbers}}};\n'
        "#include <stdlib.h>\n__declspec(dllexport) void *ours(void) { return malloc(code[0]); }\n"
    )
    subprocess.run([str(MINGW), "-g", "-shared", "-o", tmp_path / "c.dll", source], check=True)
    content = (tmp_path / "c.dll").read_bytes()
    found = {each.library: each.symbols for each in read(content).imports()}
    assert "malloc" in found["msvcrt.dll"]
    assert {str(image) for image in images(io.BytesIO(content))} == {"sm_90", "compute_100"}
    assert ".debug_info" in {section.name for section in read(content).sections}  # a name of more than eight bytes
