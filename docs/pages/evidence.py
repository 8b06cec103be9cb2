"""docs/reference/evidence.md: every key of what `fatwheel evidence` prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ci_tools.model.evidence import Compile, Extension
from ci_tools.plan import plan_file
from docs.pages.markdown import table
from docs.pages.plan import plan_reference_package, refuse_difference, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


EVIDENCE = """\
# fatwheel evidence

What `fatwheel evidence` prints: one JSON object with all that the source shows of every cell. Cells of which the same
is known are together. [How the plan knows](../explanation/evidence.md) says where it comes from. A place is
`file:line`, or says that the build was observed."""

EVIDENCE_KEYS: Mapping[str, Mapping[str, str]] = {
    "The evidence": {
        "schema": "the version of this format",
        "project": "what the source says of the project, as in [the plan](plan.md#project)",
        "source_sha256": "one hash of every file of the source",
        "commit": "the source's git commit; null where there is none",
        "requires_torch": "`specifier`, the torch versions that the project admits, and `where` it says so; null: all",
        "builds_with_torch": "the same of its build requirements: what it can be compiled against",
        "platforms": "for each platform of the request, what is shown of it",
        "warnings": "facts that could not be known, one sentence each",
    },
    "platforms": {
        "platform": "the platform",
        "native_files": "the files that its `native` patterns match",
        "cells": "groups of cells of which the same is shown",
    },
    "cells": {
        "cells": "the cells, such as `linux-cuda / cu130 / torch2.10 / cp312`",
        "extensions": "whether anything is compiled for them: `none`, `some` or `unknown`",
        "extensions_where": "what shows that, or the doubt",
        "python_api": "which Python API the compiled code uses",
        "torch_abi": "which torch ABI it uses",
        "pure_tag": "how its backend tags a wheel that is bound to no Python: py3, or py2.py3",
        "doubt": "the question that no cell answers, of a build that is native all the same; empty: there is none",
        "unsupported": "why the build fails, or would leave its kernels out; null: it does not",
        "asked": "what the build decides by, each with the place that asks for it",
        "off": "the switches and CMake options that are off by default, each with the place that asks for it",
        "switches": "the variables without which the build would leave its kernels out, each with its value",
        "switches_where": "what the build would leave out without them",
        "build_requires": "what the build imports and the project does not name as a requirement",
        "built": "the libraries that the build links; empty where it was read and not observed",
        "archs": "the GPU architectures that the project itself chooses for all its libraries; empty: the request's",
        "spared": "libraries that the package does without on a torch older than their target",
        "left_out": "sources that the build does not compile; each with the place of the condition, and the variable "
        "that meets it (null: only a GPU does)",
        "members": "the members of the wheel besides dist-info; null: not known",
        "contents": "those that are not compiled, each with its hash",
        "written": "the sources that the build writes or changes, each with its hash, besides copies of others",
        "configured": "the calls of cmake: the variables that the build changes for them, and the arguments",
        "metadata": "the fields of METADATA; null: not known",
        "recipe": "one hash of everything that the build does; null: not known",
        "warnings": "what could not be known of these cells, one sentence each",
    },
    "python_api": {
        "kind": "`none`, `stable` for the limited API, `full` or `unknown`",
        "where": "what shows that",
        "lowest": "the Python from which on the limited API (PEP 384) holds, or null",
        "lowest_free_threaded": "the same for free-threaded Pythons (PEP 803), or null",
        "builds_older": "whether older Pythons get wheels of their own",
        "built_by_lowest": "whether its wheel is tagged by the Python that builds it, so that the lowest has to",
        "named_by_builder": "whether a library is named for the Python that builds it, so that the oldest has to",
        "label": "the Python in the wheel's abi3 tag, where that is lower than `lowest`, or null",
        "tagged_at": "the line that tags the wheel",
        "tag": "the tags of interpreter and ABI that the build gives, where no rule predicts them",
        "mislabel": "why the tag is not true, and whether that is certain; null: nothing speaks against it",
    },
    "torch_abi": {
        "kind": "`none`, `stable`, `full` or `unknown`",
        "where": "what shows that",
        "target": "the torch that `TORCH_TARGET_VERSION` names, or null",
        "uses_torch": "whether a header of torch's is known to be included",
    },
    "built": {
        "member": "its path in the wheel; `.cpython-fatwheel.so` stands for the suffix of one Python's modules",
        "compiles": "the calls of a compiler that make it",
        "links": "the libraries and flags of the linker",
        "images": "the device images, such as `sm_90` and `compute_100`; null: not known",
    },
    "compiles": {
        "source": "the file that is compiled",
        "compiler": "the program",
        "flags": "its flags; `<package>`, `<accelerator>`, `<stage>` and `<python>` stand for folders of the builder",
    },
}


def describe() -> Iterator[str]:
    """Describe every key of the evidence, and show what the reference package's first cells show."""
    planned = plan_reference_package()
    evidence = json.loads(plan_file.evidence_json(planned.evidence, planned.plan))
    shown = evidence["platforms"][0]["cells"][0]
    found = {
        "The evidence": evidence,
        **evidence,
        **shown,
        "cells": shown,
        "built": Extension._fields,
        "compiles": Compile._fields,
    }
    yield EVIDENCE
    for title, meanings in EVIDENCE_KEYS.items():
        refuse_difference(title, meanings, found[title])
        yield from ("", f"## {title}")
        yield from table(("key", "meaning"), ((f"`{key}`", meaning) for key, meaning in meanings.items()))
    yield from ("", "## An example", "", "Some cells of [the reference package](../../package/fatwheel.yml):", "")
    yield from ("```json", json.dumps(shorten(shown, "cells"), indent=1, ensure_ascii=False), "```")
