"""fatwheel doctor, of hostile workflow files and of a config in pyproject.toml."""

from __future__ import annotations

import pytest

from tests.builders.doctored import Told, command, doctor
from tests.servers.github import REPOSITORY, GitHub
from tests.servers.github_settings import Settings

pytestmark = pytest.mark.slow

HOSTILE = {
    "aliases": b"a: &a [x, x]\n" + b"".join(b"b%d: &b%d [*a, *a]\n" % (n, n) for n in range(2000)) + b"jobs: {x: {}}",
    "laughs": b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 90)),
    "loop": b"on: push\njobs: &j {x: &x {steps: [*x], with: *j}}",
    "deep": b"[" * 200_000,
    "keys": b"{" * 50_000,
    "huge": b"#" * 2_000_000,
    "no-text": b"\xff\xfe\x00jobs",
    "no-character": b'on: "\\UFFFFFFFF"',
    "no-code-point": b'on: "\\U00110000"',
    "tags": b"on: !!python/object/apply:os.system [echo pwned]\njobs: {x: {steps: !!binary aGk=}}",
    "commands": b'on: push\njobs:\n  x: {uses: "a/fatwheel/::error::@##[error]\\e[31m", secrets: {"\\n::error::x": y}}',
    "names": b'on: push\njobs: {"x\\n::error::pwned": {uses: a/fatwheel@v1}}',
    "outside": b"on: push\njobs: {x: {uses: ../..%2f/fatwheel/../../user@v1, steps: [{uses: a/..@v1}]}}",
    "expressions": b"on: push\njobs: {x: {uses: a/fatwheel@v1, env: {A: '" + b"${{" * 50_000 + b"'}}}",
    "environment": b"on: push\njobs: {x: {uses: a/fatwheel@v1, environment: 'x; rm -rf $HOME', "
    b"env: {A: '${{secrets.B}}'}}}",
    "steps": b"x: &s {run: '"
    + b"gh release " * 5_000
    + b"'}\non: push\njobs: {x: {steps: ["
    + b"*s," * 20_000
    + b"]}}",
    "script": b"x: &r '"
    + b"fatwheel publish " * 6_000
    + b"'\non: push\njobs: {x: {steps: ["
    + b"{run: *r}," * 10_000
    + b"]}}",
    "merged": b"on: push\njobs: {x: {<<: *nowhere}}",
    "two": b"on: push\n---\non: push",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_hurt_nobody(name: str, hub: GitHub, settings: Settings) -> None:
    settings.files[f".github/workflows/{name}.yml"] = HOSTILE[name]
    told = doctor(hub)
    assert (told.status in {0, 1}, command_like(told)) == (True, []), told.stderr


def test_no_hostile_file_tells_a_runner_or_a_terminal_anything(hub: GitHub, settings: Settings) -> None:
    settings.files |= {f".github/workflows/{name}.yml": data for name, data in HOSTILE.items()}
    told = command(hub, REPOSITORY)
    assert (told.status, "Traceback" in told.stderr, command_like(told)) == (1, False, []), told.stderr


def command_like(told: Told) -> list[str]:
    """Return the lines that a runner would take for a command, and those that move a cursor."""
    lines = (told.stdout + told.stderr).splitlines()
    return [line for line in lines if line.lstrip().startswith("::") or "##[" in line or "\x1b" in line]


def test_a_name_of_a_hostile_environment_is_quoted_in_a_command(hub: GitHub, settings: Settings) -> None:
    settings.files[".github/workflows/x.yml"] = HOSTILE["environment"]
    assert "--env 'x; rm -rf $HOME'" in doctor(hub).finding("secret")["how"]


@pytest.mark.parametrize(
    ("project", "rules"),
    [
        pytest.param('[project]\ndependencies = ["fatwheel-plugin"]\n', [], id="only-its-name"),
        pytest.param("# fatwheel\n[project\n", ["unseen"], id="no-toml"),
        pytest.param("[tool.fatwheel.platforms]\nlinux-rocm.own-workflow = true\n", ["own-workflow"], id="a-table"),
    ],
)
def test_a_config_in_pyproject_is_read_where_there_is_one(
    project: str, rules: list[str], hub: GitHub, settings: Settings
) -> None:
    del settings.files["fatwheel.yml"]
    without = doctor(hub).rules
    settings.files["pyproject.toml"] = project.encode()
    assert sorted(doctor(hub).rules) == sorted([*without, *rules])
