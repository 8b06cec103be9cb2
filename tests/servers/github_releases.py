"""What the tests' GitHub does at each request about its repository and releases, and what documents it answers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from tests.builders.attestations import sign_provenance
from tests.servers.github_answers import API, REPOSITORY, WHEN, Answer, Asked, Unprocessable, missing, paged, part_of
from tests.servers.github_description import blank_of

if TYPE_CHECKING:
    from tests.servers.github_repository import GitHub, Kept, Stored


def asset_document(hub: GitHub, kept: Kept, asset: Stored) -> dict[str, Any]:
    """Return what the API says of an asset."""
    digest = f"sha256:{hashlib.sha256(asset.content).hexdigest()}" if asset.state == "uploaded" else None
    tag = kept.fields["tag_name"] if not kept.fields["draft"] else f"untagged-{kept.id}"
    return blank_of("release-asset") | {
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
    return blank_of("release") | {
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


def get_repository(hub: GitHub, _: Asked) -> Answer:
    own = {"url": f"{hub.url}{API}", "html_url": f"{hub.url}/{REPOSITORY}", "full_name": REPOSITORY}
    document: dict[str, Any] = blank_of("full-repository") | {"private": hub.is_private}
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
    return Answer(200, blank_of("git-ref") | {"ref": f"refs/tags/{tag}", "object": target})


def get_commit(hub: GitHub, _: Asked, commit: str) -> Answer:
    return Answer(200, blank_of("git-commit") | {"sha": commit}) if commit in hub.commits else missing()


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


def expanded(hub: GitHub, _: Asked, tag: str) -> Answer:
    """Return the part of a release's page that has the links."""
    kept = hub.published(tag)
    files = [asset_document(hub, kept, asset)["browser_download_url"] for asset in kept.assets] if kept else []
    links = "".join(f'<li><a href="{urlsplit(file).path}"><span>a file</span></a></li>' for file in files)
    return Answer(200, f"<ul>{links}</ul>".encode(), {"Content-Type": "text/html; charset=utf-8"})


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
    ("GET", rf"/{REPOSITORY}/releases/download/(.+)/([^/]+)", download),
)
UPLOAD = re.compile(rf"{API}/releases/(\d+)/assets")
