"""The documents say what is so: references are fresh, links lead somewhere, commands and configs are accepted."""

from __future__ import annotations

import ast
import functools
import re
import shlex
import sys
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

from ci_tools import __version__, catalog, errors
from ci_tools.cli.dispatch import help_of, parse
from ci_tools.cli.verbs import GROUPS, VERBS
from ci_tools.config import loader
from ci_tools.errors import FatwheelError
from ci_tools.observe.setup_py.run import LIMITS
from ci_tools.verify.fingerprint import ClaimVerdict
from docs import generate
from docs.pages.command_line import verbs
from tests.integration.verify.audit.test_mutation import BEYOND_AN_AUDIT
from tests.language.modules import find_modules, parse_nodes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("docs", "kernels", "package")
PAGES = sorted([*REPOSITORY.glob("*.md"), *(page for name in FOLDERS for page in (REPOSITORY / name).rglob("*.md"))])
# What a fragment of a config leaves out.
REST = {"package": "package: example", "python": 'python: ["3.12"]', "platforms": "platforms: {linux-cpu: }"}


class Example(NamedTuple):
    """A code block or a code span of a page: its language, if any, and its text."""

    page: str
    language: str
    text: str


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@functools.cache
def tokens(page: Path) -> list[tuple[str, str, str]]:
    """Return a page's blocks and spans: type, text, and the language or address."""
    found = []
    for block in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        found.append((block.type, block.content, block.info))
        found += [(span.type, span.content, str(span.attrs.get("href", ""))) for span in block.children or ()]
    return found


def examples(kind: str) -> list[Example]:
    return [Example(name_of(page), info, text) for page in PAGES for type_, text, info in tokens(page) if type_ == kind]


def slugs(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def leads_nowhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return not target.exists() or bool(anchor and anchor not in slugs(target))


def commands() -> dict[str, str]:
    """Return every command line of `fatwheel` that a console block shows, without the shell's words, and its page."""
    blocks = [example for example in examples("fence") if example.language == "console"]
    lines = [(line, block.page) for block in blocks for line in block.text.splitlines()]
    shown = [(re.match(r"\$ (?:[A-Z_]+=\S+ )*(fatwheel .*)", line), page) for line, page in lines]
    return {re.split(r" (?:&&|\||>|#) ?", found[1])[0]: page for found, page in shown if found}


def spans(start: str) -> dict[str, str]:
    """Return the code in sentences that begins with some text, and the page of each."""
    return {example.text: example.page for example in examples("code_inline") if example.text.startswith(start)}


def configs() -> list[Example]:
    return [example for example in examples("fence") if example.language.startswith("yaml")]


def completed(example: Example) -> str:
    """Return a config, with what a fragment leaves out."""
    said = re.findall(r"^(\w+):", example.text, re.MULTILINE)
    missing = [line for key, line in REST.items() if key not in said and example.language == "yaml fragment"]
    return "\n".join([*missing, example.text])


def rooms() -> list[list[str]]:
    """Return the rooms of each stair, from the top, as the document on architecture lists them."""
    text = (REPOSITORY / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    return [[room for _, room in stair] for _, stair in groupby(rows, key=itemgetter(0))]


def table_of(page: str, head: str) -> dict[str, str]:
    """Return the table that begins with a cell: the first cell of each row, and the second."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    rows = re.search(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return dict(re.findall(r"^\| `?(.+?)`? \| (.+?) \|", rows[1], re.MULTILINE)) if rows else {}


def kinds_of_advice() -> set[str]:
    """Return the name of every option that advise knows."""
    modules = sorted((REPOSITORY / "ci_tools/plan/advise").glob("*.py"))
    calls = (node for path in modules for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    named = (call.keywords for call in calls if isinstance(call, ast.Call) and ast.unparse(call.func) == "Option")
    return {ast.literal_eval(word.value) for words in named for word in words if word.arg == "name"}


@pytest.mark.parametrize("name", generate.PAGES)
def test_a_reference_says_what_the_code_says(name: str) -> None:
    if name == "kernel-operators.md" and find_spec("torch") is None:
        pytest.skip("needs torch, whose operators it lists")
    path = generate.REFERENCE / name
    assert path.read_text(encoding="utf-8") == generate.page(name), "run `python docs/generate.py`"


def test_check_names_a_stale_page_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "REPOSITORY", tmp_path)
    monkeypatch.setattr(generate, "REFERENCE", tmp_path)
    monkeypatch.setattr(generate, "PAGES", {"audit-rules.md": generate.PAGES["audit-rules.md"]})
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out == "audit-rules.md is stale\n"
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


def test_every_guide_that_speaks_of_cuda_12_says_that_none_was_compiled_here() -> None:
    pages = {page: page.read_text() for page in PAGES if "reference" not in page.parts and page.name != "CHANGELOG.md"}
    speak = [page for page, text in pages.items() if re.search(r"cu129|CUDA 12\.9|\"12\.9\"", text)]
    assert [page for page in speak if "No wheel for CUDA 12 has been compiled here" not in pages[page]] == []


def test_every_link_leads_somewhere() -> None:
    links = [(page, address) for page in PAGES for kind, _, address in tokens(page) if kind == "link_open"]
    assert [link for link in links if "://" not in link[1] and leads_nowhere(*link)] == []


def test_every_document_is_in_the_index() -> None:
    index = REPOSITORY / "docs" / "README.md"
    listed = {(index.parent / address).resolve() for kind, _, address in tokens(index) if kind == "link_open"}
    assert {*(REPOSITORY / "docs").rglob("*.md")} - {*listed, index} == set()


def is_understood(line: str) -> bool:
    """Whether the command line knows a verb and its options; it ends with what it does not know."""
    try:
        return parse(shlex.split(line)[1:]).verb in VERBS
    except SystemExit:
        return False


def test_every_command_line_parses() -> None:
    lines = commands()
    assert len(lines) >= 100
    assert {line: page for line, page in lines.items() if not is_understood(line)} == {}


def unknown_words(span: str) -> set[str]:
    """Return the options of a command in a sentence that its verb does not have, or the verb that there is not."""
    words = span.split()[1:]
    if help_of([*words, "--help"][:2]):
        return set()  # a page, or a group of verbs
    name = " ".join(words[: 2 if words[0] in GROUPS else 1])
    if (verb := verbs().get(name)) is None:
        return {name}
    known = {option for action in verb._actions for option in action.option_strings}  # noqa: SLF001 - as above
    return {word for word in span.split() if word.startswith("--")} - known


def test_every_command_in_a_sentence_has_a_verb_and_options_that_exist() -> None:
    said = spans("fatwheel ")
    assert len(said) >= 50
    assert {(page, span): words for span, page in said.items() if (words := unknown_words(span))} == {}


def test_every_config_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "fatwheel.yml"
    (tmp_path / "build-constraints.txt").touch()  # what the examples name
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/rocm.yml").write_text("owner: me\n", encoding="utf-8")
    refused, read = {}, catalog.load()
    for example in configs():
        path.write_text(completed(example), encoding="utf-8")
        try:
            assert loader.load(path, read).platforms
        except (AssertionError, FatwheelError) as error:
            refused[example] = error
    assert refused == {}


def is_there(test: str) -> bool:
    path, _, name = test.partition("::")
    file = REPOSITORY / path
    return file.exists() and (not name or f"def {name}(" in file.read_text(encoding="utf-8"))


def test_a_test_that_a_sentence_names_exists() -> None:
    named = spans("tests/")
    assert len(named) >= 30
    assert {test: page for test, page in named.items() if not is_there(test)} == {}


def test_the_document_on_architecture_has_the_rooms_that_are_enforced() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    assert rooms() == [stair.split(" | ") for stair in contract["layers"]]


def test_the_guide_to_proofs_has_every_outcome() -> None:
    assert table_of("how-to/prove-a-plan.md", "outcome").keys() == {str(verdict) for verdict in ClaimVerdict}


def test_the_guide_to_advice_has_every_kind() -> None:
    assert table_of("how-to/make-a-plan-smaller.md", "advice").keys() == kinds_of_advice()


def test_what_an_audit_cannot_see_is_what_its_tests_cannot_see() -> None:
    assert table_of("explanation/audit.md", "edit") == BEYOND_AN_AUDIT


def test_the_limits_of_an_observed_build_are_those_that_hold() -> None:
    assert table_of("explanation/evidence.md", "limit") == {
        "time": f"{LIMITS.seconds} seconds of the processor's, and {LIMITS.seconds} in which everything waits",
        "memory": f"{LIMITS.memory >> 30} GiB, of all its processes together",
        "processes": f"{LIMITS.processes}",
        "written": f"{LIMITS.written >> 30} GiB",
    }


@functools.cache
def pages_in_code() -> list[str]:
    """Return every page, with its anchor, that an error names."""
    nodes = (node for name in find_modules([".md"]) for node in parse_nodes(name))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    folders = "|".join(folder.name for folder in (REPOSITORY / errors.DOCUMENTATION).iterdir() if folder.is_dir())
    named = re.compile(rf"({folders})/[\w-]+\.md(#[\w-]+)?")
    return sorted({text for text in texts if isinstance(text, str) and named.fullmatch(text)})


def test_a_page_that_an_error_names_exists() -> None:
    links = pages_in_code()
    assert len(links) >= 15
    assert [link for link in links if leads_nowhere(REPOSITORY / errors.DOCUMENTATION / "README.md", link)] == []


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def test_every_page_of_an_error_is_written_out() -> None:
    calls = [
        word.value
        for name in find_modules(["page="])
        for node in parse_nodes(name)
        if isinstance(node, ast.Call) and _called(node).endswith(("Error", "Rejected", "Input", "Forbidden"))
        for word in node.keywords
        if word.arg == "page" and isinstance(word.value, ast.Constant)
    ]
    known = pages_in_code()
    assert [node.value for node in calls if node.value not in known] == []


def test_the_package_and_the_command_have_one_version() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["version"] == __version__
