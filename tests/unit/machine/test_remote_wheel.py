from __future__ import annotations

import functools
import io
import random
import zipfile
from contextlib import nullcontext

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.machine.http.policy import TooLarge
from ci_tools.machine.http.ranges import RemoteFile
from ci_tools.machine.package_index import Index, files_of
from ci_tools.machine.remote_wheel import remote_wheel, whole_wheel
from tests.servers.package_index import Sent, index_of

pytestmark = pytest.mark.usefixtures("at_once")

WHEEL = "demo-1.0-py3-none-any.whl"
NOISE = random.Random(1).randbytes(3_000_000)  # noqa: S311 - the same bytes every time


@functools.cache
def wheel(large: bytes = NOISE) -> bytes:
    """Return a wheel with a large member between two small ones."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in (("demo/a.py", b"x = 1\n"), ("demo/large.so", large), ("demo/b.py", b"x = 2\n")):
                archive.writestr(name, content)
        return file.getvalue()


def members(served: Index, *names: str) -> tuple[list[bytes], RemoteFile]:
    """Return those members' content, and the remote file, which says what was fetched."""
    with files_of("demo", served) as (session, addresses), remote_wheel(session, addresses[WHEEL]) as found:
        contents = []
        for name in names:
            sink = io.BytesIO()
            found.copy(name, sink)
            contents.append(sink.getvalue())
        assert found.names == ("demo/a.py", "demo/large.so", "demo/b.py")
        return contents, found.file


def test_one_member_is_read_without_the_others() -> None:
    with index_of("demo", {WHEEL: wheel()}) as served:
        contents, file = members(served, "demo/b.py")
    assert contents == [b"x = 2\n"]
    assert file.fetched < file.size / 2


def test_one_request_gets_the_directory_and_the_members_at_the_end() -> None:
    sent: list[Sent] = []
    with index_of("demo", {WHEEL: wheel()}, sent=sent) as served:
        contents, file = members(served, "demo/b.py")
    assert contents == [b"x = 2\n"]
    assert [(one.range, one.size) for one in sent if one.range] == [("bytes=-65536", 65536)]
    assert file.fetched == 65536


def test_no_more_is_fetched_than_the_caller_wants() -> None:
    with (
        index_of("demo", {WHEEL: wheel()}) as served,
        files_of("demo", served) as (session, addresses),
        remote_wheel(session, addresses[WHEEL], 1 << 20) as found,
        pytest.raises(TooLarge, match="it takes more than 1,048,576 bytes to read it"),
    ):
        found.copy("demo/large.so", io.BytesIO())


@pytest.mark.parametrize("most", [len(wheel()), len(wheel()) - 1])
def test_a_whole_wheel_has_at_most_as_many_bytes_as_the_caller_wants(most: int) -> None:
    with (
        index_of("demo", {WHEEL: wheel()}, ranges="none") as served,
        files_of("demo", served) as (session, addresses),
        nullcontext() if most == len(wheel()) else pytest.raises(TooLarge, match="expected at most 3,0"),
        whole_wheel(session, addresses[WHEEL], most) as (archive, size),
    ):
        assert (archive.read("demo/b.py"), size) == (b"x = 2\n", most)


@pytest.mark.parametrize("most", [1 << 30, 100_000], ids=["whole", "cut-off"])
@pytest.mark.parametrize("ranges", ["both", "from a start"])
def test_members_are_read_in_any_order_where_answers_are(ranges: str, most: int) -> None:
    with index_of("demo", {WHEEL: wheel()}, ranges=ranges, most=most) as served:
        contents, file = members(served, "demo/b.py", "demo/large.so", "demo/a.py")
    assert contents == [b"x = 2\n", NOISE, b"x = 1\n"]
    assert file.size == len(wheel())


def test_a_server_that_sends_no_parts_is_said() -> None:
    with (
        index_of("demo", {WHEEL: wheel()}, ranges="none") as served,
        pytest.raises(MachineError, match="does not send a part of a file"),
    ):
        members(served, "demo/large.so")


def damaged() -> bytes:
    content = bytearray(wheel())
    content[len(content) // 2] ^= 1
    return bytes(content)


@pytest.mark.parametrize(
    "content", [pytest.param(b"no zip file" * 99, id="no-archive"), pytest.param(damaged(), id="wrong-checksum")]
)
def test_a_damaged_wheel_is_said(content: bytes) -> None:
    with (
        index_of("demo", {WHEEL: content}) as served,
        pytest.raises(InputError, match=f"{WHEEL} cannot be read on the package index"),
    ):
        members(served, "demo/large.so")


def test_an_unknown_project_is_said() -> None:
    with (
        index_of("demo", {}) as served,
        pytest.raises(InputError, match='has no project "other"'),
        files_of("other", served),
    ):
        pytest.fail("there is no such project")
