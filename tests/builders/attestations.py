"""Attestations as GitHub keeps them: a statement, signed by the key of a certificate with Fulcio's extensions.

The certificate is signed by itself: nothing here has a root of Sigstore's.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import CertificateBuilder, Name, UnrecognizedExtension

from ci_tools.github.attested import IN_TOTO, SIGNER, SOURCE

WORKFLOW = "https://github.com/octo-tools/fatwheel/.github/workflows/recipes.yml@refs/tags/v1.4.0"
START = dt.datetime(2026, 11, 1, tzinfo=dt.timezone.utc)


def sign_provenance(
    sha256: str, repository: str, *, signer: str = WORKFLOW, kind: str = "https://slsa.dev/provenance/v1"
) -> dict[str, Any]:
    """Return the bundle of an attestation that a run of a repository (its address) signed for a file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [{"name": "a.whl", "digest": {"sha256": sha256}}]
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": subject, "predicateType": kind, "predicate": {}}
    payload = json.dumps(statement).encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(IN_TOTO), IN_TOTO.encode(), len(payload), payload)
    signatures = [{"sig": _encode(key.sign(signed, ec.ECDSA(SHA256())))}]
    envelope = {"payload": _encode(payload), "payloadType": IN_TOTO, "signatures": signatures}
    certificate = {"rawBytes": _encode(_make_certificate(key, {SOURCE: repository, SIGNER: signer}))}
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"certificate": certificate},
        "dsseEnvelope": envelope,
    }


def _make_certificate(key: ec.EllipticCurvePrivateKey, texts: dict[Any, str]) -> bytes:
    """Return a certificate of a key, with an extension for each text."""
    builder = CertificateBuilder(Name([]), Name([]), key.public_key(), 1, START, START + dt.timedelta(minutes=10))
    for name, text in texts.items():
        builder = builder.add_extension(UnrecognizedExtension(name, _as_der(text)), critical=False)
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


def _as_der(text: str) -> bytes:
    """Return a text as a UTF8String of DER, of less than 256 bytes."""
    data = text.encode()
    length = bytes([len(data)]) if len(data) < 0x80 else bytes([0x81, len(data)])
    return b"\x0c" + length + data


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
