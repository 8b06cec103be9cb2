"""A Windows machine's Visual Studio as files: its folders, and programs that answer as vswhere.exe and cmd.exe do.

The programs are scripts that run here; each notes its command line, word by word, so that a test sees the whole of it.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

CL = "bin/Hostx64/x64/cl.exe"
VSWHERE = "Microsoft Visual Studio/Installer/vswhere.exe"
# What vcvars64.bat of Visual Studio 2022 sets, in few words.
ENVIRONMENT = {
    "INCLUDE": r"C:\VC\include;C:\Kits\include",
    "LIB": r"C:\VC\lib\x64;C:\Kits\lib\x64",
    "Path": r"C:\VC\bin;C:\Windows",
    "VSCMD_ARG_TGT_ARCH": "x64",
    "PROMPT": "$P$G",
}
HOST_CONFIG = "#if defined(_WIN32)\n\n#if _MSC_VER < {} || _MSC_VER >= {}\n\n#error -- unsupported\n#endif\n#endif\n"


class VisualStudio:
    """Installations below a folder, and the variables of a machine that has them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self.listed: list[dict[str, str]] = []
        self.notes.mkdir(parents=True, exist_ok=True)

    def install(self, product: str, *toolsets: str) -> Path:
        """Add an installation with these toolsets; return its folder."""
        home = self.folder / "Microsoft Visual Studio" / product.replace(" ", "")
        for toolset in toolsets:
            program(home / "VC/Tools/MSVC" / toolset / CL, "")
        (home / "VC/Auxiliary/Build").mkdir(parents=True)
        self.listed.append({"displayName": product, "installationPath": str(home), "installationVersion": "17.14"})
        return home

    def environ(self, path: str = "", **more: str) -> dict[str, str]:
        """Write the programs, and return the variables of the machine; `path` is the PATH that vcvars64.bat sets."""
        answer = self.notes / "vswhere.json"
        answer.write_text(json.dumps(self.listed))
        program(self.folder / VSWHERE, f"{self._note('vswhere')}cat {shlex.quote(str(answer))}")
        shown = {**ENVIRONMENT, "Path": path or ENVIRONMENT["Path"]}
        said = "".join(f"printf '%s\\n' {shlex.quote(f'{name}={value}')}\n" for name, value in shown.items())
        cmd = program(self.folder / "cmd.exe", f'{self._note("cmd")}cat "$3" > {self.notes / "script"}\n{said}')
        return {"PATH": os.environ["PATH"], "PROGRAMFILES(X86)": str(self.folder), "COMSPEC": str(cmd), **more}

    def called(self, name: str) -> list[str]:
        """Return the words that a program was called with."""
        return (self.notes / name).read_text().splitlines()

    def _note(self, name: str) -> str:
        return f"printf '%s\\n' \"$@\" > {shlex.quote(str(self.notes / name))}\n"


def program(path: Path, text: str) -> Path:
    """Write a script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
