"""What `make lint` finds in a repository of workflow files, one of which has one flaw."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.sources import write
from tests.unit.github.test_workflow_rules import ACTION, CALLED, CALLER
from tests.workflows import lint, shells

HERE = Path(__file__).parent
# Each flaw as a change of the good caller, which calls the good called workflow and uses the good action.
PLANTED = {
    "a-broken-shell-line": ('run: echo "$WHEELS" "$PYTHON"', "run: if [ $x == 1 ; then"),
    "an-unquoted-variable": ('run: echo "$WHEELS"', "run: rm $HOME; echo"),
    "a-text-for-a-number": ("config: fatwheel.yml", "config: fatwheel.yml\n      days: many"),
    "a-number-for-a-boolean": ("config: fatwheel.yml", "config: fatwheel.yml\n      dry: 1"),
    "a-shell-that-there-is-not": ("run: echo", "shell: bassh\n        run: echo"),
    "a-matrix-that-there-is-not": ("${{ steps.setup.outputs.python }}", "${{ matrix.q }}"),
    "an-input-that-is-not-taken": ("config: fatwheel.yml", "config: fatwheel.yml\n      confg: x"),
    "an-input-that-is-left-out": ("    with:\n      config: fatwheel.yml\n", ""),
    "an-expansion-in-a-command": ('run: echo "$WHEELS"', 'run: echo "${{ github.head_ref }}"'),
    "an-action-that-is-not-pinned": ("$/.github/actions/setup", "actions/setup-python@v7"),
    "a-file-that-is-not-there": ("$/.github/actions/setup", "$/.github/actions/set-up"),
    "a-job-that-is-not-needed": ("    needs: build\n", ""),
    "a-job-that-there-is-not": ("needs: build", "needs: biuld"),
    "an-output-that-there-is-not": ("needs.build.outputs.wheels", "needs.build.outputs.wheel"),
    "a-step-that-there-is-not": ("steps.setup.outputs", "steps.setups.outputs"),
    "a-function-that-there-is-not": ("${{ steps.setup.outputs.python }}", "${{ lower('X') }}"),
    "a-context-that-there-is-not": ("${{ steps.setup.outputs.python }}", "${{ job.steps.x }} ${{ nothing.x }}"),
    "a-broken-expression": ("${{ steps.setup.outputs.python }}", "${{ steps.setup"),
    "a-key-that-there-is-not": ("    timeout-minutes: 5", "    timeout-minute: 5"),
    "an-event-that-there-is-not": ("  push:\n", "  pushed:\n"),
    "a-cron-that-never-comes": ("  push:\n", '  schedule:\n    - cron: "99 4 * * 1"\n'),
    "a-right-that-there-is-not": ("contents: read #", "content: read #"),
    "a-label-without-a-runner": ("runs-on: ubuntu-latest", "runs-on: ubuntu-lastest"),
    "no-time-limit": ("    timeout-minutes: 5\n", ""),
}
TYPED = "        required: true\n      days:\n        description: How many days it is kept.\n        type: number\n"
TYPED += "      dry:\n        description: Whether to change nothing.\n        type: boolean\n"
USED = "          CONFIG: ${{ inputs.config }}\n          DAYS: ${{ inputs.days }}\n          DRY: ${{ inputs.dry }}\n"
WORKFLOWS = ".github/workflows"


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what is found where every flaw is in a file of its own, beside the files without one."""
    if not (HERE / "node_modules").is_dir() or shells.program() is None:
        pytest.skip("the linters are installed by `make lint`")
    root = tmp_path_factory.mktemp("planted")
    called = CALLED.replace("        required: true\n", TYPED).replace("          CONFIG: ${{ inputs.config }}\n", USED)
    files = {f"{WORKFLOWS}/called.yml": called, f"{WORKFLOWS}/caller.yml": CALLER}
    files |= {f"{WORKFLOWS}/{name}.yml": CALLER.replace(*change) for name, change in PLANTED.items()}
    write(root, {**files, ".github/actions/setup/action.yml": ACTION})
    return list(lint.faults(root))


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_flaw_is_found(name: str, faults: list[str]) -> None:
    assert CALLER.count(PLANTED[name][0]) == 1
    assert [fault for fault in faults if fault.startswith(f"{WORKFLOWS}/{name}.yml:")] != []


def test_nothing_else_is(faults: list[str]) -> None:
    assert [fault for fault in faults if fault.partition(":")[0].rpartition("/")[2][:-4] not in PLANTED] == []
