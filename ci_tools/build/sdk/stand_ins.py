"""Stand-ins for CUDA, which only answer: a toolkit that says its version, and a build torch that says it has CUDA.

An sdist is built on a machine without CUDA, by a setup.py that may ask for it before it names a source. And a wheel of
torch's stable ABI is compiled with the headers of any torch, while its setup.py asks whether that torch has CUDA.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ci_tools.build.sdk.cuda_windows import WINDOWS
from ci_tools.build.sdk.torch_parts import LIBRARIES_OF_CUDA, write_stubs
from ci_tools.machine.storage import fill_once
from ci_tools.observe.stage import write_toolkit

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.build.sdk.torch_parts import TorchParts
    from ci_tools.machine.context import Outside
    from ci_tools.model.platforms import Accelerator

ONLY_ANSWERS = """\
#!/bin/sh
case " $* " in
*" -V "* | *" --version "*) echo '{answer}' ;;
*) echo "an sdist is built without a compiler: this nvcc says its version, and was asked for: nvcc $*" >&2; exit 1 ;;
esac
"""


def put_toolkit(accelerator: Accelerator, folder: Path) -> Path:
    """Write the CUDA toolkit of an sdist's build, and return its folder: a setup.py can find it and ask its version."""

    def write(path: Path, answer: str) -> None:
        path.write_text(ONLY_ANSWERS.format(answer=answer), encoding="utf-8")
        path.chmod(0o755)

    write_toolkit(folder, accelerator, str(accelerator.version or ""), write)
    return folder


def open_answers(torch: TorchParts, accelerator: Accelerator, outside: Outside) -> tuple[Path, ...]:
    """Return the folders to copy over a build torch so that it answers as one for CUDA; none if it is one.

    Its headers stay those of the torch that it is: only for a build that binds to none of CUDA's.
    """
    if torch.label == accelerator.label:
        return ()
    public = torch.version.partition("+")[0]
    name = f"{public}-{torch.label}-as-{accelerator.label}-{outside.host}"

    def fill(target: Path) -> None:
        _write_answers(torch.site / "torch", target / "torch", f"{public}+{accelerator.label}", accelerator)
        own = {path.name for path in (torch.site / "torch/lib").glob("*")}
        if outside.host != WINDOWS and (absent := LIBRARIES_OF_CUDA - own):
            log = outside.cache / "logs" / f"torch-{name}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            write_stubs(target / "torch/lib", sorted(absent), torch.version, log)

    return (fill_once(outside.cache / "torch-answers" / name, fill, outside.reporter.say),)


def _write_answers(source: Path, target: Path, version: str, accelerator: Accelerator) -> None:
    """Write the two files of a torch that say what it was built for."""
    target.mkdir(parents=True)
    text = (source / "version.py").read_text(encoding="utf-8")
    for name, value in {"__version__": version, "cuda": str(accelerator.version)}.items():
        text = re.sub(rf"^({name}(?::[^=\n]+)?) = .*$", rf"\g<1> = {value!r}", text, flags=re.MULTILINE)
    (target / "version.py").write_text(text, encoding="utf-8")
    facts = json.loads((source / "_fatwheel.json").read_text(encoding="utf-8"))
    facts |= {"torch": version, "accelerator": {"kind": accelerator.kind, "version": str(accelerator.version)}}
    (target / "_fatwheel.json").write_text(json.dumps(facts), encoding="utf-8")
