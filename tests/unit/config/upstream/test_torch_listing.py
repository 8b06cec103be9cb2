"""What the names of torch's wheels say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import requests

from ci_tools import catalog
from ci_tools.catalog import TorchRelease
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.config import loader
from ci_tools.config.upstream import catalog_update
from ci_tools.config.upstream.torch_listing import describe_news, drop_rows, find_news, gather_facts, read_build
from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.model.versions import Minor
from tests.builders.sources import demo, write
from tests.servers.package_index import index_of, over_http
from tests.unit.config.test_torch_axis import ROW
from tests.unit.config.upstream.test_catalog_update import FILE, Said


@pytest.mark.parametrize(
    ("file", "said"),
    [
        pytest.param("torch-2.16.0-cp312-cp312-manylinux_2_28_x86_64.whl", "3.12 linux-x86_64", id="linux"),
        pytest.param("torch-2.16.0-cp314-cp314t-manylinux_2_28_aarch64.whl", "3.14t linux-aarch64", id="free-threaded"),
        pytest.param("torch-2.16.0-cp310-none-macosx_11_0_arm64.whl", "3.10 macos-arm64", id="macos"),
        pytest.param("torch-2.16.0-cp312-cp312-win_amd64.whl", "3.12 windows-amd64", id="windows"),
        pytest.param("torch-2.16.0+cu136-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64 13.6", id="cuda"),
        pytest.param("torch-2.16.0+cu128-cp312-cp312-win_amd64.whl", "3.12 windows-amd64 12.8", id="older-cuda"),
        pytest.param("torch-2.16.0+rocm7.14-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64 7.14", id="rocm"),
        pytest.param("torch-2.16.0+rocm6.2.4-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64 6.2", id="rocm-patch"),
        pytest.param("torch-2.16.0+xpu-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64 xpu", id="xpu"),
        pytest.param("torch-2.16.0+cpu.cxx11.abi-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64", id="cpu"),
        pytest.param("torch-2.16.0rc1-cp312-cp312-win_amd64.whl", "", id="a-candidate"),
        pytest.param("torch-2.16.0.dev20261123+cpu-cp312-cp312-win_amd64.whl", "", id="a-nightly"),
        pytest.param("torch-2.16.0-cp312-cp312-macosx_11_0_x86_64.whl", "", id="a-machine-that-is-no-platform"),
        pytest.param("torch-2.16.0-py3-none-any.whl", "", id="pure"),
        pytest.param("torchaudio-2.16.0-cp312-cp312-win_amd64.whl", "", id="another-project"),
        pytest.param("torch-2.16.0.tar.gz", "", id="an-sdist"),
    ],
)
def test_a_name_says_for_what_a_wheel_is(file: str, said: str) -> None:
    build = read_build(file)
    found = [build.python, build.host, build.cuda, build.rocm, "xpu" if build.xpu else None] if build else []
    assert " ".join(str(one) for one in found if one) == said
    assert build is None or build.minor == Minor(2, 16)


def test_versions_are_sorted_as_numbers() -> None:
    names = [f"torch-2.16.0+cu{cuda}-cp3{minor}-cp3{minor}-win_amd64.whl" for cuda, minor in ((130, 14), (126, 9))]
    builds = [build for name in names if (build := read_build(name))]
    assert gather_facts(builds) == {
        "pythons": {"windows-amd64": ["3.9", "3.14"]},
        "cuda": {"windows-amd64": ["12.6", "13.0"]},
    }


KNOWN: dict[str, Any] = {"version": "2.16", "patch": "2.16.0", "cuda": {"linux-x86_64": ["13.2"]}}


@pytest.mark.parametrize(
    ("facts", "news", "words"),
    [
        pytest.param({"cuda": {"linux-x86_64": ["13.2"]}}, {}, "", id="nothing"),
        pytest.param({"cuda": {"linux-x86_64": []}}, {}, "", id="less"),
        pytest.param(
            {"cuda": {"linux-x86_64": ["13.6"]}}, {"cuda": {"linux-x86_64": ["13.2", "13.6"]}}, "CUDA 13.6", id="more"
        ),
        pytest.param(
            {"cuda": {"windows-amd64": ["13.2"]}}, {"cuda": {"windows-amd64": ["13.2"]}}, "CUDA 13.2", id="a-machine"
        ),
        pytest.param({"rocm": {"linux-x86_64": ["8.0"]}}, {"rocm": {"linux-x86_64": ["8.0"]}}, "ROCm 8.0", id="a-key"),
        pytest.param({"xpu": {"machines": ["x"]}}, {"xpu": {"machines": ["x"]}}, "XPU on x", id="xpu"),
    ],
)
def test_news_are_what_a_row_has_to_say(facts: dict[str, Any], news: dict[str, Any], words: str) -> None:
    assert find_news(KNOWN, facts) == news
    assert describe_news(KNOWN, news) == words


CONFIG = """\
package: demo
python: ["3.12"]
torch: {torch}
platforms:
  linux-cuda: {{owner: us, cuda: ["13.0"], archs: ["9.0"]}}
  linux-cpu: {{owner: us}}
"""
LINUX, MAC = "cp312-cp312-manylinux_2_28_x86_64", "cp312-none-macosx_11_0_arm64"
VERSION = "9.9.0.dev{}"


class Here(NamedTuple):
    """A project, and the address of an index of nightlies."""

    config: Path
    url: str
    outside: Outside
    reporter: Said

    def update(self, *more: str) -> tuple[str, ...]:
        news = catalog_update.find_updates(self.config, catalog.load(), more, self.outside)
        catalog_update.write_updates(news)
        return news.lines

    @property
    def text(self) -> str:
        return self.config.with_name(FILE).read_text()

    def torch(self) -> TorchRelease:
        known = catalog.load(loader.load(self.config, catalog.load()).catalog).torch
        return next(release for version, release in known.items() if version.nightly)


def publish(root: Path, *builds: tuple[str, str, str], hashes: bool = True) -> None:
    """Write pages and wheels as upstream's index has them: a folder for each accelerator, and one page of all."""
    lines = []
    for date, label, tags in builds:
        name = f"torch-{VERSION.format(date)}{f'+{label}' if label else ''}-{tags}.whl"
        folder = f"whl/nightly/{label or 'cpu'}"
        write(root, {f"{folder}/{name}": name.encode()})
        digest = f"#sha256={hashlib.sha256(name.encode()).hexdigest()}" if hashes else ""
        lines.append(f'<a href="/{folder}/{quote(name)}{digest}">{name}</a><br/>\n')
    page = f"<!DOCTYPE html>\n<html>\n<body>\n<h1>Links for torch</h1>\n{''.join(lines)}</body>\n</html>\n"
    write(root, {"whl/nightly/torch/index.html": page})


def whole(date: str) -> tuple[tuple[str, str, str], ...]:
    """Return the builds of a day on which nothing is missing."""
    return (date, "cu130", LINUX), (date, "cpu", LINUX), (date, "", MAC)


@contextmanager
def world(folder: Path, *builds: tuple[str, str, str], torch: str = "nightly", hashes: bool = True) -> Iterator[Here]:
    config = demo(folder / "demo", {"fatwheel.yml": CONFIG.format(torch=torch)}) / "fatwheel.yml"
    publish(folder / "www", *builds, hashes=hashes)
    with over_http(folder / "www") as address, index_of("torch", {f"torch-2.15.0-{LINUX}.whl": b""}) as main:
        reporter = Said()
        environ = {"PIP_INDEX_URL": main.url, "PIP_CERT": requests.certs.where()}
        outside = Outside(environ=environ, cache=folder / "cache", reporter=reporter)
        yield Here(config, f"{address}/whl/nightly", outside, reporter)


def test_the_newest_nightly_gets_a_row_with_its_index(tmp_path: Path) -> None:
    with world(tmp_path, *whole("20261124"), *whole("20261125"), ("20261125", "xpu", LINUX)) as here:
        assert here.update(here.url) == (
            f"torch {VERSION.format(20261125)}: Python 3.12, CUDA 13.0, XPU on linux-x86_64",
        )
        found = here.torch()
        assert (found.version, found.patch) == (Minor(9, 9, "20261125"), VERSION.format(20261125))
        assert found.indexes == (here.url,)
        assert found.accelerators["linux-x86_64", CUDA] == {Minor(13, 0)}
        assert found.headers
        assert found.headers.file == f"torch-{VERSION.format(20261125)}-{MAC}.whl"
        assert found.headers.size == len(found.headers.file)
        assert here.update() == ()  # the row itself says where to look


def test_a_day_that_is_not_whole_yet_is_passed_over(tmp_path: Path) -> None:
    with world(tmp_path, *whole("20261124"), ("20261125", "cpu", LINUX)) as here:
        here.update(here.url)
        assert here.torch().version.nightly == "20261124"
        lacks = f"torch {VERSION.format(20261125)} has no build for cu130 on linux-x86_64"
        assert here.reporter.lines[0] == f"{lacks}: {VERSION.format(20261124)} is taken"
        assert " are not known: " in here.reporter.lines[1]  # the names of torch: this wheel has none


def test_where_no_day_is_whole_the_newest_is_taken_and_said(tmp_path: Path) -> None:
    with world(tmp_path, ("20261124", "cpu", LINUX), ("20261125", "cpu", LINUX), hashes=False) as here:
        here.update(here.url)
        assert (here.torch().version.nightly, here.torch().headers) == ("20261125", None)
        assert "no older one has all that is asked for" in here.reporter.lines[0]


def test_the_next_day_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    with world(tmp_path, *whole("20261124")) as here:
        here.update(here.url)
        mine = f"# ours\n[python]\nreleases = ['3.99']\n\n{here.text}\n# soon\n[[torch.release]]\nversion = '9.7'\n"
        here.config.with_name(FILE).write_text(mine)
        publish(tmp_path / "www", *whole("20261124"), *whole("20261125"))
        assert len(here.update()) == 1
        assert here.text.count("[[torch.nightly]]") == 1
        assert [line for line in here.text.splitlines() if "ours" in line or "soon" in line] == ["# ours", "# soon"]
        assert here.torch().version.nightly == "20261125"


def test_a_day_that_is_named_stays_whatever_is_newer(tmp_path: Path) -> None:
    with world(tmp_path, *whole("20261124"), *whole("20261125"), torch="nightly 20261124") as here:
        here.update(here.url)
        assert here.torch().version.nightly == "20261124"
        assert here.update() == ()


@pytest.mark.parametrize(
    ("torch", "builds", "message"),
    [
        pytest.param("nightly", (), r"no nightly of torch; there is none at all", id="empty"),
        pytest.param("nightly 20261101", whole("20261124"), r"no nightly of torch of 20261101; there are", id="gone"),
    ],
)
def test_a_nightly_that_is_not_there_is_said(
    tmp_path: Path, torch: str, builds: tuple[tuple[str, str, str], ...], message: str
) -> None:
    with world(tmp_path, *builds, torch=torch) as here, pytest.raises(InputError, match=message):
        here.update(here.url)


def test_an_index_of_nightlies_has_to_be_named(tmp_path: Path) -> None:
    with world(tmp_path, *whole("20261124")) as here, pytest.raises(InputError, match="no index of nightlies is named"):
        here.update()


def test_who_asks_for_none_gets_none(tmp_path: Path) -> None:
    with world(tmp_path, *whole("20261125"), torch='["2.15"]') as here:
        assert not [line for line in here.update(here.url) if ".dev" in line]


def test_rows_are_dropped_with_all_that_is_theirs() -> None:
    kept, other = "# mine\n[python]\nreleases = []\n", "# of the release\n[[torch.release]]\nversion = '9.7'\n"
    first, second = (ROW.format(date=date) for date in ("20261124", "20261125"))
    text = f"{kept}\n{first}\n{second}\n{other}"
    assert drop_rows(text, []) == text
    assert drop_rows(text, [Minor(9, 9, "20261124")]) == f"{kept}\n{second}\n{other}"
    assert drop_rows(text, [Minor(9, 9, "20261125")]) == f"{kept}\n{first}\n{other}"
    assert drop_rows(f"{kept}\n{first}", [Minor(9, 9, "20261124")]) == f"{kept}\n"
