"""What a user may write after `--to`: each place has one name, and nothing that is wrong or secret goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.index.manifest import Root
from ci_tools.index.objects.place import Place, place_of
from ci_tools.index.wheel_index import Settings
from ci_tools.publish.targets.addresses import index_of, indexes_of, refuse_unwritable, refuse_wrong, targets_of
from tests.builders.sources import world

WHO = "AWS_ACCESS_KEY_ID"
WRONG = "s3:/b s3://b?endpoint=x s3://b?root=mine github: github:me dir: pypi: git:me/it dir:a|s3:b"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        pytest.param("dir:~nosuchuser/x", "dir:~nosuchuser/x is not a folder", id="no-such-user"),
        pytest.param("dir:round/x", "dir:round/x is not a folder", id="links-that-lead-round"),
        pytest.param("dir:a\0b", "holds the character U\\+0000", id="a-zero-byte"),
        pytest.param("dir:a\x1b[2J", "holds the character U\\+001B", id="an-escape"),
        pytest.param("dir:a\udcff", "holds the character U\\+DCFF", id="a-byte-that-is-no-text"),
        pytest.param("dir:", '"dir:" is not a target', id="no-path"),
        pytest.param("s3://[x", "cannot be read, expected s3://BUCKET/PREFIX", id="no-address"),
        pytest.param("s3://bucket/\n", "holds the character U\\+000A", id="a-line-break"),
        pytest.param("", '"" is not a target', id="an-empty-variable"),
        pytest.param("github:", '"github:" is not a target', id="no-repository"),
        pytest.param("github:me", '"github:me" is not a target', id="half-a-repository"),
        pytest.param("github:me/it/more", '"github:me/it/more" is not a target', id="more-than-a-repository"),
        pytest.param("s3:/bucket/whl", "names no bucket", id="no-bucket"),
        pytest.param("s3://b/p?endpoint=x", 'endpoint is "x", expected an address', id="no-endpoint"),
        pytest.param("dir:a?root=mine", 'root is "mine", expected own, shared, kept', id="an-unknown-root"),
        pytest.param("s3://b/whl?nightlies=0", 'nightlies is "0", expected how many', id="no-nightlies"),
        pytest.param("dir:a?root=own&root=kept", "a setting is given twice", id="a-setting-twice"),
        pytest.param("dir:a|dir:./a", "is named as its own mirror", id="its-own-mirror"),
    ],
)
def test_what_names_no_place_is_said(address: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("round").symlink_to("round")
    with pytest.raises(InputError, match=said):
        targets_of([address], world(tmp_path))


@pytest.mark.parametrize("address", ["", *WRONG.split(), f"dir:{__file__}"])
def test_a_plan_refuses_what_names_no_place(address: str) -> None:
    with pytest.raises(InputError):
        refuse_wrong([address], distant=False)


@pytest.mark.parametrize("address", ["s3://b", "s3://b/whl|dir:a", "github:me/it", "dir:a", "pypi", "pypi:ours"])
def test_a_plan_takes_what_another_machine_may_know(address: str) -> None:
    refuse_wrong([address], distant=False)


def test_a_folder_without_its_kind_is_told_how_to_write_it(tmp_path: Path) -> None:
    for read in (targets_of, lambda addresses, outside: index_of(addresses[0], outside)):
        with pytest.raises(InputError) as caught:
            read(["/nowhere"], world(tmp_path))
        assert caught.value.hint == 'the folder is "dir:/nowhere"'
    with pytest.raises(InputError) as caught:
        index_of("ftp://there", world(tmp_path))
    assert caught.value.hint == "known: dir, s3"  # and none that is no index


def test_a_folder_that_is_read_only_is_said_before_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = targets_of([f"dir:{tmp_path}/a/b|dir:{tmp_path}/c"], world(tmp_path))
    refuse_unwritable(targets)
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)  # root may write everywhere
    with pytest.raises(MachineError, match=f"dir:{tmp_path}/a/b cannot be published to: {tmp_path} is read-only"):
        refuse_unwritable(targets)


def test_a_target_is_one_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    Path("link").symlink_to("there")
    spellings = ("dir:there", "dir:./there/", "dir:link", f"dir:{tmp_path}/other/../there")
    assert [target.address for target in targets_of(spellings, world(tmp_path))] == [f"dir:{tmp_path / 'there'}"]
    assert [target.address for target in targets_of(["pypi", "pypi:pypi"], world(tmp_path))] == ["pypi"]


@pytest.mark.parametrize(
    "place",
    [
        Place("bucket"),
        Place("bucket", "whl"),
        Place("bucket", "whl/test", "https://host:9000/path", "eu-west-1"),
        Place("bucket", "a+b", "http://host/%2B&=", "a&b=c d"),
    ],
)
def test_an_address_can_be_typed_again(place: Place) -> None:
    assert place_of(place.address) == place


@pytest.mark.parametrize(
    ("address", "said"),
    [
        pytest.param("s3://bucket/whl?endpoint=", "the setting endpoint is empty", id="an-empty-setting"),
        pytest.param("s3://bucket/whl?region", "the setting region is empty", id="a-setting-without-a-value"),
        pytest.param("s3://bucket/whl?region=a&region=b", "the setting region is given twice", id="twice"),
        pytest.param("s3://bucket/whl?endpoint=ftp://host", "expected an address such as https://host", id="ftp"),
        pytest.param("s3://bucket/whl?endpoint=host:9000", 'endpoint is "host:9000"', id="no-scheme"),
        pytest.param("s3://bucket/whl?endpoint=http://host:x", "endpoint is", id="no-port"),
        pytest.param("s3://bucket/whl?endpoint=http://[x", "endpoint is", id="no-host"),
        pytest.param("s3://bucket/whl?endpoint=http://h/?a", "endpoint is", id="a-query"),
        pytest.param("s3://bucket/whl?public=javascript:1", "public is", id="no-web-address"),
        pytest.param("s3://bucket/whl?endpont=http://h", 'did you mean "endpoint"', id="no-setting"),
    ],
)
def test_a_setting_that_is_wrong_is_said(address: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        place_of(address)


@pytest.mark.parametrize(
    "address",
    [
        "s3://me:hunter2@bucket/whl",
        "s3://me:hunter2/with-a-slash@bucket/whl",
        "s3://hunter2@bucket/whl",
        "s3://me:hunter2@[x",
        "s3://bucket/whl?endpoint=http://me:hunter2@host",
        "s3://bucket/whl?endpoint=http://me:hunter2/x@host",
        "s3://bucket/whl?endpoint=http://me%3Ahunter2%40host",
        "s3://bucket/whl?public=https://me:hunter2@host",
        "s3://bucket/whl?endpont=https://me:hunter2@host",
        "s3://bucket/whl?timeout=1&endpoint=http://me:hunter2@host&region=",
        "s4://me:hunter2@bucket/whl",
        "https://me:hunter2@host/whl",
        "hunter2@host",
    ],
)
def test_who_the_user_is_has_no_place_in_an_address_and_is_not_shown(address: str, tmp_path: Path) -> None:
    for read in (targets_of, lambda addresses, outside: index_of(addresses[0], outside)):
        with pytest.raises(InputError) as caught:
            read([address], world(tmp_path))
        assert "hunter2" not in str(caught.value)


def test_who_writes_a_password_is_told_where_it_belongs() -> None:
    for address in ("s3://me:hunter2@bucket", "s3://bucket?endpoint=http://me:hunter2@host"):
        with pytest.raises(InputError) as caught:
            place_of(address)
        assert WHO in caught.value.hint


def test_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert index_of("dir:~/whl", world(tmp_path)).address == f"dir:{tmp_path}{os.sep}whl"


@pytest.mark.parametrize("place", ["dir:{}/a", "s3://bucket/whl?region=here", "s3://bucket/whl"])
def test_what_is_said_of_an_index_is_no_part_of_its_place(place: str, tmp_path: Path) -> None:
    place = place.format(tmp_path)
    index = index_of(f"{place}{'&' if '?' in place else '?'}root=shared&nightlies=7", world(tmp_path))
    assert (index.address, index.settings) == (place, Settings(root=Root.SHARED, nightlies=7))


def test_a_folder_may_have_a_question_mark_in_its_name(tmp_path: Path) -> None:
    assert index_of(f"dir:{tmp_path}/who?", world(tmp_path)).address == f"dir:{tmp_path}/who?"


def test_an_index_and_its_mirror_are_one_target(tmp_path: Path) -> None:
    first, mirror = indexes_of(f"dir:{tmp_path}/a|s3://b/whl?region=here", world(tmp_path))
    assert (first.like, mirror.like, mirror.address) == (None, first, "s3://b/whl?region=here")
