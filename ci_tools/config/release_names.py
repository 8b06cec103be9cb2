"""The names of a release: the version that its Pythons get, its tag, its title and the local version of its wheels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any

from ci_tools.catalog import Catalog
from ci_tools.config.torch_axis import list_torches
from ci_tools.errors import Problem, nearest
from ci_tools.formats.schema import SchemaFlaw
from ci_tools.model.edition import FIELDS
from ci_tools.model.request import Release
from ci_tools.model.versions import CudaArch, Minor, Python

if TYPE_CHECKING:
    from ci_tools.formats.yaml_file import Document

    Table = Mapping[str, Any]

# Replaced when the config is loaded; the project's own name and version are known only by its source.
EARLY_FIELDS = frozenset(
    {"archs", "cuda", "cuda_version", "display", "package", "python", "python_title", "rebuild", "torch"}
)
LOCAL_FIELDS = frozenset({"archs", "cuda", "torch"})  # of the template of a local version: they differ between wheels
FREE_THREADED = "free-threaded"  # the table with other templates for such Pythons
CUT = "`fatwheel recipe copy` writes a config for each release"


def explain_flaw(template: str, known: frozenset[str]) -> str:
    """Return the mistake in a template of these fields, or ""."""
    example = "v{version}" if "version" in known else "cu{cuda_major}torch{torch}"
    try:
        fields = [(name, spec, how) for _, name, spec, how in Formatter().parse(template) if name is not None]
    except ValueError as error:
        return f"this is not a template: {error}, expected text such as {example}"
    if any(spec or how for _, spec, how in fields):  # {x:>5} and {x!r} of str.format
        return f"this is not a template: its fields cannot be formatted, expected text such as {example}"
    unknown = sorted({name for name, _, _ in fields} - known)
    return f'the template names "{{{unknown[0]}}}", {nearest(unknown[0], known)}' if unknown else ""


def choose_names(release: Table, pythons: Iterable[object]) -> dict[str, Any]:
    """Return a release's table with the templates that are for its Pythons: of `free-threaded`, if each of them is."""
    of_free = release.get(FREE_THREADED) if all(str(python).endswith("t") for python in pythons) else None
    usual = {key: value for key, value in release.items() if key != FREE_THREADED}
    return {**usual, **(of_free or {})}


def resolve_names(document: Document) -> Document:
    """Return the document with the names of its release for its Pythons at `release`."""
    root: Any = document.value
    release = root.get("release") if isinstance(root, dict) else None
    if not isinstance(release, dict) or not isinstance(release.get(FREE_THREADED), dict):
        return document
    return document._replace(value={**root, "release": choose_names(release, root.get("python") or ("",))})


def resolve_version(document: Document) -> tuple[Document, list[SchemaFlaw]]:
    """Return the document with the version of its Pythons at `version`, and what keeps `versions` from naming one."""
    root: Any = document.value
    table = root.get("versions") if isinstance(root, dict) else None
    if not isinstance(table, dict) or not isinstance(root.get("python"), list):
        return document, []
    asked = list(map(str, root["python"]))
    found = {str(version): [one for one in asked if one in (pythons or ())] for version, pythons in table.items()}
    found = {version: pythons for version, pythons in found.items() if pythons}  # those of other releases
    if what := _wrong(root, asked, found):
        return document, [SchemaFlaw(("versions",), Problem(document.where(("versions",), key=True), what))]
    return document._replace(value={**root, "version": next(iter(found))}), []


def _wrong(root: Table, asked: list[str], found: Mapping[str, list[str]]) -> str:
    """Return what is wrong with a table of versions, or ""."""
    if "version" in root:
        return '"version" and "versions" exclude each other, expected one of them'
    for python in asked:
        count = sum(python in pythons for pythons in found.values())
        if count != 1:
            return f"Python {python} has {'two versions' if count else 'no version'} here, expected one"
    if len(found) > 1:
        shown = " and ".join(f"{version} for {', '.join(pythons)}" for version, pythons in found.items())
        return f"these are several releases, {shown}, and a plan is of one: {CUT}"
    return ""


def read_release(root: Table, catalog: Catalog) -> Release:
    """Return the names of a checked config's release, with the values of all fields that it knows."""
    table = dict(root.get("release") or {})
    table.pop("display", None)  # a value for templates, and no name itself
    table.pop("retention", None)  # publish/retention reads it: it changes nothing that is built
    known = {name: values[0] for name, values in values_of(root, catalog).items() if len(values) == 1}
    templates = [table.get(key) or "" for key in ("tag", "title", "local")]
    release = Release(**table, exact_torch=any("torch" in fields_in(template) for template in templates))
    tag = _fill(release.tag, known)
    if release.rebuild and "rebuild" not in fields_in(release.tag):
        tag += f"-r{release.rebuild}"  # a tag of its own, as a tag is not moved
    return Release(**{**table, "tag": tag, "title": _fill(release.title, known)}, exact_torch=release.exact_torch)


def values_of(root: Table, catalog: Catalog) -> dict[str, list[str]]:
    """Return every value that a config's release has for a field: one, unless its wheels differ in it."""
    pythons = sorted(map(Python.parse, root.get("python") or ()))
    platforms = [table for table in (root.get("platforms") or {}).values() if isinstance(table, dict)]
    cudas = sorted({Minor.parse(text) for table in platforms for text in table.get("cuda") or ()})
    archs = {label_archs(table["archs"]) for table in platforms if table.get("cuda") and table.get("archs")}
    release = root.get("release") or {}
    return {
        "package": [root["package"]],
        "display": [release.get("display", root["package"])],
        "python": [f"{python.version.digits}{'t' * python.free_threaded}" for python in pythons],
        "python_title": [f"{python}{' (Free-threaded)' * python.free_threaded}" for python in pythons],
        "torch": [catalog.torch[torch].patch for torch in list_torches(root.get("torch"), catalog)],
        "cuda": [cuda.digits for cuda in cudas],
        "cuda_version": list(map(str, cudas)),
        "archs": sorted(archs),  # one, unless platforms differ
        "rebuild": [str(release["rebuild"])] if "rebuild" in release else [],
    }


def label_archs(archs: list[str] | tuple[str, ...]) -> str:
    """Return the part of a name for CUDA architectures: `sm89`, `sm90asm120ptx`."""
    parsed = map(CudaArch.parse, archs)
    return "".join(f"sm{arch.capability.digits}{arch.variant}{'ptx' * arch.ptx}" for arch in parsed)


def fields_in(template: str) -> set[str]:
    """Return the names of a valid template's fields."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def _fill(template: str, known: Mapping[str, str]) -> str:
    """Replace the early fields of a template, and keep the others as they are."""
    parts = []
    for literal, name, *_ in Formatter().parse(template):
        parts.append(literal.replace("{", "{{").replace("}", "}}"))  # parsing has taken one of each double brace
        if name is not None:
            parts.append(f"{{{name}}}" if name in FIELDS else known[name].replace("{", "{{").replace("}", "}}"))
    return "".join(parts)
