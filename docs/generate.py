"""Writes the pages in docs/reference from the code they describe: each as its module in docs/pages does.

`python docs/generate.py` writes them, `python docs/generate.py --check` only names those that are stale.
"""
# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import argparse
import functools
import json
import sys
from typing import TYPE_CHECKING

from ci_tools.catalog.failures import BUILD, INSTALL, TRIAL
from ci_tools.config.loader import read_schema
from docs.pages import (
    REPOSITORY,
    action,
    audit_rules,
    catalog,
    command_line,
    compile_units,
    config,
    evidence,
    failures,
    kernel_operators,
    plan,
    truth_table,
    workflows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

REFERENCE = REPOSITORY / "docs" / "reference"
NOTICE = "<!-- Written by docs/generate.py from {source}; change that, not this page. -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the stale pages and name them; with `--check` only name them, and return 1 where there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page is stale")
    options = parser.parse_args(arguments)
    pages = stale()
    for path, text in pages.items():
        sys.stdout.write(f"{path.relative_to(REPOSITORY)}{' is stale' if options.check else ''}\n")
        if not options.check:
            path.write_text(text, encoding="utf-8")
    return int(options.check and bool(pages))


def stale() -> dict[Path, str]:
    """Return the pages that are not what the code says now, with what they should be."""
    wanted = {REFERENCE / name: page(name) for name in PAGES}
    return {path: text for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text}


def page(name: str) -> str:
    """Return the text of one page of docs/reference."""
    source, lines = PAGES[name]
    notice = [NOTICE.format(source=source), ""] if name.endswith(".md") else []
    return "\n".join([*notice, *lines()]) + "\n"


def _write_schema() -> list[str]:
    """Return the schema of a config for editors, with the platforms and accelerators of the catalog."""
    return [json.dumps(read_schema(), indent=2, ensure_ascii=False)]


PAGES: Mapping[str, tuple[str, Callable[[], Iterable[str]]]] = {
    "cli.md": ("the verbs in ci_tools/cli/verbs", command_line.describe),
    "config.md": ("ci_tools/config/fatwheel.schema.json", config.describe),
    "fatwheel.schema.json": ("ci_tools/config/fatwheel.schema.json and ci_tools/catalog", _write_schema),
    "plan.md": ("ci_tools/plan/plan_file.py", plan.describe),
    "evidence.md": ("ci_tools/plan/plan_file.py", evidence.describe),
    "audit-rules.md": ("the docstrings in ci_tools/verify/audit", audit_rules.describe),
    "build-failures.md": ("ci_tools/catalog/build_failures.toml", functools.partial(failures.describe, BUILD)),
    "install-failures.md": ("ci_tools/catalog/install_failures.toml", functools.partial(failures.describe, INSTALL)),
    "trial-failures.md": ("ci_tools/catalog/trial_failures.toml", functools.partial(failures.describe, TRIAL)),
    "catalog.md": ("ci_tools/catalog", catalog.describe),
    "kernel-operators.md": ("package/src/ao_kernels/policy.py", kernel_operators.describe),
    "truth-table.md": ("tests/proof/record.json", truth_table.describe),
    "compile-units.md": ("tests/proof/compile_once.json", compile_units.describe),
    "workflows.md": (".github/workflows", workflows.describe),
    "action.md": ("action.yml and ci_tools/github/step.py", action.describe),
}

if __name__ == "__main__":
    sys.exit(main())
