"""What GitHub takes in a workflow file, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from ci_tools.github.workflow_keys import find_key_flaws

STEP = {"run": "", "env": {"need": 1}}
GOOD = {"on": {"push": {"tags": ["v[0-9]+.*"]}}, "jobs": {"run-on": {"runs-on": "x", "steps": [STEP]}}}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param(GOOD, [], id="names-of-jobs-and-variables-are-anybodys"),
        pytest.param({"jobs": {"a": {"uses": "b", "with": {"tag": "^v"}}}}, [], id="nor-inputs"),
        pytest.param({"x-common": {}, "jobs": {"a": {"runs-on": "x", "colour": 1}}}, [], id="a-key-like-no-other"),
        pytest.param({"permission": {}}, ['did you mean "permissions"?'], id="in-the-workflow"),
        pytest.param({"jobs": {"a": {"uses": "b", "matrix": {}}}}, ["`matrix:` belongs in jobs/*/strategy"], id="far"),
        pytest.param({"jobs": {"a": {"steps": []}}}, ["`runs-on:` or `uses:`"], id="a-job-without-a-runner"),
        pytest.param({"jobs": {"a": {"uses": "b", "steps": [{"name": "c"}]}}}, ["`run:` or `uses:`"], id="no-step"),
        pytest.param({"jobs": {"a": {"run-on": "x"}}}, ['did you mean "runs-on"?'], id="said-once"),
        pytest.param({"on": {"push": {"tags": "^v[0-9]+$"}}}, ['"v[0-9]+"'], id="a-regular-expression"),
        pytest.param({"on": {"push": {"tags": ["v1", "!^v(?!1)"]}}}, ['"v*"'], id="one-that-no-pattern-says"),
        pytest.param({"on": {"push": {"branches": ["a", "(x|y)"]}}}, ['"v*"'], id="one-of-two-words"),
    ],
)  # fmt: skip
def test_what_github_refuses_is_named_with_the_edit(value: dict[str, Any], said: list[str]) -> None:
    assert [flaw.how for flaw in find_key_flaws(value)] == said
