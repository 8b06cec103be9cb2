"""Uploads to real indexes by real uploaders, and under what can happen on the way."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT, PyPISimple
from twine.utils import TEST_REPOSITORY

from ci_tools.errors import FatwheelError, InputError, MachineError, Rejected, RejectedInput
from ci_tools.index.units import Unit
from ci_tools.machine import waits
from ci_tools.machine.context import Silent
from ci_tools.model.request import Route
from ci_tools.publish.targets.pypi import PyPITarget
from ci_tools.publish.targets.pypi import target as pypi_target
from ci_tools.publish.targets.pypi import uploader as pypi_place
from ci_tools.publish.targets.pypi import uploader as pypi_uploader
from tests.builders.installers import options_of, run_client
from tests.builders.releases import Words
from tests.builders.sources import world
from tests.builders.uploaded import CUDA, NATIVE, ORDER, PURE, SDIST, files, publishing, target
from tests.builders.wheels import hexdigest, make
from tests.servers.uploads import PASSWORD, Server, between, pypiserver, sdist, unit_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _quick_twine(request: pytest.FixtureRequest, prepared_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork twine from one that has started; where an upload is killed, or the release is whole, it is started."""
    if request.function is not test_a_release_is_uploaded_once_and_the_sdist_last:
        monkeypatch.setattr(pypi_uploader, "sys", SimpleNamespace(executable=str(prepared_python)))
        monkeypatch.setattr(pypi_uploader, "start_module", lambda name: (str(prepared_python), "-m", name))


# ---------------------------------------------------------------- what is there


def test_a_release_is_uploaded_once_and_the_sdist_last(
    server: Server, uploader: str, unit: Unit, tmp_path: Path
) -> None:
    with between(server) as (state, seen):
        there = target(tmp_path, seen, uploader)
        assert [(change.what, change.where.rpartition("/")[2]) for change in there.check(unit)] == [
            ("add", name) for name in ORDER
        ]
        there.stage(unit)
        there.verify(unit)
        assert state.uploads == []
        assert [(file.file, file.new) for file in there.switch(unit)] == [(name, True) for name in ORDER]
        assert [change.what for change in there.check(unit)] == ["keep"] * 3
        assert [file.new for file in there.switch(unit)] == [False] * 3
        assert state.uploads == ORDER


def test_a_published_file_never_changes(server: Server, uploader: str, unit: Unit, tmp_path: Path) -> None:
    target(tmp_path, server, uploader).switch(unit)
    other = unit_of(*files(tmp_path / "other", b"ANSWER = 43\n"))
    for step in (target(tmp_path, server, uploader).check, target(tmp_path, server, uploader).switch):
        with pytest.raises(RejectedInput) as caught:
            step(other)
        assert f"{PURE}: pypi:{server.upload} has it with other bytes" in caught.value.message
        assert "raise the version" in caught.value.message
    assert [file.new for file in target(tmp_path, server, uploader).switch(unit)] == [False] * 3


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_a_client_installs_it_by_its_hash(client: str, server: Server, unit: Unit, tmp_path: Path) -> None:
    target(tmp_path, server).switch(unit)
    hashes = " ".join(f"--hash=sha256:{item.sha256}" for item in unit.items)
    (tmp_path / "requirements.txt").write_text(f"demo==1.0 {hashes}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environ = {**kept, "PIP_CONFIG_FILE": os.devnull, "UV_CACHE_DIR": str(tmp_path / "cache")}
    options = ("--require-hashes", "--index-url", server.simple, "-r", str(tmp_path / "requirements.txt"))
    done = run_client(client, [*options_of(client), *options, "--target", tmp_path / "there"], environ)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "demo.py").read_text() == "ANSWER = 42\n"


def test_a_change_of_what_is_published_is_foreseen_by_the_sdist(plain: Server, unit: Unit, tmp_path: Path) -> None:
    there = target(tmp_path, plain)
    assert there.holds(unit) == frozenset()
    there.switch(unit)
    assert there.holds(unit) == set(ORDER)
    there.foresee(replace(unit, items=tuple(item for item in unit.items if item.name == SDIST)))
    other = sdist(tmp_path / "other")
    other.write_bytes(other.read_bytes() + b"more")
    with pytest.raises(RejectedInput, match=r"demo-1\.0\.tar\.gz: .* has it with other bytes"):
        there.foresee(unit_of(other))


def test_a_release_of_which_nothing_is_finished_is_foreseen_by_the_metadata_of_its_sdist(
    plain: Server, unit: Unit, tmp_path: Path
) -> None:
    there, (draft, *_) = target(tmp_path, plain), [item for item in unit.items if item.name == SDIST]
    core = replace(unit, items=(), route=Route.SMART)
    there.foresee(replace(unit, items=()))  # `build: {sdist: false}`: its wheels are not built yet
    there.switch(replace(core, items=(draft,)))
    other = sdist(tmp_path / "other")
    other.write_bytes(other.read_bytes() + b"more")  # a smart sdist has other bytes than the one that it is made of
    there.foresee(replace(core, drafts=unit_of(other).items))
    stranger = sdist(tmp_path / "stranger")
    wrong = unit_of(stranger.rename(stranger.with_name("other-1.0.tar.gz"))).items
    with pytest.raises(RejectedInput, match=r"other-1\.0\.tar\.gz"):
        there.foresee(replace(core, drafts=wrong))


def test_the_route_says_what_goes_there(plain: Server, unit: Unit, tmp_path: Path) -> None:
    there = target(tmp_path, plain)
    assert [Path(change.where).name for change in there.check(replace(unit, route=Route.SMART))] == [SDIST]
    optional = replace(unit, name="linux-cuda", items=tuple(item for item in unit.items if item.name == CUDA))
    assert (list(there.check(optional)), list(there.switch(optional))) == ([], [])
    with pytest.raises(InputError) as caught:
        there.check(replace(unit, route=Route.NONE))
    assert "pypi: wheels" in caught.value.hint
    with pytest.raises(InputError, match="has nothing that goes to"):
        there.check(replace(optional, name="core"))


def test_an_index_without_hashes_is_compared_by_content(unit: Unit, tmp_path: Path) -> None:
    with pypiserver(tmp_path / "served", "--disable-fallback", "--hash-algo", "no") as server:
        assert [file.new for file in target(tmp_path, server).switch(unit)] == [True] * 3
        assert [change.what for change in target(tmp_path, server).check(unit)] == ["keep"] * 3
        with pytest.raises(RejectedInput, match="other bytes"):
            target(tmp_path, server).check(unit_of(*files(tmp_path / "other", b"")))


def test_an_index_that_sends_us_elsewhere_has_no_such_project(plain: Server, unit: Unit, tmp_path: Path) -> None:
    target(tmp_path, plain).switch(unit)
    with pypiserver(tmp_path / "empty", "--fallback-url", plain.simple) as server:
        assert [change.what for change in target(tmp_path, server).check(unit)] == ["add"] * 3


def test_a_section_of_pypirc_names_an_index(plain: Server, uploader: str, unit: Unit, tmp_path: Path) -> None:
    with between(plain) as (state, seen):
        state.password = PASSWORD
        section = f"[ours]\nrepository = {seen.upload}\nusername = tester\npassword = {PASSWORD}\n"
        (tmp_path / ".pypirc").write_text(f"[distutils]\nindex-servers = ours\n{section}")
        outside = world(tmp_path)
        assert len(PyPITarget("ours", outside, uploader=uploader, patience=5.0).switch(unit)) == 3
        with pytest.raises(InputError, match='there is no index "our", did you mean "ours"'):
            PyPITarget("our", outside)


# ---------------------------------------------------------------- what is wrong before the first byte


def test_pypi_s_own_rules_are_applied_before_anything_is_sent(
    plain: Server, unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with between(plain) as (state, seen):
        monkeypatch.setattr(pypi_place, "SIMPLE", {"127.0.0.1": seen.simple})
        with pytest.raises(RejectedInput, match="PyPI takes no wheel for linux_x86_64"):
            target(tmp_path, seen).switch(unit)
        assert state.uploads == []


def test_a_file_that_is_not_what_was_recorded_is_not_sent(plain: Server, unit: Unit, tmp_path: Path) -> None:
    with between(plain) as (state, seen):
        sdist(tmp_path / "made", fields="Summary: Another.\n")
        make(tmp_path / "made", NATIVE).write_bytes(b"no wheel")
        with pytest.raises(RejectedInput) as caught:
            target(tmp_path, seen).switch(unit)
        assert [problem.where for problem in caught.value.problems] == [NATIVE, "", SDIST]
        assert state.uploads == []


def test_a_file_that_changes_while_another_is_uploaded_is_not_sent(
    plain: Server, uploader: str, unit: Unit, tmp_path: Path
) -> None:
    class Meddling(Silent):
        @contextmanager
        def step(self, title: str) -> Iterator[Silent]:
            yield self
            if NATIVE in title:
                (tmp_path / "made" / PURE).write_bytes(b"no wheel")

    with between(plain) as (state, seen):
        outside = replace(world(tmp_path, **seen.environ), reporter=Meddling())
        there = PyPITarget(seen.upload, outside, uploader=uploader, patience=5.0)
        with pytest.raises(MachineError, match=f"{PURE} changed while it was published") as caught:
            there.switch(unit)
        assert (state.uploads, "the same command" in caught.value.hint) == ([NATIVE], True)


def test_an_address_that_is_no_index_is_said(plain: Server, unit: Unit, tmp_path: Path) -> None:
    with between(plain) as (state, seen):
        state.refuse["GET"] = 404
        with pytest.raises(InputError, match="cannot be read at any of") as caught:
            target(tmp_path, seen).check(unit)
        assert "UV_PUBLISH_CHECK_URL" in caught.value.hint
        found = target(tmp_path, seen, UV_PUBLISH_CHECK_URL=plain.simple).check(unit)
        assert [change.what for change in found] == ["add"] * 3


# ---------------------------------------------------------------- what goes wrong


def test_a_wrong_password_is_explained_and_never_shown(
    server: Server, uploader: str, unit: Unit, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    wrong = {"TWINE_PASSWORD": "hunter2", "UV_PUBLISH_PASSWORD": "hunter2"}
    with between(server) as (state, seen):
        state.password_to_upload = "" if "devpi" in request.node.name else PASSWORD  # devpi asks by itself
        with pytest.raises(InputError) as caught:
            target(tmp_path, seen, uploader, **wrong).switch(unit)
    expected = {"twine": "TWINE_PASSWORD", "uv": "UV_PUBLISH_TOKEN"}[uploader]
    assert (expected in caught.value.hint, "hunter2" in str(caught.value)) == (True, False)
    assert "401" in caught.value.message


def test_no_password_at_all_is_explained(plain: Server, unit: Unit, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        PyPITarget(plain.upload, world(tmp_path)).switch(unit)
    assert "TWINE_PASSWORD" in caught.value.hint


@pytest.mark.parametrize("given", [PASSWORD, "hunter2"])
def test_pages_that_are_not_for_everybody_are_read_with_the_user_s_password(
    given: str, plain: Server, unit: Unit, tmp_path: Path
) -> None:
    with between(plain) as (state, seen):
        state.password = PASSWORD
        there = target(tmp_path, seen, "twine", TWINE_PASSWORD=given)
        if given == PASSWORD:
            assert len(there.switch(unit)) == 3
        else:
            with pytest.raises(InputError, match="cannot be read: 401") as caught:
                there.check(unit)
            assert "hunter2" not in str(caught.value)


def test_without_network_it_says_so(uploader: str, unit: Unit, tmp_path: Path) -> None:
    nobody = Server("http://127.0.0.1:1/", "", {})
    with pytest.raises(MachineError, match="Connection refused") as caught:
        target(tmp_path, nobody, uploader).check(unit)
    assert "the same command" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        pytest.param(500, MachineError, id="broken"),
        pytest.param(503, MachineError, id="overloaded"),
        pytest.param(429, MachineError, id="too-many"),
        pytest.param(403, InputError, id="not-allowed"),
        pytest.param(413, Rejected, id="too-large"),
        pytest.param(404, Rejected, id="nowhere"),
    ],
)
def test_an_upload_that_is_refused_is_said_and_a_retry_goes_on(
    status: int, kind: type[FatwheelError], uploader: str, plain: Server, unit: Unit, tmp_path: Path
) -> None:
    with between(plain) as (state, seen):
        state.refuse["POST"] = status
        with pytest.raises(kind, match=str(status)):
            target(tmp_path, seen, uploader).switch(unit)
        assert set(state.uploads) == {ORDER[0]}
        state.refuse.clear()
        first = replace(unit, items=tuple(item for item in unit.items if item.name == ORDER[0]))
        assert [file.new for file in target(tmp_path, seen, uploader).switch(first)] == [True]


@pytest.mark.parametrize(
    ("name", "host"),
    [("", PYPI_SIMPLE_ENDPOINT), ("pypi", PYPI_SIMPLE_ENDPOINT), ("testpypi", TEST_REPOSITORY)],
)
def test_pypi_and_testpypi_are_known_by_name(
    name: str, host: str, plain: Server, unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with between(plain) as (state, seen):
        monkeypatch.setenv("HTTPS_PROXY", seen.upload)
        with pytest.raises(MachineError, match="502"):
            PyPITarget(name, world(tmp_path)).check(unit)
        assert set(state.tunnels) == {f"{urlsplit(host).hostname}:443"}


def test_pages_that_break_are_said(plain: Server, unit: Unit, tmp_path: Path) -> None:
    with between(plain) as (state, seen):
        state.refuse["GET"] = 502
        with pytest.raises(MachineError, match="502"):
            target(tmp_path, seen).check(unit)


def test_an_answer_that_is_lost_does_no_harm(uploader: str, server: Server, unit: Unit, tmp_path: Path) -> None:
    with between(server) as (state, seen):
        state.lose.add("POST")
        assert len(target(tmp_path, seen, uploader).switch(unit)) == 3
        assert sorted(set(state.uploads)) == sorted(ORDER)


def test_an_upload_whose_answer_never_comes_is_waited_for_with_words_and_not_for_ever(
    uploader: str, plain: Server, unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "EVERY", 0.2)
    monkeypatch.setattr(pypi_uploader, "CONNECTING", 2.0)
    words = Words()
    with between(plain) as (state, seen):
        state.hold = "before"
        outside = replace(world(tmp_path, **seen.environ), reporter=words)
        reader = PyPITarget(seen.upload, outside, uploader=uploader, patience=0.5)
        with pytest.raises(MachineError, match=r"could not be uploaded to .*: it did not end within 2 s"):
            reader.switch(unit)
    said = [line for line in words.lines if f"to accept {ORDER[0]}, for 2 s at most: " in line]
    assert len(said) > 3


def test_a_page_that_lags_behind_is_waited_for(plain: Server, unit: Unit, tmp_path: Path) -> None:
    with between(plain) as (state, seen):
        state.late = 2
        assert len(target(tmp_path, seen).switch(unit)) == 3


def test_a_page_that_never_lists_what_it_took_is_said(
    uploader: str, plain: Server, unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pypi_target, "SETTLING", 0.5)
    there = replace(unit, items=unit.items[:1])
    with between(plain) as (state, seen):
        for said in ("does not list demo", "says that it has demo-.*already exists"):  # then the upload is refused
            state.late = 1_000
            reader = PyPITarget(seen.upload, world(tmp_path, **seen.environ), uploader=uploader, patience=0.5)
            with pytest.raises(MachineError, match=said) as caught:
                reader.switch(there)
            assert "the same command" in caught.value.hint
        state.late = 0
        assert [file.new for file in target(tmp_path, seen).switch(there)] == [False]


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_killed_upload_is_finished_by_the_same_command(
    where: str, count: int, uploader: str, server: Server, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    files(made)
    with between(server) as (state, seen):
        done = unit_of(*[made / name for name in ORDER[: count - 1]])
        if count > 1:
            target(tmp_path, seen, uploader).switch(done)
        state.hold = where
        process = publishing(made, seen, uploader)
        assert state.held.wait(60)
        process.kill()
        assert publishing(made, seen, uploader).end() == (0, "")
        assert state.uploads[:count] == ORDER[:count]
        there = target(tmp_path, seen).check(unit_of(*[made / name for name in ORDER]))
        assert [change.what for change in there] == ["keep"] * 3


def test_two_at_once_both_finish(uploader: str, server: Server, tmp_path: Path) -> None:
    made = tmp_path / "made"
    files(made)
    both = [publishing(made, server, uploader) for _ in range(2)]
    assert [process.end() for process in both] == [(0, ""), (0, "")]
    assert [change.what for change in target(tmp_path, server).check(unit_of(*made.iterdir()))] == ["keep"] * 3


def test_two_at_once_with_other_bytes_lose_nothing(server: Server, tmp_path: Path) -> None:
    """One of them finishes, or each says why not; what is there is whole and one of the two."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    both = [unit_of(*files(folder, str(folder).encode())) for folder in (ours, theirs)]
    ended: list[FatwheelError | None] = [None, None]

    def publish(number: int) -> None:
        try:
            target(tmp_path, server).switch(both[number])
        except FatwheelError as error:
            ended[number] = error

    threads = [threading.Thread(target=publish, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert any(isinstance(error, RejectedInput) and "other bytes" in error.message for error in ended), ended
    assert ended[0] is None or ended[1] is None or all(isinstance(error, RejectedInput) for error in ended)
    known = {item.name: {hexdigest(ours / item.name), hexdigest(theirs / item.name)} for item in both[0].items}
    with PyPISimple(server.simple) as reader:
        packages = reader.get_project_page("demo").packages
    assert all(package.digests["sha256"] in known[package.filename] for package in packages)
