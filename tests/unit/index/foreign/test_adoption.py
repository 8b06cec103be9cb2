"""An index in a folder is adopted: what is there is read first, and nothing of it is dropped."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.index.foreign import adoption
from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import Root
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.forked import OUTSIDE
from tests.builders.wheels import hexdigest, make

WHEEL = "demo-1.0-py3-none-any.whl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two projects, a wheel each, whose pages say nothing but names."""
    for project in ("demo", "other"):
        put(tmp_path / "index", f"{project}/index.html", f'<a href="{make_one(tmp_path / "index", project)}">x</a>')
    put(tmp_path / "index", "index.html", '<h1>Ours</h1>\n<a href="demo/">demo</a>\n<a href="other/">other</a>\n')
    return tmp_path / "index"


def make_one(root: Path, project: str) -> str:
    return make(root / project, f"{project}-1.0-py3-none-any.whl").name


def put(root: Path, key: str, text: str) -> None:
    (root / key).parent.mkdir(parents=True, exist_ok=True)
    (root / key).write_text(text)


def content(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def take_over(root: Path, *only: str, settings: str = "") -> adoption.Outline:
    return adoption.adopt(index_of(f"dir:{root}{settings}", OUTSIDE), only, OUTSIDE)


def look(root: Path, *only: str) -> adoption.Outline:
    return adoption.survey(index_of(f"dir:{root}", OUTSIDE), only, OUTSIDE)


def test_a_survey_writes_nothing_and_says_what_an_adoption_does(root: Path) -> None:
    before = content(root)
    outline = look(root)
    assert content(root) == before
    assert [(row.project, row.files, row.new, row.unhashed, row.metadata) for row in outline.projects] == [
        ("demo", 1, 1, 1, 1),
        ("other", 1, 1, 1, 1),
    ]
    assert (outline.pages, outline.is_done) == (3, False)
    assert take_over(root) == outline
    assert look(root).is_done


def test_pages_of_others_are_kept_and_files_stay(root: Path) -> None:
    before = content(root)
    take_over(root)
    after = content(root)
    assert {
        f".fatwheel/replaced/{key}": data for key, data in before.items() if key.endswith(".html")
    }.items() <= after.items()
    assert {key: data for key, data in before.items() if key.endswith(".whl")}.items() <= after.items()
    file = Ledger(index_of(f"dir:{root}", OUTSIDE).store, "").manifest("demo").files[WHEEL]
    assert (file.sha256, file.key) == (hexdigest(root / "demo" / WHEEL), f"demo/{WHEEL}")


def test_one_project_is_adopted_and_the_front_page_becomes_everybodys(root: Path) -> None:
    before = content(root)
    outline = take_over(root, "Demo")
    after = content(root)
    assert (outline.root, [row.project for row in outline.projects]) == (Root.SHARED, ["demo"])
    assert {key: after[key] for key in ("index.html", "other/index.html")} == {
        key: before[key] for key in ("index.html", "other/index.html")
    }


@pytest.mark.parametrize(
    ("key", "hint"), [("out/simple/demo/index.html", "out/simple"), ("readme.txt", ""), (f"{WHEEL}.part", "")]
)
def test_a_place_without_an_index_is_refused(key: str, hint: str, tmp_path: Path) -> None:
    put(tmp_path, key, "text")
    put(tmp_path, f"{key.rpartition('/')[0].rpartition('/')[0] or '.'}/index.html" if hint else "x", "")
    with pytest.raises(InputError, match="lists no project") as refused:
        look(tmp_path)
    assert hint in refused.value.hint


def test_a_project_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(InputError, match=r'lists no project dem, did you mean "?demo'):
        look(root, "dem")


def test_half_a_page_is_taken_for_what_it_lists(root: Path) -> None:
    take_over(root)
    page = root / "demo" / "index.html"
    whole = page.read_bytes()
    page.write_bytes(whole[: len(whole) // 2])
    take_over(root)
    assert page.read_bytes() == whole


def test_what_another_tool_writes_between_reading_and_writing_is_taken_in(root: Path) -> None:
    index, late = index_of(f"dir:{root}", OUTSIDE), make(root / "demo", "demo-2.0-py3-none-any.whl")
    write, page = index.writer.show, root / "demo" / "index.html"

    def show(*arguments: object) -> None:
        page.write_text(f'{page.read_text()}<a href="{late.name}">x</a>')
        write(*arguments)  # type: ignore[arg-type]

    index.writer.show = show  # type: ignore[method-assign, assignment]
    adoption.adopt(index, (), OUTSIDE)
    assert late.name in page.read_text()


def test_a_file_of_ours_that_others_list_is_ours_as_before(root: Path, tmp_path: Path) -> None:
    take_over(root)
    wheel = make(tmp_path / "ours", "demo-3.0-py3-none-any.whl")
    releases.publish(index_of(f"dir:{root}", OUTSIDE), releases.unit("demo", releases.item(wheel), version="3.0"))
    put(root, "demo/index.html", f'<a href="{wheel.name}">x</a>')
    take_over(root)
    manifest = Ledger(index_of(f"dir:{root}", OUTSIDE).store, "").manifest("demo")
    assert {name: file.origin for name, file in manifest.files.items()} == {WHEEL: "adopted", wheel.name: ""}
    assert WHEEL in (root / "demo" / "index.html").read_text()


__all__ = ["root"]  # fixtures


@pytest.mark.slow
def test_an_adoption_on_a_full_disk_leaves_the_pages_and_goes_on(root: Path) -> None:
    put(
        root,
        "demo/index.html",
        "".join(f'<a href="../files/demo-{number}.0.tar.gz#sha256={"ab" * 32}">x</a>' for number in range(99)),
    )
    before = content(root)

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    command = [sys.executable, "-m", "ci_tools", "index", "adopt", f"dir:{root}", "--yes"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, preexec_fn=full, cwd=Path(__file__).parents[4]
    )
    assert done.returncode == 3
    assert before.items() <= content(root).items()
    take_over(root)
    assert (root / "demo" / "index.html").read_text().count("<a href") == 99
