"""Editions: which one a tag stands for, what version it has, and which files of a source are made to say that."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from ci_tools.build.sdist import write_with_date
from ci_tools.build.version_files import restate_version
from ci_tools.errors import InputError, Rejected
from ci_tools.formats import edits
from ci_tools.model.edition import nightly, parse_tag, tag_of, variables, version
from ci_tools.model.evidence import Project
from ci_tools.model.request import UNTAGGED, Channel, Edition
from ci_tools.plan import make, plan_file
from ci_tools.source.files import Tree
from ci_tools.source.project_file import ProjectFile
from tests.builders.releases import Words
from tests.builders.sources import CONFIG, committed, demo, git, request_of, world, write

NIGHTLY = nightly("20261121")
CANDIDATE = Edition(Channel.TEST, 3)
DEV = "1.2.0.dev20261121"


# ---------------------------------------------------------------- tags


@pytest.mark.parametrize(
    ("tag", "template", "edition"),
    [
        pytest.param("v1.2.0", "v{version}", Edition(), id="the-tag-itself-is-stable"),
        pytest.param("v1.2.0-rc3", "v{version}", CANDIDATE, id="rc-is-a-candidate"),
        pytest.param("demo-1.2.0-rc3", "{name}-{version}", CANDIDATE, id="a-tag-with-the-name"),
        pytest.param("{1.2.0}", "{{{version}}}", Edition(), id="braces-that-are-no-field"),
        pytest.param("v(1.2.0)+-rc3", "v({version})+", CANDIDATE, id="characters-of-a-pattern"),
    ],
)
def test_a_tag_stands_for_an_edition(tag: str, template: str, edition: Edition) -> None:
    assert parse_tag(tag, template, "demo", "1.2.0") == edition
    assert tag_of(edition, template, {"name": "demo", "version": "1.2.0", "cuda": "13.0"}) == tag


@pytest.mark.parametrize(
    "tag",
    ["", "v1.2", "v1.2.1", "1.2.0", "v1.2.0rc3", "v1.2.0-rc", "v1.2.0-rc0", "v1.2.0-rc03", "v1.2.0-rc٣", "v1.2.0\n"],
)
def test_a_tag_of_something_else_is_refused_with_the_one_expected(tag: str) -> None:
    with pytest.raises(
        InputError, match=r"is not a tag of demo 1\.2\.0, expected v1\.2\.0, or v1\.2\.0-rc1"
    ) as refused:
        parse_tag(tag, "v{version}", "demo", "1.2.0")
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("date", ["", "2026-11-21", "20261321", "20260230", "20270229", "2026112", "٢٠٢٦١١٢١"])
def test_a_nightly_of_no_date_is_refused(date: str) -> None:
    with pytest.raises(InputError, match="is not a date, expected one such as 20261121"):
        nightly(date)


# ---------------------------------------------------------------- versions


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("1.2.0", "1.2.0.dev20261121"),
        ("1.2.0a0", "1.2.0.dev20261121"),
        ("1.2.0.dev0", "1.2.0.dev20261121"),
        ("1.2.0rc1.dev3", "1.2.0.dev20261121"),
        ("1.2.0.post1", "1.2.0.post1.dev20261121"),
        ("2!1.0", "2!1.0.dev20261121"),
    ],
)
def test_a_nightly_comes_before_its_release_and_after_the_night_before(base: str, expected: str) -> None:
    assert version(base, NIGHTLY) == expected == str(Version(expected))
    assert (
        Version(version(base, nightly("20261120"))) < Version(expected) < Version(f"{Version(base).base_version}.post9")
    )


def test_a_candidate_and_a_release_have_the_plain_version() -> None:
    assert version("1.2.0", CANDIDATE) == version("1.2.0", Edition()) == "1.2.0"


def test_a_build_is_told_by_the_names_that_backends_and_pytorch_know() -> None:
    project = Project("My.Demo", DEV, "", "", "")
    told = variables(project, NIGHTLY)
    assert (told["BUILD_VERSION"], told["CHANNEL"], told["VERSION_SUFFIX"]) == (DEV, "nightly", "")
    assert told["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MY_DEMO"] == told["PDM_BUILD_SCM_VERSION"] == DEV
    assert variables(project, CANDIDATE)["CHANNEL"] == "test"
    assert variables(project, Edition()) == {}
    assert variables(project, Edition(), "1.2.0").keys() < told.keys()


def test_a_build_is_told_the_commit_of_a_version_that_its_own_tool_told() -> None:
    name = "SETUPTOOLS_SCM_PRETEND_METADATA"
    own = Project("demo", "1.2.0", "", "", "", told="setuptools-scm says 1.2.0")
    assert variables(own, Edition(), commit="c1aeef8a7af7")[name] == '{node="gc1aeef8a7af7"}'
    hidden, stated = own._replace(hides_git=True), own._replace(told="")
    assert not [one for one in (hidden, stated) if name in variables(one, Edition(), "1.2.0", "c1aeef8a7af7")]


# ---------------------------------------------------------------- files


def changed(folder: Path, **files: str) -> dict[str, str]:
    """Return what of a project's files says a nightly's version; `__` in a name here is a dot."""
    named = {name.replace("__", "."): content for name, content in files.items()}
    project = demo(folder / "demo", named)
    tree = Tree(project, tuple(sorted(path.relative_to(project).as_posix() for path in project.rglob("*.*"))))
    return restate_version(ProjectFile(request_of(project), tree), DEV)


DYNAMIC = '[project]\nname = "demo"\ndynamic = ["version"]\n'


def test_a_static_version_is_edited_and_every_other_byte_kept(tmp_path: Path) -> None:
    text = '[tool.x]\r\nversion = "1.2.0"\r\n[ project ] # it\r\nname="demo"\r\nversion  = \'1.2.0\' # now\r\n'
    assert changed(tmp_path, pyproject__toml=text) == {"pyproject.toml": text.replace("'1.2.0'", f"'{DEV}'")}


def test_a_poetry_version_is_edited(tmp_path: Path) -> None:
    text = '[tool.poetry]\nname = "demo"\nversion = "1.2.0"\n[tool.poetry.group]\nversion = "1.2.0"\n'
    expected = text.replace("1.2.0", DEV, 1)
    assert changed(tmp_path, pyproject__toml=text) == {"pyproject.toml": expected}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('project = {name = "demo", version = "1.2.0"}\n', id="an-inline-table"),
        pytest.param(
            '[project]\nname = "demo"\ndescription = """\nversion = "0"\n"""\nversion = "1"\n', id="in-a-text"
        ),
    ],
)
def test_a_version_that_cannot_be_edited_for_certain_is_left(text: str, tmp_path: Path) -> None:
    assert changed(tmp_path, pyproject__toml=text) == {}


def test_a_version_of_setup_cfg_is_edited(tmp_path: Path) -> None:
    text = "[tool]\nversion = 1.2.0\n[metadata]\nname = demo\nversion: 1.2.0\n[options]\npackages = demo\n"
    expected = text.replace("version: 1.2.0", f"version: {DEV}")
    assert changed(tmp_path, pyproject__toml="[build-system]\n", setup__cfg=text) == {"setup.cfg": expected}


@pytest.mark.parametrize(
    ("pyproject", "path", "content"),
    [
        pytest.param(
            f'{DYNAMIC}[tool.setuptools.dynamic]\nversion = {{attr = "demo.about.__version__"}}\n',
            "src/demo/about.py",
            '"""It."""\n__version__ = "1.2.0"\n',
            id="setuptools-attribute",
        ),
        pytest.param(
            f'{DYNAMIC}[tool.setuptools.dynamic]\nversion = {{file = ["./release.txt"]}}\n',
            "release.txt",
            "1.2.0a0\n",
            id="setuptools-file",
        ),
        pytest.param(
            f'{DYNAMIC}[tool.hatch.version]\npath = "demo/about.py"\n',
            "demo/about.py",
            'MINIMUM = "1.2.0"\n__version__: str = "1.2.0"\n',
            id="hatch",
        ),
        pytest.param(
            f'{DYNAMIC}[tool.scikit-build.metadata.version]\nprovider = "x.regex"\ninput = "version.h"\n',
            "version.h",
            '#define DEMO_VERSION "1.2.0"\n',
            id="scikit-build-core",
        ),
        pytest.param(
            f'{DYNAMIC}[[tool.dynamic-metadata]]\nprovider = "x.regex"\nfield = "version"\ninput = "a/b.py"\n',
            "a/b.py",
            'VERSION = "1.2.0"\n',
            id="dynamic-metadata",
        ),
        pytest.param(
            f'{DYNAMIC}[tool.pdm.version]\nsource = "file"\npath = "demo.py"\n',
            "demo.py",
            "__version__ = '1.2.0'\n",
            id="pdm",
        ),
        pytest.param(
            f'[build-system]\nbuild-backend = "flit_core.buildapi"\n{DYNAMIC}',
            "demo.py",
            "'''It.'''\n__version__ = '1.2.0'\n",
            id="flit",
        ),
        pytest.param(DYNAMIC, "version.txt", "1.2.0a0\n", id="pytorch"),
        pytest.param(DYNAMIC, "setup.py", 'setup(\n    version="1.2.0",\n)\n', id="setup-py"),
        pytest.param(DYNAMIC, "setup.py", 'v = getenv("BUILD_VERSION", "1.2.0")\n', id="setup-py-with-a-default"),
        pytest.param(DYNAMIC, "meson.build", "project('demo', 'c', version: '1.2.0')\n", id="meson"),
    ],
)
def test_the_file_that_a_dynamic_version_comes_from_is_edited(
    pyproject: str, path: str, content: str, tmp_path: Path
) -> None:
    write(tmp_path / "demo", {path: content})
    head, _, tail = content.rpartition("1.2.0")
    edited = f"{head}{DEV}{tail.removeprefix('a0')}"
    assert changed(tmp_path, pyproject__toml=pyproject, **({"demo__py": content} if path == "demo.py" else {})) == {
        path: edited
    }


@pytest.mark.parametrize(
    "text",
    ["", "1.3.0\n", 'A = "1.2.0"\nB = "1.2.0"\n', 'version = "1.2.0"\nversion = "1.2.0"\n', 'requires = "x==1.2.0"\n'],
)
def test_a_file_that_does_not_say_the_version_for_certain_is_left(text: str) -> None:
    assert edits.set_version(text, DEV) is None


# ---------------------------------------------------------------- plans


def test_a_plan_fixes_its_edition_for_whoever_builds_from_it(tmp_path: Path) -> None:
    config, outside = demo(tmp_path / "demo") / "fatwheel.yml", world(tmp_path)
    plan = make.make_plan(config, outside, edition=NIGHTLY).plan
    assert plan.project.version == "1.0.dev20261121"
    assert plan.jobs[0].wheel == "demo-1.0.dev20261121-py3-none-any.whl"
    assert plan.sdist == "demo-1.0.dev20261121.tar.gz"
    pinned = tmp_path / "plan.json"
    pinned.write_text(plan_file.dumps(plan), encoding="utf-8")
    assert make.make_plan(config, outside, pinned=pinned).plan == plan


def test_a_plan_is_of_the_edition_that_a_tag_says(tmp_path: Path) -> None:
    project = demo(tmp_path / "demo")
    config = write(project, {"fatwheel.yml": CONFIG + 'release: {tag: "{name}/{version}"}\n'}) / "fatwheel.yml"
    assert make.make_plan(config, world(tmp_path), tag="demo/1.0-rc3").plan.edition == CANDIDATE
    with pytest.raises(InputError, match=r"'demo/1.1' is not a tag of demo 1\.0, expected demo/1\.0"):
        make.make_plan(config, world(tmp_path), tag="demo/1.1")


def test_a_plan_says_its_edition(tmp_path: Path) -> None:
    config, outside = demo(tmp_path / "demo") / "fatwheel.yml", world(tmp_path)
    stable = plan_file.to_json(make.make_plan(config, outside, tag="v1.0").plan)
    assert stable["edition"] == {"channel": "stable", "candidate": None, "date": None}
    untagged = plan_file.to_json(make.make_plan(config, outside).plan)
    assert untagged == {**stable, "edition": {"channel": None, "candidate": None, "date": None}}
    candidate = plan_file.to_json(make.make_plan(config, outside, edition=CANDIDATE).plan)
    assert candidate == {**stable, "edition": {"channel": "test", "candidate": 3, "date": None}}


def test_only_what_is_for_everybody_goes_to_pypi(tmp_path: Path) -> None:
    project = demo(tmp_path / "demo")
    config = project / "fatwheel.yml"
    config.write_text(config.read_text() + "publish: {pypi: wheels}\n")
    editions = (Edition(), CANDIDATE, UNTAGGED)
    plans = [make.make_plan(config, world(tmp_path), edition=edition).plan for edition in editions]
    assert [[one["target"] for one in plan_file.to_json(plan)["publish"]] for plan in plans] == [["pypi"], [], []]


@pytest.mark.parametrize(
    ("tags", "ref", "edition"),
    [
        pytest.param(["v1.0"], "", Edition(), id="the-tag-is-there-and-nobody-named-it"),
        pytest.param(["v1.0"], "main", Edition(), id="a-branch-at-the-tag"),
        pytest.param(["v1.0-rc3"], "v1.0-rc3", CANDIDATE, id="a-candidate-by-its-name"),
        pytest.param(["v1.0-rc3"], "refs/tags/v1.0-rc3", CANDIDATE, id="a-candidate-by-its-ref"),
        pytest.param(["v1.0-rc3", "v1.0-rc2"], "HEAD", CANDIDATE, id="the-newest-candidate"),
        pytest.param(["v1.0", "v1.0-rc3"], "v1.0-rc3", CANDIDATE, id="the-one-that-was-named"),
        pytest.param(["v1.0", "v1.0-rc3"], "", Edition(), id="the-version-s-own"),
        pytest.param(["v1.1", "1.0", "nightly"], "", UNTAGGED, id="tags-of-others"),
        pytest.param([], "", UNTAGGED, id="no-tag"),
    ],
)
def test_what_git_says_of_a_commit_is_released_however_it_was_given(
    tags: list[str], ref: str, edition: Edition, tmp_path: Path
) -> None:
    project = demo(tmp_path / "demo")
    committed(project)
    for tag in tags:
        git(project, "tag", "--annotate", tag, "--message", "x")
    assert edition_of(project, ref, tmp_path) == edition


def edition_of(project: Path, ref: str, home: Path) -> Edition:
    """Return the edition that is planned in a checkout of a ref."""
    config, outside = project / "fatwheel.yml", world(home)
    tag = make.resolve_tag(ref, config, outside) if ref else ""
    return make.make_plan(config, outside, tag=tag).plan.edition


def test_a_commit_after_the_tag_is_not_its_release(tmp_path: Path) -> None:
    project = demo(tmp_path / "demo")
    committed(project)
    git(project, "tag", "v1.0")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "later")
    assert edition_of(project, "", tmp_path) == UNTAGGED
    with pytest.raises(InputError, match=r"the tag v1\.0 is not at the commit that is checked out"):
        edition_of(project, "refs/tags/v1.0", tmp_path)
    with pytest.raises(InputError, match=r"--tag: v1\.0 is at another commit"):
        make.make_plan(project / "fatwheel.yml", world(tmp_path), tag="v1.0")
    outside = replace(world(tmp_path), reporter=(words := Words()))
    make.make_plan(project / "fatwheel.yml", outside, edition=nightly("20261121"))
    assert words.lines == []
    make.make_plan(project / "fatwheel.yml", outside)
    was = f"version 1.0 was tagged as v1.0 at {git(project, 'rev-parse', 'HEAD~1')[:12]}, 1 commit before this one"
    assert words.lines == [f"warning: {was}: a release under this number would differ"]


def test_a_config_may_do_without_tags(tmp_path: Path) -> None:
    project = demo(tmp_path / "demo")
    committed(write(project, {"fatwheel.yml": CONFIG + "release: {untagged: true}\n"}))
    assert edition_of(project, "", tmp_path) == Edition()
    git(project, "tag", "v1.0-rc3")
    assert edition_of(project, "", tmp_path) == CANDIDATE


@pytest.mark.parametrize(
    "edition",
    [
        "nightly",
        [],
        {"channel": "nightly", "candidate": None, "date": "20261131"},
        {"channel": "nightly", "candidate": None, "date": "; rm"},
        {"channel": "test", "candidate": True, "date": None},
        {"channel": "test", "candidate": -1, "date": None},
        {"channel": "weekly", "candidate": None, "date": None},
        {"channel": "stable"},
    ],
)
def test_a_plan_of_no_known_edition_is_refused(edition: Any, tmp_path: Path) -> None:  # noqa: ANN401 - JSON
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"schema": 1, "pins": {"commit": None}, "edition": edition}), encoding="utf-8")
    with pytest.raises(InputError, match=r"plan\.json has no known edition"):
        plan_file.read(path)


# ---------------------------------------------------------------- sdists


def packed(folder: Path, names: Iterable[str], date: int) -> Path:
    """Write an sdist with a file of each name, and a hard link to the first, all of that date."""
    path = folder / f"demo-{date}.tar.gz"
    with gzip.GzipFile(path, "wb", mtime=date) as file, tarfile.open(fileobj=file, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.mtime, member.uid, member.size, member.mode = date + 0.5, date, 2, 0o664
            archive.addfile(member, io.BytesIO(b"it"))
        link = tarfile.TarInfo("a/link")
        link.type, link.linkname, link.mtime = tarfile.LNKTYPE, "b", date
        archive.addfile(link)
    return path


def dated(path: Path, epoch: int) -> bytes:
    sink = io.BytesIO()
    write_with_date(path, sink, epoch)
    return sink.getvalue()


def test_an_sdist_has_the_same_bytes_whoever_packed_it_and_when(tmp_path: Path) -> None:
    one, other = packed(tmp_path, ["b", "a"], 1000), packed(tmp_path, ["a", "b"], 2000)
    assert dated(one, 5) == dated(other, 5)
    with tarfile.open(fileobj=io.BytesIO(dated(one, 5))) as archive:
        found = {member.name: (member.mtime, member.mode, member.uid) for member in archive}
        assert found == {"a": (5, 0o644, 0), "b": (5, 0o644, 0), "a/link": (5, 0o644, 0)}
        assert archive.extractfile("a/link").read() == b"it"  # type: ignore[union-attr]  # it is a file


def test_an_sdist_that_its_backend_dated_stays_as_it_is(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "demo.tar", "w") as archive:
        member = tarfile.TarInfo("demo/PKG-INFO")
        member.mtime, member.uname = 5, "somebody"
        archive.addfile(member)
    path = tmp_path / "demo.tar.gz"
    path.write_bytes(gzip.compress((tmp_path / "demo.tar").read_bytes(), mtime=5))
    assert dated(path, 5) == path.read_bytes() != dated(path, 6)


def test_an_sdist_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path, map(str, range(99)), 1000)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(Rejected, match=r"demo-1000\.tar\.gz cannot be read"):
        dated(path, 5)
