"""A hundred single edits of good wheels: each that changes what a user gets is found, or is of a kind named here."""

from __future__ import annotations

import functools
import random
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci_tools.errors import Rejected
from ci_tools.formats.wheel import open_wheel
from ci_tools.model.files import Finding
from ci_tools.model.plan import Job
from ci_tools.verify.audit import RULES, audit
from tests.builders import wheels
from tests.builders.audited import INFO, LIMITS, planned
from tests.builders.wheels import ABI3, LINUX, PURE, make, members_of, recorded
from tests.unit.verify.audit.test_audit import LIMITED

RECORD, METADATA, WHEEL = (f"{INFO}/{file}" for file in ("RECORD", "METADATA", "WHEEL"))
MODULE = b"def double(x):\n    return x * 2\n"
FILES = {
    PURE: {**wheels.PACKAGE, "demo/a.py": MODULE},
    LINUX: {**wheels.PACKAGE, "demo/a.py": MODULE, "demo/_C.so": wheels.linked("int ours(void) { return 1; }")},
    ABI3: {**wheels.PACKAGE, "demo/a.py": MODULE, "demo/_C.abi3.so": LIMITED},
}
# No look at a wheel alone can tell these from what the build made. The receipt has the sha256 of the file, which does.
BEYOND_AN_AUDIT = {
    "content, RECORD mended": "any content with a RECORD that fits it may be what was built",
    "METADATA, RECORD mended": "a summary, a dependency or a description may be what the project wrote",
    "executable or not": "whether a file is to be run is the project's choice, and RECORD does not tell it",
}


class Draft(NamedTuple):
    """A wheel on its way to the disk: its file name, its members in order, and the modes that differ from the usual."""

    name: str
    members: tuple[tuple[str, bytes], ...]
    modes: dict[str, int]
    method: int = zipfile.ZIP_DEFLATED

    def changed(self, name: str, data: bytes) -> Draft:
        """The same with another content of a member."""
        return self._replace(members=tuple((one, data if one == name else old) for one, old in self.members))

    def mended(self) -> Draft:
        """The same with a RECORD that fits."""
        return self._replace(members=tuple(recorded(dict(self.members)).items()))


@functools.cache
def good(name: str) -> Draft:
    with tempfile.TemporaryDirectory() as folder:
        return Draft(name, tuple(members_of(make(Path(folder), name, FILES[name])).items()), {})


def job_of(name: str) -> Job:
    return replace(planned(name), members=tuple(FILES[name]))


def packed(draft: Draft, folder: Path) -> Path:
    path = folder / draft.name
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in draft.members:
            info = zipfile.ZipInfo(name, wheels.YESTERDAY)
            usual = 0o100755 if name.endswith(".sh") else 0o100644
            info.external_attr, info.compress_type = draft.modes.get(name, usual) << 16, draft.method
            _written(archive, info, data)
    return path


def _written(archive: zipfile.ZipFile, info: zipfile.ZipInfo, data: bytes) -> None:
    if info.filename in archive.NameToInfo:
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(info, data)
    else:
        archive.writestr(info, data)


QUICK = tuple(RULES.keys() - {"abi3"})  # that rule starts another program


def judged(path: Path, name: str, only: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    return audit(path, job=job_of(name), limits=LIMITS, work=path.parent / "work", only=only)


def received(path: Path) -> object:
    """What an installer makes of it: its label, its files and which of them can be run; RECORD is written anew."""
    try:
        wheel = open_wheel(path)
        with wheel.archive:
            files = {info.filename: (wheel.read(info), info.external_attr >> 16 & 0o100) for info in wheel.infos}
    except Rejected as error:
        return error.message
    repeated = len(files) != len(wheel.infos)
    record = files.pop(RECORD, None)
    told = {line for line in files.pop(WHEEL, (b"", 0))[0].splitlines() if not line.startswith(b"Generat")}
    return wheel.named, files, told, repeated, record is None


# ---------------------------------------------------------------- the edits


def name_of(draft: Draft, chance: random.Random, *, of_dist_info: bool = True) -> str:
    return chance.choice([name for name, _ in draft.members if of_dist_info or INFO not in name])


def flipped(data: bytes, chance: random.Random) -> bytes:
    position = chance.randrange(len(data))
    return data[:position] + bytes([data[position] ^ (1 << chance.randrange(8))]) + data[position + 1 :]


def flip(draft: Draft, chance: random.Random) -> Draft:
    name = name_of(draft, chance)
    return draft.changed(name, flipped(dict(draft.members)[name], chance))


def drop(draft: Draft, chance: random.Random) -> Draft:
    name = name_of(draft, chance)
    return draft._replace(members=tuple(member for member in draft.members if member[0] != name))


def drop_and_mend(draft: Draft, chance: random.Random) -> Draft:
    name = name_of(draft, chance, of_dist_info=False)
    return draft._replace(members=tuple(member for member in draft.members if member[0] != name)).mended()


def rename(draft: Draft, chance: random.Random) -> Draft:
    name = name_of(draft, chance)
    return draft._replace(members=tuple((f"{one}x" if one == name else one, data) for one, data in draft.members))


def rename_and_mend(draft: Draft, chance: random.Random) -> Draft:
    name = name_of(draft, chance, of_dist_info=False)
    members = tuple((f"{one}x" if one == name else one, data) for one, data in draft.members)
    return draft._replace(members=members).mended()


def repeat(draft: Draft, chance: random.Random) -> Draft:
    name = name_of(draft, chance)
    return draft._replace(members=(*draft.members, (name, chance.randbytes(9))))


def add(draft: Draft, chance: random.Random) -> Draft:
    return draft._replace(members=(*draft.members, (f"demo/{chance.randrange(99)}.txt", chance.randbytes(9))))


def add_and_mend(draft: Draft, chance: random.Random) -> Draft:
    return add(draft, chance).mended()


def line_of_record(draft: Draft, chance: random.Random) -> Draft:
    lines = dict(draft.members)[RECORD].splitlines(keepends=True)
    number = chance.randrange(len(lines) - 1)
    lines[number] = chance.choice([b"", lines[number] * 2, lines[number].replace(b"sha256=", b"sha256=x")])
    return draft.changed(RECORD, b"".join(lines))


def line_of_wheel(draft: Draft, chance: random.Random) -> Draft:
    """Leave a line out, say it twice, or change its end; RECORD is mended."""
    lines = dict(draft.members)[WHEEL].splitlines(keepends=True)
    number = chance.randrange(len(lines))
    lines[number] = chance.choice([b"", lines[number][:-2] + b"x\n"])
    return draft.changed(WHEEL, b"".join(lines)).mended()


def label(draft: Draft, chance: random.Random) -> Draft:
    """Give the file another project, version or tag."""
    old, new = chance.choice([("demo", "dem0"), ("-1.0-", "-1.1-"), ("-1.0-", "-1.0+cu130-"), ("-py3-", "-py2-")])
    return draft._replace(name=draft.name.replace(old, new))


def mode(draft: Draft, chance: random.Random) -> Draft:
    odd = chance.choice([0o104755, 0o100666, 0o120777, 0o010644])
    return draft._replace(modes={name_of(draft, chance): odd})


def compression(draft: Draft, chance: random.Random) -> Draft:
    return draft._replace(method=chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))


EDITS: tuple[Callable[[Draft, random.Random], Draft], ...] = (
    flip,
    drop,
    drop_and_mend,
    rename,
    rename_and_mend,
    repeat,
    add,
    add_and_mend,
    line_of_record,
    line_of_wheel,
    label,
    mode,
    compression,
)


@settings(
    max_examples=100,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(name=st.sampled_from(sorted(FILES)), edit=st.sampled_from(EDITS), seed=st.integers(0, 1 << 32))
@pytest.mark.slow
def test_an_edit_that_changes_what_a_user_gets_is_found(
    name: str, edit: Callable[[Draft, random.Random], Draft], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as before, tempfile.TemporaryDirectory() as after:
        original = packed(good(name), Path(before))
        changed = packed(edit(good(name), random.Random(seed)), Path(after))  # noqa: S311 - repeatable, not secret
        if received(original) != received(changed):
            assert judged(changed, name, QUICK) or judged(changed, name), f"{edit.__name__} with {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FILES))
def test_the_wheels_that_are_edited_are_good(name: str, tmp_path: Path) -> None:
    assert judged(packed(good(name), tmp_path), name) == ()


# ---------------------------------------------------------------- what an audit cannot see

UNSEEN: dict[str, Draft] = {
    "content, RECORD mended": good(PURE).changed("demo/a.py", MODULE.replace(b"2", b"3")).mended(),
    "METADATA, RECORD mended": good(PURE)
    .changed(METADATA, dict(good(PURE).members)[METADATA].replace(b"\nLicense: MIT", b"\nLicense: MIT-0"))
    .mended(),
    "executable or not": good(PURE)._replace(modes={"demo/run.sh": 0o100644}),
}


@pytest.mark.parametrize("kind", BEYOND_AN_AUDIT)
def test_what_an_audit_cannot_see_changes_the_file_s_hash(kind: str, tmp_path: Path) -> None:
    (tmp_path / "edited").mkdir()
    original, changed = packed(good(PURE), tmp_path), packed(UNSEEN[kind], tmp_path / "edited")
    assert received(original) != received(changed)
    assert judged(changed, PURE) == ()
    assert wheels.hexdigest(original) != wheels.hexdigest(changed)


# ---------------------------------------------------------------- a damaged archive


@pytest.mark.slow
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_no_damage_to_an_archive_ends_in_a_traceback(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    with tempfile.TemporaryDirectory() as folder:
        path = packed(good(chance.choice([PURE, LINUX])), Path(folder))
        content = bytearray(path.read_bytes())
        for _ in range(chance.randrange(1, 5)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content[: chance.choice([len(content), chance.randrange(len(content))])])
        assert all(finding.message for finding in audit(path, job=None, limits=LIMITS, work=Path(folder) / "work"))


@pytest.mark.slow
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(seed=st.integers(0, 1 << 32), name=st.sampled_from(["demo/_C.so", METADATA, WHEEL, RECORD, "demo/a.py"]))
def test_no_damage_to_a_member_ends_in_a_traceback(seed: int, name: str) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    draft = good(LINUX)
    content = bytearray(dict(draft.members)[name])
    for _ in range(chance.randrange(1, 8)):
        content[chance.randrange(min(len(content), 2_000))] = chance.randrange(256)
    draft = draft.changed(name, bytes(content))
    with tempfile.TemporaryDirectory() as folder:
        path = packed(draft if name == RECORD else draft.mended(), Path(folder))
        assert all(finding.message for finding in audit(path, job=None, limits=LIMITS, work=Path(folder) / "work"))
