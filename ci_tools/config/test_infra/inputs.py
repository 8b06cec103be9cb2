"""The inputs of test-infra's workflows with their fates, and the rows and wishes that they become."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog.accelerators import KINDS
from ci_tools.model.names import Name
from ci_tools.model.platforms import Platform

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from ci_tools.catalog import Catalog, TorchRelease

FACTS = Path(__file__).with_name("inputs.toml")
SERVED = {
    ("linux", "cpu"): Platform.LINUX_CPU,
    ("linux", "cuda"): Platform.LINUX_CUDA,
    ("linux", "rocm"): Platform.LINUX_ROCM,
    ("linux", "xpu"): Platform.LINUX_XPU,
    ("linux-aarch64", "cpu"): Platform.LINUX_AARCH64,
    ("linux-aarch64", "cuda"): Platform.LINUX_CUDA_AARCH64,
    ("macos-arm64", "cpu"): Platform.MACOS_ARM64,
    ("windows", "cpu"): Platform.WINDOWS,
    ("windows", "cuda"): Platform.WINDOWS_CUDA,
}
# Targets that only test-infra has: Fatwheel has no platform for them.
UNSERVED = frozenset({("windows", "xpu"), ("windows-arm64", "cpu"), ("macos", "cpu")})
SYSTEMS = sorted({system for system, _ in (*SERVED, *UNSERVED)})


class InputFate(Name):
    """The result for an input."""

    CARRIED = "carried"
    NOT_NEEDED = "not needed"
    NEEDS_YOU = "needs you"


class KnownInput(NamedTuple):
    """An input of test-infra and its fate: the key it goes to, why it is not needed, or what to do."""

    fate: InputFate
    what: str


class ReportLine(NamedTuple):
    """One line of the report."""

    where: str  # file:line
    name: str
    value: str
    fate: InputFate
    what: str


class SettingWish(NamedTuple):
    """One setting for the config, and the platforms of the job that asks for it."""

    key: str
    value: str
    where: str
    platforms: tuple[Platform, ...]


class Move(NamedTuple):
    """All requests of some workflows: the config's settings, the report, and the triggers."""

    wishes: tuple[SettingWish, ...]
    rows: tuple[ReportLine, ...]
    triggers: tuple[Any, ...]
    repository: str  # OWNER/NAME, or "" if no workflow names it

    def of(self, key: str) -> tuple[SettingWish, ...]:
        """Return the wishes for a key, without duplicate values."""
        found: dict[str, SettingWish] = {}
        for wish in self.wishes:
            if wish.key == key:
                other = found.get(wish.value, wish)
                found[wish.value] = other._replace(platforms=tuple(dict.fromkeys((*other.platforms, *wish.platforms))))
        return tuple(found.values())

    def is_everywhere(self, wish: SettingWish) -> bool:
        """Whether the jobs with a wish cover every platform."""
        return {Platform(platform.value) for platform in self.of("platform")} <= {*wish.platforms}


@functools.cache
def load_fates() -> dict[str, dict[str, KnownInput]]:
    """Return the fate of every input and secret, by name."""
    tables = tomllib.loads(FACTS.read_text(encoding="utf-8"))
    return {
        kind: {name: KnownInput(InputFate(entry["fate"]), entry["what"]) for name, entry in table.items()}
        for kind, table in tables.items()
    }


def newest(catalog: Catalog) -> TorchRelease:
    """Return the newest torch for which the catalog knows what upstream ships for every accelerator."""
    whole = {
        version for version, release in catalog.torch.items() if {kind for _, kind in release.accelerators} >= {*KINDS}
    }
    return catalog.torch[max(whole or catalog.torch)]
