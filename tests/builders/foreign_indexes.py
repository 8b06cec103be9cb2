"""Indexes that other people's tools have written, for tests: s3pypi's, dumb-pypi's, an index script's, and by hand.

Each is a real tree of small wheels. `listed` reads any of them as installers do, from its pages alone; `lost` says what
was listed before and is not any more.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import subprocess
import sys
import urllib.request
import zipfile
from contextlib import contextmanager
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urljoin, urlsplit

from packaging.utils import canonicalize_name
from pypi_simple import ProjectPage, RepositoryPage

from ci_tools.machine.storage import cache_folder, fill_once
from tests.builders.wheels import hexdigest, make, members_of
from tests.servers.buckets import BUCKET, CREDENTIALS, NO_PROXY
from tests.servers.prepared import Other, run_prepared
from tests.servers.threads import serve
from tests.servers.uploads import UV, sdist

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from email.message import Message
    from pathlib import Path

    from tests.servers.buckets import Bucket

PEERS = ("dumb-pypi==1.15.0", "s3pypi==2.0.1")
TYPES = {".html": "text/html", ".json": "application/vnd.pypi.simple.v1+json"}
HANDED_ON = ("Content-Type", "Content-Range", "ETag", "Last-Modified")


def peer(program: str) -> Path:
    """Return a program of a peer, installed into the user's cache once; raise LookupError where it cannot be had."""

    def fill(folder: Path) -> None:
        subprocess.run([UV, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(folder)], check=True)
        install = [UV, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *PEERS]
        subprocess.run(install, check=True)

    folder = cache_folder(os.environ) / "servers" / "indexers"
    if not folder.is_dir():  # its own compiled modules are written into it later, no seal stays true
        try:
            fill_once(folder, fill, print)
        except subprocess.CalledProcessError as error:
            msg = f"{' and '.join(PEERS)} cannot be installed: {error}"
            raise LookupError(msg) from None
    return folder / "bin" / program


def _run_peer(program: str, words: Iterable[str | Path], variables: Mapping[str, str]) -> None:
    """Run a peer's program, forked from one that has started."""
    python = peer(program).with_name("python")
    peers = Other("tests.servers.peers_program", python, python.parents[1])
    done = run_prepared([program, *map(str, words)], env={**os.environ, **variables}, program=peers)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- s3pypi


def s3pypi_upload(
    bucket: Bucket, prefix: str, wheels: Iterable[Path], *, put_root_index: bool = True, index_html: bool = False
) -> None:
    """Upload with the real s3pypi, whose pages lie at keys that end with a slash, or are called `index.html`."""
    options = ["--put-root-index"] * put_root_index + ["--index.html"] * index_html
    words: list[str | Path] = ["upload", *wheels, "--bucket", BUCKET, "--prefix", prefix, *options]
    # The endpoint is that of its locks as well.
    _run_peer("s3pypi", words, {**CREDENTIALS, **NO_PROXY, "AWS_ENDPOINT_URL": bucket.endpoint})


# ---------------------------------------------------------------- dumb-pypi


def dumb_pypi_build(out: Path, pool: Path, *, details: bool = False, yanked: Mapping[str, str] | None = None) -> Path:
    """Write pages for the files of a pool with the real dumb-pypi, and return the folder that is the index.

    A pool at `out/pool` makes a tree that can be served whole. With `details` dumb-pypi is told of hashes,
    requires-python, metadata and yanks (a reason for each file name), without them of file names alone.
    """
    files = sorted(path for path in pool.iterdir() if not path.name.endswith(".metadata"))
    told = [_described(file, yanked or {}) if details else file.name for file in files]
    option, names = ("--package-list-json" if details else "--package-list"), out.with_name(f"{out.name}.list")
    names.write_text("".join(f"{line}\n" for line in told))
    url = f"../../{os.path.relpath(pool, out)}"
    _run_peer("dumb-pypi", [option, names, "--output-dir", out, "--packages-url", url], {})
    return out / "simple"


def _described(file: Path, yanked: Mapping[str, str]) -> str:
    """Return what dumb-pypi is told of a file; METADATA of a wheel is laid beside it."""
    entry: dict[str, object] = {"filename": file.name, "hash": f"sha256={hexdigest(file)}", "upload_timestamp": 10**9}
    entry["yanked_reason"] = yanked.get(file.name)
    if file.suffix == ".whl":
        beside = lay_metadata(file)
        entry["core_metadata"] = f"sha256={hexdigest(beside)}"
        entry["requires_python"] = message_from_bytes(beside.read_bytes())["Requires-Python"]
    return json.dumps(entry)


def lay_metadata(wheel: Path) -> Path:
    """Write the METADATA of a wheel beside it (PEP 658)."""
    members = members_of(wheel)
    beside = wheel.with_name(f"{wheel.name}.metadata")
    beside.write_bytes(next(data for name, data in members.items() if name.endswith(".dist-info/METADATA")))
    return beside


def upload_tree(bucket: Bucket, prefix: str, folder: Path) -> None:
    """Put every file of a folder into a bucket, as `aws s3 sync` does."""
    client = bucket.client()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        key = f"{prefix}/{path.relative_to(folder).as_posix()}"
        kind = TYPES.get(path.suffix, "binary/octet-stream")
        client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes(), ContentType=kind)


# ---------------------------------------------------------------- the PyTorch bucket


def upload_wheels(bucket: Bucket, folder: str, wheels: Iterable[Path], *, noted: bool = True) -> None:
    """Put wheels as pytorch/test-infra's workflows do: `noted` with their sha256, and with METADATA beside them."""
    client = bucket.client()
    for wheel in wheels:
        key, metadata = f"{folder}/{wheel.name}", {"checksum-sha256": hexdigest(wheel)}
        client.put_object(Bucket=BUCKET, Key=key, Body=wheel.read_bytes(), Metadata=metadata if noted else {})
        if noted:
            beside = lay_metadata(wheel).read_bytes()
            client.put_object(Bucket=BUCKET, Key=f"{key}.metadata", Body=beside, ChecksumAlgorithm="SHA256")


# ---------------------------------------------------------------- a bucket's site


@contextmanager
def website(bucket: Bucket) -> Iterator[str]:
    """Serve a bucket as a site: its root is the host's, a folder answers with its `index.html`, and `+` is a space."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path.replace("+", " "))
            status, headers, body = _object(bucket, path + "index.html" * path.endswith("/"), self)
            if status == http.client.NOT_FOUND and not path.endswith("/"):
                status, headers, body = _moved(bucket, path) or (status, headers, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_HEAD = do_GET  # noqa: N815 - the base class looks for methods of such names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Say nothing."""

    with serve(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def _object(bucket: Bucket, path: str, asked: BaseHTTPRequestHandler | None) -> tuple[int, dict[str, str], bytes]:
    ranges = asked.headers.get("Range") if asked else None
    request = urllib.request.Request(bucket.url(quote(path.lstrip("/"))), headers={"Range": ranges} if ranges else {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, _handed_on(answer.headers), answer.read()
    except HTTPError as error:
        with error:
            return error.code, {}, b""


def _handed_on(headers: Message) -> dict[str, str]:
    return {"Accept-Ranges": "bytes", **{name: headers[name] for name in HANDED_ON if headers[name]}}


def _moved(bucket: Bucket, path: str) -> tuple[int, dict[str, str], bytes] | None:
    """Return the answer that sends a reader to a folder."""
    status, _, _ = _object(bucket, f"{path}/index.html", None)
    return (http.client.FOUND, {"Location": quote(f"{path}/")}, b"") if status == http.client.OK else None


# ---------------------------------------------------------------- a tree made by hand

ROOT_PAGE = """\
<html><head><title>Our wheels</title></head>
<body bgcolor=white>
<h1>Wheels of the lab</h1>
<p>Install with <code>pip install -i https://wheels.example.org/ demo</code>, questions to
<a href="mailto:jo@example.org">Jo</a>. There is also a <A HREF='https://example.org/'>home page</A>.
<!-- <a href="secret/">secret</a> not yet -->
<ul>
<li><a href="demo/">Demo</a>
<li><a href="under-score/">Under_Score</a>
<li><a href='dot-ted/index.html'>Dot.Ted</a>
<li><a href="Old_Style/">Old_Style</a>
<li><a href="based/">based</a>
<li><a href="cu118/">CUDA 11.8</a>, <a href="cu121/">CUDA 12.1</a>
</ul>
<p>The new ABI:
<a href="cpu-cxx11-abi/abi-1.0%2Bcpu.cxx11.abi-py3-none-any.whl"
  >cpu-cxx11-abi/abi-1.0+cpu.cxx11.abi-py3-none-any.whl</a>
</body></html>
"""
DEMO_PAGE = """\
<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>demo</title></head><body>
<h1 id="top">demo</h1>
<p>Versions below 0.9 are <b>not</b> maintained. Read the <a href="manual.pdf">manual</a> first,
or go <a href="../">back</a>, or <a href="#top">up</a>.</p>
<!-- <a href="demo-9.9-py3-none-any.whl">demo-9.9-py3-none-any.whl</a> -->
<a href="demo-0.6-py2.7.egg">demo-0.6-py2.7.egg</a><br/>
<a href="demo-0.6.win32.exe">demo-0.6.win32.exe</a><br/>
<a href="demo-0.7.zip">demo-0.7.zip</a> no hash<br/>
<a href="demo-0.8.tar.gz#md5={md5}">demo-0.8.tar.gz</a><br/>
<A HREF='../files/Demo-0.9-py3-none-any.whl#sha256={upper}'>Demo 0.9 (wheel)</A><br/>
<a href="{mount}/files/demo-1.0-py3-none-any.whl#sha256={absolute}" data-requires-python="&gt;=3.8,&lt;4"
   data-gpg-sig="true">demo-1.0-py3-none-any.whl</a><br/>
<a href="{elsewhere}/demo-1.1-py3-none-any.whl#sha256={other}">demo-1.1-py3-none-any.whl</a> at our other host<br/>
<a href="./demo-1.2-py3-none-any.whl?download=1#sha256={yanked}" data-yanked="crashes on &lt;3.9 &amp; loses data"
  >demo-1.2-py3-none-any.whl</a><br/>
<a href=demo-1.0.post1+local-py3-none-any.whl>demo-1.0.post1+local-py3-none-any.whl</a>
</body></html>
"""
BASED_PAGE = """\
<html><head><base href="{elsewhere}/"></head><body>
<a href="based-1.0-py3-none-any.whl">based-1.0-py3-none-any.whl</a></body></html>
"""
LISTING = "<html><body>\n{links}\n</body></html>\n"


def by_hand(root: Path, elsewhere: Path, address: str = "http://127.0.0.1:9", mount: str = "") -> Path:
    """Write a tree as a person does over the years; `elsewhere` is served at `address`, the tree at `mount`."""
    made = {
        name: _own(root / folder, name)
        for folder, name in {
            "demo": "demo-1.2-py3-none-any.whl",
            "under-score": "under_score-1.0-py3-none-any.whl",
            "dot-ted": "Dot.Ted-1.0-py3-none-any.whl",
            "Old_Style": "Old_Style-1.0-py3-none-any.whl",
            "cpu-cxx11-abi": "abi-1.0+cpu.cxx11.abi-py3-none-any.whl",
        }.items()
    }
    made |= {name: _own(root / "files", name) for name in ("Demo-0.9-py3-none-any.whl", "demo-1.0-py3-none-any.whl")}
    made["demo-1.1-py3-none-any.whl"] = _own(elsewhere, "demo-1.1-py3-none-any.whl")
    _own(elsewhere, "based-1.0-py3-none-any.whl")
    _own(root / "demo", "demo-1.0.post1+local-py3-none-any.whl")
    _old_files(root / "demo")
    hashes = {
        "md5": hashlib.md5((root / "demo" / "demo-0.8.tar.gz").read_bytes()).hexdigest(),  # noqa: S324 - as pages did
        "upper": hexdigest(made["Demo-0.9-py3-none-any.whl"]),
        "absolute": hexdigest(made["demo-1.0-py3-none-any.whl"]),
        "other": hexdigest(made["demo-1.1-py3-none-any.whl"]),
        "yanked": hexdigest(made["demo-1.2-py3-none-any.whl"]),
    }
    _page(root, ROOT_PAGE)
    _page(root / "demo", DEMO_PAGE.format(mount=mount, elsewhere=address, **hashes))
    _page(root / "based", BASED_PAGE.format(elsewhere=address))
    for folder in ("under-score", "dot-ted", "Old_Style"):
        _list(root / folder)
    for folder in ("cu118", "cu121"):
        _twins(root / folder)
    return root


def _old_files(folder: Path) -> None:
    """Write what no installer takes, or only takes where there is no wheel."""
    sdist(folder, "demo-0.8.tar.gz")
    with zipfile.ZipFile(folder / "demo-0.7.zip", "w") as archive:
        archive.writestr("demo-0.7/PKG-INFO", "Metadata-Version: 1.0\nName: demo\nVersion: 0.7\n")
        archive.writestr("demo-0.7/setup.py", "from setuptools import setup\nsetup(name='demo', version='0.7')\n")
    for name, data in {"demo-0.6-py2.7.egg": b"PK\5\6", "demo-0.6.win32.exe": b"MZ", "manual.pdf": b"%PDF-1.4"}.items():
        (folder / name).write_bytes(data)


def _twins(folder: Path) -> None:
    """Write an accelerator's index, with a wheel called as another accelerator's is, and a page of each sort."""
    wheel = _own(folder / "twins", "twins-1.0-py3-none-any.whl", folder.name)
    _page(folder, LISTING.format(links='<a href="twins/">twins</a>'))
    _list(folder / "twins")
    file = {"filename": wheel.name, "url": wheel.name, "hashes": {"sha256": hexdigest(wheel)}, "yanked": False}
    document = {"meta": {"api-version": "1.0"}, "name": "twins", "files": [file]}
    (folder / "twins" / "index.json").write_text(json.dumps(document))


def find_links(folder: Path) -> Path:
    """Write a folder of files with no page at all."""
    for name in ("demo-1.0-py3-none-any.whl", "demo-1.1+cu118-py3-none-any.whl", "Under_Score-1.0-py3-none-any.whl"):
        _own(folder, name)
    sdist(folder, "demo-0.8.tar.gz")
    return folder


def _own(folder: Path, name: str, word: str = "by hand") -> Path:
    """Make a wheel whose package says where it is from."""
    project = canonicalize_name(name.partition("-")[0]).replace("-", "_")
    return make(folder, name, {f"{project}.py": f"where = {f'{word}: {name}'!r}\n".encode()})


def _list(folder: Path) -> None:
    """Write a page of links to what lies in a folder, without hashes."""
    files = sorted(path.name for path in folder.iterdir() if path.suffix == ".whl")
    _page(folder, LISTING.format(links="\n".join(f'<a href="{quote(name)}">{name}</a><br>' for name in files)))


def _page(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(text)


# ---------------------------------------------------------------- what an index lists


class Link(NamedTuple):
    """What a page says of a file: its address, and its sha256 or nothing."""

    url: str
    sha256: str


Listed = dict[tuple[str, str], Link]  # by the page, from the index's root on, and the file's name


def listed(root: str, *folders: str, projects: Iterable[str] = ()) -> Listed:
    """Return every file that the pages of an index name, in its root and in some folders, read as an installer does.

    `projects` are those of pages that no front page names. A page may name a file once. Addresses on the index's own
    host are told from its root on, so that another server of the same index tells the same.
    """
    found: Listed = {}
    for page, name, link in _links(root.rstrip("/") + "/", ("", *folders), tuple(projects)):
        assert (page, name) not in found, f"{page or 'the front page'} names {name} twice"
        found[page, name] = link
    return found


def lost(before: Listed, after: Listed) -> list[str]:
    """Return what was listed and is not any more, at the same address and with the same hash."""
    return sorted(
        f"{page}: {name} was {link}, is {after.get((page, name), 'gone')}"
        for (page, name), link in before.items()
        if (page, name) not in after or not _is_same(link, after[page, name])
    )


def _is_same(before: Link, after: Link) -> bool:
    """Whether two links lead to one file; a hash may be told where none was."""
    return before.url == after.url and before.sha256 in {"", after.sha256}


def listed_in_json(root: str, page: str) -> Mapping[str, Link]:
    """Return what the PEP 691 document beside a page names."""
    url = urljoin(root.rstrip("/") + "/", f"{page}index.json")
    with urllib.request.urlopen(url) as answer:
        packages = ProjectPage.from_json_data(json.load(answer), url).packages
    return {package.filename: Link(_told(package.url, root), package.digests.get("sha256", "")) for package in packages}


def _links(root: str, folders: Sequence[str], projects: Sequence[str]) -> Iterator[tuple[str, str, Link]]:
    for folder in folders:
        front = urljoin(root, f"{folder}/" if folder else "")
        links = _read(front)
        yield from _files(root, front, links)
        pages = {front + f"{canonicalize_name(name)}/" for name in projects}
        pages |= {page for url in links if (page := _as_page(url)) and _is_below(page, front, root, folders)}
        for page in sorted(pages):
            yield from _files(root, page, _read(page))


def _read(url: str) -> dict[str, str]:
    """Return the links of a page, each with what follows `#`; none where there is no page."""
    try:
        with urllib.request.urlopen(url) as answer:
            links = RepositoryPage.from_html(answer.read(), url, "utf-8").links
    except HTTPError as error:
        with error:
            return {}
    assert len(links) == len({link.url for link in links}), f"{url} has a link twice"
    return {address: fragment for link in links for address, _, fragment in [link.url.partition("#")]}


def _files(root: str, page: str, links: Mapping[str, str]) -> Iterator[tuple[str, str, Link]]:
    for url, fragment in links.items():
        name = unquote(urlsplit(url).path.rpartition("/")[2])
        if name and not _as_page(url) and urlsplit(url).scheme.startswith("http"):
            kind, _, digest = fragment.partition("=")
            yield page.removeprefix(root), name, Link(_told(url, root), digest if kind == "sha256" else "")


def _as_page(url: str) -> str:
    """Return the page that a link leads to, or nothing where it leads to a file."""
    path = url.partition("?")[0].removesuffix("index.html")
    return path if path.endswith("/") else ""


def _is_below(page: str, front: str, root: str, folders: Sequence[str]) -> bool:
    """Whether a page is one of a project, and not of the folder, of a folder below it, or of somebody else."""
    others = {urljoin(root, f"{folder}/") for folder in folders}
    return page.startswith(front) and page not in {front, *others}


def _told(url: str, root: str) -> str:
    """Return an address as one and the same, however it is spelled and wherever the index is served."""
    parts, own = urlsplit(url), urlsplit(root)
    path = unquote(parts.path)
    return path if parts.netloc == own.netloc else f"{parts.scheme}://{parts.netloc}{path}"
