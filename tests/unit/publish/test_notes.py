"""The notes of a release: what GitHub makes of them, whatever the names in them hold."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from ci_tools.index.units import CORE, NOT_TRIED, Alias, Item, JobEntry, Unit
from ci_tools.model.files import BuiltWith
from ci_tools.publish.notes import MAX_CHARACTERS, notes

NATIVE = JobEntry(
    "linux-cuda-cu130",
    "native",
    "linux-cuda",
    "3.10",
    "2.10",
    "cu130",
    ("9.0", "10.0+PTX"),
    "CUDA 13.0, gcc 13",
    "",
    (),
)
PURE = JobEntry("pure", "pure", "", "3.10", "", "", (), "", "", ())
HOSTILE = (
    "<script>alert(1)</script>",
    "<!-- comment",
    "</code></td></tr></table><h1>mine</h1>",
    "![x](https://evil.invalid/x.png)",
    "[click](javascript:alert(1))",
    "https://evil.invalid www.evil.invalid me@evil.invalid",
    "`code` ```\n# title\n```",
    "a | b | c",
    "line\nbreak\r\x1b[2J\u202e",
    "@everybody #1 owner/repo#2",
    "*bold* _it_ ~~no~~ $x$ &lt; &copy; \\",
    "</details>",
)


class Shown(HTMLParser):
    """What a page shows: its elements, where links and pictures lead, and its text."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str | None] = []
        self.text = ""
        self.feed(MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data: str) -> None:
        self.text += data


def unit(*items: Item, project: str = "demo", version: str = "1.0", commit: str = "a" * 40) -> Unit:
    return Unit(name=CORE, project=project, version=version, items=items, commit=commit, tag="v1.0", title="Demo 1.0")


def item(name: str, made: JobEntry | None, size: int = 1_234_567) -> Item:
    return Item(Path("dist") / name, "0" * 64, size, made)


USUAL = unit(
    item("demo-1.0+cu130-cp310-abi3-manylinux_2_28_x86_64.whl", NATIVE, 1_500_000_000),
    item("demo-1.0-py3-none-any.whl", PURE),
    item("demo-1.0.tar.gz", None, 999),
)


def test_every_file_is_a_row_with_what_it_was_built_for_and_its_hash_can_be_checked() -> None:
    shown = Shown(notes(USUAL))
    assert shown.tags.count("tr") == 4
    for text in ("linux-cuda", "cu130", "3.10+", "2.10", "9.0 10.0+PTX", "1.5\xa0GB", "999\xa0B", "source"):
        assert text in shown.text
    assert f"{'0' * 64}  demo-1.0.tar.gz\n" in shown.text
    assert "a" * 40 in shown.text


def test_second_names_of_wheels_have_one_line_and_no_rows() -> None:
    names = [f"demo-1.0+cu13torch2.10cxx11abiTRUE-cp31{minor}-cp31{minor}-linux_x86_64.whl" for minor in (2, 3)]
    aliases = tuple(Alias(name, Path(name), "0" * 64, 1) for name in names)
    text = Shown(notes(replace(unit(item("demo-1.0-py3-none-any.whl", PURE)), aliases=aliases))).text
    assert f"2 more files for a setup.py that asks for such names, as {names[0]}." in text
    assert names[1] not in text


def test_a_release_that_nobody_signed_says_so() -> None:
    assert "attested" not in notes(USUAL)
    assert "The files are not attested" in Shown(notes(replace(USUAL, unattested=True))).text


def built(name: str, python: str, torch: str, **changes: str) -> Item:
    by = BuiltWith("g++ 14.2.1", "CUDA 13.0 (nvcc V13.0.88)", "sm_90 compute_100", torch, python, "AlmaLinux 8.10")
    return item(name, NATIVE)._replace(built_with=by._replace(**changes), gpu=NOT_TRIED)


def test_the_notes_say_what_each_wheel_was_built_with_and_wheels_that_share_it_share_a_row() -> None:
    wheels = [built(f"a-{n}.whl", f"CPython 3.{n}.1", f"2.{n}.0") for n in (9, 10, 11)]
    text = notes(unit(*reversed(wheels), built("b.whl", "CPython 3.12.1", "2.9.0", compiler="g++ 13"), USUAL.items[2]))
    rows = [line for line in Shown(text).text.splitlines() if "linux-cuda cu130: " in line]
    assert rows == ["linux-cuda cu130: 1 file", "linux-cuda cu130: 3 files"]
    for shown in ("CPython 3.9.1, CPython 3.10.1, CPython 3.11.1", "2.9.0, 2.10.0, 2.11.0", "sm_90 compute_100"):
        assert shown in Shown(text).text
    assert text == notes(unit(*wheels, built("b.whl", "CPython 3.12.1", "2.9.0", compiler="g++ 13"), USUAL.items[2]))


def test_what_nobody_asked_has_no_row() -> None:
    assert "Built with" not in notes(USUAL)
    assert "Trials" not in notes(USUAL)


@pytest.mark.parametrize(
    ("count", "device", "shown"),
    [
        pytest.param(2, "", "Not tried on a GPU: 0.whl, 1.whl", id="few"),
        pytest.param(9, "", "Not tried on a GPU: all 9 wheels for GPUs", id="many"),
        pytest.param(4, "tried on NVIDIA H200, driver 580.65", "Tried on NVIDIA H200, driver 580.65: all", id="tried"),
    ],
)
def test_the_notes_say_which_wheels_were_tried_on_a_gpu(count: int, device: str, shown: str) -> None:
    items = (built(f"{n}.whl", "", "")._replace(gpu=device or NOT_TRIED) for n in range(count))
    assert shown in Shown(notes(unit(*items, USUAL.items[1]))).text


def test_wheels_that_are_added_say_for_which_torch() -> None:
    assert notes(replace(USUAL, added="torch2.15")).startswith("## Added: torch2.15\n")


def test_the_commands_name_the_index_and_the_page() -> None:
    text = notes(unit(*USUAL.items[1:]), ("https://x.invalid/cu130/",), links="https://x.invalid/files")
    assert '\npip install "demo==1.0" --extra-index-url https://x.invalid/cu130/\n' in text
    assert '\npip install "demo==1.0" --find-links https://x.invalid/files\n' in text


def test_where_there_are_local_versions_each_has_its_command_for_pip_would_take_any() -> None:
    assert '\npip install "demo==1.0+cu130" --find-links https://x.invalid\n' in notes(USUAL, links="https://x.invalid")
    assert '"demo==1.0"' not in notes(USUAL, links="https://x.invalid")


def _hostile(text: str, made: JobEntry, by: BuiltWith) -> Item:
    return item(text.replace("/", "!"), made)._replace(gpu=text, built_with=by)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_shows_as_text(text: str) -> None:
    made = JobEntry("x", "native", text, text, text, text, (text,), text, text, ())
    by = BuiltWith(*[text] * 6)
    usual, hostile = (
        Shown(notes(unit(*(built(f"{n}.whl", "", "") for n in range(3))))),
        Shown(notes(unit(*(_hostile(text, made, by) for _ in range(3)), commit=text))),
    )
    assert sorted(hostile.tags) == sorted(usual.tags)
    assert hostile.addresses == []


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_project_or_version_is_one_command_in_a_block_of_code(text: str) -> None:
    shown = Shown(notes(unit(project=text, version=text), (text,), links=text))
    usual = Shown(notes(unit(), ("https://x.invalid",), links="https://x.invalid"))
    assert (shown.tags, shown.addresses) == (usual.tags, [])


def test_a_person_or_an_issue_is_not_named_by_a_file() -> None:
    made = PURE._replace(platform="@everybody #1")
    assert "@everybody" not in Shown(notes(unit(item("demo-1.0-py3-none-any.whl", made)))).text


def test_a_text_leads_nowhere_where_github_makes_links_of_bare_addresses() -> None:
    made = PURE._replace(platform="www.evil.invalid https://evil.invalid WWW.evil.invalid")
    row = next(line for line in notes(unit(item("demo-1.0-py3-none-any.whl", made))).splitlines() if "evil" in line)
    assert not any(start in row.lower() for start in ("www.", "https:", "://"))


@pytest.mark.parametrize("most", range(0, 3000, 250))
def test_notes_are_never_longer_than_there_is_room(most: int) -> None:
    assert len(notes(USUAL, most=most)) <= most


@pytest.mark.slow
def test_notes_of_very_many_ways_to_build_are_cut() -> None:
    items = (built(f"{n}.whl", "", "", image=f"image {n}")._replace(gpu=f"tried on {n}") for n in range(3000))
    text = notes(unit(*items))
    assert 0 < len(text) <= MAX_CHARACTERS
    assert "And 2,960 more" in text


@pytest.mark.slow
def test_a_long_table_ends_with_where_the_rest_is() -> None:
    many = unit(*(item(f"demo-1.0-{number}-py3-none-any.whl", PURE) for number in range(2000)))
    text = notes(many)
    rows = Shown(text).tags.count("tr") - 1
    assert (len(text) <= MAX_CHARACTERS, 100 < rows < 2000) == (True, True)
    assert f"And {2000 - rows:,} more: every file is among the assets" in text
