"""`Cython.Compiler.Main`: what writes one C file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from Cython.Build import translate

default_options: dict[str, Any] = {}


class CompilationOptions(SimpleNamespace):
    """Options, which change no file that is compiled but its language."""

    def __init__(self, defaults: Any = None, **options: Any) -> None:
        super().__init__(**{**(defaults or {}), **options})


def compile(source: Any, options: Any = None, full_module_name: Any = None, **more: Any) -> Any:  # noqa: A001 - its name
    """Write the C file of a source."""
    chosen = {**vars(options or SimpleNamespace()), **more}
    words = ["--cplus"] if chosen.get("cplus") else []
    words += ["-o", str(chosen["output_file"])] if chosen.get("output_file") else []
    return SimpleNamespace(c_file=[*translate([*words, source]), None][0], num_errors=0)


compile_single = compile


def main(command_line: int = 1) -> None:
    """Run the program `cython`."""
    translate()


setuptools_main = main
