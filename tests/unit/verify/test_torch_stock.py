from __future__ import annotations

import time
from pathlib import Path

import pytest

from ci_tools.machine.process import run
from ci_tools.machine.python import Environment
from ci_tools.verify.torch_stock import TorchStock, open_stock


class Maker:
    """Creates environments with one file of torch, and counts them."""

    def __init__(self) -> None:
        self.made: list[Path] = []

    def __call__(self, path: Path) -> Environment:
        """Create one at `path`."""
        self.made.append(path)
        (path / "lib/torch").mkdir(parents=True)
        (path / "lib/torch/version.py").write_text("own")
        (path / "lib64").symlink_to("lib")
        return Environment(path=path, variables={"VIRTUAL_ENV": str(path)}, log=path / "first.log")

    def fail(self, path: Path) -> Environment:
        """Create one, and fail after that."""
        self(path)
        raise RuntimeError("no such torch")


def test_torch_is_installed_once_for_trials_that_ask_for_the_same(tmp_path: Path) -> None:
    stock, maker, seen = TorchStock(tmp_path), Maker(), []
    for name in ("one", "two", "three"):
        with stock.lend("torch 2.13", tmp_path / f"{name}.log", maker) as environment:
            assert environment.log == tmp_path / f"{name}.log"
            assert (environment.path / "lib64/torch/version.py").read_text() == "own"
            assert not (environment.path / "lib/demo.py").exists()  # of the trial before
            (environment.path / "lib/demo.py").write_text("")
            (environment.path / "lib/torch/extra.py").write_text("")
            seen.append(environment.path)
        assert not environment.path.exists()
    assert maker.made == seen[:1]
    assert set(seen) == {seen[0]}  # scripts hold the path of their interpreter


def test_another_torch_has_an_environment_of_its_own(tmp_path: Path) -> None:
    stock, maker = TorchStock(tmp_path), Maker()
    with (
        stock.lend("torch 2.13", tmp_path / "log", maker) as one,
        stock.lend("torch 2.14", tmp_path / "log", maker) as other,
    ):
        assert one.path != other.path
    assert len(maker.made) == 2


@pytest.mark.parametrize("change", ["write", "mode", "remove"])
def test_a_trial_that_changes_torch_spoils_no_other(tmp_path: Path, change: str) -> None:
    stock, maker = TorchStock(tmp_path), Maker()
    with stock.lend("torch", tmp_path / "log", maker) as environment:
        file = environment.path / "lib/torch/version.py"
        if change == "write":
            file.write_text("bad")
        elif change == "mode":
            file.chmod(0o600)
        else:
            file.unlink()
    with stock.lend("torch", tmp_path / "log", maker) as environment:
        file = environment.path / "lib/torch/version.py"
        assert file.read_text() == "own"
        assert file.stat().st_mode & 0o044
    assert len(maker.made) == (1 if change == "remove" else 2)  # what is removed was a link


def test_a_failed_installation_leaves_nothing(tmp_path: Path) -> None:
    stock, maker = TorchStock(tmp_path), Maker()
    with pytest.raises(RuntimeError), stock.lend("torch", tmp_path / "log", maker.fail):
        pass
    with stock.lend("torch", tmp_path / "log", maker) as environment:
        assert (environment.path / "lib/torch/version.py").read_text() == "own"


def test_what_was_prepared_is_lent_first(tmp_path: Path) -> None:
    stock, maker = TorchStock(tmp_path), Maker()
    stock.prepare("torch", maker)
    stock.prepare("torch", maker)
    for _ in range(2):
        with stock.lend("torch", tmp_path / "log", maker) as environment:
            assert environment.path == maker.made[0]
            assert (environment.path / "lib/torch/version.py").read_text() == "own"
    stock.prepare("torch", maker)
    stock.close()
    assert len(maker.made) == 1


def test_an_error_of_the_preparation_is_raised_where_it_is_lent(tmp_path: Path) -> None:
    stock, maker = TorchStock(tmp_path), Maker()
    stock.prepare("torch", maker.fail)
    with pytest.raises(RuntimeError, match="no such torch"), stock.lend("torch", tmp_path / "log", maker):
        pass
    with stock.lend("torch", tmp_path / "log", maker):  # as after an installation in the foreground
        assert len(maker.made) == 2
    stock.close()


def test_a_stock_whose_preparation_still_runs_is_removed_at_its_end(tmp_path: Path) -> None:
    began, maker = tmp_path / "began", Maker()

    def create_slowly(path: Path) -> Environment:
        environment = maker(path)
        run(["sh", "-c", f"touch '{began}'; sleep 600"], log=tmp_path / "log")
        return environment

    with open_stock() as stock:
        stock.prepare("torch", create_slowly)
        while not began.exists():
            time.sleep(0.02)
    assert not stock.folder.exists()


def test_a_stock_is_removed_at_its_end() -> None:
    with open_stock() as stock, stock.lend("torch", stock.folder / "log", Maker()):
        assert stock.folder.is_dir()
    assert not stock.folder.exists()
