"""One CUDA package built twice: with the parts of torch, and with upstream's whole torch for CUDA; do the bytes differ?

`python -m tests.proof.full_torch` fetches 3 GB: the torch of the default package index, with all that it requires.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from ci_tools.build import jobs as building
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import cache_folder, write_atomically
from ci_tools.plan import make
from ci_tools.verify import files
from tests.builders.wheels import members_of
from tests.proof.cuda_builds import ARCHS, CELL, REQUEST, Heard, packages
from tests.proof.torchao import cpu_seconds
from tests.proof.truth import HERE, write_config

RECORD = HERE / "full_torch.json"
PACKAGE = "fused_lncc"
TEXT = re.compile(rb"[\x20-\x7e]{8,}")
# The default package index alone: another place may have a torch for CPUs of the same version.
ALONE = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}


def main() -> None:
    """Build the package both ways, and write the record."""
    project = next(one for one in packages() if one["name"] == PACKAGE)
    with tempfile.TemporaryDirectory() as scratch:
        built = {kind: _build(project, kind, Path(scratch) / kind) for kind in ("parts", "full")}
        parts, whole = (members_of(one.pop("path")) for one in built.values())
    names = sorted(parts.keys() | whole.keys())
    different = [name for name in names if parts.get(name) != whole.get(name)]
    found = {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        **{name: project[name] for name in ("name", "version", "sha256")},
        "built": built,
        "members": len(names),
        "different": different,
        "libraries": {name: _compare(parts[name], whole[name]) for name in different if name.endswith(".so")},
    }
    print(json.dumps(found, indent=1), flush=True)
    with write_atomically(RECORD) as file:
        file.write(f"{json.dumps(found, indent=1)}\n".encode())


def _build(project: dict[str, Any], torch: str, folder: Path) -> dict[str, Any]:
    """Build the project's wheel with one kind of torch."""
    folder.mkdir()
    heard = Heard()
    environ = {**{name: value for name, value in os.environ.items() if name not in ALONE}, **ALONE}
    outside = Outside(environ=environ, cache=cache_folder(os.environ), reporter=heard)
    config = write_config(project, folder, REQUEST, **CELL, archs=json.dumps(ARCHS))
    text = config.read_text(encoding="utf-8").replace("build: {env:", f"build: {{torch: {torch}, env:")
    config.write_text(text, encoding="utf-8")
    plan = make.make_plan(config, outside)
    before = cpu_seconds()
    (made,) = building.build(plan, [plan.plan.jobs[0].name], folder / "dist", outside, files.CHECKS)
    return {
        "path": made.path,
        "sha256": made.receipt.sha256,
        "bytes": made.receipt.size,
        "torch": made.receipt.built_with.torch,
        "cpu_seconds": round(cpu_seconds() - before),
        "fetched_mb_beside_the_cache": heard.megabytes,
    }


def _compare(parts: bytes, whole: bytes) -> dict[str, Any]:
    """Return the sections in which two libraries differ, what each needs, and the texts that only one of them has."""
    one, other = (_Library(ELFFile(io.BytesIO(data))) for data in (parts, whole))
    names = sorted(one.sections.keys() | other.sections.keys())
    texts = [set(TEXT.findall(data)) for data in (parts, whole)]
    return {
        "sections that differ": [name for name in names if one.sections.get(name) != other.sections.get(name)],
        "needed": [one.needed, other.needed],
        "symbols in one only": [sorted(one.symbols - other.symbols), sorted(other.symbols - one.symbols)],
        "texts in one only": [sorted(text.decode() for text in mine - yours) for mine, yours in (texts, texts[::-1])],
    }


class _Library:
    """What is compared of a shared library: its sections, what it needs, and its dynamic symbols."""

    def __init__(self, elf: ELFFile) -> None:
        self.sections = {section.name: section.data() for section in elf.iter_sections()}
        dynamic = elf.get_section_by_name(".dynamic")
        self.needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
        self.symbols = {symbol.name for symbol in elf.get_section_by_name(".dynsym").iter_symbols()}


if __name__ == "__main__":
    main()
