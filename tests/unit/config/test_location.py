"""A config is found from any folder of its project, as fatwheel.yml or as a table of pyproject.toml."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.cli.main import main
from ci_tools.cli.values import find_config
from ci_tools.config import loader, location
from ci_tools.errors import InputError
from tests.builders.sources import committed, world, write

NOWHERE = Path("/nowhere")
YAML = 'package: demo\nowner: "@me"\npython: ["3.12", "3.14t"]\ntorch: { lowest: 2.10 }\nplatforms:\n  linux-cpu: {}\n'
TOML = """\
[project]
name = "demo"
version = "1.0"
[tool.fatwheel]
package = "demo"
owner = "@me"
python = ["3.12", "3.14t"]
torch = { lowest = 2.10 }
platforms.linux-cpu = {}
"""
OTHER = '[project]\nname = "demo"\nversion = "1.0"\n'


@pytest.mark.parametrize(
    ("files", "start", "found"),
    [
        pytest.param({"fatwheel.yml": YAML}, "", "fatwheel.yml", id="here"),
        pytest.param({"fatwheel.yml": YAML, "a/b/x": ""}, "a/b", "fatwheel.yml", id="two-folders-above"),
        pytest.param({"pyproject.toml": TOML, "a/x": ""}, "a", "pyproject.toml", id="a-table-above"),
        pytest.param(
            {"fatwheel.yml": YAML, "a/pyproject.toml": OTHER}, "a", "fatwheel.yml", id="above-another-project"
        ),
        pytest.param({"fatwheel.yml": YAML, "a/fatwheel.yml": YAML}, "a", "a/fatwheel.yml", id="the-nearest"),
    ],
)
def test_the_nearest_config_is_found(tmp_path: Path, files: dict[str, str], start: str, found: str) -> None:
    write(tmp_path / "p", {**files, ".git/HEAD": ""})
    assert location.find_config(tmp_path / "p" / start, NOWHERE) == tmp_path / "p" / found


def test_a_relative_path_stays_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {".git/HEAD": "", "fatwheel.yml": YAML, "a/b/x": ""})
    monkeypatch.chdir(tmp_path / "a/b")
    assert location.find_config(Path(), NOWHERE) == Path("../../fatwheel.yml")


@pytest.mark.parametrize(
    ("marks", "home"),
    [
        pytest.param({"p/.git/HEAD": ""}, "", id="above-the-repository"),
        pytest.param({}, "p", id="above-home"),
        pytest.param({}, "", id="above-a-folder-that-is-in-neither"),
    ],
)
def test_a_config_beyond_the_repository_or_home_is_not_read(tmp_path: Path, marks: dict[str, str], home: str) -> None:
    write(tmp_path, {"fatwheel.yml": YAML, "p/a/x": "", **marks})
    with pytest.raises(InputError, match="expected a config that says what to build"):
        location.find_config(tmp_path / "p/a", tmp_path / home if home else NOWHERE)


def test_the_configs_of_a_monorepo_are_named_at_its_root(tmp_path: Path) -> None:
    write(tmp_path, {"alpha/fatwheel.yml": YAML, "python/beta/fatwheel.yml": YAML, ".venv/gamma/fatwheel.yml": YAML})
    with pytest.raises(InputError) as caught:
        location.find_config(tmp_path, NOWHERE)
    assert caught.value.message.endswith(
        f"; below it: {tmp_path}/alpha/fatwheel.yml, {tmp_path}/python/beta/fatwheel.yml"
    )
    assert caught.value.hint == f"name one of them, such as {tmp_path}/alpha/fatwheel.yml"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"alpha/fatwheel.yml": YAML}, "alpha/fatwheel.yml", id="file"),
        pytest.param({"alpha/pyproject.toml": TOML}, "alpha/pyproject.toml", id="table"),
        pytest.param({"fatwheel.yml": YAML, "alpha/x": ""}, "alpha/fatwheel.yml", id="none-and-not-that-above"),
    ],
)
def test_a_config_may_be_named_by_its_folder(files: dict[str, str], expected: str, tmp_path: Path) -> None:
    write(tmp_path, files)
    assert find_config(Namespace(config=tmp_path / "alpha"), world(tmp_path)) == tmp_path / expected


def test_a_table_asks_for_the_same_as_a_file(tmp_path: Path) -> None:
    one = loader.load(write(tmp_path / "a", {"fatwheel.yml": YAML}) / "fatwheel.yml", catalog.load())
    other = loader.load(write(tmp_path / "b", {"pyproject.toml": TOML}) / "pyproject.toml", catalog.load())
    assert (one.pythons, one.torch, one.platforms[0].owner) == (other.pythons, other.torch, other.platforms[0].owner)
    assert (other.config, other.platforms[0].where) == ("pyproject.toml", "pyproject.toml:9")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param("platforms.linux-cpu", "platforms.linux-cpo",
                     'pyproject.toml:9:1: unknown key "linux-cpo", did you mean "linux-cpu"?', id="platform"),
        pytest.param("python =", "pyton =",
                     'pyproject.toml:7:1: unknown key "pyton", did you mean "python"?', id="key"),
        pytest.param('"3.14t"', "3.1", 'pyproject.toml:7:19: there is no Python "3.1" in the catalog', id="value"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_table_has_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = write(tmp_path, {"pyproject.toml": TOML.replace(old, new)}) / "pyproject.toml"
    with pytest.raises(InputError) as refused:
        loader.load(path, catalog.load())
    assert said in refused.value.message.replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("name", ["fatwheel.yml", "pyproject.toml"])
def test_two_configs_in_one_folder_are_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"fatwheel.yml": YAML, "pyproject.toml": TOML})
    with pytest.raises(InputError, match=r"pyproject.toml:4:1: the table \[tool.fatwheel\] is a config, and so is "):
        loader.load(tmp_path / name, catalog.load())


def test_a_plan_in_a_subfolder_says_which_config_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write(tmp_path, {"pyproject.toml": f"{BACKEND}{TOML}", "src/demo/sub/x": ""})
    committed(root)
    monkeypatch.chdir(root / "src/demo/sub")
    assert main(["plan", "--explain"]) == 0
    said = capsys.readouterr()
    assert "the config is ../../../pyproject.toml [tool.fatwheel]\n" in said.err
    assert " ../../../pyproject.toml [tool.fatwheel]" in said.out


def test_init_in_a_subfolder_writes_beside_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(write(tmp_path, {"pyproject.toml": f"{BACKEND}{OTHER}", "src/demo/__init__.py": ""}))
    monkeypatch.chdir(tmp_path / "src/demo")
    assert main(["init"]) == 0
    said = capsys.readouterr()
    assert (said.out, "the project is in ../..\n" in said.err) == ("../../fatwheel.yml\n", True)
    assert main(["init"]) == 2


def test_init_writes_no_second_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"pyproject.toml": TOML})
    assert main(["init", str(tmp_path)]) == 2
    assert "has a table [tool.fatwheel] already, expected no config" in capsys.readouterr().err


BACKEND = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
