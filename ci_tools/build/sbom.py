"""Writes what a wheel was built from and with, as an SBOM inside it (CycloneDX 1.6, in the place of PEP 770).

The same wheel gets the same SBOM: it has no time, and its serial number is a hash of its content. A pure wheel names no
compiler, since none of them changes its bytes. `fatwheel verify` makes a wheel again by what stands here.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import (
    Component,
    ComponentScope,
    ComponentType,
    Diff,
    Patch,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.issue import IssueClassification, IssueType
from cyclonedx.model.license import DisjunctiveLicense, License, LicenseExpression
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from ci_tools.addresses import redact
from ci_tools.formats.relabel import dump_sbom
from ci_tools.model.files import BuiltWith
from ci_tools.model.plan import Job, JobKind, Plan
from ci_tools.model.request import GitSource, PathSource, Request, SdistSource
from ci_tools.plan.plan_file import list_origin

if TYPE_CHECKING:
    from email.message import Message


EXCLUDED = ComponentScope.EXCLUDED
SOURCE_LABELS = ("source", "repository", "sourcecode", "github")  # PyPA, "Well-known Project URLs in Metadata"
LICENCE_CLASSIFIER = "License :: "
MAX_LICENCE = 200  # characters; a longer License field is the licence's text, which is in a file of its own
REMOTE_URL = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)  # and not a path of this machine
SSH_ADDRESS = re.compile(r"([\w.-]+@[\w.-]+):(?!/)(\S+)")  # git's short form of an address
SPACE = uuid.UUID("4f9c0c5b-0a0f-5b0e-9a53-6f1f7b7d8c11")  # of the serial numbers; any constant serves (RFC 9562, 5.5)


def sbom_of(job: Job, plan: Plan, local: str, metadata: Message, built_with: BuiltWith) -> bytes:
    """Return the SBOM of a job's wheel with a local version, or with none if `local` is empty.

    `metadata` is the wheel's METADATA, which states its licence.
    """
    tools = [*(_components(built_with) if job.kind is JobKind.NATIVE else ()), *_requirements(built_with)]
    version = f"{plan.project.version}{f'+{local}' if local else ''}"
    wheel = _wheel(job, plan, version, metadata, {"libc": built_with.libc, "python:flags": built_with.flags})
    fatwheel = Component(name="fatwheel", type=ComponentType.APPLICATION, version=plan.pins.fatwheel)
    described = BomMetaData(
        component=wheel,
        tools=ToolRepository(components=[fatwheel]),
        lifecycles=[PredefinedLifecycle(phase=LifecyclePhase.BUILD)],
    )
    bom = Bom(components=tools, metadata=described)
    bom.register_dependency(wheel, tools)
    content = json.loads(JsonV1Dot6(bom).output_as_string())
    del content["metadata"]["timestamp"], content["serialNumber"]  # of this moment, and random
    serial = uuid.uuid5(SPACE, json.dumps(content, sort_keys=True))
    return dump_sbom({**content, "serialNumber": serial.urn})


def _wheel(job: Job, plan: Plan, version: str, metadata: Message, more: Mapping[str, str]) -> Component:
    """Return the component that the SBOM describes: its licence, its source, its patches."""
    name = canonicalize_name(plan.project.name)
    said = {"job": job.name, "archs": ";".join(job.archs), **dict(list_origin(plan)), **more}
    return Component(
        name=str(plan.project.name),
        version=version,
        bom_ref="wheel",
        purl=PackageURL("pypi", None, name, version),
        licenses=list(_licences(metadata)),
        external_references=list(_sources(plan.request, plan, metadata)),
        properties=[Property(name=f"fatwheel:{key}", value=value) for key, value in said.items() if value],
        pedigree=_pedigree(plan.request),
    )


def _licences(metadata: Message) -> Iterator[License]:
    """Yield the licences that METADATA states: an SPDX expression (PEP 639), a short License field, or classifiers."""
    expression = metadata.get("License-Expression")
    if expression:
        try:
            yield LicenseExpression(str(canonicalize_license_expression(expression)))
        except InvalidLicenseExpression:  # the audit's rule `licence` says so
            yield DisjunctiveLicense(name=expression)
        return
    field = " ".join(metadata.get("License", "").split())
    if field and len(field) <= MAX_LICENCE:
        yield DisjunctiveLicense(name=field)
        return
    for classifier in metadata.get_all("Classifier", []):
        if classifier.startswith(LICENCE_CLASSIFIER):
            yield DisjunctiveLicense(name=classifier.rpartition(" :: ")[2])


def _sources(request: Request, plan: Plan, metadata: Message) -> Iterator[ExternalReference]:
    """Yield where the source comes from; a path on this machine is of no use to others.

    The address of a checkout's own repository is what METADATA says: the name of its remote differs between clones.
    """
    source = request.source
    if isinstance(source, PathSource) and (address := _find_repository(metadata)):
        yield ExternalReference(type=ExternalReferenceType.SCM, url=XsUri(address))
    if isinstance(source, GitSource):
        address = SSH_ADDRESS.sub(r"ssh://\1/\2", source.url)
        comment = f"{source.ref} at commit {plan.pins.commit}"
        if REMOTE_URL.fullmatch(address):
            yield ExternalReference(type=ExternalReferenceType.SCM, url=XsUri(redact(address)), comment=comment)
    if isinstance(source, SdistSource):
        url = XsUri(PackageURL("pypi", None, canonicalize_name(source.name), source.version).to_string())
        sha256 = HashType(alg=HashAlgorithm.SHA_256, content=source.sha256)
        yield ExternalReference(type=ExternalReferenceType.SOURCE_DISTRIBUTION, url=url, hashes=[sha256])


def _find_repository(metadata: Message) -> str:
    """Return the address that a Project-URL gives of the source's repository; "" if none does."""
    urls = [text.partition(",") for text in metadata.get_all("Project-URL", [])]
    own = {re.sub("[^a-z]", "", label.lower()): url.strip() for label, _, url in urls}
    address = next((own[label] for label in SOURCE_LABELS if label in own), "")
    return redact(address) if REMOTE_URL.fullmatch(address) else ""


def _pedigree(request: Request) -> Pedigree | None:
    """Return the patches of the source, each with its reason; None if there are none."""
    patches = [
        Patch(
            type=PatchClassification.UNOFFICIAL,
            diff=Diff(url=XsUri(f"{quote(patch.file)}#sha256={patch.sha256}")),  # a file name may hold a space
            resolves=[IssueType(type=IssueClassification.DEFECT, description=patch.reason)],
        )
        for patch in request.patches
    ]
    drops = "; ".join(f"without its requirement {drop.name}: {drop.reason}" for drop in request.build.drop)
    return Pedigree(patches=patches, notes=drops or None) if patches or drops else None


def _components(by: BuiltWith) -> Iterator[Component]:
    """Yield the tools of a native build: nothing of them is required where the wheel is used.

    The hash of a compiler is one of its programs' content (`Digests.identify_program`).
    """
    toolkit, python = by.toolkit.partition(" "), by.python.partition(" ")
    found = (
        (ComponentType.APPLICATION, "C++ compiler", by.compiler, by.compiler_sha256),
        (ComponentType.APPLICATION, toolkit[0], toolkit[2], by.toolkit_sha256),
        (ComponentType.LIBRARY, "torch", by.torch, ""),
        (ComponentType.PLATFORM, python[0], python[2], ""),
        (ComponentType.OPERATING_SYSTEM, "image", by.image, ""),
    )
    for kind, name, version, sha256 in found:
        if version:
            yield Component(type=kind, name=name, version=version, bom_ref=name, scope=EXCLUDED, hashes=_hashes(sha256))


def _requirements(by: BuiltWith) -> Iterator[Component]:
    """Yield what the build installed; a pure wheel is made by these, too."""
    for name, version, sha256 in by.requires:
        purl = PackageURL("pypi", None, name, version)
        yield Component(
            name=name, version=version, purl=purl, bom_ref=f"build:{name}", scope=EXCLUDED, hashes=_hashes(sha256)
        )


def _hashes(sha256: str) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []
