"""A variable stands for its option; the command line goes before it, and a wrong one is told by its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ci_tools.cli import variables, verbs
from ci_tools.cli.dispatch import parse
from ci_tools.cli.main import main
from ci_tools.cli.verbs import VERBS
from ci_tools.errors import InputError
from tests.builders.sources import demo
from tests.language.modules import list_modules, read_module


@pytest.mark.parametrize(
    ("line", "environ", "option", "value"),
    [
        pytest.param("plan", {"CONFIG": "a/b.yml"}, "config", Path("a/b.yml"), id="a-place"),
        pytest.param("plan c.yml", {"CONFIG": "a/b.yml"}, "config", Path("c.yml"), id="a-place-on-the-line"),
        pytest.param("plan", {"TORCH": "2.14 2.15\n"}, "torch", ["2.14", "2.15"], id="several"),
        pytest.param("plan --torch 2.13", {"TORCH": "2.14"}, "torch", ["2.13"], id="several-on-the-line"),
        pytest.param("plan", {"UNTAGGED": "true"}, "untagged", True, id="a-flag"),
        pytest.param("plan", {"UNTAGGED": "0"}, "untagged", False, id="no-flag"),
        pytest.param("plan", {"TAG": " "}, "tag", None, id="blank-is-unset"),
        pytest.param("plan --nightly 20261121", {"TAG": "v1"}, "tag", None, id="the-line-excludes-it"),
        pytest.param("build --out d", {"JOB": "pure"}, "job", "pure", id="a-required-option"),
        pytest.param("publish d", {"UPLOADER": "uv"}, "uploader", "uv", id="a-choice"),
        pytest.param("publish d --uploader twine", {"UPLOADER": "uv"}, "uploader", "twine", id="a-default-on-the-line"),
    ],
)
def test_an_option_takes_its_value_from_its_variable(
    line: str, environ: dict[str, str], option: str, value: object
) -> None:
    options = parse(line.split(), {f"FATWHEEL_{name}": text for name, text in environ.items()})
    assert getattr(options, option) == value


@pytest.mark.parametrize(
    ("line", "environ", "said"),
    [
        pytest.param("publish d", {"UPLOADER": "curl"}, '--uploader: there is no "curl"', id="no-choice"),
        pytest.param("plan", {"TAG": "v1", "REF": "main"}, "--ref: not allowed with argument --tag", id="both"),
    ],
)
def test_a_wrong_value_is_told_with_its_variable(line: str, environ: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(line.split(), {f"FATWHEEL_{name}": text for name, text in environ.items()})
    assert refused.value.message.startswith(said)
    assert refused.value.hint.startswith(f"set here: FATWHEEL_{next(iter(environ))}")


def test_a_flag_is_true_or_false() -> None:
    with pytest.raises(InputError, match='FATWHEEL_REPLACE: "perhaps" is neither true nor false'):
        parse(["publish", "d"], {"FATWHEEL_REPLACE": "perhaps"})


@pytest.mark.parametrize("name", VERBS)
def test_the_help_of_an_option_names_its_variable(name: str) -> None:
    parser = verbs.parser_of(name)
    page = " ".join(parser.format_help().split())
    known = [variables.VARIABLES[action.dest] for action in parser._actions if action.dest in variables.VARIABLES]  # noqa: SLF001
    assert [variable for variable in known if f"[{variable}]" not in page] == []


def test_every_variable_is_of_an_option() -> None:
    options = {action.dest for name in VERBS for action in verbs.parser_of(name)._actions}  # noqa: SLF001
    assert variables.VARIABLES.keys() - options == set()


def test_every_other_variable_is_in_the_table_with_its_reader() -> None:
    named = re.compile(r'(?<!-D)"(FATWHEEL_[A-Z_]*[A-Z])"|\b(FATWHEEL_WHEEL)=')
    found = {name: {"".join(one) for one in named.findall(read_module(name))} for name in list_modules()}
    known = {name: one.reader for name, one in variables.OTHERS.items()}
    assert set().union(*found.values()) - known.keys() == set()
    assert {name for name, reader in known.items() if name not in found[reader]} == set()


def test_a_plan_explains_which_variables_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FATWHEEL_CONFIG", str(demo(tmp_path) / "fatwheel.yml"))
    monkeypatch.setenv("FATWHEEL_NIGHTYL", "20261121")
    assert main(["plan", "--explain"]) == 0
    said = capsys.readouterr()
    assert " FATWHEEL_CONFIG " in said.out
    assert said.err == 'there is no variable "FATWHEEL_NIGHTYL", did you mean "FATWHEEL_NIGHTLY"?\n'


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        pytest.param("FATWHEEL_TGA", ['there is no variable "FATWHEEL_TGA", did you mean "FATWHEEL_TAG"?'], id="short"),
        pytest.param("FATWHEEL_TORCH_INCLUDE", [], id="of-a-build"),
        pytest.param("FATWHEEL_TAG", [], id="known"),
    ],
)
def test_a_mistyped_variable_is_reported(name: str, sentences: list[str]) -> None:
    assert list(variables.find_unknown({name: "1"})) == sentences
