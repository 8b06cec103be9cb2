"""What is recorded of other people's CUDA packages: each was built and audited, and asks for what its torch has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.proof.cuda_builds import RECORD, packages

FOUND: list[dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
BUILT = [pytest.param(one, id=one["name"]) for one in FOUND]


def test_the_record_is_of_the_packages_that_are_built_now() -> None:
    known = {one["name"]: one for one in packages()}
    fields = ("version", "sha256")
    assert [one["name"] for one in FOUND] == [*known]
    assert all(one[field] == known[one["name"]][field] for one in FOUND for field in fields)


@pytest.mark.parametrize("one", BUILT)
def test_a_package_was_built_without_a_torch_and_passed_its_audit(one: dict[str, Any]) -> None:
    assert one["errors"] == []
    assert one["toolkit"].startswith("CUDA 13.0 (nvcc ")
    assert one["wheel"].endswith("-cp311-cp311-manylinux_2_36_x86_64.whl")


@pytest.mark.parametrize("one", BUILT)
def test_every_symbol_that_it_asks_of_torch_is_in_the_table_of_its_torch(one: dict[str, Any]) -> None:
    assert one["torch_symbols"]["not in the table"] == []
    assert bool(one["torch_symbols"]["asked"]) == ("headers" not in one["torch"])
