"""A repository in which nothing is wrong."""

from __future__ import annotations

import pytest

from tests.builders.doctored import LOOSE, NEW, OLD, RELEASE
from tests.servers.github import GitHub
from tests.servers.github_settings import Elsewhere, Settings, settle

CALLER = f"""
name: release
on:
  push: {{ tags: ["v*"] }}
  schedule: [{{ cron: "0 4 * * 1" }}]
permissions: {{}}
jobs:
  wheels:
    permissions: {{ contents: read, id-token: write, attestations: write }}
    uses: octo-tools/fatwheel/.github/workflows/wheels.yml@{NEW} # v1.4.0
    with: {{ config: fatwheel.yml }}
  publish:
    needs: wheels
    permissions: {{ contents: write, id-token: write }}
    uses: octo-tools/fatwheel/.github/workflows/publish.yml@{NEW} # v1.4.0
    secrets: {{ S3_KEY: "${{{{ secrets.S3_KEY }}}}" }}
  pypi:
    needs: publish
    runs-on: ubuntu-latest
    environment: pypi
    permissions: {{ id-token: write }}
    steps:
      - uses: pypa/gh-action-pypi-publish@{NEW} # v1.14.0
"""
WHEELS = f"""
on: {{ workflow_call: {{ inputs: {{ config: {{ type: string }} }} }} }}
permissions: {{}}
jobs:
  plan:
    permissions: {{ contents: read }}
    steps: [{{ uses: actions/checkout@{NEW} }}]
  attest:
    permissions: {{ id-token: write, attestations: write }}
    steps: []
"""
PUBLISH = """
on: { workflow_call: { secrets: { S3_KEY: { required: true } } } }
permissions: {}
jobs:
  publish:
    permissions: { contents: write, id-token: write }
    steps: []
"""


@pytest.fixture
def settings(hub: GitHub) -> Settings:
    """A repository in which nothing is wrong."""
    settings = settle(hub)
    settings.files[RELEASE] = CALLER.encode()
    settings.files["fatwheel.yml"] = b"package: demo\n"
    settings.environments["pypi"] = {
        "protection_rules": [{"id": 1, "node_id": "text", "type": "required_reviewers"}],
        "deployment_branch_policy": None,
    }
    settings.secrets.add("S3_KEY")
    tags = {"v2.0.0": "4" * 40, "v1.4.0": NEW, "v1.3.0": "5" * 40, "v1.2.0": OLD, "v1": NEW}
    files = {(ref, ".github/workflows/wheels.yml"): WHEELS for ref in (NEW, OLD, LOOSE, "v1")}
    files |= {(ref, ".github/workflows/publish.yml"): PUBLISH for ref in (NEW, OLD, LOOSE, "v1")}
    settings.elsewhere["octo-tools/fatwheel"] = Elsewhere(tags, files, {LOOSE: 7})
    settings.elsewhere["pypa/gh-action-pypi-publish"] = Elsewhere({"v1.14.0": NEW})
    return settings
