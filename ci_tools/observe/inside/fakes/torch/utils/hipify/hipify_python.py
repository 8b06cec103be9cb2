"""`torch.utils.hipify.hipify_python`: the files that it writes, under the names that it gives them, not translated.

A file's includes, and whether it is for a GPU, are the same before and after; a plan does not depend on the names in
its text. Whether torch writes a file at all depends on whether it finds anything to translate in it.
"""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ci_tools.observe.inside.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXTENSIONS = (".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".in", ".hpp")
HEADERS = (".cuh", ".h", ".hpp")
LEFT_OUT = frozenset({".git", "build", "third_party"})  # at the root
TRANSLATED = re.compile(
    r"cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|nvrtc|nvtx|\bcub\b|<<<"
    r"|__(global|device|shared|constant|host)__|\b(blockIdx|blockDim|threadIdx|gridDim)\b",
    re.IGNORECASE,
)


def get_hip_file_path(rel_filepath: str, is_pytorch_extension: bool = False) -> str:
    """Return the name that a file has once it is translated, as for an extension."""
    if not is_pytorch_extension:
        FACTS.doubt("translates sources as torch translates its own, which is not simulated")
    folder, name = os.path.split(rel_filepath)
    root, ending = os.path.splitext(name)
    hip_folder = _renamed(folder)
    hip_name = _renamed(root) + (".hip" if ending == ".cu" else ending)
    if (hip_folder, hip_name) == (folder, name):
        hip_name = f"{root}_hip{ending}"
    return os.path.join(hip_folder, hip_name)


def _renamed(text: str) -> str:
    return text.replace("cuda", "hip").replace("CUDA", "HIP").replace("THC", "THH")


def hipify(
    project_directory: str,
    show_detailed: bool = False,
    extensions: Iterable[str] = EXTENSIONS,
    header_extensions: Iterable[str] = HEADERS,
    output_directory: str = "",
    header_include_dirs: Iterable[str] = (),
    includes: Iterable[str] = ("*",),
    extra_files: Iterable[str] = (),
    ignores: Iterable[str] = (),
    *,
    is_pytorch_extension: bool = False,
    hipify_extra_files_only: bool = False,
    **_: Any,
) -> dict[str, Any]:
    """Write each matching source, and those of `extra_files`, under its translated name; return the result of each."""
    FACTS.note("hipify")
    root = os.path.abspath(output_directory or project_directory)
    if root != os.path.abspath(project_directory or os.getcwd()) or not is_pytorch_extension:
        FACTS.doubt("translates sources into another folder, or as torch translates its own, which is not simulated")
        return {}
    named = [os.path.join(root, name) for name in extra_files]
    found = [] if hipify_extra_files_only else list(_matching(root, tuple(includes), tuple(ignores), tuple(extensions)))
    return {path: _written(path, root) for path in dict.fromkeys([*found, *named])}


def _matching(
    root: str, includes: tuple[str, ...], ignores: tuple[str, ...], extensions: tuple[str, ...]
) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name not in LEFT_OUT]
        for path in (os.path.join(folder, name) for name in files):
            wanted = any(fnmatch.fnmatch(path, pattern) for pattern in includes)
            if wanted and path.endswith(extensions) and not any(fnmatch.fnmatch(path, one) for one in ignores):
                yield path


def _written(path: str, root: str) -> SimpleNamespace:
    """Write a file under its translated name, unless that is beside it and there is nothing to translate."""
    hip_path = os.path.join(root, get_hip_file_path(os.path.relpath(path, root), is_pytorch_extension=True))
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    if os.path.dirname(hip_path) == os.path.dirname(path) and not TRANSLATED.search(text):
        return SimpleNamespace(status="[skipped, no changes]", hipified_path=path)
    Path(hip_path).parent.mkdir(parents=True, exist_ok=True)
    Path(hip_path).write_text(text, encoding="utf-8")
    return SimpleNamespace(status="[ok]", hipified_path=hip_path)
