"""Reads a provenance attestation that GitHub keeps: which bytes it is of, and who signed it.

It is compared with itself only: the signature is that of the certificate in it. Whether Sigstore issued the
certificate, and logged the signature while it was valid, needs Sigstore's roots: `gh attestation verify` checks it.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import Certificate, ExtensionNotFound, ObjectIdentifier, load_der_x509_certificate

from ci_tools.errors import InputError

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
        msg = f"it cannot be read: {type(error).__name__}"
        raise InputError(msg) from error
    if kind != IN_TOTO or not predicate.startswith(PREDICATE):
        msg = "its statement is of another kind than a provenance"
        raise InputError(msg)
    if digest not in subjects:
        msg = "it is of other bytes"
        raise InputError(msg)
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
    start = 2 + (value[1] - LONG if value[1] > LONG else 0)
    if value[0] != UTF8_STRING:
        raise ValueError(name.dotted_string)
    return value[start:].decode()
