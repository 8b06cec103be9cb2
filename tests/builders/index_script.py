"""An index script of the shape that the PyTorch bucket has: it lists all there is and writes every page anew.

It does what pytorch/test-infra's `s3_management/manage.py` was seen to do, and is written without its code:

- A file counts by its ending and by the start of its folder's name: `whl/cu130`, and `whl/cpu-cxx11-abi` and
  `whl/cu130/demo` as well. A `.json` counts too, so that `whl/cu130/demo/index.json` makes a folder of `whl/cu130/demo`
  and a front page in the place of the project's page (theirs by chance, in the order of a set; here always).
- Each folder lists its own files and those at the root, the root lists all.
- A page is put without a condition, and its content is what the bucket had when the script looked.
- A wheel's hash is the object's checksum, or its metadata `checksum-sha256`; without them, and below `whl/nightly`,
  its link has none. A `.metadata` without a checksum stops the script, before it has written anything.
- `whl/nightly` shows 60 versions of each project that the script knows by name, and no other project.
- The front page lists projects that have a page and no wheel. Their pages stay as they are.

`python -m tests.builders.index_script --endpoint URL --bucket B --prefix whl` writes a bucket's pages, with `--folder`
those of a folder. Between the two steps, `look` and `write`, tests can do something else.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import boto3
from botocore.config import Config
from packaging.version import InvalidVersion, Version

ENDINGS = (".whl", ".zip", ".tar.gz", ".json")
FOLDERS = re.compile(r"cu[0-9]+|rocm[0-9]+\.[0-9]+|cpu|xpu")  # how the name of a folder starts
NIGHTLY = "whl/nightly"
NIGHTLIES = 60  # versions that are shown of each project
ALLOWED = frozenset({"demo", "torch", "torchao", "triton"})  # projects, as file names spell them


class Seen(NamedTuple):
    """A file as the script found it."""

    key: str
    sha256: str  # empty where nothing says it
    metadata_sha256: str  # empty where no `.metadata` lies beside it

    @property
    def name(self) -> str:
        """Its file name."""
        return self.key.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """Where it lies."""
        return self.key.rpartition("/")[0]

    @property
    def project(self) -> str:
        """What it is a file of: no more is read than its name."""
        return self.name.partition("-")[0].lower()

    @property
    def version(self) -> str:
        """Its version without the local part, and with nothing that follows it."""
        return re.sub(r"\+.*", "", "-".join(self.name.split("-")[1:2]))


class Sight(NamedTuple):
    """What the script has looked at: every folder, and the files that are to be shown."""

    folders: tuple[str, ...]
    files: tuple[Seen, ...]


class Place(Protocol):
    """Where files and pages lie."""

    def keys(self, prefix: str) -> Iterable[str]:
        """Return every key that starts so."""

    def sha256(self, key: str) -> str:
        """Return what is known of a file's sha256 without reading it, or nothing."""

    def put(self, key: str, page: str) -> None:
        """Write a page, whatever is there."""


class BucketPlace:
    """Buckets of the same content: the first one is read, all of them are written."""

    def __init__(self, client: Any, *buckets: str) -> None:  # noqa: ANN401 - boto3 makes its types at run time
        self.client, self.buckets = client, buckets

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts so."""
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.buckets[0], Prefix=prefix):
            yield from (entry["Key"] for entry in page.get("Contents", ()))

    def sha256(self, key: str) -> str:
        """Return the checksum that the bucket has of an object whole, or the one that its uploader has noted."""
        answer = self.client.head_object(Bucket=self.buckets[0], Key=key, ChecksumMode="ENABLED")
        checksum = answer.get("ChecksumSHA256", "")
        if checksum and "-" not in checksum:  # that of an upload in parts is a checksum of checksums
            return base64.b64decode(checksum).hex()
        return str(answer.get("Metadata", {}).get("checksum-sha256", ""))

    def put(self, key: str, page: str) -> None:
        """Write a page in every bucket."""
        cache = "no-cache,no-store,must-revalidate"
        for bucket in self.buckets:
            self.client.put_object(
                Bucket=bucket, Key=key, Body=page.encode(), ContentType="text/html", CacheControl=cache
            )


class FolderPlace:
    """A folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield every file that starts so."""
        found = (path.relative_to(self.root).as_posix() for path in sorted(self.root.rglob("*")) if path.is_file())
        return (key for key in found if key.startswith(prefix))

    def sha256(self, key: str) -> str:
        """Return a file's sha256."""
        return hashlib.sha256((self.root / key).read_bytes()).hexdigest()

    def put(self, key: str, page: str) -> None:
        """Write a page; who reads meanwhile sees half of it."""
        (self.root / key).parent.mkdir(parents=True, exist_ok=True)
        (self.root / key).write_text(page)


# ---------------------------------------------------------------- what it looks at


def look(place: Place, prefix: str) -> Sight:
    """Return what the pages below a prefix are to name."""
    keys = list(place.keys(_slash(prefix)))
    there = frozenset(keys)
    seen = [Seen(key, "", "") for key in keys if _counts(key, prefix)]
    folders = tuple(sorted({prefix, *(one.folder for one in seen)}))
    shown = sorted(_newest(seen) if prefix == NIGHTLY else seen)
    return Sight(folders, tuple(_with_hashes(place, one, there) for one in shown))


def _with_hashes(place: Place, seen: Seen, there: frozenset[str]) -> Seen:
    sha256 = "" if seen.key.startswith(_slash(NIGHTLY)) else place.sha256(seen.key)
    return seen._replace(sha256=sha256, metadata_sha256=_metadata(place, f"{seen.key}.metadata", there))


def _counts(key: str, prefix: str) -> bool:
    folder = key.rpartition("/")[0]
    return key.endswith(ENDINGS) and (
        folder == prefix or FOLDERS.match(folder.removeprefix(_slash(prefix))) is not None
    )


def _metadata(place: Place, key: str, there: frozenset[str]) -> str:
    if key not in there:
        return ""
    if sha256 := place.sha256(key):
        return sha256
    raise LookupError(f"{key} has no checksum")


def _newest(seen: Iterable[Seen]) -> list[Seen]:
    """Return the files of the newest versions of projects that are known by name."""
    known = [one for one in seen if one.project in ALLOWED]
    versions = sorted({(one.project, one.version) for one in known}, key=lambda one: _order(one[1]), reverse=True)
    count: Counter[str] = Counter()
    kept = set()
    for project, version in versions:
        count[project] += 1
        if count[project] <= NIGHTLIES:
            kept.add((project, version))
    return [one for one in known if (one.project, one.version) in kept]


def _order(version: str) -> Version:
    try:
        return Version(version)
    except InvalidVersion:
        return Version("0")


# ---------------------------------------------------------------- what it writes


def write(place: Place, prefix: str, sight: Sight, mount: str = "/") -> None:
    """Write the pages of every folder; a link starts with `mount`, where the place's own root is served."""
    for folder in sight.folders:
        own = [one for one in sight.files if one.folder == prefix or one.key.startswith(_slash(folder))]
        projects = {one.project for one in own}
        place.put(f"{_slash(folder)}index.html", _front(projects | _with_a_page_only(place, folder, projects)))
        for project in sorted(projects):
            files = [one for one in own if one.project == project]
            place.put(f"{_slash(folder)}{_dashed(project)}/index.html", _page(project, files, mount))


def _with_a_page_only(place: Place, folder: str, projects: set[str]) -> set[str]:
    parts = (key.removeprefix(_slash(folder)).split("/") for key in place.keys(_slash(folder)))
    named = {part[0].replace("-", "_") for part in parts if len(part) == len(("project", "page")) and _is_page(part)}
    return {name for name in named if name.lower() not in projects}


def _is_page(parts: list[str]) -> bool:
    return parts[-1] == "index.html"


def _front(projects: Iterable[str]) -> str:
    return _whole([f'    <a href="{_dashed(name).lower()}/">{_dashed(name)}</a><br/>' for name in sorted(projects)])


def _page(project: str, files: Iterable[Seen], mount: str) -> str:
    return _whole([f"    <h1>Links for {_dashed(project)}</h1>", *(_link(file, mount) for file in sorted(files))])


def _link(file: Seen, mount: str) -> str:
    fragment = f"#sha256={file.sha256}" if file.sha256 else ""
    names = ("data-dist-info-metadata", "data-core-metadata") if file.metadata_sha256 else ()
    attributes = "".join(f' {name}="sha256={file.metadata_sha256}"' for name in names)
    return f'    <a href="{mount}{quote(file.key)}{fragment}"{attributes}>{html.escape(file.name)}</a><br/>'


def _whole(rows: list[str]) -> str:
    head, foot = ["<!DOCTYPE html>", "<html>", "  <body>"], ["  </body>", "</html>"]
    return "\n".join([*head, *rows, *foot, f"<!--TIMESTAMP {int(time.time())}-->"])


def _dashed(project: str) -> str:
    return project.replace("_", "-")


def _slash(folder: str) -> str:
    return f"{folder}/" if folder else ""


def update(place: Place, prefix: str, mount: str = "/", between: Callable[[], None] = lambda: None) -> None:
    """Look, do what a test does between, and write."""
    sight = look(place, prefix)
    between()
    write(place, prefix, sight, mount)


def main() -> None:
    """Write the pages of a bucket or a folder once, or until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.builders.index_script")
    parser.add_argument("--endpoint", help="the S3 server's address")
    parser.add_argument("--bucket", action="append", help="a bucket; a second one gets the same pages")
    parser.add_argument("--folder", type=Path, help="a folder in the place of a bucket")
    parser.add_argument("--prefix", default="whl", help="the index below it, nothing for the whole of it")
    parser.add_argument("--mount", default="/", help="what links start with")
    parser.add_argument("--forever", action="store_true", help="do it again and again")
    given = parser.parse_args()
    place = FolderPlace(given.folder) if given.folder else BucketPlace(_client(given.endpoint), *given.bucket)
    update(place, given.prefix, given.mount)
    while given.forever:
        update(place, given.prefix, given.mount)


def _client(endpoint: str) -> Any:  # noqa: ANN401 - boto3 makes its types at run time
    """Return a client with the credentials of the environment."""
    region = os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
    return boto3.client("s3", endpoint_url=endpoint, region_name=region, config=Config(s3={"addressing_style": "path"}))


if __name__ == "__main__":
    main()
