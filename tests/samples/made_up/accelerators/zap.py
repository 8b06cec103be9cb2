"""Zap, an accelerator that nobody has: all that Fatwheel is told of it."""

from __future__ import annotations

import re
from typing import BinaryIO

from ci_tools.model.platforms import AcceleratorKind

IMAGE = re.compile(rb"zap-image:(z[0-9])")


class ZapKind(AcceleratorKind):
    """What is said of Zap alone."""

    __slots__ = ()
    named = stack = "Zap"
    arch_form = "^z[0-9]$"
    arch_told = "an architecture such as z1"
    table = """
[[release]]
version = "3.1"
archs = ["z1", "z2"]

[platforms.linux-zap]
os = "linux"
machine = "x86_64"
wheel-platform = "linux"
runner = "ubuntu-24.04"
extension-suffix = ".cpython-{digits}-x86_64-linux-gnu.so"
"""
    sources = r"\.zap$"
    usual_archs = ("z1",)
    arch_list = ("ZAP_ARCHS", ";")
    homes = ("ZAP_HOME",)
    compiler = "zapcc"
    said = r"zapcc (\d+)\.(\d+)"
    tools = {"zapcc": "zapcc {version}"}
    switches = "ZAP"

    def find_images(self, library: BinaryIO) -> frozenset[str]:
        """Return the images that zapcc names in a library."""
        library.seek(0)
        return frozenset(name.decode() for name in IMAGE.findall(library.read()))


ZAP = ZapKind("zap")
