"""A script for a Python with the other checkers: what each says of the wheels that standard input names.

Each runs in a fork, so that its modules are loaded once. A line of the input is a JSON list: a tool and its arguments.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import tempfile
import traceback
import warnings

MODULES = {
    "pip": "pip._internal.cli.main",
    "twine": "twine.__main__",
    "check-wheel-contents": "check_wheel_contents.__main__",
    "pydistcheck": "pydistcheck.cli",
    "wheel-inspect": "wheel_inspect",
    "abi3audit": "abi3audit._cli",
}
PRELOADED = (
    "pip._internal.commands.install",
    "twine.commands.check",
    "readme_renderer.rst",
    "wheel_inspect.inspecting",
)


def call(tool: str, arguments: list[str]) -> int:
    """Call a tool's own entry point, and return its exit status."""
    module = importlib.import_module(MODULES[tool])
    sys.argv = [tool, *arguments]
    if tool == "wheel-inspect":
        found = module.inspect_wheel(arguments[0])
        sys.stdout.write("" if found["valid"] else json.dumps(found["validation_error"]))
        return 0 if found["valid"] else 1
    if tool == "pip":
        return int(module.main(arguments))
    if tool == "check-wheel-contents":
        return int(module.main(arguments, standalone_mode=False) or 0)
    if tool == "pydistcheck":
        return int(module.check(arguments))
    return int(module.main() or 0)


def forked(tool: str, arguments: list[str]) -> tuple[int, str]:
    """Return the exit status and the words of a tool, called in a process of its own."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            status = 2
            with contextlib.suppress(SystemExit):
                try:
                    status = call(tool, arguments) or 0
                except SystemExit as error:
                    status = error.code if isinstance(error.code, int) else bool(error.code)
                except BaseException:  # noqa: BLE001 - what a tool raises is what it says
                    traceback.print_exc()
            sys.stdout.flush()
            os._exit(int(status))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return status, said.read().decode("utf-8", "replace")


def main() -> None:
    """Answer each line with a line."""
    warnings.simplefilter("ignore")
    for module in (*MODULES.values(), *PRELOADED):
        importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(forked(*json.loads(line))), flush=True)  # noqa: T201 - that is the answer


if __name__ == "__main__":
    main()
