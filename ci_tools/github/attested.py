"""Asks GitHub of which files it keeps a provenance attestation, by their hashes: one request for a thousand.

Each is read (https://docs.github.com/en/rest/users/attestations): it has to be of those bytes, signed by the key of its
certificate, and that has to name this repository. `gh attestation verify` checks the certificate, too.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import Certificate, ExtensionNotFound, ObjectIdentifier, load_der_x509_certificate
from github.GithubException import UnknownObjectException

from ci_tools.errors import FatwheelError, InputError
from ci_tools.github.client import Hub, printable

if TYPE_CHECKING:
    from github.Repository import Repository


MOST = 1024  # hashes of one request: the description's `maxItems` of subject_digests
PER_PAGE = 100  # the most that GitHub gives
OWNERS = {"Organization": "orgs", "User": "users"}
PREFIX = "sha256:"
REMAKES = re.compile(r"/\.github/workflows/verify\.ya?ml@")  # the workflow whose runs make published wheels again


def find_provenances(
    hub: Hub, repository: Repository, hashes: Collection[str]
) -> dict[str, tuple[SignedProvenance, ...]] | None:
    """Return the provenance attestations that GitHub keeps of some sha256, signed by runs of this repository, by each.

    Reports those whose attestation does not hold. Returns None, and reports why, if GitHub does not say it: then
    nothing is known of any.
    """
    waiting, found = iter(sorted(hashes)), dict[str, tuple[SignedProvenance, ...]]()
    try:
        while part := [f"{PREFIX}{sha256}" for sha256 in islice(waiting, MOST)]:
            known = ((digest, holding) for digest, holding in _ask(hub, repository, part) if digest in part)
            found |= {digest.removeprefix(PREFIX): holding for digest, holding in known}
    except FatwheelError as error:
        hub.outside.reporter.say(f"not known which wheels of {hub.repository} are attested: {error.message}")
        return None
    return found


def find_remake(signed: Iterable[SignedProvenance]) -> tuple[str, ...]:
    """Return whose run of verify.yml made a file again last, when, and the workflow; () if none did."""
    remakes = [one for one in signed if REMAKES.search(one.provenance.signer)]
    last = max(remakes, key=lambda one: one.on, default=None)
    return (last.provenance.repository, last.on, last.provenance.signer) if last else ()


def _ask(hub: Hub, repository: Repository, digests: list[str]) -> Iterator[tuple[str, tuple[SignedProvenance, ...]]]:
    """Yield the digests that have an attestation, with all that hold, over all pages of the answer."""
    kind = OWNERS.get(repository.owner.type, "users")
    path = f"/{kind}/{repository.owner.login}/attestations/bulk-list"
    body = {"subject_digests": digests, "predicate_type": "provenance"}
    after = ""
    while True:
        query = urlencode({"per_page": PER_PAGE, **({"after": after} if after else {})})
        said = hub.ask(lambda _, query=query: _post(repository, f"{path}?{query}", body))  # type: ignore[misc]
        for digest, kept in (said.get("attestations_subject_digests") or {}).items():
            # the list is the owner's: another repository may attest the same bytes
            own = [one for one in kept or () if one.get("repository_id") == repository.id]
            read = [_read_kept(one, digest, repository) for one in own]
            holding = tuple(one for one in read if not isinstance(one, str))
            if holding:
                yield digest, holding
            elif read:
                hub.outside.reporter.say(f"the attestation of {printable(digest)} does not hold: {read[0]}")
        page = said.get("page_info") or {}
        # a server that repeats a page would be asked forever
        if not page.get("has_next") or page.get("next") in {None, "", after}:
            return
        after = printable(str(page["next"]))


def _read_kept(kept: Mapping[str, object], digest: str, repository: Repository) -> SignedProvenance | str:
    """Return an attestation that GitHub keeps, or why it does not hold."""
    try:
        found = read_provenance(kept.get("bundle"), digest.removeprefix(PREFIX))
    except InputError as error:
        return error.message
    if found.repository.lower() != repository.html_url.lower():
        return f"a run of {printable(found.repository)} signed it, expected one of {repository.html_url}"
    _, certificate = _open(kept.get("bundle"))
    return SignedProvenance(found, f"{certificate.not_valid_before_utc:%Y-%m-%d}")


def _post(repository: Repository, path: str, body: Mapping[str, object]) -> dict[str, Any]:
    """Return the answer to a question that is asked by POST, for its length only."""
    try:
        answer: Any = repository.requester.requestJsonAndCheck("POST", path, input=dict(body))[1]
    except UnknownObjectException as error:  # as on a GitHub Enterprise Server that is older
        raise InputError("its API has no list of attestations") from error
    if not isinstance(answer, dict):
        msg = "an answer about attestations is not an object"
        raise TypeError(msg)  # the hub reports a server that is not GitHub
    return answer


IN_TOTO = "application/vnd.in-toto+json"
PREDICATE = "https://slsa.dev/provenance/"
# The extensions of Fulcio's certificates (https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md).
SIGNER = ObjectIdentifier("1.3.6.1.4.1.57264.1.9")
SOURCE = ObjectIdentifier("1.3.6.1.4.1.57264.1.12")
UTF8_STRING = 0x0C  # its tag in DER
LONG = 0x80  # a length of several bytes


class Provenance(NamedTuple):
    """Where the run was that signed an attestation: addresses of its repository and of the workflow's file."""

    repository: str
    signer: str


class SignedProvenance(NamedTuple):
    """An attestation that holds, and the date on which its key's certificate begins: that of the run."""

    provenance: Provenance
    on: str


def read_provenance(bundle: object, digest: str) -> Provenance:
    """Return who signed a bundle for a file with a sha256; raise InputError with the reason if it does not hold."""
    try:
        envelope, certificate = _open(bundle)
        payload, kind = base64.b64decode(envelope["payload"], validate=True), str(envelope["payloadType"])
        signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
        statement = json.loads(payload)
        subjects = [str(one["digest"].get("sha256", "")) for one in statement["subject"]]
        predicate = str(statement["predicateType"])
        found = Provenance(_extension(certificate, SOURCE), _extension(certificate, SIGNER))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, ExtensionNotFound) as error:
        raise InputError(f"it cannot be read: {type(error).__name__}") from error
    if kind != IN_TOTO or not predicate.startswith(PREDICATE):
        raise InputError("its statement is of another kind than a provenance")
    if digest not in subjects:
        raise InputError("it is of other bytes")
    _refuse_signature(certificate, signature, _encode(kind, payload))
    return found


def _open(bundle: Any) -> tuple[Any, Certificate]:  # noqa: ANN401 - JSON
    """Return the envelope of a bundle and the certificate of the key that signed it."""
    material = bundle["verificationMaterial"]
    # Bundles before version 0.3 have a chain, whose first certificate it is (sigstore_bundle.proto).
    leaf = material.get("certificate") or material["x509CertificateChain"]["certificates"][0]
    return bundle["dsseEnvelope"], load_der_x509_certificate(base64.b64decode(leaf["rawBytes"], validate=True))


def _encode(kind: str, payload: bytes) -> bytes:
    """Return what is signed of an envelope (DSSE: PAE)."""
    return b"DSSEv1 %d %b %d %b" % (len(kind.encode()), kind.encode(), len(payload), payload)


def _refuse_signature(certificate: Certificate, signature: bytes, signed: bytes) -> None:
    key = certificate.public_key()
    msg = "its signature is not that of its certificate"
    if not isinstance(key, EllipticCurvePublicKey):  # Fulcio's are ECDSA
        raise InputError(msg)
    try:
        key.verify(signature, signed, ECDSA(SHA256()))
    except InvalidSignature as error:
        raise InputError(msg) from error


def _extension(certificate: Certificate, name: ObjectIdentifier) -> str:
    """Return the text of an extension; raise ValueError if it has another type."""
    value = certificate.extensions.get_extension_for_oid(name).value.public_bytes()
    # the long form says how many bytes the length has (X.690, 8.1.3.5)
    start = 2 + (value[1] - LONG if value[1] > LONG else 0)
    if value[0] != UTF8_STRING:
        raise ValueError(name.dotted_string)
    return value[start:].decode()
