"""An index that a person has written over the years, with all that such pages have."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from urllib.parse import quote

from packaging.utils import canonicalize_name

from tests.builders.wheels import hexdigest, make
from tests.servers.uploads import sdist

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
