from __future__ import annotations

import ast
import json
import re
import time
from pathlib import Path

import pytest

import ci_tools
from ci_tools.addresses import redact
from ci_tools.cli.tables.layout import plain, show_json
from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.formats import markdown

ADDRESSES = {
    "http://me:s3cret@host/simple/": "http://***@host/simple/",
    "https://t0ken@host": "https://***@host",
    "'https://me:p@ss@h/x'": "'https://***@h/x'",
    "HTTP://token@h": "HTTP://***@h",
    "https://u:p/w@h/x": "https://***@h/x",
    "https://u%3As3cret@h": "https://***@h",
    "https:/u:p@h/x": "https:/***@h/x",
    "//u:p@h": "//***@h",
    "ssh://git:p@h/x": "ssh://***@h/x",
    "me:p@github.com:o/r.git": "***@github.com:o/r.git",
    "git@h:o/r.git?token=s": "git@h:o/r.git?…",
    "http://u:p@[::1]:80/a@b?x": "http://***@[::1]:80/a@b?…",
    "https://h/x.git?token=s/info/refs?service=a": "https://h/x.git?…",
    "(https://h/x?s).": "(https://h/x?…).",
    "https://h/x#s": "https://h/x#…",
    "https://h/x?root=s&token=s": "https://h/x?…",
    "/x.git?token=s": "/x.git?…",
    "https%3A%2F%2Fu%3Ap%40h%2Fx%3Ftoken%3Ds": "https://***@h/x?…",
    "https%253A%252F%252Fu%253Ap%2540h": "https://***@h",
    "git+https://u:p@h/x@v1#subdirectory=a": "git+https://***@h/x@v1#subdirectory=a",
    "s3://b/whl?endpoint=http://u:p@h:90": "s3://b/whl?endpoint=http://***@h:90",
    "a,https://u:p@h,https://v:q@i/": "a,https://***@h,https://***@i/",
    "https://me:s3cr…": "https://***…",
    "https://h/x;token=s3cret/simple;v=1": "https://h/x;…/simple;…",
    "https://h/ghp_0123456789abcdefghij/x.git": "https://h/***/x.git",
    "https://h/a/eyJhbGciOi.eyJzdWIiOi.s3cret/simple": "https://h/a/***/simple",
    "https://dl.cloudsmith.io/s3cretS3cret0123/o/r/python/simple/": "https://dl.cloudsmith.io/***/o/r/python/simple/",
    "https://packagecloud.io/priv/s3cret/o/r/pypi/simple": "https://packagecloud.io/priv/***/o/r/pypi/simple",
}
HARMLESS = (
    "https://host/a@b me@host",
    "https://host:8080/a@b",
    "http://[::1]:80/a@b",
    "ssh://git@h/x git+ssh://git@h/x git@github.com:o/r.git",
    "s3://b/whl?endpoint=http://127.0.0.1:90&region=x",
    "https://h/demo-1.0%2Bcu130-py3-none-any.whl#sha256=abc",
    "quay.io/pypa/m:2024@sha256:abc python:3.12@sha256:abc",
    "file:///home/a@b/c C:/Users/a@b/c o/r#12 a/(?:b) why? 100%",
    "https://h/o/r/issues/new?template=wheels.yml",
    "https://dl.cloudsmith.io/public/o/r/python/simple/ https://h/a;b https://h/a; then",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_secret_of_an_address_is_shown(address: str) -> None:
    text = f"fatal: {address}\n401 for {address} and {address}"
    shown = text.replace(address, ADDRESSES[address])
    assert redact(text) == redact(shown) == shown


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "part", ["//", "a:", "a.", ":/", "%2F%2F", "://u:", "/?=", "https://u@", "a@b.c:", "@", "%25", "//;a=", "//a/"]
)
def test_time_follows_the_length_of_a_text(part: str) -> None:
    started = time.process_time()
    redact(f"{part * 20_000}@?#")
    assert time.process_time() - started < 1.0


def test_errors_and_tables_show_no_secret() -> None:
    text = "https://u:s3cret@h/x?token=s3cret"
    error = InputError(text, hint=text)
    both = RejectedInput([Problem(text, text)])
    assert "s3cret" not in f"{error} {error.message} {error.hint} {both} {both.problems} {plain(text)}"


def test_markdown_and_json_show_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    text = 'see "https://u:s3cret@h/x?token=s3cret"'
    show_json({text: [(text, 1)], "other": None})
    shown = capsys.readouterr().out
    assert json.loads(shown) == {redact(text): [[redact(text), 1]], "other": None}
    assert "s3cret" not in shown + markdown.text(text) + markdown.code(text) + markdown.output(text)


# What writes to the user, and why what it writes has no secret; all else is in errors, or passes `plain`.
PRINTERS = {
    "cli/failures.py": "an error's annotations, and records, which pass `plain`",
    "cli/session.py": "one sentence about an interrupt",
    "cli/main.py": "the page of `--help`",
    "cli/tables/layout.py": "tables, whose values pass `plain`",
    "cli/verbs": "a path, a plan, the outputs of a step, Markdown by `formats.markdown`, or JSON by `show_json`",
    "install": "runs alone in an installer, with a `_shown` of its own",
    "build/units/launcher.py": "its own name, and what a compiler printed",
    "build/containers/_prepare.py": "runs alone in a container, whose output is a log",
    "cli/reporter.py": "steps, which pass `plain`",
    "observe/versions/inside.py": "runs alone in another interpreter, whose output is a log",
    "observe/inside": "runs alone in another interpreter, whose output is a log",
    "build/sdk/inside": "runs alone in another interpreter, whose output is a log",
}


def _prints(node: ast.AST) -> bool:
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return bool(re.fullmatch(r"print|.*\.print|sys\.(stdout|stderr)(\.buffer)?\.write", called))


def test_what_is_printed_is_printed_in_few_places() -> None:
    root = Path(ci_tools.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"print\(|\.write\(", text := path.read_text(encoding="utf-8"))
        and any(map(_prints, ast.walk(ast.parse(text))))
    }
    others = {name for name in found if not any(name.startswith(known) for known in PRINTERS)}
    assert not others


def test_only_plans_and_outputs_of_steps_are_printed_as_json_that_is_exact() -> None:
    """A plan is read again, and its addresses are refused with a secret; the outputs of a step are read by the next."""
    verbs = Path(ci_tools.__file__).with_name("cli") / "verbs"
    found = {path.name for path in verbs.glob("*.py") if "print(json.dumps(" in path.read_text(encoding="utf-8")}
    assert found == {"plan.py", "recipe.py"}
