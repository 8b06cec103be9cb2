"""Every verb has its two functions and its help, and whoever mistypes one is told the nearest."""

from __future__ import annotations

import argparse
import inspect
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from ci_tools.cli import session, verbs
from ci_tools.cli.dispatch import parse
from ci_tools.cli.main import main
from ci_tools.cli.verbs import FIRST_PAGE, GROUPS, VERBS
from ci_tools.errors import InputError

OF_PEOPLE = ("init", "plan", "build", "audit", "validate", "release", "publish", "advise", "doctor")


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_takes_its_options_and_the_context(name: str) -> None:
    assert [*inspect.signature(verbs.find_run(name)).parameters] == ["options", "outside"]


@pytest.mark.parametrize("name", VERBS)
def test_the_help_of_a_verb_has_its_options_and_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*name.split(), "--help"])
    page = capsys.readouterr().out
    options = [option for action in verbs.parser_of(name)._actions for option in action.option_strings]  # noqa: SLF001 - argparse has no other way
    assert [option for option in options if option not in page] == []
    assert f"example:\n  $ {VERBS[name].example}\n" in page
    assert max(map(len, page.splitlines())) <= max(100, 6 + len(VERBS[name].example))


def test_the_first_page_has_the_verbs_of_people_and_the_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(chain(*FIRST_PAGE.values())) == sorted(OF_PEOPLE)
    assert main(["--help"]) == 0
    page = capsys.readouterr().out
    assert [name for name in (*OF_PEOPLE, *GROUPS) if f"\n  {name} " not in page] == []
    assert "gather" not in page


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_its_verbs(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([group, "--help"]) == 0
    page = capsys.readouterr().out
    assert [line.split()[0] for line in page.splitlines() if line.startswith("  ") and line[2] != " "] == [
        name.split()[1] for name in VERBS if name.startswith(f"{group} ")
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("", "no verb is named, known: init, plan, advise,", id="nothing"),
        pytest.param("plam", 'there is no verb "plam", did you mean "plan"?', id="mistyped"),
        pytest.param("yank", 'there is no verb "yank", did you mean "index yank"?', id="in-a-group"),
        pytest.param("index", "`fatwheel index` needs a verb, known: adopt, add,", id="only-a-group"),
        pytest.param("index verfy", 'there is no verb "index verfy", did you mean "verify"?', id="mistyped-in-a-group"),
        pytest.param("index gather", 'there is no verb "index gather", did you mean "ci gather"?', id="another-group"),
        pytest.param("--verbose", 'there is no verb "--verbose", ', id="an-option-first"),
    ],
)
def test_a_line_without_a_verb_is_told_the_nearest(line: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(line.split())
    assert refused.value.message.startswith(said)
    assert refused.value.hint.endswith("--help` lists the verbs")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plan --explian", 'there is no option "--explian", did you mean "--explain"?'),
        ("build --jbo=pure", 'there is no option "--jbo", did you mean "--job"?'),
        ("plan --format jsno", '--format: there is no "jsno", did you mean "json"?'),
        ("completion fsh", 'SHELL: there is no "fsh", did you mean "fish"?'),
        ("completion 1", 'SHELL: there is no "1", known: bash, fish, powershell, tcsh, zsh'),
    ],
)
def test_a_mistyped_option_or_value_is_told_the_nearest(line: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(line.split())
    assert refused.value.message == said
    assert refused.value.hint == f"`fatwheel {line.split(maxsplit=1)[0]} --help` lists the options"
    assert isinstance(parse(["index", "yank", "dir:a", "b==1", "--reas", "-- it -- "]), argparse.Namespace)


def test_an_interruption_while_modules_load_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "run_session", lambda _: signal.raise_signal(signal.SIGINT))
    assert main(["plan"]) == 130
    assert capsys.readouterr().err == "interrupted; the same command goes on where this one stopped\n"


@pytest.mark.parametrize("line", ["release --to dirr:x", "publish . --to dirr:x", "publish . --to dir:x --also dirr:x"])
def test_a_mistyped_target_is_refused_before_anything_is_read(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # without a config and a plan, of which a later refusal would speak
    assert main(line.split()) == 2
    assert '"dirr:x" is not a target' in capsys.readouterr().err


@pytest.mark.slow
def test_a_verb_waits_for_no_other_verbs_modules() -> None:
    code = "import sys; from ci_tools.cli import main; print(*[name for name in sys.modules if name in sys.argv])"
    modules = {verb.module or name.partition(" ")[0] for name, verb in VERBS.items()}
    never = [f"ci_tools.cli.verbs.{name}" for name in sorted(modules)]
    done = subprocess.run([sys.executable, "-c", code, *never], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_version_is_printed_before_more_than_the_verbs_is_imported() -> None:
    code = "import sys; from ci_tools.cli.main import main; main(['--version']); print(*sorted(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    ours = {name for name in said.split() if name.startswith("ci_tools")}
    assert ours == {"ci_tools", "ci_tools.addresses", "ci_tools.errors"} | {
        f"ci_tools.cli{name}" for name in ("", ".dispatch", ".main", ".verbs")
    }
