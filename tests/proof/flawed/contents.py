"""Flawed members: what should not be in a wheel, lies in the wrong place, or is not what its name says."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from tests.proof.flawed.drafts import ENTRY_POINTS, FIELDS, INFO, METADATA, Kind, draft

DATA = "demo-1.0.data"
KEY = b"-----BEGIN RSA PRIVATE KEY-----\n" + base64.b64encode(bytes(range(200))) + b"\n-----END RSA PRIVATE KEY-----\n"
# Of the form of each provider's tokens, and nobody's.
TOKENS = {
    "pypi": b"pypi-AgEIcHlwaS5vcmc" + b"CJDAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAwMAACKlszLCJ" * 2,
    "github": b"ghp_" + b"aB3dE5gH7jK9" * 3,
    "github-fine": b"github_pat_" + b"11ABCDEFG0" * 2 + b"ab_" + b"aB3dE5gH7jK9" * 5,
    "github-app": b"ghs_" + b"aB3dE5gH7jK9" * 3,
    "gitlab": b"glpat-" + b"aB3dE5gH7jK9xYz01234",
    "aws": b"AKIA" + b"Q3EGRW2KJ7LMN5PT",
    "slack": b"xoxb-270461938502-518290374610-" + b"aB3dE5gH7jK9aB3dE5gH7jK9",
    "hugging-face": b"hf_" + b"aBcDeFgHiJ" * 3 + b"kLmN",
    "openai": b"sk-proj-" + b"aB3dE5gH7jK9" * 6,
    "google": b"AIza" + b"SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "npm": b"npm_" + b"aB3dE5gH7jK9" * 3,
    "stripe": b"sk_live_" + b"aB3dE5gH7jK9" * 2,
}


def added(files: Mapping[str, bytes | None], imports: str = "demo") -> Kind:
    return Kind(draft(files).write, imports)


def of_top(files: Mapping[str, bytes]) -> Kind:
    """A wheel without the usual package."""
    return Kind(draft({"demo/__init__.py": None, **files}).write, "")


LIBRARY = {
    "nothing": of_top({}),
    "only-a-script": of_top({f"{DATA}/scripts/demo": b"#!python\n"}),
    "only-data": of_top({f"{DATA}/data/share/demo.txt": b"x"}),
    "top-src": of_top({"src/demo/__init__.py": b""}),
    "top-lib": of_top({"lib/demo/__init__.py": b""}),
    "top-tests": added({"tests/__init__.py": b"", "tests/test_a.py": b""}),
    "top-docs": added({"docs/conf.py": b""}),
    "top-scripts": added({"scripts/run.py": b""}),
    "top-examples": added({"examples/a.py": b""}),
    "top-build": added({"build/lib/demo/__init__.py": b""}),
    "top-dist": added({"dist/a.txt": b""}),
    "top-benchmarks": added({"benchmarks/a.py": b""}),
    "top-tools": added({"tools/a.py": b""}),
    "top-utils": added({"utils/__init__.py": b""}),
    "top-setup": added({"setup.py": b""}),
    "top-conftest": added({"conftest.py": b""}),
    "top-init": added({"__init__.py": b""}),
    "top-main": added({"__main__.py": b""}),
    "top-licence": added({"LICENSE": b"MIT"}),
    "top-readme": added({"README.md": b"x"}),
    "top-pyproject": added({"pyproject.toml": b""}),
    "top-two": added({"other/__init__.py": b""}),
    "top-data-folder": added({"demo_data/a.json": b"{}"}),
    "top-standard-library": added({"json/__init__.py": b""}),
    "top-standard-module": added({"typing.py": b""}),
    "top-of-torch": added({"torch/extra.py": b""}),
    "top-of-numpy": added({"numpy/__init__.py": b""}),
    "top-of-pip": added({"pip/__init__.py": b""}),
    "top-not-importable": added({"de-mo/__init__.py": b""}),
    "top-keyword": added({"class/__init__.py": b""}),
    "torch-through-data": added({f"{DATA}/data/lib/python3.11/site-packages/torch/extra.py": b""}),
    "torch-through-purelib": added({f"{DATA}/platlib/torch/extra.py": b""}),
    "data-over-python": added({f"{DATA}/data/bin/python": b"#!/bin/sh\n"}),
    "data-over-pip": added({f"{DATA}/data/bin/pip": b"#!/bin/sh\n"}),
    "data-over-pyvenv": added({f"{DATA}/data/pyvenv.cfg": b"home = /tmp\n"}),
    "data-into-etc": added({f"{DATA}/data/etc/demo.conf": b"x"}),
    "script-pip": added({f"{DATA}/scripts/pip": b"#!python\n"}),
    "script-python3": added({f"{DATA}/scripts/python3": b"#!/bin/sh\n"}),
    "script-activate": added({f"{DATA}/scripts/activate": b"#!/bin/sh\n"}),
    "script-shebang-home": added({f"{DATA}/scripts/run": b"#!/home/me/venv/bin/python\n"}),
    "script-shebang-build": added({f"{DATA}/scripts/run": b"#!/opt/python/cp311-cp311/bin/python\n"}),
    "script-shebang-crlf": added({f"{DATA}/scripts/run": b"#!/bin/sh\r\n"}),
    "script-no-shebang": added({f"{DATA}/scripts/run": b"print()\n"}),
    "startup-sitecustomize": added({"sitecustomize.py": b"import demo\n"}),
    "startup-usercustomize": added({"usercustomize.py": b"import demo\n"}),
    "startup-sitecustomize-package": added({"sitecustomize/__init__.py": b"import demo\n"}),
    "startup-pth": added({"demo.pth": b"import demo\n"}),
    "startup-pth-veiled": added({"demo.pth": b"import base64; exec(base64.b64decode(b'cHJpbnQoMSk='))\n"}),
    "startup-pth-veiled-chr": added({"demo.pth": b"import os; exec(''.join(map(chr, [112, 114])))\n"}),
    "startup-pth-path": added({"demo.pth": b"/home/me/src\n"}),
    "startup-pth-in-data": added({f"{DATA}/purelib/demo.pth": b"import demo\n"}),
    "startup-start-file": added({"demo.start": b"demo:main\n"}),
}
LEFT = {
    "pyc": added({"demo/a.pyc": b"\xa7\x0d\x0d\x0a" + bytes(12)}),
    "pyc-cache": added({"demo/__pycache__/a.cpython-311.pyc": b"\xa7\x0d\x0d\x0a" + bytes(12)}),
    "pyo": added({"demo/a.pyo": b""}),
    "git": added({"demo/.git/config": b"x"}),
    "gitignore": added({"demo/.gitignore": b"x"}),
    "github": added({"demo/.github/a.yml": b"x"}),
    "editor": added({"demo/.idea/a.xml": b"x"}),
    "editor-swap": added({"demo/.a.py.swp": b"x"}),
    "finder": added({"demo/.DS_Store": b"x"}),
    "travis": added({"demo/.travis.yml": b"x"}),
    "notebook-checkpoints": added({"demo/.ipynb_checkpoints/a.ipynb": b"{}"}),
    "backup": added({"demo/__init__.py~": b"x"}),
    "orig": added({"demo/a.py.orig": b"x"}),
    "object": added({"demo/a.o": b"\x7fELF\2\1\1" + bytes(60)}),
    "core": added({"demo/core": b"x"}),
    "nested-wheel": added({"demo/other-1.0-py3-none-any.whl": b"x"}),
    "nested-venv": added({"demo/venv/pyvenv.cfg": b"home = /usr/bin\n"}),
    "record-of-egg": added({f"{INFO}/SOURCES.txt": b"x"}),
    "direct-url": added({f"{INFO}/direct_url.json": b'{"url": "file:///home/me/demo", "dir_info": {}}'}),
    "installer": added({f"{INFO}/INSTALLER": b"pip\n"}),
    "requested": added({f"{INFO}/REQUESTED": b""}),
    "same-file-twice": added({"demo/a.txt": b"same" * 99, "demo/b.txt": b"same" * 99}),
    "two-extensions-of-one-kind": added({"demo/a.yml": b"a: 1\n", "demo/b.yaml": b"a: 1\n"}),
    "many-files": added({f"demo/data/{number}.txt": str(number).encode() for number in range(2100)}),
    "no-py-typed": added({"demo/a.pyi": b""}),
    "env-file": added({"demo/.env": b"DATABASE_PASSWORD=hunter22hunter22\n"}),
    "netrc": added({"demo/.netrc": b"machine a login b password c\n"}),
    "pypirc": added({".pypirc": b"[pypi]\npassword = x\n"}),
    "key": added({"demo/key.pem": KEY}),
    "key-of-ssh": added({"demo/id_rsa": KEY.replace(b"RSA", b"OPENSSH")}),
    "key-in-python": added({"demo/a.py": b'KEY = """\n' + KEY + b'"""\n'}),
    **{f"token-{name}": added({"demo/a.py": b"TOKEN = '" + token + b"'\n"}) for name, token in TOKENS.items()},
    "token-in-json": added({"demo/config.json": b'{"token": "' + TOKENS["pypi"] + b'"}'}),
    "token-in-metadata": added({"demo/.git-credentials": b"https://me:" + TOKENS["github"] + b"@localhost\n"}),
}
CODE = {
    "python-broken": added({"demo/__init__.py": b"def f(:\n"}),
    "python-broken-module": added({"demo/a.py": b"def f(:\n"}),
    "python-2": added({"demo/__init__.py": b"print 'a'\n"}),
    "python-encoding": added({"demo/__init__.py": b"# coding: klingon\n"}),
    "python-not-utf8": added({"demo/__init__.py": b"a = '\xff'\n"}),
    "python-nul": added({"demo/__init__.py": b"a = 1\0\n"}),
    "python-tabs": added({"demo/__init__.py": b"if 1:\n        a = 1\n\tb = 2\n"}),
    "python-return": added({"demo/__init__.py": b"return 1\n"}),
    "python-await": added({"demo/__init__.py": b"await f()\n"}),
    "python-future": added({"demo/__init__.py": b"from __future__ import braces\n"}),
    "python-nonlocal": added({"demo/__init__.py": b"nonlocal a\n"}),
    "python-break": added({"demo/__init__.py": b"break\n"}),
    "python-conflict": added({"demo/__init__.py": b"<<<<<<< HEAD\na = 1\n=======\n>>>>>>> b\n"}),
    "import-of-missing-part": added({"demo/__init__.py": b"from demo import _gone\n"}),
    "import-of-missing-part-relative": added({"demo/__init__.py": b"from ._gone import main\n"}),
    "import-guarded": added(
        {"demo/__init__.py": b"try:\n    from ._gone import main\nexcept ImportError:\n    pass\n"}
    ),
    "syntax-newer-than-requires": added(
        {
            "demo/__init__.py": b"match 1:\n    case 1:\n        pass\n",
            METADATA: FIELDS.replace("Summary", "Requires-Python: >=3.9\nSummary").encode(),
        }
    )._replace(pythons=("3.9", "3.11")),
    "lfs-pointer": added(
        {"demo/a.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 3\n"}
    ),
    "symlink-as-text": added({"demo/a.so": b"liba.so.1"}),
    "linker-script": added({"demo/liba.so": b"/* GNU ld script */\nINPUT(-la)\n"}),
    "compiled-in-pure": added({"demo/a.so": b"\x7fELF\2\1\1" + bytes(60)}),
    "compiled-in-zip": added({"demo/a.bin": b"\0" * 64 + b"\x7fELF\2\1\1\0" + bytes(60)}),
    "points-to-test": added({ENTRY_POINTS: b"[console_scripts]\nrun = tests.a:main\n"}),
}
KINDS = {**LIBRARY, **{f"left-{name}": kind for name, kind in LEFT.items()}, **CODE}
