"""Adds to a project's catalog what upstream has published: `fatwheel catalog update`.

Read are the listings of torch on the package index that pip uses, and on any other index that is named, and parts of
a new release's Linux wheels, by range requests: the version of CUDA that they say they are built for, and torch's own
Python files, for the names in them that the newest torch of Fatwheel's table has not, or has otherwise.
Nothing that is read is run. A person writes the row of a new CUDA or ROCm: no metadata lists what its compiler knows.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog import Catalog, tables
from ci_tools.config import loader, location, project_catalog
from ci_tools.config.torch_axis import NEWEST
from ci_tools.config.upstream.torch_listing import (
    Facts,
    TorchBuild,
    choose_headers,
    describe_news,
    drop_rows,
    find_news,
    find_nightly,
    gather_facts,
    read_build,
)
from ci_tools.config.upstream.torch_names import NAMES, read_new_names
from ci_tools.errors import InputError, MachineError
from ci_tools.formats import toml_file
from ci_tools.formats.yaml_file import text_of
from ci_tools.machine.context import Outside
from ci_tools.machine.http.client import open_session, read_document
from ci_tools.machine.http.policy import NoParts, TooLarge, explain_unanswered
from ci_tools.machine.package_index import Index, Listing, listing_of, users_index
from ci_tools.machine.remote_wheel import remote_wheel
from ci_tools.machine.storage import write_atomically
from ci_tools.model.versions import Minor
from ci_tools.observe.views import load_table

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage


TORCH, LINUX = "torch", "linux-x86_64"
VERSION_FILE = "torch/version.py"  # says cuda: Optional[str] = '13.2'
BUILT_FOR = re.compile(r"^cuda\b[^=\n]*=\s*['\"](\d{1,4}\.\d{1,4})", re.MULTILINE)
MAX_READ = 1 << 25  # bytes read of one wheel: its directory, and one small file
HEADER = "# Written by `fatwheel catalog update` from what upstream has published; rows of your own may stand beside.\n"
PYTHONS = re.compile(r"^\[python\][ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*releases[ \t]*=[ \t]*(\[[^\]#]*\])", re.MULTILINE)


class CatalogNews(NamedTuple):
    """What upstream has and a catalog lacks: the file of the rows, its new text, and a line about each row."""

    file: Path
    text: str
    lines: tuple[str, ...]


def find_updates(
    config: Path, base: Catalog, indexes: Sequence[str], outside: Outside, runners: str = ""
) -> CatalogNews:
    """Return what upstream has published that neither `base` nor the rows of the project at `config` have.

    `runners` is the address of GitHub's list of runners; without it, that is not read.

    Raises InputError if the config has the tables itself, MachineError if an index does not answer.
    """
    request = loader.load(config, base, needs_nightly=False, outside=outside)
    known = base.extend(request.catalog)
    file = project_catalog.file_of(location.read_document(config, str(config)), config.parent)
    if file is None:
        instead = f"expected a file of its own: `catalog: {project_catalog.DEFAULT_FILE}`"
        raise InputError(f"{config} has the tables of the catalog itself, {instead}")
    own = [request.validate.torch_index] if request.validate.torch_index else []
    with outside.reporter.step("read what upstream has published") as step:
        main = users_index(outside.environ)
        others = [main._replace(url=url) for url in dict.fromkeys([*indexes, *own])]
        found = _Upstream(known, outside).read(main, others)
        # Where the nightly of the project's catalog is, there will be newer ones.
        earlier = (url for version, release in known.torch.items() if version.nightly for url in release.indexes)
        where = dict.fromkeys([*indexes, *own, *earlier])
        nightly = find_nightly(request, known, [main._replace(url=url) for url in where], outside.reporter.say)
        text = text_of(file, str(file), "a TOML file") if file.exists() else ""
        is_new = nightly and _table(known, nightly.version) != nightly.row  # the row may be there, of an earlier run
        labels = _read_labels(runners, text, str(file), outside)
        count = len(found) + bool(is_new) + len(list(labels.describe()))
        step.result(f"{count} new" if count else "nothing new")
    lines = [f"torch {version}: {describe_news(_table(known, version), news)}" for version, news in found.items()]
    added = "".join(_write_release(version, news) for version, news in found.items())
    pythons = _find_pythons(known, found.values())
    text = _add_pythons(text, str(file), pythons) if pythons else text
    lines += [f"Python {name}" for name in pythons]
    if nightly and is_new:
        asked = request.torch.nightly if request.torch else None
        lines.append(f"torch {nightly.version}: {describe_news({}, nightly.facts)}")
        superseded = [torch for torch in known.torch if torch.nightly and asked == NEWEST]
        text = drop_rows(text, [nightly.version, *superseded])
        added += _write_release(nightly.version, nightly.facts)
    lines += labels.describe()
    text = labels.write(text or HEADER, str(file)) if any(labels) else text
    blank = "\n" if text and added else ""
    return CatalogNews(file, f"{text or HEADER}{blank}{added}".rstrip() + "\n", tuple(lines))


def _read_labels(runners: str, text: str, name: str, outside: Outside) -> RunnerNews:
    """Return what is new of GitHub's runners; nothing, with a line, where their list does not answer."""
    try:
        return find_new_labels(runners, text, name) if runners else RunnerNews((), {})
    except MachineError as error:
        outside.reporter.say(f"the labels of runners are left out: {error.message}")
        return RunnerNews((), {})


def write_updates(news: CatalogNews) -> None:
    """Write the new text of a catalog's file; nothing is written if there is nothing new."""
    if news.lines:
        with write_atomically(news.file) as sink:
            sink.write(news.text.encode())


def _table(catalog: Catalog, version: Minor) -> Mapping[str, Any]:
    releases: Iterable[Mapping[str, Any]] = catalog.tables[TORCH]["release"]
    return next((one for one in releases if one["version"] == str(version)), {})


class _Upstream:
    """Reads what upstream has published, and compares it with a catalog."""

    def __init__(self, known: Catalog, outside: Outside) -> None:
        self.known = known
        self.say = outside.reporter.say

    def read(self, main: Index, others: Sequence[Index]) -> dict[Minor, Facts]:
        """Return what is new of each torch from the catalog's oldest on."""
        with listing_of(TORCH, main) as listing:
            files = {file.filename: file for file in listing.files if not file.is_yanked}
            newest = _group_newest(filter(None, map(read_build, files)), min(self.known.torch))
            more = [build for other in others for build in _read_names(other)]
            found = {minor: self.release(minor, builds, more, files, listing) for minor, builds in newest.items()}
        self.note_unknown(found)
        return {minor: news for minor, news in found.items() if news}

    def release(
        self,
        minor: Minor,
        builds: Sequence[TorchBuild],
        more: Iterable[TorchBuild],
        files: Mapping[str, DistributionPackage],
        listing: Listing,
    ) -> Facts:
        """Return what is new of one torch, whose newest builds are on the package index."""
        known, version = _table(self.known, minor), builds[0].version
        published = self.known.torch[minor].headers if minor in self.known.torch else None
        is_new = published is None or version > type(version)(self.known.torch[minor].patch)
        same = [build for build in more if build.version == version]
        linux = [build for build in builds if build.host == LINUX]
        # Nobody has read the names of the release in the catalog: of its patch release, or of an older one.
        lacks_names = NAMES not in known and load_table().patches.get(known.get("version", "")) != known.get("patch")
        is_wanted = linux and (is_new or lacks_names)
        names = read_new_names(files[linux[0].file], listing, self.say) if is_wanted else {}  # it costs megabytes
        if not is_new:
            return {**find_news(known, gather_facts([*builds, *same])), **names}
        headers = choose_headers(builds, files, listing)
        if headers is None:
            self.say(f"torch {version} is left out: none of its wheels for macOS on arm64 has a sha256 on the index")
            return {}
        plain = {build.host: build for build in builds if build.host.startswith("linux-") and not build.cuda}
        told = [_read_cuda(build, files, listing) for build in plain.values()]  # their names say no accelerator
        facts = gather_facts([*builds, *told, *same])
        return {"patch": str(version), **find_news(known, facts), "headers": headers, **names}

    def note_unknown(self, found: Mapping[Minor, Facts]) -> None:
        """Say which CUDA and ROCm of new builds the catalog lacks, and of which torch it lacks the oneAPI."""
        for key, table in self.known.stacks.items():
            if not key.is_versioned:
                continue
            named = {one for facts in found.values() for versions in facts.get(key, {}).values() for one in versions}
            for version in sorted(map(Minor.parse, named)):
                if version > max(table):  # older ones upstream has given up
                    what = f"upstream builds torch for {key.named} {version}, which the catalog lacks"
                    self.say(f"{what}: write its row by hand, what it compiles for is in no metadata")
        for minor in sorted(minor for minor, facts in found.items() if "xpu" in facts):
            if minor not in self.known.torch or self.known.torch[minor].oneapi is None:
                self.say(f"upstream builds torch {minor} for XPU: write the `oneapi` that it requires by hand")


def _group_newest(builds: Iterable[TorchBuild], lowest: Minor) -> dict[Minor, list[TorchBuild]]:
    """Return the builds of the newest patch release of each torch from `lowest` on."""
    newest: dict[Minor, list[TorchBuild]] = {}
    for build in sorted(builds, key=lambda build: (build.version, build.file)):
        if build.minor >= lowest:
            kept = newest.setdefault(build.minor, [])
            if kept and kept[0].version != build.version:
                kept.clear()  # sorted: this one is newer
            kept.append(build)
    return newest


def _read_names(index: Index) -> Iterator[TorchBuild]:
    with listing_of(TORCH, index) as listing:
        names = [file.filename for file in listing.files if not file.is_yanked]
    yield from filter(None, map(read_build, names))


def _read_cuda(build: TorchBuild, files: Mapping[str, DistributionPackage], listing: Listing) -> TorchBuild:
    """Return a build with the CUDA version that the wheel says it is built for, read from a part of it."""
    try:
        with remote_wheel(listing.client.s, files[build.file].url, MAX_READ) as wheel:
            content = wheel.read(wheel.archive.getinfo(VERSION_FILE)) if VERSION_FILE in wheel.names else b""
    except (NoParts, TooLarge):
        return build
    said = BUILT_FOR.search(content.decode("utf-8", "replace"))
    return build._replace(cuda=Minor.parse(said[1])) if said else build


# ---------------------------------------------------------------- the file


def _write_release(version: Minor, news: Facts) -> str:
    """Return a row of a torch release as TOML."""
    kind = "nightly" if version.nightly else "release"
    lines = [f"[[torch.{kind}]]", f'version = "{version}"']
    lines += [f"{key} = {_write_value(value)}" for key, value in news.items() if not isinstance(value, dict)]
    for key, table in news.items():
        if isinstance(table, dict):
            lines.append(f"[torch.{kind}.{key}]")
            # A key has quotes unless it has only letters, digits, - and _.
            keys = {name: name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name) for name in table}
            lines += [f"{keys[name]} = {_write_value(value)}" for name, value in table.items()]
    return "\n".join(lines) + "\n\n"


def _write_value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_write_value, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _find_pythons(known: Catalog, found: Iterable[Facts]) -> list[str]:
    """Return the Pythons of new builds that are newer than all of the catalog."""
    have = {str(python) for python in known.pythons}
    named = {name for facts in found for names in facts.get("pythons", {}).values() for name in names}
    newest = max(python.version for python in known.pythons)
    return sorted(name for name in named - have if Minor.parse(name.removesuffix("t")) >= newest)


def _add_pythons(text: str, name: str, pythons: Sequence[str]) -> str:
    """Return the text of a catalog's file with more Pythons."""
    table = toml_file.find_table(text, name, ("python", "releases"))
    if table is None:
        return f"{text or HEADER}\n[python]\nreleases = {_write_value(list(pythons))}\n"
    found = PYTHONS.search(text)
    if found is None or not isinstance(table, list):
        msg = f"{name}: [python] is not written as its own table, add {', '.join(pythons)} to its releases by hand"
        raise InputError(msg)
    return text[: found.start(1)] + _write_value([*table, *pythons]) + text[found.end(1) :]


LABEL = re.compile(r"`((?:macos|ubuntu|windows|xcode)-[\w.-]+)`")
TABLE = re.compile(r"^\[runners\][ \t]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)
SOURCE: str = tables.read("runners")["source"]


class RunnerNews(NamedTuple):
    """Labels that GitHub lists now and a catalog lacks, and those that it lists no more, with the day of the look."""

    new: tuple[str, ...]
    gone: dict[str, str]

    def describe(self) -> Iterator[str]:
        """Yield a line for each label."""
        yield from (f"runner {label}" for label in self.new)
        yield from (f"runner {label}, which GitHub lists no more" for label in self.gone)

    def write(self, text: str, name: str) -> str:
        """Return the text of a catalog's file with these labels in its table [runners]."""
        known = _own(text, name)
        gone = {**known.get("gone", {}), **self.gone}
        labels = sorted({*known.get("labels", ()), *self.new} - set(gone))
        lines = ["[runners]", f"labels = {_write_value(labels)}"] + ["[runners.gone]"] * bool(gone)
        lines += [f"{_write_value(label)} = {_write_value(day)}" for label, day in gone.items()]
        rest = re.sub(r"^\[runners\.gone\][ \t]*\n(?:(?!\[)[^\n]*\n?)*", "", TABLE.sub("", text), flags=re.MULTILINE)
        return f"{rest.rstrip()}\n\n".lstrip() + "\n".join(lines) + "\n"


def _own(text: str, name: str) -> dict[str, Any]:
    table: Any = toml_file.find_table(text, name, ("runners",))
    return table if isinstance(table, dict) else {}


def find_new_labels(url: str, text: str, name: str) -> RunnerNews:
    """Return how a list of runners differs from the catalog with its file `text`; raise MachineError without a list."""
    with explain_unanswered(f"the list of runners {url}"), open_session() as session:
        page = (read_document(session, url) or b"").decode("utf-8", "replace")
    listed = {label for line in page.splitlines() if line.startswith("|") for label in LABEL.findall(line)}
    own, base = _own(text, name), tables.read("runners")
    leaving = {label for row in base["leaving"] for label in row["labels"]} | set(own.get("gone", {}))
    current = ({*base["labels"], *own.get("labels", ())}) - set(own.get("gone", {}))
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    gone = sorted(current - listed - leaving) if listed else []  # a page of another form says nothing of them
    return RunnerNews(tuple(sorted(listed - current - leaving)), dict.fromkeys(gone, today))
