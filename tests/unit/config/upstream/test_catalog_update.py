"""`fatwheel catalog update`, with indexes on this machine that have the shape of upstream's."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import requests

from ci_tools import catalog
from ci_tools.catalog import TorchRelease
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.cli.main import main
from ci_tools.config import loader
from ci_tools.config.upstream import catalog_update
from ci_tools.errors import InputError, MachineError
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.versions import Minor, Python
from tests.builders.sources import demo, write
from tests.servers.package_index import Index, Sent, index_of

pytestmark = pytest.mark.usefixtures("at_once")

FILE = "fatwheel.catalog.toml"
NEW = Minor(9, 1)
MAC = "torch-{}-cp312-none-macosx_11_0_arm64.whl"
SMALLER = "torch-{}-cp399-none-macosx_11_0_arm64.whl"
LINUX = "torch-{}-cp312-cp312-manylinux_2_28_x86_64.whl"


@functools.cache
def wheel_for(cuda: str) -> bytes:
    """Return a wheel that says which CUDA it is built for; it is too large to be read by accident."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("torch/lib/libtorch_cuda.so", b"\0" * 3_000_000)
            archive.writestr("torch/version.py", f"from typing import Optional\ncuda: Optional[str] = '{cuda}'\n")
        return file.getvalue()


def release(version: str, cuda: str = "13.2") -> dict[str, bytes]:
    """Return the files of a release on the package index."""
    return {
        MAC.format(version): b"the larger one",
        SMALLER.format(version): b"smaller",
        LINUX.format(version): wheel_for(cuda),
        f"torch-{version}.tar.gz": b"",
    }


class Said(Silent):
    """A reporter that remembers what it says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


class World:
    """A project, the indexes that it reads, and what is said of them."""

    def __init__(self, folder: Path, main_index: Index, others: tuple[Index, ...]) -> None:
        self.folder = demo(folder)
        self.config, self.file = self.folder / "fatwheel.yml", self.folder / FILE
        self.urls = [other.url for other in others]
        self.reporter = Said()
        # Without the last, pip is asked what its own file says.
        environ = {"PIP_INDEX_URL": main_index.url, "PIP_CERT": requests.certs.where(), "PIP_CONFIG_FILE": os.devnull}
        self.outside = Outside(environ=environ, cache=folder.parent / "cache", reporter=self.reporter)

    def update(self) -> tuple[str, ...]:
        news = catalog_update.find_updates(self.config, catalog.load(), self.urls, self.outside)
        catalog_update.write_updates(news)
        return news.lines

    def torch(self, version: Minor = NEW) -> TorchRelease:
        return catalog.load(loader.load(self.config, catalog.load()).catalog).torch[version]


@contextmanager
def world(
    folder: Path,
    files: dict[str, bytes],
    *others: dict[str, bytes],
    sent: list[Sent] | None = None,
    hashes: bool = True,
    yanked: tuple[str, ...] = (),
) -> Iterator[World]:
    with ExitStack() as stack:
        main_index = stack.enter_context(index_of("torch", files, sent=sent, hashes=hashes, yanked=yanked))
        further = tuple(stack.enter_context(index_of("torch", other)) for other in others)
        yield World(folder / "demo", main_index, further)


def test_a_new_torch_gets_a_row_with_a_hash_and_the_config_may_name_it(tmp_path: Path) -> None:
    sent: list[Sent] = []
    with world(tmp_path, release("9.1.0"), sent=sent) as here:
        assert here.update() == ("torch 9.1: 9.1.0, Python 3.12 3.99, CUDA 13.2", "Python 3.99")
        config = here.config.read_text().replace('"3.12"]', '"3.99"]\ntorch: ["9.1"]')
        here.config.write_text(config)
        found = here.torch()
    assert (found.patch, found.pythons["linux-x86_64"]) == ("9.1.0", {Python(Minor(3, 12))})
    assert found.accelerators["linux-x86_64", CUDA] == {Minor(13, 2)}
    assert found.headers
    assert found.headers.file == MAC.format("9.1.0")
    assert found.headers.sha256 == hashlib.sha256(b"the larger one").hexdigest()
    assert found.headers.size == len(b"the larger one")
    assert sum(one.size for one in sent) < 300_000  # of wheels that are ten times as large


PARTS = {
    "torch/lib/libtorch_cuda.so": "\0" * 3_000_000,
    "torch/__init__.py": "from torch import xpu\ndef compile(model=None, *, fullgraph=False): pass\n",
    "torch/utils/__init__.py": "",
    "torch/utils/cpp_extension.py": "def MetalExtension(name, sources): pass\nFLAGS = ['-a', \"b\\n\"]\n",
    "torch/xpu/__init__.py": "",
    "torch/version.py": "cuda: Optional[str] = '13.2'\n",
}


def with_parts(version: str, parts: dict[str, str]) -> dict[str, bytes]:
    """Return the files of a release whose Linux wheel has these members."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, text in parts.items():
                archive.writestr(name, text)
        return {**release(version), LINUX.format(version): file.getvalue()}


def test_the_names_of_a_new_torch_are_told_by_what_differs_from_the_newest_that_is_known(tmp_path: Path) -> None:
    sent: list[Sent] = []
    with world(tmp_path, with_parts("9.1.0", PARTS), sent=sent) as here:
        (line, _) = here.update()
        assert line.startswith("torch 9.1: 9.1.0, Python 3.12 3.99, CUDA 13.2, ")
        assert line.endswith(" names that differ from those of 2.15")
        here.config.write_text(here.config.read_text().replace('"3.12"]', '"3.99"]\ntorch: ["9.1"]'))
        names = dict(here.torch().names)
        assert here.update() == ()
    assert names["base"] == "2.15"
    assert names["torch.utils.cpp_extension:MetalExtension"] == "f"
    assert names["torch.utils.cpp_extension:FLAGS"] == "=['-a', 'b\\n']"
    assert names["torch.utils.cpp_extension:CUDAExtension"] == names[":torch.cuda"] == ""
    assert ":torch.xpu" not in names
    assert sum(one.size for one in sent) < 600_000  # of wheels that are ten times as large


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        pytest.param({"torch/version.py": ""}, "it has no torch/__init__.py and no torch/utils", id="no-such-files"),
        pytest.param({**PARTS, "torch/__init__.py": "def ("}, "torch/__init__.py cannot be read: ", id="no-python"),
        pytest.param({**PARTS, "torch/__init__.py": "\0"}, "torch/__init__.py cannot be read: ", id="a-zero-byte"),
    ],
)
def test_a_new_torch_without_readable_names_gets_a_row_without_them(
    parts: dict[str, str], why: str, tmp_path: Path
) -> None:
    with world(tmp_path, with_parts("9.1.0", parts)) as here:
        assert here.update()[0] == f"torch 9.1: 9.1.0, Python 3.12 3.99{', CUDA 13.2' if len(parts) > 1 else ''}"
        assert [one for one in here.reporter.lines if f"are not known: {why}" in one]


def test_what_is_known_changes_nothing(tmp_path: Path) -> None:
    with world(tmp_path, release("9.1.0")) as here:
        here.update()
        before = here.file.read_bytes(), here.file.stat().st_mtime_ns
        assert here.update() == ()
        assert (here.file.read_bytes(), here.file.stat().st_mtime_ns) == before


def test_nothing_new_leaves_no_file(tmp_path: Path) -> None:
    ours = catalog.load().torch[Minor(2, 15)].patch
    with world(tmp_path, {LINUX.format(ours): b""}) as here:
        assert here.update() == ()
        assert not here.file.exists()


@pytest.mark.parametrize(
    ("files", "yanked"),
    [
        pytest.param(release("9.1.0rc1"), (), id="a-candidate"),
        pytest.param(release("9.1.0.dev20261123"), (), id="a-nightly"),
        pytest.param(release("9.1.0"), tuple(release("9.1.0")), id="yanked"),
        pytest.param(release("2.5.1"), (), id="older-than-the-catalog"),
        pytest.param({"torchao-9.1.0-cp312-cp312-win_amd64.whl": b""}, (), id="another-project"),
    ],
)
def test_what_is_no_release_is_not_new(files: dict[str, bytes], yanked: tuple[str, ...], tmp_path: Path) -> None:
    with world(tmp_path, files, yanked=yanked) as here:
        assert here.update() == ()


def test_a_wheel_without_a_hash_makes_no_row(tmp_path: Path) -> None:
    with world(tmp_path, release("9.1.0"), hashes=False) as here:
        assert here.update() == ()
        assert any("torch 9.1.0 is left out" in line for line in here.reporter.lines)


def test_another_index_says_for_which_accelerators_there_are_builds(tmp_path: Path) -> None:
    tags = "cp312-cp312-manylinux_2_28_x86_64.whl"
    labels = ("cu132", "cu999", "rocm8.3", "xpu", "cpu")
    other = {f"torch-9.1.0+{label}-{tags}": b"" for label in labels} | {f"torch-9.0.0+cu131-{tags}": b""}
    with world(tmp_path, release("9.1.0"), other) as here:
        assert here.update()[0] == "torch 9.1: 9.1.0, Python 3.12 3.99, CUDA 13.2 99.9, ROCm 8.3, XPU on linux-x86_64"
        accelerators = here.torch().accelerators
        unknown = [line.partition(",")[0] for line in here.reporter.lines if "by hand" in line]
    assert accelerators["linux-x86_64", ROCM] == {Minor(8, 3)}
    assert accelerators["linux-x86_64", XPU] == {None}
    said = "upstream builds torch 9.1 for XPU: write the `oneapi` that it requires by hand"
    assert unknown == ["upstream builds torch for CUDA 99.9", "upstream builds torch for ROCm 8.3", said]


def test_a_release_of_ours_gets_the_builds_that_we_have_not_seen(tmp_path: Path) -> None:
    ours = catalog.load().torch[Minor(2, 15)]
    other = {f"torch-{ours.patch}+rocm8.3-cp312-cp312-manylinux_2_28_x86_64.whl": b""}
    with world(tmp_path, {LINUX.format(ours.patch): b""}, other) as here:
        assert here.update() == ("torch 2.15: ROCm 8.3",)
        found = here.torch(ours.version)
    assert (found.patch, found.headers) == (ours.patch, ours.headers)
    assert found.accelerators["linux-x86_64", ROCM] == {Minor(8, 3)}


def test_a_patch_release_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    with world(tmp_path, release("9.1.0")) as here:
        here.update()
    with world(tmp_path, release("9.1.0") | release("9.1.1", "13.4")) as later:
        write(later.folder, {FILE: here.file.read_bytes()})
        assert later.update() == ("torch 9.1: 9.1.1, CUDA 13.4",)
        found = later.torch()
    assert (found.patch, found.headers and found.headers.file) == ("9.1.1", MAC.format("9.1.1"))
    assert found.accelerators["linux-x86_64", CUDA] == {Minor(13, 2), Minor(13, 4)}


def test_what_a_person_has_written_stays(tmp_path: Path) -> None:
    mine = '# ours\n[python]\n# for us alone\nreleases = ["3.98"]\n\n[[torch.release]]\nversion = "9.1" # soon\n'
    with world(tmp_path, release("9.1.0")) as here:
        here.file.write_text(mine)
        here.update()
        text = here.file.read_text()
        assert here.torch().patch == "9.1.0"
    assert text.startswith('# ours\n[python]\n# for us alone\nreleases = ["3.98", "3.99"]\n')
    assert 'version = "9.1" # soon\n' in text


def test_tables_in_the_config_itself_are_not_edited(tmp_path: Path) -> None:
    with world(tmp_path, release("9.1.0")) as here:
        here.config.write_text(f'{here.config.read_text()}catalog: {{ python: {{ releases: ["3.98"] }} }}\n')
        with pytest.raises(InputError, match="has the tables of the catalog itself"):
            here.update()


def test_without_a_network_nothing_changes(tmp_path: Path) -> None:
    with world(tmp_path, release("9.1.0")) as here:
        pass
    with pytest.raises(MachineError, match="torch cannot be read from the package index"):
        here.update()
    assert not here.file.exists()


def test_an_index_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    with world(tmp_path, release("9.1.0")) as here:
        here.urls = [f"{here.outside.environ['PIP_INDEX_URL']}none/"]
        with pytest.raises(InputError, match='no project "torch"'):
            here.update()
        assert not here.file.exists()


def test_a_check_writes_nothing_and_says_by_its_status_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(tmp_path, release("9.1.0")) as here:
        monkeypatch.setenv("PIP_INDEX_URL", here.outside.environ["PIP_INDEX_URL"])
        asked = ["catalog", "update", str(here.config), "--runners", ""]
        assert main([*asked, "--check"]) == 1
        said = capsys.readouterr()
        assert said.out.splitlines()[0].startswith("torch 9.1: 9.1.0")
        assert "lacks 2 of what upstream has published" in said.err
        assert not here.file.exists()
        assert main(asked) == 0
        assert f"wrote {here.file}" in capsys.readouterr().err
        assert main([*asked, "--check"]) == 0
