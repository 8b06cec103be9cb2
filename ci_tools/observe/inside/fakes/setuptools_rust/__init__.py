"""`setuptools-rust`: its extensions, and the commands of setuptools that build them without cargo."""

from __future__ import annotations

import os
import re
from enum import IntEnum
from pathlib import Path
from typing import Any

from setuptools.command.build_ext import build_ext, get_abi3_suffix
from setuptools.compat.py310 import tomllib
from setuptools.errors import SetupError

from ci_tools.observe.inside.build_ext import extend_command, record, record_link
from ci_tools.observe.inside.facts import FACTS
from ci_tools.observe.inside.files import note_content

__all__ = ["Binding", "RustBin", "RustExtension", "Strip", "rust_extensions"]

Binding = IntEnum("Binding", ["PyO3", "RustCPython", "NoBinding", "Exec"])
Strip = IntEnum("Strip", ["No", "Debug", "All"])
PROJECT = "pyproject.toml"
OF_TORCH = re.compile(r"^\s*[\"']?(tch|torch-sys|pyo3-tch)[\"']?\s*[=.\]]|\.(tch|torch-sys|pyo3-tch)\]", re.MULTILINE)
SAID = ("binding", "strip")  # settings that pyproject.toml names by their words


class RustExtension:
    """An extension module that cargo builds from the package in a folder."""

    def __init__(self, target: str | dict[str, str], path: str = "Cargo.toml", **settings: Any) -> None:
        self.target = target if isinstance(target, dict) else {"": target}
        self.name = target if isinstance(target, str) else "; ".join(f"{key}={name}" for key, name in target.items())
        self.path = os.path.relpath(path)
        self.features = tuple(settings.get("features") or ())
        self.args = tuple(settings.get("args") or ())
        self.optional = bool(settings.get("optional"))
        self.py_limited_api = settings.get("py_limited_api", "auto")
        if settings.get("binding", Binding.PyO3) is Binding.Exec or settings.get("generated_files"):
            FACTS.doubt("has setuptools-rust build more than extension modules, which is not simulated")

    def __getattr__(self, name: str) -> Any:
        return FACTS.unknown(f"setuptools_rust.RustExtension.{name}")


class RustBin(RustExtension):
    """A program that cargo builds."""

    def __init__(self, target: str | dict[str, str], path: str = "Cargo.toml", **settings: Any) -> None:
        super().__init__(target, path, **{**settings, "binding": Binding.Exec})


def rust_extensions(distribution: Any, _keyword: str, value: list[RustExtension]) -> None:
    """Have a distribution build the extensions that setup() names by this keyword."""
    if not value:
        return
    distribution.has_ext_modules = lambda: True
    extend_command(distribution, build_ext, lambda command: [_build(command, extension) for extension in value])


def read_project(distribution: Any) -> None:
    """Have a distribution build the extensions that pyproject.toml names."""
    if not Path(PROJECT).is_file():
        return
    note_content(PROJECT, "r", None)
    said = tomllib.loads(Path(PROJECT).read_text(encoding="utf-8")).get("tool", {}).get("setuptools-rust") or {}
    named = [(RustExtension, one) for one in said.get("ext-modules", ())]
    named += [(RustBin, one) for one in said.get("bins", ())]
    if said:
        distribution.rust_extensions = [kind(**_settings(one)) for kind, one in named]
        rust_extensions(distribution, "rust_extensions", distribution.rust_extensions)


def _settings(table: dict[str, Any]) -> dict[str, Any]:
    words: dict[str, Any] = {"binding": Binding, "strip": Strip}
    return {key.replace("-", "_"): words[key][value] if key in SAID else value for key, value in table.items()}


def _build(command: Any, extension: RustExtension) -> None:
    """Record the arguments of cargo, and create a library where setuptools-rust would."""
    if not Path(extension.path).is_file():
        raise SetupError(f"can't find {extension.path}")
    limited = command.distribution.get_command_obj("bdist_wheel").py_limited_api
    is_limited = limited if extension.py_limited_api == "auto" else extension.py_limited_api
    flags = [*(f"--features={one}" for one in extension.features), *extension.args]
    text = Path(extension.path).read_text(encoding="utf-8")
    note_content(extension.path, "r", None)
    if OF_TORCH.search(text):
        FACTS.doubt(f"builds {extension.path}, which uses torch")
    for name in extension.target.values():
        path = command.get_ext_fullpath(name)
        if is_limited:
            path = f"{path.removesuffix(Path(command.get_ext_filename(name)).name)}{_limited_name(name)}"
        made = os.path.join(command.build_temp, f"{name}.rlib")
        record(extension.path, made, "cargo", flags)
        record_link(path, [made], None, [])


def _limited_name(name: str) -> str:
    return f"{name.rpartition('.')[2]}{get_abi3_suffix()}"
