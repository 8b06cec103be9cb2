"""Creates the folder in which a configure step is observed: a copy of the source, stand-ins and the cell's builder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.catalog.accelerators.cuda import cuda_of
from ci_tools.model.versions import CudaArch
from ci_tools.observe.cmake.reply import QUERY
from ci_tools.observe.stage import SourceCopy, write_git
from ci_tools.sandbox.leftovers import clear

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_tools.observe.views import View
    from ci_tools.source.files import Tree

STAND_INS = Path(__file__).parent / "standins"
SYSTEMS = {"linux": ("Linux", "GNU"), "macos": ("Darwin", "AppleClang"), "windows": ("Windows", "MSVC")}
PROCESSORS = {("macos", "arm64"): "arm64", ("windows", "amd64"): "AMD64"}
# Programs of the builder; none is run by a configure step whose questions the stand-ins answer.
PROGRAMS = ("bin/compiler", "bin/nproc", "bin/python", "cuda/bin/nvcc")
# Folders that the stand-ins name: cmake looks whether they are there.
FOLDERS = (
    *("cuda/include", "cuda/lib64", "python/numpy", "packages/nanobind/include", "packages/pybind11/include"),
    "packages/torch/include/torch/csrc/api/include",
)
NINJA = "#!/bin/sh\necho 1.13.0\n"  # cmake itself asks for its version


class ConfigureStage(SourceCopy):
    """The folder in which a project's configure steps are observed."""

    @property
    def build(self) -> Path:
        """The folder that cmake fills."""
        return self.folder / "build"

    @property
    def root(self) -> Path:
        """The builder: the only folder in which cmake finds programs, libraries and packages."""
        return self.folder / "root"

    @property
    def trace(self) -> Path:
        """The trace that cmake writes."""
        return self.folder / "trace"

    @property
    def stand_ins(self) -> Path:
        """The stand-ins and the facts that they answer by; outside the folder that the project can write to."""
        return self.folder.parent / "standins"

    def set(self, tree: Tree, view: View, no: Sequence[str], *, lends: bool) -> None:
        """Clear the stage, and make it for a view's configure step, whose compiler says no to some questions.

        `lends` says whether the step may read the objects of the source's repository.
        """
        for folder in (self.folder, self.stand_ins):
            clear(folder)
        tree.copy_to(self.source)
        tree.make_checkout(self.source, lends=lends)
        shutil.copytree(STAND_INS, self.stand_ins)
        (self.stand_ins / "facts.cmake").write_text("".join(self._facts(view, no)), encoding="utf-8")
        for name in PROGRAMS if view.accelerator else PROGRAMS[:-1]:
            self._script(name, "#!/bin/sh\nexit 1\n")
        self._script("bin/ninja", NINJA)
        self._script("bin/git", write_git(tree, self.folder))
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        query = self.build / QUERY
        query.parent.mkdir(parents=True)
        query.touch()

    def write(self, files: Iterable[tuple[str, str]]) -> None:
        """Write files into the copy of the source, as a build did before it called cmake.

        The build names them, so a name that leads out of the copy is skipped.
        """
        for name, text in files:
            path = (self.source / name).resolve()
            if path.is_relative_to(self.source):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")

    def fill_in(self, text: str) -> str:
        """Return a word of a call of cmake with this stage's folders in place of their names."""
        for name, folder in (
            ("<source>", self.source),
            ("<build>", self.build),
            ("<accelerator>", self.root / "cuda"),
            ("<python>/", f"{self.root}/python/"),
            ("<python>", self.root / "bin" / "python"),
            ("<package>", self.root / "packages"),
            ("<modules>", self.root / "packages"),
            ("<stage>", self.build / "temporary"),
        ):
            text = text.replace(name, str(folder))
        return text

    def _script(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def _facts(self, view: View, no: Sequence[str]) -> Iterator[str]:
        system, compiler = SYSTEMS[view.os]
        version = cuda_of(view.accelerator)
        cuda = f"{version}.0" if version else ""
        facts = {
            "SYSTEM": system,
            "PROCESSOR": PROCESSORS.get((view.os, view.machine.lower()), view.machine),
            "COMPILER": compiler,
            "ROOT": self.root,
            "PACKAGES": self.stand_ins / "packages",
            "PYTHON": view.python.version,
            "FREE_THREADED": "TRUE" if view.python.free_threaded else "",
            "TORCH": view.torch,
            "CUDA": cuda,
            "GENCODES": " ".join(_list_gencodes(view)) if cuda else "",
            "NO": ";".join(no),
        }
        return (f'set(FATWHEEL_{name} "{value}")\n' for name, value in facts.items())


def _list_gencodes(view: View) -> Iterator[str]:
    """Yield the flags that torch's CMake files make of TORCH_CUDA_ARCH_LIST (select_compute_arch.cmake there)."""
    for text in dict(view.env).get("TORCH_CUDA_ARCH_LIST", "").replace(" ", ";").split(";"):
        try:
            arch = CudaArch.parse(text)
        except ValueError:
            continue
        number = str(arch).removesuffix("+PTX").replace(".", "")
        for code in ("sm", "compute") if arch.ptx else ("sm",):
            yield f"-gencode arch=compute_{number},code={code}_{number}"
