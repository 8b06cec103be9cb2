"""What every folder of tests shares."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

import tests.servers  # noqa: F401 - before anything imports jsonschema
from ci_tools.build.toolchain import Toolchains
from ci_tools.errors import MachineError
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.installers import read_pip_settings
from ci_tools.machine.storage import cache_folder
from ci_tools.plan.make import make_plan

# Modules that are imported and tests that are collected are no garbage, but of so many a look at all takes its time.
gc.set_threshold(100_000, 20, 20)
# Git hooks say in variables which repository runs these tests, and git commands of ours would obey.
for name in [name for name in os.environ if name.startswith("GIT_")]:
    del os.environ[name]
settings.register_profile("any machine", deadline=None)  # a slow machine is no failure
settings.load_profile("any machine")
# uv installs the same files as pip in a tenth of the time; tests of pip itself, and of what users type, take pip.
os.environ.setdefault("FATWHEEL_INSTALLER", "uv")
# Where docker answers, as on GitHub's runners, builds would fetch images; the tests of containers say which engine.
os.environ.setdefault("FATWHEEL_CONTAINERS", "none")
# What pip's files say is said in variables, which every process of a test inherits: pip takes half a second to tell.
os.environ.update(read_pip_settings(os.environ), PIP_CONFIG_FILE=os.devnull)
# Beside other test processes, torch's threads wait for each other, and waiting takes processor time (OpenMP spins).
os.environ.setdefault("OMP_NUM_THREADS", "1")
CONFIG = Path(__file__).parents[1] / "package" / "fatwheel.yml"
MEMORY = Path("/dev/shm")  # noqa: S108 - each test makes a folder of its own there
ROOM = 8 << 30  # bytes; a run of all tests takes less than half


def _has_room(folder: Path) -> bool:
    """Whether tests may put their files into a folder: it has room, and programs in it can be started."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    return shutil.disk_usage(folder).free > ROOM and not os.statvfs(folder).f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and _has_room(MEMORY):
    # Publishers wait for the disk at every step, and an environment with torch takes it twice as long as memory.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the many short tests after all others, so that no process waits for another one's long test at the end."""
    items.sort(key=lambda item: item.nodeid.startswith("tests/unit/"))


def pytest_collection_finish() -> None:
    """Look for garbage only in what the tests make: modules and thousands of collected tests stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _takes_signals() -> None:
    """Hear a terminal's signals again where a shell, or nohup, has all that these tests start ignore them."""
    signals = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    for number, usual in signals.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again what failed without a pause."""
    from ci_tools.machine.http import client, policy  # noqa: PLC0415 - few tests need a client

    monkeypatch.setattr(policy.RetryPolicy, "pause", lambda *_: 0.0)
    monkeypatch.setattr(client.RETRY, "backoff_factor", 0.0)


@pytest.fixture(scope="session")
def cuda_home() -> Path:
    """The CUDA 13.0 toolkit of the reference package, fetched into the user's cache as `make release` does it."""
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    planned = make_plan(CONFIG, outside)
    try:
        return dict(Toolchains(planned.catalog, outside).prepare(planned.job("linux-cuda-cu130")).folders)["CUDA_HOME"]
    except MachineError as error:
        pytest.skip(f"needs nvcc: {error.message}")
