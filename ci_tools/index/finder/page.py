"""The front page of an index: the list of its projects, and the finder, in one file."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
from collections.abc import Iterable
from pathlib import Path
from string import Template
from urllib.parse import quote

from ci_tools import catalog as catalogs
from ci_tools.catalog import Catalog, TorchRelease
from ci_tools.index.finder.causes import TEXT, describe_causes
from ci_tools.index.finder.data import name_system
from ci_tools.index.pages import API_VERSION, seal_html
from ci_tools.model.platforms import Accelerator

HERE = Path(__file__).parent
STYLES = ("page", "answer", "every", "screens")
SCRIPTS = ("choice", "machine", "errors", "elements", "listing", "commands", "answer", "paste", "every", "projects")


def front_page(projects: Iterable[str], *, title: str, folders: Iterable[str]) -> bytes:
    """Return the front page of an index: the list of its projects (PEP 503), and the finder.

    Its content security policy allows only the page's own scripts, and those that they load.
    """
    page, style, script = _parts()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}' 'strict-dynamic'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    rows = (f'<li><a href="{quote(name)}/">{html.escape(name)}</a></li>' for name in sorted(projects))
    codes = (f"<li><code>{html.escape(name)}/</code></li>" for name in sorted(folders) if name)
    values = {
        "api_version": API_VERSION,
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "script": script,
        "projects": "\n        ".join(rows),
        "folders": "\n        ".join(codes),
    }
    return seal_html(page.substitute(values))


@functools.cache
def _parts() -> tuple[Template, str, str]:
    """Return the page, its style and its script, as installed with the package."""
    page = (HERE / "page.html").read_text(encoding="utf-8")
    style = "\n".join((HERE / "style" / f"{name}.css").read_text(encoding="utf-8") for name in STYLES)
    return Template(page), f"\n{style}", f"\n{write_script(catalogs.load())}"


def write_script(catalog: Catalog) -> str:
    """Return the page's script: its files in their order, and the builds of torch that the catalog knows."""
    files = ((HERE / "script" / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    tables = {"TORCHES": _torches(catalog), "CAUSES": describe_causes(), "TEXT": TEXT}
    known = (f"const {name} = {json.dumps(table, separators=(',', ':'))};" for name, table in tables.items())
    return "\n".join(['"use strict";', *(table.replace("<", "\\u003c") for table in known), *files])


def _torches(catalog: Catalog) -> dict[str, dict[str, object]]:
    """Return the builds that PyTorch ships of each torch: its patch release, Pythons, and accelerators by system."""
    return {str(version): _describe_torch(release) for version, release in sorted(catalog.torch.items())}


def _describe_torch(release: TorchRelease) -> dict[str, object]:
    pythons = {_name_host(host): [str(python) for python in sorted(names)] for host, names in release.pythons.items()}
    builds: dict[str, list[str]] = {}
    for (host, kind), versions in sorted(release.accelerators.items()):
        labels = (Accelerator(kind, version).label for version in sorted(versions, key=str))
        builds.setdefault(_name_host(host), []).extend(labels)
    return {"patch": release.patch, "pythons": pythons, "builds": builds}


def _name_host(host: str) -> str:
    os, _, machine = host.partition("-")
    return name_system(os, machine)


def _hash(text: str) -> str:
    """Return a text's hash in the notation of a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
