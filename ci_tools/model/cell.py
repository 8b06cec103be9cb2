"""A cell: one combination of platform, accelerator, torch and Python in a request."""

from __future__ import annotations

from typing import NamedTuple

from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.versions import Minor, Python


class Cell(NamedTuple):
    """One combination that a request asks for."""

    platform: Platform
    accelerator: Accelerator | None
    torch: Minor | None
    python: Python

    def __str__(self) -> str:
        """Return `linux-cuda / cu130 / torch2.10 / cp312`."""
        accelerator = f" / {self.accelerator.label}" if self.accelerator else ""
        torch = f" / torch{self.torch}" if self.torch else ""
        return f"{self.platform}{accelerator}{torch} / {self.python.abi_tag}"
