"""GitHub's Releases on this machine, for tests: what it keeps, what it refuses, and how it fails.

Every request and every answer is checked against a cut of GitHub's own OpenAPI description. What that says only in
prose, or not at all, is done as GitHub does it: a cut upload leaves an asset in the state `starter`, names are changed,
drafts are seen by those who may write alone, and of two releases of one tag only one can be published.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import re
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from jsonschema import Draft4Validator
from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from werkzeug.datastructures import Headers, ImmutableMultiDict

from tests.builders.attestations import sign_provenance
from tests.servers.threads import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

DESCRIPTION = json.loads(Path(__file__).with_name("github_api.json").read_text(encoding="utf-8"))
REPOSITORY = "octo/demo"
TOKEN = "ghp_of_the_tests"  # noqa: S105 - it opens this server alone
HEAD = "a" * 40  # the commit of the default branch
WHEN = "2026-11-21T12:00:00Z"
PAGE = 30  # releases or assets on a page where nobody asks for another number
EXAMPLES = {"date-time": WHEN, "uri": "http://127.0.0.1/", "email": "octo@example.invalid"}
BLANKS: dict[str, object] = {"string": "text", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
API = rf"/repos/{REPOSITORY}"


class Fault(Enum):
    """How a request may go wrong, apart from an answer that says so."""

    CLOSE = "the connection is closed before anything is done"
    FORGET = "all is done, and the connection is closed without an answer"
    CUT = "the body of an upload, or of an answer, ends in its middle"
    CORRUPT = "a byte of an upload is stored wrong"
    DELAY = "the answer takes a second"


class Answer(NamedTuple):
    """What is answered: a status, a document or bytes, and headers."""

    status: int
    body: object = None
    headers: Mapping[str, str] = {}

    @property
    def data(self) -> bytes:
        """The bytes of the body."""
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    headers: Mapping[str, str]

    @property
    def document(self) -> dict[str, Any]:
        """The body as JSON."""
        document: dict[str, Any] = json.loads(self.body)
        return document


@dataclass(slots=True, eq=False)
class Stored:
    """One asset."""

    id: int
    name: str
    content: bytes
    state: str = "uploaded"


@dataclass(slots=True, eq=False)
class Kept:
    """One release."""

    id: int
    fields: dict[str, Any]
    assets: list[Stored] = field(default_factory=list)
    immutable: bool = False


class Unprocessable(Exception):
    """What GitHub refuses with status 422."""


class GitHub:
    """One repository's releases, and what a test has asked for to go wrong."""

    def __init__(self) -> None:
        self.url = ""
        self.tags: dict[str, str] = {}
        self.commits = {HEAD}
        self.releases: list[Kept] = []
        self.is_immutable = False  # what is published now stays as it is
        self.latest: Kept | None = None  # as somebody chose, for as long as it can be
        self.knows_digests = True
        self.tokens = {TOKEN}
        self.replaces_plus = False  # as GitHub did once
        self.attested: dict[str, int] = {}  # the sha256 of what is attested, and the repository that has run it
        self.bundles: dict[str, Any] = {}  # the attestations of some of them; of the others, they are as they should be
        self.is_public = False  # whether it answers without a token
        self.left: int | None = None  # the requests that it still answers this hour; None: any number
        self.owner = {"login": "octo", "type": "User"}
        self.requests: list[str] = []
        self.problems: list[str] = []  # what the description forbids
        self.faults: dict[int, Fault | Answer | Callable[[], Fault | None]] = {}
        self.lock = threading.RLock()
        self.routes = [*ROUTES]
        self._numbers = iter(range(1, 1_000_000))

    def fail_at(self, number: int, how: Fault | Answer | Callable[[], Fault | None]) -> None:
        """Let the request of that number, from now on and from 1, go wrong; a function is called first and says how."""
        self.faults[len(self.requests) + number] = how

    def take_over(self, other: GitHub) -> None:
        """Have the releases and tags of another server, as if they had been published here."""
        self.releases, self.latest = copy.deepcopy((other.releases, other.latest))
        self.tags, self._numbers = dict(other.tags), copy.copy(other._numbers)
        for kept in self.releases:
            kept.fields["body"] = (kept.fields["body"] or "").replace(other.url, self.url) or kept.fields["body"]

    def published(self, tag: str) -> Kept | None:
        """Return the release of a tag that everybody sees."""
        return next((one for one in self.releases if not one.fields["draft"] and one.fields["tag_name"] == tag), None)

    def release(self, number: str) -> Kept | None:
        """Return a release by its number."""
        return next((one for one in self.releases if str(one.id) == number), None)

    def asset(self, number: str) -> tuple[Kept, Stored] | None:
        """Return an asset by its number, and its release."""
        pairs = ((one, asset) for one in self.releases for asset in one.assets)
        return next((pair for pair in pairs if str(pair[1].id) == number), None)

    def add(self, fields: Mapping[str, Any]) -> Kept:
        """Make a release; raise Unprocessable where GitHub would refuse it."""
        whole = {"name": None, "body": None, "draft": False, "prerelease": False, "target_commitish": "main", **fields}
        self._refuse(whole, None)
        how = whole.pop("make_latest", "true")
        kept = Kept(next(self._numbers), whole)
        self.releases.insert(0, kept)
        self._show(kept)
        self._choose_latest(kept, how)
        return kept

    def change(self, kept: Kept, fields: Mapping[str, Any]) -> None:
        """Change a release; raise Unprocessable where GitHub would refuse it."""
        whole = {**kept.fields, **fields}
        self._refuse(whole, kept)
        how = whole.pop("make_latest", "true" if kept.fields["draft"] else "")
        kept.fields = whole
        if not kept.immutable:
            self._show(kept)
        self._choose_latest(kept, how)

    def _choose_latest(self, kept: Kept, how: str) -> None:
        """Let a release be the latest, or another one; `legacy` takes the one with the highest version."""
        can_be = [one for one in self.releases if not one.fields["draft"] and not one.fields["prerelease"]]
        if kept in can_be and how == "true":
            self.latest = kept
        elif how in {"false", "legacy"} or self.latest not in can_be:
            others = [one for one in can_be if one is not kept or how == "legacy"]
            self.latest = max(others or can_be, key=_version, default=None)

    def _refuse(self, fields: Mapping[str, Any], kept: Kept | None) -> None:
        if kept and fields.get("make_latest") == "true" and (fields["draft"] or fields["prerelease"]):
            raise Unprocessable({"message": "Latest release cannot be draft or prerelease."})  # cli/cli#6853
        if fields["draft"]:
            return
        other = self.published(fields["tag_name"])
        if other and other is not kept:
            raise Unprocessable(*_invalid("already_exists", "tag_name"))
        known = self.commits | {"main"}
        if fields["tag_name"] not in self.tags and fields["target_commitish"] not in known:
            raise Unprocessable(*_invalid("invalid", "target_commitish"))

    def _show(self, kept: Kept) -> None:
        if not kept.fields["draft"]:
            commit = kept.fields["target_commitish"]
            self.tags.setdefault(kept.fields["tag_name"], HEAD if commit == "main" else commit)
            kept.immutable = self.is_immutable

    def upload(self, kept: Kept, name: str) -> Stored:
        """Begin an asset; raise Unprocessable where GitHub would refuse it."""
        kept_as = self.renamed(name)
        if kept.immutable:
            raise Unprocessable({"message": "Cannot upload assets to an immutable release."})
        if any(asset.name == kept_as for asset in kept.assets):
            raise Unprocessable(*_invalid("already_exists", "name", "ReleaseAsset"))
        asset = Stored(next(self._numbers), kept_as, b"", "starter")
        kept.assets.append(asset)
        return asset

    def renamed(self, name: str) -> str:
        """Return the name that GitHub gives a file."""
        allowed = "A-Za-z0-9_.@" if self.replaces_plus else "A-Za-z0-9_.@+"
        return re.sub(rf"[^{allowed}-]+", ".", name).strip(".")


def _version(kept: Kept) -> tuple[int, ...]:
    """Return the figures of a tag."""
    return tuple(map(int, re.findall("[0-9]+", kept.fields["tag_name"])))


def _invalid(code: str, name: str, resource: str = "Release") -> tuple[dict[str, object]]:
    error = {"resource": resource, "code": code, "field": name}
    return ({"message": "Validation Failed", "errors": [error]},)


# -- the documents that are answered


def blank(schema: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """Return the least that a schema allows."""
    if "$ref" in schema:
        return _blank_of(schema["$ref"].rpartition("/")[2])
    if schema.get("nullable"):
        return None
    if parts := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return blank(parts[0])
    if schema.get("type") == "object":
        return {name: blank(schema["properties"][name]) for name in schema.get("required", ())}
    plain = EXAMPLES.get(schema.get("format", ""), BLANKS[schema.get("type", "string")])
    return schema["enum"][0] if "enum" in schema else plain


@functools.cache
def _blank_of(name: str) -> Any:  # noqa: ANN401 - any JSON
    return blank(DESCRIPTION["components"]["schemas"][name])


def asset_document(hub: GitHub, kept: Kept, asset: Stored) -> dict[str, Any]:
    """Return what the API says of an asset."""
    digest = f"sha256:{hashlib.sha256(asset.content).hexdigest()}" if asset.state == "uploaded" else None
    tag = kept.fields["tag_name"] if not kept.fields["draft"] else f"untagged-{kept.id}"
    return _blank_of("release-asset") | {
        "id": asset.id,
        "name": asset.name,
        "size": len(asset.content),
        "state": asset.state,
        "digest": digest if hub.knows_digests else None,
        "url": f"{hub.url}{API}/releases/assets/{asset.id}",
        "browser_download_url": f"{hub.url}/{REPOSITORY}/releases/download/{quote(tag)}/{quote(asset.name)}",
    }


def release_document(hub: GitHub, kept: Kept) -> dict[str, Any]:
    """Return what the API says of a release."""
    own = f"{hub.url}{API}/releases/{kept.id}"
    return _blank_of("release") | {
        **{name: kept.fields[name] for name in ("name", "body", "draft", "prerelease", "target_commitish", "tag_name")},
        "id": kept.id,
        "url": own,
        "assets_url": f"{own}/assets",
        "upload_url": f"{own}/assets{{?name,label}}",
        "html_url": f"{hub.url}/{REPOSITORY}/releases/tag/{quote(kept.fields['tag_name'])}",
        "published_at": None if kept.fields["draft"] else WHEN,
        "immutable": kept.immutable,
        "assets": [asset_document(hub, kept, asset) for asset in kept.assets],
    }


# -- what each request does


def get_repository(hub: GitHub, _: Asked) -> Answer:
    own = {"url": f"{hub.url}{API}", "html_url": f"{hub.url}/{REPOSITORY}", "full_name": REPOSITORY}
    document: dict[str, Any] = _blank_of("full-repository")
    return Answer(200, document | own | {"owner": document["owner"] | hub.owner})


def _attestation(hub: GitHub, sha256: str) -> dict[str, Any]:
    """Return what is kept of a file: who has run it, and the bundle that the run signed."""
    bundle = hub.bundles.get(sha256) or sign_provenance(sha256, f"{hub.url}/{REPOSITORY}")
    return {"repository_id": hub.attested[sha256], "bundle": bundle}


def list_attestations(hub: GitHub, asked: Asked, owner: str) -> Answer:
    """Return what is attested, one digest on a page: whoever asks has to turn the pages."""
    if owner != hub.owner["login"]:
        return missing()
    known = [one for one in asked.document["subject_digests"] if one.removeprefix("sha256:") in hub.attested]
    place = int(asked.query.get("after", 0))
    rows = {one: [_attestation(hub, one.removeprefix("sha256:"))] for one in known[place : place + 1]}
    more = place + 1 < len(known)
    page = {"has_next": more, "has_previous": place > 0, **({"next": str(place + 1)} if more else {})}
    return Answer(200, {"attestations_subject_digests": rows, "page_info": page})


def get_ref(hub: GitHub, _: Asked, tag: str) -> Answer:
    if tag not in hub.tags:
        return missing()
    target = {"type": "commit", "sha": hub.tags[tag], "url": f"{hub.url}{API}/git/commits/{hub.tags[tag]}"}
    return Answer(200, _blank_of("git-ref") | {"ref": f"refs/tags/{tag}", "object": target})


def get_commit(hub: GitHub, _: Asked, commit: str) -> Answer:
    return Answer(200, _blank_of("git-commit") | {"sha": commit}) if commit in hub.commits else missing()


def list_releases(hub: GitHub, asked: Asked) -> Answer:
    return paged(asked, hub, [release_document(hub, kept) for kept in hub.releases])


def create_release(hub: GitHub, asked: Asked) -> Answer:
    kept = hub.add(asked.document)
    return Answer(201, release_document(hub, kept), {"Location": f"{hub.url}{API}/releases/{kept.id}"})


def get_by_tag(hub: GitHub, _: Asked, tag: str) -> Answer:
    kept = hub.published(tag)
    return Answer(200, release_document(hub, kept)) if kept else missing()


def get_latest(hub: GitHub, _: Asked) -> Answer:
    return Answer(200, release_document(hub, hub.latest)) if hub.latest in hub.releases else missing()


def get_release(hub: GitHub, _: Asked, number: str) -> Answer:
    kept = hub.release(number)
    return Answer(200, release_document(hub, kept)) if kept else missing()


def change_release(hub: GitHub, asked: Asked, number: str) -> Answer:
    kept = hub.release(number)
    if not kept:
        return missing()
    hub.change(kept, asked.document)
    return Answer(200, release_document(hub, kept))


def remove_release(hub: GitHub, _: Asked, number: str) -> Answer:
    kept = hub.release(number)
    if not kept:
        return missing()
    hub.releases.remove(kept)
    return Answer(204)


def list_assets(hub: GitHub, asked: Asked, number: str) -> Answer:
    kept = hub.release(number)
    return paged(asked, hub, [asset_document(hub, kept, asset) for asset in kept.assets]) if kept else missing()


def get_asset(hub: GitHub, asked: Asked, number: str) -> Answer:
    pair = hub.asset(number)
    if not pair or pair[1].state != "uploaded":
        return missing()
    if asked.headers.get("Accept") == "application/octet-stream":
        return Answer(302, None, {"Location": f"{hub.url}/objects/{number}"})
    return Answer(200, asset_document(hub, *pair))


def remove_asset(hub: GitHub, _: Asked, number: str) -> Answer:
    pair = hub.asset(number)
    if not pair:
        return missing()
    if pair[0].immutable:
        raise Unprocessable({"message": "Cannot delete asset from an immutable release"})
    pair[0].assets.remove(pair[1])
    return Answer(204)


def get_object(hub: GitHub, _: Asked, number: str) -> Answer:
    pair = hub.asset(number)
    return Answer(200, pair[1].content) if pair else missing()


def download(hub: GitHub, asked: Asked, tag: str, name: str) -> Answer:
    kept = hub.published(tag)
    assets = kept.assets if kept else []
    content = next((one.content for one in assets if one.name == name and one.state == "uploaded"), None)
    return missing() if content is None else part_of(asked, content)


def part_of(asked: Asked, content: bytes) -> Answer:
    """Return bytes, or the part of them that is asked for (RFC 9110, 14)."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.headers.get("Range", ""))
    if found is None:
        return Answer(200, content)
    size = len(content)
    start = int(found[1]) if found[1] else max(size - int(found[2]), 0)
    stop = min(int(found[2]) + 1, size) if found[1] and found[2] else size
    return Answer(206, content[start:stop], {"Content-Range": f"bytes {start}-{stop - 1}/{size}"})


def expanded(hub: GitHub, _: Asked, tag: str) -> Answer:
    """Return the part of a release's page that has the links."""
    kept = hub.published(tag)
    files = [asset_document(hub, kept, asset)["browser_download_url"] for asset in kept.assets] if kept else []
    links = "".join(f'<li><a href="{urlsplit(file).path}"><span>a file</span></a></li>' for file in files)
    return Answer(200, f"<ul>{links}</ul>".encode(), {"Content-Type": "text/html; charset=utf-8"})


def missing() -> Answer:
    return refusal(404, "Not Found")


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer that says what is wrong."""
    document = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return Answer(status, document, headers or {})


def paged(asked: Asked, hub: GitHub, whole: list[dict[str, Any]]) -> Answer:
    """Return one page, and where the next one is."""
    size, page = int(asked.query.get("per_page", PAGE)), int(asked.query.get("page", 1))
    following = f'<{hub.url}{asked.path}?per_page={size}&page={page + 1}>; rel="next"'
    headers = {"Link": following} if len(whole) > size * page else {}
    return Answer(200, whole[size * (page - 1) : size * page], headers)


ROUTES: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
    ("GET", API, get_repository),
    ("POST", r"/users/([^/]+)/attestations/bulk-list", list_attestations),
    ("POST", r"/orgs/([^/]+)/attestations/bulk-list", list_attestations),
    ("GET", rf"{API}/git/ref/tags/(.+)", get_ref),
    ("GET", rf"{API}/git/commits/(\w+)", get_commit),
    ("GET", rf"{API}/releases", list_releases),
    ("POST", rf"{API}/releases", create_release),
    ("GET", rf"{API}/releases/latest", get_latest),
    ("GET", rf"{API}/releases/tags/(.+)", get_by_tag),
    ("GET", rf"{API}/releases/(\d+)", get_release),
    ("PATCH", rf"{API}/releases/(\d+)", change_release),
    ("DELETE", rf"{API}/releases/(\d+)", remove_release),
    ("GET", rf"{API}/releases/(\d+)/assets", list_assets),
    ("GET", rf"{API}/releases/assets/(\d+)", get_asset),
    ("DELETE", rf"{API}/releases/assets/(\d+)", remove_asset),
    ("GET", r"/objects/(\d+)", get_object),
    ("GET", rf"/{REPOSITORY}/releases/expanded_assets/([^/]+)", expanded),
    ("GET", rf"/{REPOSITORY}/releases/download/([^/]+)/([^/]+)", download),
)
UPLOAD = re.compile(rf"{API}/releases/(\d+)/assets")


# -- the check against GitHub's description


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


# -- the server


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each answer would wait for 40 ms
    hub: GitHub

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the base class names them so

    def _serve(self) -> None:
        asked = self._asked()
        with self.hub.lock:
            self.hub.requests.append(f"{asked.method} {asked.path}")
            fault = self.hub.faults.pop(len(self.hub.requests), None)
        if callable(fault):
            fault = fault()
        if fault is Fault.CLOSE:
            self._drop()
            return
        if fault is Fault.DELAY:
            time.sleep(1)
        answer = fault if isinstance(fault, Answer) else self._answer(asked, fault)
        if problem := complaint(asked, answer, self.hub.url):
            self.hub.problems.append(problem)
        if fault is Fault.FORGET or (fault is Fault.CUT and UPLOAD.fullmatch(asked.path) and asked.method == "POST"):
            self._drop()
        else:
            self._send(answer, cut=fault is Fault.CUT)

    def _asked(self) -> Asked:
        """Read the request, the body of an upload left aside."""
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        is_upload = self.command == "POST" and UPLOAD.fullmatch(parts.path)
        body = b"" if is_upload else self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return Asked(self.command, parts.path, query, body, dict(self.headers.items()))

    def _answer(self, asked: Asked, fault: object) -> Answer:
        kind, _, token = asked.headers.get("Authorization", "").partition(" ")
        is_known = kind in {"token", "Bearer"} and token in self.hub.tokens
        is_anonymous = self.hub.is_public and not kind and asked.method == "GET"
        if asked.path.startswith(("/repos/", "/graphql")) and not (is_known or is_anonymous):
            return refusal(401, "Bad credentials") if kind else missing()  # as a private one
        if self.hub.left is not None:
            self.hub.left -= 1
            if self.hub.left < 0:
                return refusal(403, "API rate limit exceeded for 192.0.2.1.", self._limits())
        upload = UPLOAD.fullmatch(asked.path) if asked.method == "POST" else None
        try:
            if upload:
                return self._upload(upload[1], asked.query["name"], fault)
            with self.hub.lock:
                return self._routed(asked)
        except Unprocessable as error:
            return Answer(422, {"documentation_url": "https://docs.github.com/rest", **error.args[0]})

    def _limits(self) -> dict[str, str]:
        """Return the headers by which GitHub says how many requests it still answers this hour."""
        if self.hub.left is None:
            return {}
        reset = str(int(time.time()) + 3600)
        left = str(max(self.hub.left, 0))
        return {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": left, "X-RateLimit-Reset": reset}

    def _routed(self, asked: Asked) -> Answer:
        for method, pattern, route in self.hub.routes:
            match = re.fullmatch(pattern, asked.path)
            if method == asked.method and match:
                return route(self.hub, asked, *map(unquote, match.groups()))
        return missing()

    def _upload(self, number: str, name: str, fault: object) -> Answer:
        """Take an asset in; it is there, unfinished, while its bytes arrive."""
        length = int(self.headers.get("Content-Length", 0))
        with self.hub.lock:
            kept = self.hub.release(number)
            if not kept:
                return missing()
            asset = self.hub.upload(kept, name)
        content = self.rfile.read(length // 2 if fault is Fault.CUT else length)
        with self.hub.lock:
            if fault is Fault.CUT or len(content) != length:
                self.close_connection = True
                return refusal(502, "Bad Gateway")
            if asset not in kept.assets:
                return missing()
            asset.content = bytes([content[0] ^ 1]) + content[1:] if fault is Fault.CORRUPT else content
            asset.state = "uploaded"
            return Answer(201, asset_document(self.hub, kept, asset))

    def _send(self, answer: Answer, *, cut: bool) -> None:
        data = answer.data
        if UPLOAD.fullmatch(urlsplit(self.path).path) and answer.status >= 400:
            self.close_connection = True  # the body may not have been read
        kind = "application/octet-stream" if isinstance(answer.body, bytes) else "application/json"
        with suppress(ConnectionError):  # a client may have been killed
            self.send_response_only(answer.status)
            usual = {"Date": self.date_time_string(), "Content-Type": kind, "Content-Length": str(len(data))}
            for header, value in {**usual, **self._limits(), **answer.headers}.items():
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self._drop()

    def _drop(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(2)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server that says nothing of clients that are killed."""

    daemon_threads = True
    request_queue_size = 64

    hub: GitHub

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class gives them
        """Note what the server itself does wrong; that clients are killed is nothing of that kind."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self.hub.problems.append(repr(error))


@contextmanager
def github_server() -> Iterator[GitHub]:
    """Run a server with one empty repository; at the end, fail where GitHub's description was not kept to."""
    hub = GitHub()
    handler = type("OwnHandler", (Handler,), {"hub": hub})
    with serve(Server(("127.0.0.1", 0), handler)) as server:
        server.hub = hub
        hub.url = f"http://127.0.0.1:{server.server_port}"
        yield hub
    assert not hub.problems, "\n".join(hub.problems[:5])


def rate_limited(seconds: int = 1) -> Answer:
    """Return what GitHub says where a token's requests of an hour are used up; its clock decides when they are back."""
    now = 1_800_000_000  # another time than this machine's, as clocks differ
    headers = {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": str(now + seconds),
        "Date": formatdate(now, usegmt=True),
    }
    return refusal(403, "API rate limit exceeded for user ID 1.", headers)


def asked_too_fast(seconds: int = 1, status: int = 403) -> Answer:
    """Return what GitHub says where too much is asked at once."""
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    return refusal(status, message, {"retry-after": str(seconds)})
