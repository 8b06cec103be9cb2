"""Cut GitHub's own OpenAPI description down to what the tests' server speaks, and write `github_api.json`.

The description is the npm package `@octokit/openapi`, MIT licence. In a folder outside of the repository:

    npm pack @octokit/openapi@23.0.2 && tar xzf octokit-openapi-23.0.2.tgz
    python tests/servers/github_openapi.py package/generated/api.github.com.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

CUT = Path(__file__).with_name("github_api.json")
REPOSITORY = "/repos/{owner}/{repo}"
OPERATIONS = {
    "/orgs/{org}/attestations/bulk-list": ("post",),
    "/users/{username}/attestations/bulk-list": ("post",),
    REPOSITORY: ("get",),
    f"{REPOSITORY}/actions/organization-secrets": ("get",),
    f"{REPOSITORY}/actions/permissions": ("get",),
    f"{REPOSITORY}/actions/permissions/selected-actions": ("get",),
    f"{REPOSITORY}/actions/permissions/workflow": ("get", "put"),
    f"{REPOSITORY}/actions/secrets": ("get",),
    f"{REPOSITORY}/actions/runs/{{run_id}}/jobs": ("get",),
    f"{REPOSITORY}/actions/workflows": ("get",),
    f"{REPOSITORY}/actions/workflows/{{workflow_id}}": ("get",),
    f"{REPOSITORY}/actions/workflows/{{workflow_id}}/enable": ("put",),
    f"{REPOSITORY}/actions/workflows/{{workflow_id}}/runs": ("get",),
    f"{REPOSITORY}/collaborators/{{username}}/permission": ("get",),
    f"{REPOSITORY}/compare/{{basehead}}": ("get",),
    f"{REPOSITORY}/contents/{{path}}": ("get",),
    f"{REPOSITORY}/environments": ("get",),
    f"{REPOSITORY}/environments/{{environment_name}}": ("get", "put"),
    f"{REPOSITORY}/environments/{{environment_name}}/deployment-branch-policies": ("post",),
    f"{REPOSITORY}/environments/{{environment_name}}/secrets": ("get",),
    f"{REPOSITORY}/git/commits/{{commit_sha}}": ("get",),
    f"{REPOSITORY}/git/ref/{{ref}}": ("get",),
    f"{REPOSITORY}/git/tags/{{tag_sha}}": ("get",),
    f"{REPOSITORY}/immutable-releases": ("get",),
    f"{REPOSITORY}/issues": ("get", "post"),
    f"{REPOSITORY}/issues/{{issue_number}}": ("get", "patch"),
    f"{REPOSITORY}/issues/{{issue_number}}/comments": ("get", "post"),
    f"{REPOSITORY}/issues/comments/{{comment_id}}": ("patch", "delete"),
    f"{REPOSITORY}/pulls/{{pull_number}}": ("get",),
    f"{REPOSITORY}/releases": ("get", "post"),
    f"{REPOSITORY}/releases/latest": ("get",),
    f"{REPOSITORY}/releases/tags/{{tag}}": ("get",),
    f"{REPOSITORY}/releases/{{release_id}}": ("get", "patch", "delete"),
    f"{REPOSITORY}/releases/{{release_id}}/assets": ("get", "post"),
    f"{REPOSITORY}/releases/assets/{{asset_id}}": ("get", "delete"),
    f"{REPOSITORY}/tags": ("get",),
}
SCHEMAS = ("basic-error", "validation-error")  # what every operation may answer, described or not
PROSE = frozenset({"description", "summary", "example", "examples", "externalDocs", "tags", "title", "deprecated"})
REFERENCE = "#/components/"


def cut(whole: dict[str, Any]) -> dict[str, Any]:
    """Return the description with those operations alone, and what they refer to."""
    paths: dict[str, Any] = {
        path: {method: _bare(whole["paths"][path][method], named=False) for method in methods}
        for path, methods in OPERATIONS.items()
    }
    components: dict[str, dict[str, Any]] = {"schemas": {}}
    waiting = [*_references(paths), *(f"{REFERENCE}schemas/{name}" for name in SCHEMAS)]
    while waiting:
        kind, name = waiting.pop().removeprefix(REFERENCE).split("/")
        if name not in components.setdefault(kind, {}):
            part = _bare(whole["components"][kind][name], named=False)
            components[kind][name] = _described(part) if kind == "responses" else part
            waiting += _references(components[kind][name])
    # The description of the upload says it in prose: a cut upload leaves an asset in the state `starter`.
    components["schemas"]["release-asset"]["properties"]["state"]["enum"].append("starter")
    # It tells the answers apart by a property, which a folder's list has none of.
    contents = paths[f"{REPOSITORY}/contents/{{path}}"]["get"]["responses"]["200"]["content"]
    contents["application/json"]["schema"].pop("discriminator")
    info = {key: whole["info"][key] for key in ("title", "version", "license", "contact")}
    return {
        "openapi": whole["openapi"],
        "info": {**info, "description": "A cut of npm's @octokit/openapi, made by tests/servers/github_openapi.py"},
        "servers": whole["servers"],
        "paths": paths,
        "components": components,
    }


def _bare(node: Any, *, named: bool) -> Any:  # noqa: ANN401 - any JSON
    """Return a part of the description without its prose; the keys of a `named` part are names, not prose."""
    if isinstance(node, list):
        return [_bare(part, named=False) for part in node]
    if not isinstance(node, dict):
        return node
    kept = {key: part for key, part in node.items() if named or not (key in PROSE or key.startswith("x-"))}
    bare = {key: _bare(part, named=not named and key == "properties") for key, part in kept.items()}
    if isinstance(bare.get("responses"), dict) and not named:
        bare["responses"] = {status: _described(answer) for status, answer in bare["responses"].items()}
    if bare.get("nullable") and "enum" in bare and None not in bare["enum"]:
        bare["enum"] = [*bare["enum"], None]  # GitHub leaves it out; OpenAPI 3.0.3 wants null to be listed
    return bare


def _described(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with the description that OpenAPI insists on."""
    return answer if "$ref" in answer else {"description": "", **answer}


def _references(node: Any) -> list[str]:  # noqa: ANN401 - any JSON
    if isinstance(node, list):
        return [found for part in node for found in _references(part)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for part in node.values() for found in _references(part)]


if __name__ == "__main__":
    CUT.write_text(json.dumps(cut(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), separators=(",", ":")))
