from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.cli.main import main
from ci_tools.errors import InputError, Rejected, RejectedInput
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from ci_tools.publish import additions
from ci_tools.publish.additions import Addition, add, preview
from ci_tools.publish.promotion import promote
from tests.builders import releases
from tests.builders.indexes import CUDA, PURE, entry, found, root
from tests.builders.releases import Words, folder_index, item, unit
from tests.builders.wheels import edited, listed, make

FLASH = "flash_attn-2.8+cu130-py3-none-any.whl"


def bad(folder: Path) -> Path:
    """Write a wheel whose METADATA is another project's."""
    wheel = make(folder, "bad-1.0-py3-none-any.whl")
    return edited(wheel, {"bad-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: good\nVersion: 1.0\n"})


@pytest.mark.parametrize(
    ("version", "folder"),
    [
        ("1.0+cu130", "cu130"),
        ("1.0+cu130torch2.10", "cu130torch2.10"),
        ("1.0+rocm7.1", "rocm7.1"),
        ("1.0+xpu", "xpu"),
        ("1.0+cpu", "cpu"),
        ("1.0+gitabc", ""),
        ("1.0", ""),
    ],
)
def test_the_folder_is_what_the_local_version_names(
    version: str, folder: str, tmp_path: Path, outside: Outside
) -> None:
    index, wheel = folder_index(tmp_path / "index"), make(tmp_path, f"demo-{version}-py3-none-any.whl")
    add([index], Addition((wheel,)), outside)
    assert (root(index) / folder / wheel.name).exists()


def test_a_folder_that_is_said_goes_before_and_others_list_it_too(tmp_path: Path, outside: Outside) -> None:
    index, wheel = folder_index(tmp_path / "index"), make(tmp_path, "demo-1.0+cu130.abi-py3-none-any.whl")
    with pytest.raises(InputError, match=r"the version 1\.0\+cu130\.abi seems to say cu130\.abi, expected --folder"):
        add([index], Addition((wheel,)), outside)
    add([index], Addition((wheel,), "cu130", ("cu129",)), outside)
    assert [listed(root(index), folder) for folder in ("cu130", "cu129", "cpu")] == [[wheel.name], [wheel.name], []]


@pytest.mark.parametrize(
    ("addition", "sentence"),
    [
        (Addition((), "cu13x"), "--folder says cu13x, expected --folder with an accelerator such as cu130"),
        (Addition((), "variants"), "--folder says variants"),
        (Addition((), "", ("cu129",)), "--also: every folder lists demo-1.0-py3-none-any.whl"),
    ],
)
def test_a_folder_that_is_none_is_refused(addition: Addition, sentence: str, tmp_path: Path, outside: Outside) -> None:
    with pytest.raises(RejectedInput, match=sentence):
        add([folder_index(tmp_path / "index")], addition._replace(files=(make(tmp_path),)), outside)
    assert not (tmp_path / "index").exists()


def test_what_is_no_wheel_is_said_all_at_once(tmp_path: Path, outside: Outside) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(RejectedInput) as refused:
        add([folder_index(tmp_path / "index")], Addition((tmp_path / "notes.txt", tmp_path / "gone.whl")), outside)
    assert [problem.what.partition(":")[0] for problem in refused.value.problems] == [
        "notes.txt is not the name of a wheel or an sdist",
        f"there is no file {tmp_path}/gone.whl",
    ]


def test_a_bad_wheel_is_refused_unless_it_is_taken_as_it_is(tmp_path: Path, outside: Outside) -> None:
    index, wheel = folder_index(tmp_path / "index"), bad(tmp_path)
    with pytest.raises(Rejected, match=r"names: METADATA and the file name differ in the project") as refused:
        add([index], Addition((wheel,)), outside)
    assert "--despite names adds it as it is" in refused.value.hint
    assert not (tmp_path / "index").exists()
    added = add([index], Addition((wheel,), despite=frozenset({"names"})), outside)
    assert "names" in {finding.rule for finding in added.findings}
    assert (root(index) / wheel.name).exists()


def test_a_rule_that_is_none_is_refused(tmp_path: Path, outside: Outside) -> None:
    with pytest.raises(InputError, match='the audit has no rule "name", did you mean "names"'):
        add([folder_index(tmp_path / "index")], Addition((make(tmp_path),), despite=frozenset({"name"})), outside)


def test_a_published_file_does_not_change(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    other = edited(make(tmp_path, CUDA), {"demo/new.py": b""})
    with pytest.raises(InputError, match="already with other bytes"):
        add([index], Addition((other,)), outside)
    assert found(index, outside) == []


def test_nothing_is_changed_by_a_dry_run(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    before = sorted(root(index).rglob("*"))
    changes, _ = preview([index], Addition((make(tmp_path, FLASH),)), outside)
    assert (changes[0][0], changes[0][2].what) == ("flash-attn 2.8", "add")
    assert sorted(root(index).rglob("*")) == before


def test_what_a_plan_built_is_not_said_to_be_added(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    built = tmp_path / "made" / PURE
    add([index], Addition((built,)), outside)
    assert "origin" not in entry(index, PURE)
    add([index], Addition((make(tmp_path, "more-1.0-py3-none-any.whl"),)), outside)
    releases.publish(index, unit("more", item(tmp_path / "more-1.0-py3-none-any.whl")))
    assert "origin" not in entry(index, "more-1.0-py3-none-any.whl", "more")


def test_the_label_is_promoted_too(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    add([index], Addition((make(tmp_path, FLASH),)), outside)
    target = folder_index(tmp_path / "stable")
    promote(index, [target], "flash-attn==2.8", outside)
    assert entry(target, FLASH, "flash-attn")["origin"] == "added"


def test_the_command_adds_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel, target = str(make(tmp_path, FLASH)), f"dir:{tmp_path}/index"
    assert main(["index", "add", target, wheel, "--dry-run"]) == 0
    assert not (tmp_path / "index").exists()
    assert main(["index", "add", target, wheel, "--also", "cu129"]) == 0
    assert "published" in capsys.readouterr().out
    assert main(["index", "verify", target]) == 0
    assert "not built by Fatwheel: 1 added" in capsys.readouterr().err
    assert json.loads((tmp_path / "index/cu129/flash-attn/index.json").read_text())["files"] != []


SDIST = "flash_attn-2.8.tar.gz"


def sdist(path: Path) -> Path:
    """Write an sdist of the project and version in its name."""
    data = b"Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8\n"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.slow
def test_files_of_others_are_added_and_labelled(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    files = (make(tmp_path, FLASH), sdist(tmp_path / SDIST), make(tmp_path, "more-1.0-py3-none-any.whl"))
    added = add([index], Addition(files), outside)
    assert sorted(file.file for shown in added.shown for file in shown.files) == sorted(path.name for path in files)
    assert listed(root(index), "cu130", "flash-attn") == [SDIST, FLASH]
    assert listed(root(index), "cpu", "flash-attn") == [SDIST]
    assert entry(index, FLASH, "flash-attn")["origin"] == "added"
    assert '"origin":"added"' in (root(index) / "finder/flash-attn.js").read_text()
    assert found(index, outside) == []


@pytest.mark.slow
def test_a_wheel_that_installs_a_file_of_another_project_with_other_content_is_named(
    tmp_path: Path, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = folder_index(tmp_path / "index")
    first = edited(make(tmp_path, "first-1.0-py3-none-any.whl"), {"shared/a.py": b"1", "shared/__init__.py": b""})
    add([index], Addition((first,)), outside)
    later = edited(make(tmp_path, "later-1.0-py3-none-any.whl"), {"shared/a.py": b"2", "shared/__init__.py": b""})
    same = edited(make(tmp_path, "same-1.0-py3-none-any.whl"), {"shared/a.py": b"1"})
    newer = edited(make(tmp_path, "first-2.0-py3-none-any.whl"), {"shared/a.py": b"3"})
    found = [one for one in preview([index], Addition((later, same)), outside)[1] if one.rule == "together"]
    assert [(one.wheel, one.found) for one in found] == [(later.name, "shared/a.py"), (same.name, "shared/a.py")]
    assert not [one for one in add([index], Addition((newer,)), outside).findings if one.rule == "together"]
    monkeypatch.setattr(additions, "MOST_PROJECTS", 0)
    words = Words()
    preview([index], Addition((later,)), replace(outside, reporter=words))
    assert words.lines == ["not compared with the wheels of 1 other project: too many"]
