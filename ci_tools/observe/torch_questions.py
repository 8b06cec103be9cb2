"""Answers what builds ask of torch's names, by the catalog's table: torches that answer alike get the same build."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

from ci_tools.catalog import TORCH_HEADERS, TORCH_NAMES
from ci_tools.observe.inside.torch_names.table import OF_HEADER, QUESTIONS, TorchHeaders, TorchTable, read_table

if TYPE_CHECKING:
    from ci_tools.catalog import TorchRelease


@functools.cache
def load_table() -> TorchTable:
    """Return the table of torch's names."""
    return read_table(TORCH_NAMES.read_text(encoding="utf-8"))


@functools.cache
def load_headers() -> TorchHeaders:
    """Return the table of torch's headers."""
    headers = TorchHeaders()
    headers.read(str(TORCH_HEADERS))
    return headers


def describe_names(release: TorchRelease) -> str:
    """Return what names a torch in the table: its release, the rows of a project's catalog, or "" without both."""
    table = load_table()
    if table.patches.get(str(release.version)) == release.patch:
        return str(release.version)
    rows = dict(release.names)
    base = rows.pop("base", "")
    return json.dumps({"base": base, "rows": rows}, sort_keys=True) if base in table.patches else ""


def is_question(name: str) -> bool:
    """Whether a build's question is about the names of torch, or about its headers."""
    return name.startswith((*QUESTIONS, OF_HEADER))


@functools.cache
def answer_question(names: str, question: str) -> object:
    """Return the answer of a torch, named as `describe_names` does."""
    if question.startswith(OF_HEADER):
        return load_headers().has(names, question.removeprefix(OF_HEADER))
    return load_table().answer(names, question)


@functools.cache
def is_same_everywhere(question: str) -> bool:
    """Whether every torch in the table gives the same answer."""
    if question.startswith(OF_HEADER):
        return load_headers().has("", question.removeprefix(OF_HEADER)) is not None
    return not load_table().differs(question)


def name_subject(question: str) -> str:
    """Return what a question is about: `torch.xpu.is_available`, or `torch.xpu` where it lists its names."""
    if question.startswith(OF_HEADER):
        return question
    word = next(one for one in QUESTIONS if question.startswith(one))
    return question.removeprefix(word).replace(":", ".").removeprefix(".")
