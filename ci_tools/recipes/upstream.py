"""What upstream has published: tags of its repository, files on the package index, and torch in the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from ci_tools import catalog as catalogs
from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.config.starter.sdist_choice import list_files, list_sdists
from ci_tools.errors import FatwheelError, InputError
from ci_tools.machine.context import Outside
from ci_tools.model.request import GitSource
from ci_tools.model.versions import Minor, Python, read_version
from ci_tools.recipes.choice import version_of
from ci_tools.recipes.shelf import Recipe
from ci_tools.source import git

if TYPE_CHECKING:
    from packaging.tags import Tag

    Root = Mapping[str, Any]
    Part = Callable[[Root, Recipe, Outside], Iterator["UpstreamNews"]]

FIELD = "{version}"


class UpstreamNews(NamedTuple):
    """Something that upstream has and a recipe does not name yet."""

    recipe: str
    what: str  # version, torch, python, wheel, or unknown: upstream did not answer
    named: str  # by the recipe
    found: str
    where: str


def read_news(recipes: Iterable[Recipe], outside: Outside) -> list[UpstreamNews]:
    """Return what upstream has published and these recipes do not name; one that cannot be read is reported, too."""
    news: list[UpstreamNews] = []
    for recipe in recipes:
        news += _news_or_error(recipe, outside)
    return news


def _news_or_error(recipe: Recipe, outside: Outside) -> Iterator[UpstreamNews]:
    """Yield the news of a recipe; what does not answer is one piece of them, and hides no other."""
    try:
        root = recipe.read()
    except FatwheelError as error:
        yield UpstreamNews(recipe.name, "unknown", "", error.message, str(recipe.config))
        return
    for part in (_version_news, _catalog_news, _wheel_news):
        yield from _answer_or_error(part, root, recipe, outside)


def _answer_or_error(part: Part, root: Root, recipe: Recipe, outside: Outside) -> list[UpstreamNews]:
    try:
        return list(part(root, recipe, outside))
    except FatwheelError as error:
        return [UpstreamNews(recipe.name, "unknown", "", error.message, str(recipe.config))]


def _version_news(root: Root, recipe: Recipe, outside: Outside) -> Iterator[UpstreamNews]:
    if newest := find_newer(root, recipe, outside):
        yield UpstreamNews(recipe.name, "version", str(_newest_named(root) or ""), str(newest), _address(root))


def _catalog_news(root: Root, recipe: Recipe, outside: Outside) -> Iterator[UpstreamNews]:  # noqa: ARG001 - as every part
    if torch := newest_torch(root):
        yield UpstreamNews(recipe.name, "torch", ", ".join(map(str, root["torch"])), str(torch), "the catalog")
    if pythons := unserved_pythons(root):
        yield UpstreamNews(recipe.name, "python", ", ".join(root["python"]), ", ".join(pythons), "the catalog")


def _wheel_news(root: Root, recipe: Recipe, outside: Outside) -> Iterator[UpstreamNews]:
    named = _newest_named(root)
    if wheels := _upstream_wheels(root, named, outside):
        yield UpstreamNews(recipe.name, "wheel", str(named), ", ".join(wheels), "the package index has wheels of it")


def find_newer(root: Root, recipe: Recipe, outside: Outside) -> Version | None:
    """Return the newest final version of upstream if it is newer than all that a recipe names; else None."""
    named, versions = _newest_named(root), list_versions(root, recipe, outside)
    newest = max((one for one in versions if not one.is_prerelease and not one.local), default=None)
    return newest if newest and (named is None or newest > named) else None


def list_versions(root: Root, recipe: Recipe, outside: Outside) -> list[Version]:
    """Return the versions that upstream has a tag or an sdist of, in any order."""
    source = root.get("source") or {}
    if "git" in source:
        asked, ref = GitSource(url=source["git"], ref=""), str(source.get("ref", ""))
        names = git.remote_tags(asked, git.address(asked, recipe.folder), outside.environ)
        pattern = re.compile("(.+)".join(map(re.escape, ref.split(FIELD, 1)))) if FIELD in ref else None
        texts = [found[1] for name in names if pattern and (found := pattern.fullmatch(name))]
    elif "sdist" in source:
        texts = [str(parse_sdist_filename(file.filename)[1]) for file in list_sdists(source["sdist"]["name"], outside)]
    else:
        texts = []
    return [version for text in texts if (version := read_version(text))]


def newest_torch(root: Root) -> Minor | None:
    """Return the newest torch of the catalog that upstream ships for a recipe's CUDA, if it names only older ones."""
    catalog, asked = catalogs.load(), root.get("torch")
    if not isinstance(asked, list):
        return None
    cudas = {Minor.parse(text) for table in _tables(root) for text in table.get("cuda") or ()}
    newer = [torch for torch in catalog.torch if torch > max(map(Minor.parse, asked)) and cudas_of(torch, catalog)]
    return max((torch for torch in newer if not cudas or cudas & cudas_of(torch, catalog)), default=None)


def cudas_of(torch: Minor, catalog: Catalog) -> set[Minor]:
    """Return the CUDA versions that upstream ships a published torch for."""
    release = catalog.torch[torch]
    found = [versions for (_, kind), versions in release.accelerators.items() if kind == CUDA]
    return {version for versions in found for version in versions if version} if release.headers else set()


def unserved_pythons(root: Root) -> list[str]:
    """Return the Pythons of the catalog that are newer than all that a recipe names, and that its torch ships for."""
    catalog = catalogs.load()
    named = [Python.parse(text) for text in root["python"]]
    torches = [Minor.parse(text) for text in root.get("torch") or () if isinstance(root.get("torch"), list)]
    shipped = {python for torch in torches for found in catalog.torch[torch].pythons.values() for python in found}
    newer = (one for one in catalog.pythons if one.version > max(python.version for python in named))
    return [str(one) for one in newer if not torches or one in shipped]


def pin_sdist(root: Root, outside: Outside) -> dict[str, Any]:
    """Return a release's config with its version of the sdist, and the sha256 that the package index has for it.

    Raises InputError if the index has no sdist of the version.
    """
    source = root.get("source") or {}
    sdist, version = source.get("sdist"), read_version(str(root.get("version", "")))
    if not sdist or version is None or read_version(str(sdist["version"])) == version:
        return dict(root)
    for file in list_sdists(sdist["name"], outside):
        digest = (file.digests or {}).get("sha256")
        if parse_sdist_filename(file.filename)[1] == version and digest:
            return {**root, "source": {**source, "sdist": {**sdist, "version": str(version), "sha256": digest}}}
    msg = f"the package index has no sdist of {sdist['name']} {version}"
    raise InputError(msg, hint="`fatwheel recipe outdated` says which version is the newest")


def _newest_named(root: Root) -> Version | None:
    texts = [*(root.get("versions") or ()), version_of(root)]
    return max((version for text in texts if (version := read_version(str(text)))), default=None)


def _tables(root: Root) -> list[Mapping[str, Any]]:
    return [table for table in root["platforms"].values() if isinstance(table, dict)]


def _address(root: Root) -> str:
    source = root.get("source") or {}
    return str(source.get("git") or f"the sdists of {source['sdist']['name']}")


def _upstream_wheels(root: Root, version: Version | None, outside: Outside) -> list[str]:
    """Return the Pythons of a recipe for which upstream has a wheel of its version on the package index."""
    try:
        files = list_files(canonicalize_name(root["package"]), outside)
    except InputError:  # there is no such project
        return []
    tags = {
        tag
        for file in files
        if file.package_type == "wheel" and read_version(file.version or "") == version
        for tag in parse_wheel_filename(file.filename)[3]
        if "linux" in tag.platform or tag.platform == "any"
    }
    has_kernels = any("cuda" in table for table in _tables(root))  # which a name says nothing of
    return [text for text in root["python"] if _is_served(Python.parse(text), tags, may_be_stable=not has_kernels)]


def _is_served(python: Python, tags: Iterable[Tag], *, may_be_stable: bool) -> bool:
    """Whether wheels with some tags serve a Python: by its own ABI, by the stable one, or by none.

    The wheels that upstream publishes for every Python are often those without kernels (opencv-python), so that they
    do not count for a recipe that makes kernels.
    """
    if any(tag.abi == python.abi_tag for tag in tags):
        return True
    # PEP 384: since 3.2; no free-threaded Python to 3.14 loads it (PEP 803)
    stable = () if python.free_threaded else (f"cp3{minor}" for minor in range(2, python.version.minor + 1))
    lowest = set(stable)
    is_stable = any(tag.abi == "abi3" and tag.interpreter in lowest for tag in tags)
    return may_be_stable and (is_stable or any(tag.abi == "none" for tag in tags))
