"""GitHub's own description of its API: what it allows, and whether a request and its answer keep to it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from jsonschema import Draft4Validator
from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from werkzeug.datastructures import Headers, ImmutableMultiDict

from tests.servers.github_answers import WHEN, Answer, Asked

DESCRIPTION = json.loads(Path(__file__).with_name("github_api.json").read_text(encoding="utf-8"))
EXAMPLES = {"date-time": WHEN, "uri": "http://127.0.0.1/", "email": "octo@example.invalid"}
BLANKS: dict[str, object] = {"string": "text", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}


def blank(schema: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """Return the least that a schema allows."""
    if "$ref" in schema:
        return blank_of(schema["$ref"].rpartition("/")[2])
    if schema.get("nullable"):
        return None
    if parts := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return blank(parts[0])
    if schema.get("type") == "object":
        return {name: blank(schema["properties"][name]) for name in schema.get("required", ())}
    plain = EXAMPLES.get(schema.get("format", ""), BLANKS[schema.get("type", "string")])
    return schema["enum"][0] if "enum" in schema else plain


@functools.cache
def blank_of(name: str) -> Any:  # noqa: ANN401 - any JSON
    return blank(DESCRIPTION["components"]["schemas"][name])


class Described(NamedTuple):
    """A request as openapi-core asks for it."""

    host_url: str
    path: str
    method: str
    parameters: RequestParameters
    content_type: str
    body: bytes | None


class Replied(NamedTuple):
    """An answer as openapi-core asks for it."""

    status_code: int
    headers: Headers
    content_type: str
    data: bytes


DESCRIBED = "https://api.github.test"  # whatever the port of a test's server, its description stays the same


@functools.cache
def description() -> OpenAPI:
    """Return GitHub's description, checked itself, with one server for everything."""
    document = json.loads(json.dumps(DESCRIPTION))
    document["servers"] = [{"url": DESCRIBED}]
    document["paths"]["/repos/{owner}/{repo}/releases/{release_id}/assets"]["post"].pop("servers")
    return OpenAPI.from_dict(document)


Pairs = tuple[tuple[str, str], ...]


def complaint(asked: Asked, answer: Answer, url: str) -> str:
    """Return what GitHub's description says against a request or its answer; `url` is the server's own address."""
    if not asked.path.startswith(("/repos/", "/users/", "/orgs/")):
        return ""
    body = b"" if asked.headers.get("Content-Type") == "application/octet-stream" else asked.body
    headers = tuple((name, value) for name, value in asked.headers.items() if name.lower() != "host")
    same = tuple((name, value.replace(url, DESCRIBED)) for name, value in answer.headers.items())
    data = answer.data.replace(url.encode(), DESCRIBED.encode())
    parts = (asked.method, asked.path, tuple(asked.query.items()), headers, body)
    return _compare(*parts, answer.status, same, data) or _complaint_of_refusal(answer)


@functools.lru_cache(2000)  # the same is asked and answered again and again, and looking at it takes 10 ms
def _compare(  # noqa: PLR0913, PLR0917 - all that a request and its answer have
    method: str, path: str, query: Pairs, headers: Pairs, body: bytes, status: int, answered: Pairs, data: bytes
) -> str:
    """Return what GitHub's description says against a request or its answer."""
    parameters = RequestParameters(query=ImmutableMultiDict(query), header=Headers(headers))
    with_slashes = "(?<=/git/ref/).+|(?<=/contents/).*"
    whole = re.sub(with_slashes, lambda part: quote(part[0], safe="") or "%2F", path)
    kind = dict(headers).get("Content-Type", "")
    request = Described(DESCRIBED, whole, method.lower(), parameters, kind, body or None)
    try:
        described = description()
        described.validate_request(request)
        if status in {200, 201, 204, 302}:
            reply = Replied(status, Headers(answered), "application/json", data)
            described.validate_response(request, reply)
    except OpenAPIError as error:
        return f"{method} {path}: {error}: {error.__cause__}"
    return ""


def _complaint_of_refusal(answer: Answer) -> str:
    """Return what is wrong with an answer that says what is wrong; most operations' descriptions leave those out."""
    schema = DESCRIPTION["components"]["schemas"]["validation-error" if answer.status == 422 else "basic-error"]
    if answer.status < 400 or not isinstance(answer.body, dict):
        return ""
    return "; ".join(error.message for error in Draft4Validator(schema).iter_errors(answer.body))
