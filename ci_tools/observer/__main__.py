"""Runs one build of one cell and writes what it did: `python -s -S __main__.py REQUEST.json`.

The request names the source's copy, the backend, the cell's facts and variables, and the file that the answer goes to.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

REQUEST = 1
TEXT_ENDINGS = (".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".inc", ".inl", ".pyx")
MOST_TEXT = 1 << 20  # characters of one generated source


def main() -> None:
    """Observe the build that the request describes."""
    del sys.path[0]  # this folder
    request = json.loads(Path(sys.argv[REQUEST]).read_text(encoding="utf-8"))
    sys.path[:0] = request["path"]
    from ci_tools.observer import disguise, recorder
    from ci_tools.observer.facts import FACTS

    os.chdir(request["project"])
    recorder.install()
    before = _files(request["root"])
    FACTS.known, FACTS.root, FACTS.project = request["facts"], request["root"] + "/", request["prefix"]
    disguise.put_on(request["env"], request["provided"])
    error = _built(request)
    answer = {
        "asked": FACTS.asked,
        "doubts": FACTS.doubts,
        "imports": FACTS.imports,
        "error": error,
        "compiles": recorder.Recorder.compiles,
        "links": recorder.Recorder.links,
        "generated": _generated(request["root"], before),
    }
    Path(request["answer"]).write_text(json.dumps(answer), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # whatever threads or exit handlers the project has left


def _built(request: dict[str, Any]) -> dict[str, Any] | None:
    """Let the backend build the wheel; return what it raised, if anything."""
    sys.path[:0] = request["backend_path"]
    sys.argv = ["setup.py"]
    try:
        module, _, attribute = request["backend"].partition(":")
        backend = importlib.import_module(module)
        for name in filter(None, attribute.split(".")):
            backend = getattr(backend, name)
        backend.build_wheel(request["wheels"], request["settings"])  # type: ignore[attr-defined]
    except BaseException as error:  # noqa: BLE001 - whatever a project raises is the answer
        traceback.print_exc()
        return _raised(error)
    return None


def _raised(error: BaseException) -> dict[str, Any]:
    """Return an error's text, where in the project it came from, and whether the project raised it on purpose."""
    from ci_tools.observer.facts import FACTS

    while isinstance(error, SystemExit) and error.__context__ and not _is_project(error):
        error = error.__context__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if FACTS.is_own(frame.filename)]
    place = f"{FACTS.shown(own[-1].filename)}:{own[-1].lineno}" if own else ""
    name = type(error).__name__
    text = error.code if isinstance(error, SystemExit) else error
    return {"kind": name, "text": str(text), "place": place, "meant": _is_meant(error)}


def _is_project(error: BaseException) -> bool:
    from ci_tools.observer.facts import FACTS

    last = traceback.extract_tb(error.__traceback__)[-1:]
    return any(FACTS.is_own(frame.filename) for frame in last)


def _is_meant(error: BaseException) -> bool:
    """Whether the project, or the torch it asks, says that it cannot be built: by raise, assert or exit."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    is_torch = any("/fakes/torch/" in frame.filename for frame in last)
    is_missing = isinstance(error, (ImportError, AttributeError, NameError, KeyError))
    return (is_torch and isinstance(error, OSError)) or (_is_project(error) and not is_missing and _says(error))


def _says(error: BaseException) -> bool:
    if isinstance(error, SystemExit):
        return error.code not in {None, 0}
    frame = traceback.extract_tb(error.__traceback__)[-1]
    from ci_tools.observer.facts import FACTS

    file = FACTS.root + FACTS.shown(frame.filename)
    lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    line = lines[(frame.lineno or 1) - 1 : frame.lineno]
    return any(word in text for text in line for word in ("raise", "assert"))


def _files(root: str) -> set[str]:
    return {str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file()}


def _generated(root: str, before: set[str]) -> dict[str, str]:
    """Return the sources that the build wrote, with their text."""
    new = (name for name in _files(root) - before if name.endswith(TEXT_ENDINGS))
    texts = {name: Path(root, name).read_text(encoding="utf-8", errors="replace") for name in new}
    return {name: text for name, text in sorted(texts.items()) if len(text) <= MOST_TEXT}


if __name__ == "__main__":
    main()
