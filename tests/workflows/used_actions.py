"""What a run finds of the actions that it uses: other repositories of the test, and scripts of `standins`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers import prepared
from tests.servers.caller import caller_of
from tests.workflows import rules
from tests.workflows.pythons import pythons
from tests.workflows.repositories import Repository, used

if TYPE_CHECKING:
    from tests.workflows.harness import World

NODE = """\
#!/bin/sh
case "$*" in
  *"-e console.log(process.execPath)") echo "$0" ;;
  */hashfiles/index.js) exec HASHES ;;
  *) exec "NODE" "$@" ;;
esac
"""


def seed(home: Path, repositories: tuple[Repository, ...], world: World) -> dict[str, Path]:
    """Write everything that the repositories use; return the folder of each by the name that act looks for."""
    (home / "settings.json").write_text(json.dumps(settings(home, repositories, world)), encoding="utf-8")
    write_command(home / "bin" / "gh", "gh.py", home / "settings.json")
    answer_for_node(home / "bin" / "node")
    named = {it.name: it for it in repositories}
    folders: dict[str, Path] = {}
    for action, _, ref in sorted({text.partition("@") for it in repositories for text in used(it)}):
        owner, name, *_ = action.split("/")
        source = named.get(f"{owner}/{name}")
        folder = folders.setdefault(f"{owner}/{name}@{ref}", home / "used" / f"{owner}-{name}@{ref}")
        if source is None:
            stand_in(folder, action, home / "settings.json")
        elif not folder.exists():
            _copy_used(source, folder)
    return folders


def _copy_used(source: Repository, folder: Path) -> None:
    """Copy what others use of a repository: act copies all of it for each step that uses an action there."""
    if not source.lean:
        shutil.copytree(source.folder, folder, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        return
    for name in ("actions", "workflows"):
        shutil.copytree(source.folder / ".github" / name, folder / ".github" / name)
    shutil.copy(source.folder / "action.yml", folder)


def stand_in(folder: Path, action: str, settings: Path) -> None:
    """Write an action that takes and hands on what the real one does, and runs a script of ours."""
    if "script" not in rules.ACTIONS.get(action, ()):
        msg = f"{action} has no stand-in: describe it in ci_tools/catalog/actions.toml and write its script"
        raise LookupError(msg)
    known = rules.ACTIONS[action]
    target = folder.joinpath(*action.split("/")[2:])
    write_command(target / "stand-in", known["script"], settings)
    step = {
        "id": "it",
        "shell": "bash",
        "run": '"$GITHUB_ACTION_PATH/stand-in"',
        "env": {"INPUTS": "${{ toJSON(inputs) }}"},
    }
    interface = {
        "name": action,
        "inputs": {name: {} if value is True else {"default": value} for name, value in known["inputs"].items()},
        "outputs": {name: {"value": f"${{{{ steps.it.outputs.{name} }}}}"} for name in known["outputs"]},
        "runs": {"using": "composite", "steps": [step]},
    }
    (target / "action.yml").write_text(json.dumps(interface, indent=1), encoding="utf-8")  # JSON is YAML


def answer_for_node(path: Path) -> None:
    """Write a command that says where node is, which act asks in every job and every composite action.

    It also answers `hashFiles`, for which act starts node in every step of an action that has it.
    """
    if found := shutil.which("node"):
        command, address = caller_of(prepared.SCRIPTS)
        hashes = f'"{command}" "{address}" hash_files.py'
        path.write_text(NODE.replace("NODE", found).replace("HASHES", hashes), encoding="utf-8")
        path.chmod(0o755)


def write_command(path: Path, script: str, settings: Path) -> None:
    """Write a command that runs a script of ours, in a fork of a Python that has what they import."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command, address = caller_of(prepared.SCRIPTS)
    line = f'STANDIN_SETTINGS="{settings}" exec "{command}" "{address}" {script} "$@"'
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


def settings(home: Path, repositories: tuple[Repository, ...], world: World) -> dict[str, Any]:
    """Return what the stand-ins know of their run."""
    return {
        "shared": str(home / "shared"),
        "repositories": {it.name: str(it.folder) for it in repositories},
        "pins": [it.pin for it in repositories],
        "signers": [f"{it.name}/{path}" for it in repositories for path, file in it.files.items() if _attests(file)],
        "pythons": pythons(),
        "environments": str(caller_of(prepared.SCRIPTS)[0].parent),
        "aws": world.aws,
        "index": world.index,
        "index_token": world.index_token,
        "token": world.token,
        "runs": {number: str(path) for number, path in world.runs.items()},
    }


def _attests(file: rules.File) -> bool:
    return any(step.action == "actions/attest" for step in file.steps)
