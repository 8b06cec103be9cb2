"""Files that reach Python.h and use nothing of it are found, with the includes to replace and what by."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.source.files import tree_at
from ci_tools.source.includes import Includes
from ci_tools.source.python_api import find_needless, narrower, replace_headers, users_of
from tests.builders.sources import write

EXTENSION = "#include <torch/extension.h>\n"
BINDING = f"{EXTENSION}PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{}}\n"
OP = "torch::Tensor op(torch::Tensor x) { return x + torch::zeros_like(x).to(torch::kFloat); }\n"


def includes_of(folder: Path, files: dict[str, str]) -> Includes:
    return Includes(tree_at(write(folder, files), {}))


def needless(folder: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """Return the places that each needless file reaches Python's headers by."""
    includes = includes_of(folder, files)
    compiled = [name for name in files if not name.endswith(".h")]
    found = find_needless(includes, compiled, is_setuptools=True)
    return {one.file: [f"{place.place} {place.header}" for place in one.includes] for one in found}


def test_kernels_beside_a_binding_are_needless_and_the_binding_is_not(tmp_path: Path) -> None:
    files = {"binding.cpp": BINDING, "op.cu": EXTENSION + OP}
    assert needless(tmp_path, files) == {"op.cu": ["op.cu:1 torch/extension.h"]}


def test_a_header_of_the_source_is_followed(tmp_path: Path) -> None:
    files = {"common.h": f"#pragma once\n{EXTENSION}", "binding.cpp": f'#include "common.h"\n{BINDING}',
             "op.cpp": f'#include "common.h"\n{OP}'}  # fmt: skip
    assert needless(tmp_path, files) == {"op.cpp": ["common.h:2 torch/extension.h"]}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("#include <ATen/ATen.h>\nat::Tensor x;\n", id="no-python-header"),
        pytest.param(f"{EXTENSION}PyObject* f();\n", id="an-object-of-python"),
        pytest.param(f"{EXTENSION}py::object f();\n", id="pybind11"),
        pytest.param(f"{EXTENSION}THPVariable* f();\n", id="torchs-own-python"),
        pytest.param(f"{EXTENSION}#include <pybind11/stl.h>\nint f();\n", id="a-header-that-is-not-replaced"),
        pytest.param(f'{EXTENSION}#include "uses.h"\nint f();\n', id="a-header-of-the-source-that-uses-python"),
    ],
)
def test_what_uses_python_or_reaches_none_of_it_is_left_alone(text: str, tmp_path: Path) -> None:
    assert needless(tmp_path, {"op.cpp": text, "uses.h": "void f(py::object);\n"}) == {}


def test_names_in_comments_and_strings_are_no_uses(tmp_path: Path) -> None:
    text = f'{EXTENSION}// py::object\n/* PyObject */\nauto why = "PyTorch";\n'
    assert list(needless(tmp_path, {"op.cpp": text})) == ["op.cpp"]


@pytest.mark.parametrize(
    ("header", "code", "expected"),
    [
        pytest.param("torch/extension.h", OP, "torch/types.h", id="tensors-only"),
        pytest.param("torch/torch.h", OP, "torch/types.h", id="the-frontend-in-BuildExtension"),
        pytest.param("torch/extension.h", "torch::autograd::Variable x;\n", "torch/all.h", id="autograd"),
        pytest.param("torch/extension.h", "TORCH_LIBRARY(a, m) {}\n", "torch/all.h", id="operators"),
        pytest.param("Python.h", "int f();\n", "", id="python-itself"),
    ],
)
def test_a_file_gets_the_narrowest_header_that_has_its_names(
    header: str, code: str, expected: str, tmp_path: Path
) -> None:
    includes = includes_of(tmp_path, {"op.cpp": f"#include <{header}>\n{code}"})
    found = find_needless(includes, ["op.cpp"], is_setuptools=True)
    assert narrower(found, includes, ["op.cpp"]) == {"op.cpp": {header: expected}}


def test_a_shared_header_gets_all_of_torch_and_its_binding_the_extension(tmp_path: Path) -> None:
    files = {"common.h": EXTENSION, "binding.cpp": '#include "common.h"\nPYBIND11_MODULE(a, m) {}\n',
             "op.cpp": f'#include "common.h"\n{OP}', "own.cpp": BINDING}  # fmt: skip
    includes, compiled = includes_of(tmp_path, files), ["binding.cpp", "op.cpp", "own.cpp"]
    changed = narrower(find_needless(includes, compiled, is_setuptools=True), includes, compiled)
    assert changed == {"common.h": {"torch/extension.h": "torch/all.h"}}
    assert list(users_of(changed, includes, compiled)) == ["binding.cpp"]


def test_includes_are_replaced_as_they_are_written() -> None:
    text = '#pragma once\n#  include "torch/extension.h"  // all of it\n#include <Python.h>\nint a;\n'
    changed = replace_headers(text, {"torch/extension.h": "torch/all.h", "Python.h": ""})
    assert changed == "#pragma once\n#  include <torch/all.h>  // all of it\nint a;\n"
    assert replace_headers(text, {"torch/torch.h": "torch/all.h"}) is None
