"""The finder's choice beside real plans: each cell that a plan covers gets the wheel that the plan has for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_tools import catalog
from ci_tools.index.finder import page
from ci_tools.index.finder.data import project_data
from ci_tools.index.finder.shelf import shelf_of
from ci_tools.index.pages import IndexedFile
from ci_tools.model.plan import Plan
from ci_tools.publish.release_plan import release_of
from tests.builders import javascript
from tests.builders.sources import lend_tools, plan_of, write

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
SCRIPT = "\n".join(
    (Path(page.__file__).parent / "script" / f"{name}.js").read_text(encoding="utf-8")
    for name in ("choice", "machine", "listing")
)
# The page's own reading of the data, and its answer for each cell that is offered.
ASK = """given.data.listings.flatMap((listing) => {
  const { offers, lock } = decoded(listing, given.data);
  const names = listing.files.map(({ name }) => name);
  return [...offers].filter(([, { file }]) => file).map(([cell, { file }]) => {
    const [system, accelerator, torch, python] = JSON.parse(cell);
    const facts = factsOf({ system, accelerator, torch, python, gpu: "" }, {}, names);
    const { wheel, rows } = chooseWheel(lock, facts);
    return [cell, file.name, wheel === null ? rows.map((row) => row.join(": ")).join("; ") : wheel.file];
  });
})"""
BOUND = {
    "fatwheel.yml": """\
package: bound
python: ["3.12", "3.13", "3.14t"]
torch: ["2.10", "2.11"]
platforms:
  linux-cuda: { owner: me, native: ["*.cu"], cuda: ["12.6", "13.0"], archs: ["8.0", "9.0+PTX"] }
  linux-aarch64: { owner: me, native: ["*.cu"] }
  linux-cpu:
""",
    "pyproject.toml": """\
[build-system]
requires = ["scikit-build-core", "torch"]
build-backend = "scikit_build_core.build"
[project]
name = "bound"
version = "1.0"
dependencies = ["torch"]
""",
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.26)
project(bound LANGUAGES CXX CUDA)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
find_package(Torch REQUIRED)
Python_add_library(_C MODULE a.cu)
""",
    "a.cu": "#include <torch/extension.h>\n",
    "bound/__init__.py": "",
}


def data_of(plan: Plan) -> dict[str, Any]:
    """Return the finder's data of a release that has each file of a plan."""
    known = release_of(plan)
    files = [
        IndexedFile(job.wheel, job.folder, "ab" * 32, 9, "", also=job.also, platform=job.platform, archs=job.archs)
        for job in known.jobs
    ]
    offers = {known.version: known.offers}
    text = project_data(shelf_of(known.project, files, offers, catalog.load()), catalog.load()).decode("ascii")
    loaded: dict[str, Any] = json.loads(text.removeprefix("finder(").removesuffix(");\n"))
    return loaded


@pytest.mark.parametrize("name", ["reference", "bound"])
def test_each_cell_gets_the_wheel_that_the_plan_has_for_it(tmp_path: Path, name: str) -> None:
    lend_tools(tmp_path)
    plan = plan_of(ROOT / "package" if name == "reference" else write(tmp_path / "source", BOUND))
    answers = javascript.call(SCRIPT, ASK, {"data": data_of(plan)})
    assert [answer for answer in answers if answer[1] != answer[2]] == []
    assert {answer[1] for answer in answers} == {job.wheel for job in plan.jobs}
