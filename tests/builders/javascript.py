"""Runs functions of the finder's page outside a browser: by Node.js, which playwright brings along."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

LONGEST = 120  # seconds
WRITE = "process.stdout.write(JSON.stringify(found));"


def find_node() -> str:
    """Return the path of Node.js; skip the test if there is none."""
    found = shutil.which("node")
    if found:
        return found
    driver = pytest.importorskip("playwright._impl._driver", reason="the finder's functions run in Node.js")
    return str(driver.compute_driver_executable()[0])


def call(script: str, expression: str, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of an expression over the functions of a script and `given`, as JSON carries it."""
    read = f"const given = JSON.parse({json.dumps(json.dumps(given))});"
    done = subprocess.run(
        [find_node(), "--input-type=commonjs", "-"],  # a script is longer than an argument may be
        input=f'"use strict";\n{read}\n{script}\nconst found = {expression};\n{WRITE}',
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=LONGEST,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
