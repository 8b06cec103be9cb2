from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.cli.main import main
from ci_tools.errors import InputError, MachineError
from ci_tools.index import maintain
from ci_tools.machine.context import Outside
from ci_tools.model.request import Channel, Edition
from ci_tools.publish import retraction
from ci_tools.publish.targets.addresses import channel_of, index_of
from ci_tools.publish.targets.notice import MAX_CHARACTERS, Notice, add_notice, notice_of, remove_notice, title_of
from tests.builders import releases
from tests.builders.releases import folder_index, item, unit
from tests.builders.wheels import make

PURE, CUDA, LATER = (f"demo-{version}-py3-none-any.whl" for version in ("1.0", "1.0+cu130", "1.1"))
BAD = "wrong results, use 1.1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An index with two versions, of which one is a candidate as well."""
    index, made = folder_index(tmp_path / "index"), tmp_path / "made"
    releases.publish(index, unit("demo", item(make(made, PURE)), item(make(made, CUDA), "cu130")))
    releases.publish(index, unit("demo", item(make(made, LATER)), version="1.1"))
    releases.publish(index, unit("demo", item(made / PURE), edition=Edition(Channel.TEST, 1)))
    return tmp_path / "index"


def pages(root: Path) -> dict[str, bytes]:
    """Return every page of an index, and nothing that it keeps for itself."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {name: path.read_bytes() for path in files if ".fatwheel" not in (name := path.relative_to(root).as_posix())}


# ---------------------------------------------------------------- in indexes


@pytest.mark.parametrize("marked", ["", CUDA], ids=["live", "a-file-of-it-yanked-before"])
def test_a_release_is_yanked_in_every_channel_that_has_it_and_comes_back(
    marked: str, root: Path, outside: Outside
) -> None:
    if marked:
        maintain.yank(folder_index(root), marked, "an older reason")
    before = pages(root)
    done = retraction.retract("demo==1.0", BAD, [f"dir:{root}"], outside)
    assert [(one.target, one.done, one.left) for one in done] == [
        (f"dir:{root}", "2 files are yanked now", ""),
        (f"dir:{root / 'test'}", "1 files are yanked now", ""),
    ]
    assert f'data-yanked="{BAD}"' in (root / "test/cpu/demo/index.html").read_text()
    assert BAD in (root / "finder/demo.js").read_text()
    retraction.restore("demo==1.0", [f"dir:{root}"], outside)
    assert pages(root) == before


def test_a_second_time_it_changes_nothing(root: Path, outside: Outside) -> None:
    retraction.retract("demo==1.0", BAD, [f"dir:{root}"], outside)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    again = retraction.retract("demo==1.0", BAD, [f"dir:{root}"], outside)
    assert [one.done for one in again] == ["2 files are yanked already", "1 files are yanked already"]
    after = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    assert {path: at for path, at in after.items() if not path.name.endswith(".lock")} == {
        path: at for path, at in before.items() if not path.name.endswith(".lock")
    }


def test_another_reason_takes_the_place_of_the_first(root: Path, outside: Outside) -> None:
    for reason in ("first", "second"):
        retraction.retract("demo==1.1", reason, [f"dir:{root}"], outside)
    assert 'data-yanked="second"' in (root / "demo/index.html").read_text()


def test_a_target_without_the_release_is_said_and_the_others_are_marked(
    root: Path, tmp_path: Path, outside: Outside
) -> None:
    empty = tmp_path / "empty"
    done = retraction.retract("demo==1.1", BAD, [f"dir:{empty}", f"dir:{root}"], outside)
    assert [one.done for one in done] == [retraction.NOT_THERE, "1 files are yanked now"]
    assert not empty.exists()


def test_a_release_that_no_target_has_is_an_error(root: Path, outside: Outside) -> None:
    with pytest.raises(InputError, match=rf"none of dir:{root} has demo==3\.0"):
        retraction.retract("demo==3.0", BAD, [f"dir:{root}"], outside)


def test_what_fails_in_the_middle_says_what_is_marked_by_then(root: Path, tmp_path: Path, outside: Outside) -> None:
    other = tmp_path / "other"
    releases.publish(folder_index(other), unit("demo", item(tmp_path / "made" / LATER), version="1.1"))
    page = other / "demo/index.html"
    page.unlink()
    (page / "in the way").mkdir(parents=True)
    with pytest.raises(MachineError, match=rf"marked so far: dir:{root}\n  hint: the same command continues"):
        retraction.retract("demo==1.1", BAD, [f"dir:{root}", f"dir:{other}"], outside)


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines", "x" * 501])
def test_a_reason_is_one_sentence(reason: str, root: Path, outside: Outside) -> None:
    with pytest.raises(InputError, match="--reason: it"):
        retraction.retract("demo==1.0", reason, [f"dir:{root}"], outside)


def test_the_channel_of_a_bucket_is_a_place_below_it(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    index = index_of("s3://wheels/whl?region=eu-west-1&public=https://x.invalid/whl", outside)
    below = channel_of(index, "test/", outside)
    assert below.address == "s3://wheels/whl/test?region=eu-west-1"
    assert below.store.url("demo/") == "https://x.invalid/whl/test/demo/"


# ---------------------------------------------------------------- the command


def test_the_targets_are_those_of_the_config(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = f'package: demo\npython: ["3.12"]\nplatforms: {{linux-cpu: }}\npublish: {{targets: ["dir:{root}"]}}\n'
    Path("fatwheel.yml").write_text(text)
    assert main(["index", "retract", "demo==1.1", "--reason", BAD]) == 0
    assert "1 files are yanked now" in " ".join(capsys.readouterr().out.split())
    assert main(["index", "retract", "demo==1.1", "--undo"]) == 0
    assert "data-yanked" not in (root / "demo/index.html").read_text()


@pytest.mark.parametrize("options", [[], ["--undo", "--reason", BAD]])
def test_a_reason_or_an_undo_is_asked_for(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", "retract", "demo==1.0", "--to", "dir:nowhere", *options]) == 2
    assert "expected --reason" in capsys.readouterr().err


# ---------------------------------------------------------------- the notice

NOTICE = Notice(BAD, "Demo 1", prerelease=False, latest=True)
HOSTILE = "--><script> @everyone `x` <!-- /fatwheel retracted --> | \u202e %s {} \\"


@pytest.mark.parametrize(
    "body", ["", "Notes.", "\n\nNotes.\r\n", "<!-- fatwheel core sha256:ab -->", "<!-- fatwheel retracted"]
)
@pytest.mark.parametrize("reason", [BAD, HOSTILE])
def test_a_notice_goes_as_it_came(body: str, reason: str) -> None:
    noticed = add_notice(body, NOTICE._replace(reason=reason))
    assert remove_notice(noticed) == body
    found = notice_of(noticed)
    assert found is not None
    assert found.reason == reason.replace("\u202e", " ")


def test_a_hostile_reason_is_no_markup() -> None:
    noticed = add_notice("Notes.", NOTICE._replace(reason=HOSTILE))
    assert noticed.count("-->") == 2
    assert ("<script>" in noticed, "@everyone `" in noticed.partition("-->")[2]) == (False, False)


def test_notes_that_were_edited_keep_the_edit() -> None:
    edited = add_notice("Notes.", NOTICE).replace("\n", "\r\n") + " More."
    assert remove_notice(edited) == "Notes. More."


@pytest.mark.parametrize(
    "body",
    ["", "Notes.", "<!-- fatwheel retracted {} --><!-- /fatwheel retracted -->", f"Notes. {add_notice('', NOTICE)}"],
)
def test_notes_without_a_notice_at_their_top_stay(body: str) -> None:
    assert notice_of(body) is None
    assert remove_notice(body) == body


def test_the_longest_notice_fits_into_its_room() -> None:
    assert len(add_notice("", NOTICE._replace(reason="word " * 100))) < MAX_CHARACTERS


def test_a_title_is_marked_once() -> None:
    assert title_of(title_of("Demo 1")) == "[YANKED] Demo 1"
