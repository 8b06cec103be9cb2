"""The SBOM of a wheel: valid by CycloneDX's own schema, the same each time, and true of its source and tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from email.message import Message
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from rfc3986_validator import validate_rfc3986

from ci_tools.build.sbom import sbom_of
from ci_tools.model.files import NOT_ASKED, BuiltWith, Resolved
from ci_tools.model.plan import Job, Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.request import UNTAGGED, Drop, GitSource, Patch, Request, SdistSource
from ci_tools.plan import plan_reader
from tests.builders.plans import job_of, plan_json

CUDA, PURE = job_of("demo-1.0-py3-none-any.whl", Platform.LINUX_CUDA, "9.0", "10.0+PTX"), job_of("demo.whl")
GCC = "c++ (Debian 12.2.0-14) 12.2.0"
TOOLS = BuiltWith(GCC, "CUDA 13.0 (nvcc V13.0.88)", "", "2.10.0 (headers)", "CPython 3.12.4", "img (Debian 12)")
GIT = GitSource(url="https://user:secret@example.org/demo.git", ref="v1.0")
SHIPPED = SdistSource(name="Demo", version="1.0", sha256="a" * 64)
PATCHED = (Patch("archs.patch", "the builder has no GPU", "fatwheel.yml:9", "b" * 64),)
DROPPED = (Drop("fastrlock", "it needs the GIL"),)


def plan_of(job: Job) -> Plan:
    return plan_reader.plan_of(plan_json("d" * 64, (job,), {Platform.LINUX_CUDA: True}), "plan.json")


def asking(plan: Plan, **changed: Any) -> Plan:  # noqa: ANN401 - the values of any field
    request: Request = replace(plan.request, **changed)
    return replace(plan, request=request, pins=plan.pins._replace(config_commit="e" * 40))


def written(plan: Plan, job: Job = CUDA, local: str = "cu130", fields: Mapping[str, str] | None = None) -> bytes:
    metadata = Message()
    for name, value in (fields or {"License-Expression": "mit"}).items():
        metadata[name] = value
    return sbom_of(job, plan, local, metadata, TOOLS if job is CUDA else NOT_ASKED)


def described(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(content)["metadata"]["component"]
    return found


def properties(content: bytes) -> dict[str, str]:
    found = described(content)["properties"]
    return {one["name"].removeprefix("fatwheel:"): one["value"] for one in found}


def addresses(content: bytes) -> list[str]:
    """Return every address: the schema asks for IRI references, and jsonschema does not check those here."""
    found: list[str] = []
    json.loads(content, object_hook=lambda one: found.extend(filter(None, [one.get("url")])))
    return found


RICH = {"source": GIT, "patches": PATCHED}


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="own"),
        pytest.param(RICH, id="of-git-with-a-patch"),
        pytest.param({"source": SHIPPED}, id="of-an-sdist"),
        pytest.param({"source": replace(GIT, url="git@example.org:demo.git")}, id="of-git-by-ssh"),
    ],
)
@pytest.mark.parametrize("job", [CUDA, PURE], ids=["native", "pure"])
def test_it_is_valid_and_the_same_each_time(job: Job, changed: dict[str, Any]) -> None:
    plan = asking(plan_of(job), **changed)
    content = written(plan, job)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode()) is None
    assert [one for one in addresses(content) if not validate_rfc3986(one, rule="URI_reference")] == []
    assert content == written(plan, job)
    assert "timestamp" not in content.decode()


def test_it_names_the_wheel_and_what_it_was_built_with() -> None:
    content = written(plan_of(CUDA))
    assert (described(content)["name"], described(content)["version"]) == ("demo", "1.0+cu130")
    assert described(content)["purl"] == "pkg:pypi/demo@1.0%2Bcu130"
    tools = {one["name"]: (one["version"], one["scope"]) for one in json.loads(content)["components"]}
    assert tools == {
        "C++ compiler": (GCC, "excluded"),
        "CPython": ("3.12.4", "excluded"),
        "CUDA": ("13.0 (nvcc V13.0.88)", "excluded"),
        "image": ("img (Debian 12)", "excluded"),
        "torch": ("2.10.0 (headers)", "excluded"),
    }
    assert properties(content)["archs"] == "9.0;10.0+PTX"


def test_a_pure_wheel_names_no_tool_since_any_makes_the_same() -> None:
    assert "components" not in json.loads(written(plan_of(PURE), PURE))


def test_what_the_build_installed_is_named_with_its_hash_also_of_a_pure_wheel() -> None:
    required = NOT_ASKED._replace(requires=(Resolved("setuptools", "80.9", "f" * 64), Resolved("maker", "1")))
    content = sbom_of(PURE, plan_of(PURE), "", Message(), required)
    components = {one["purl"]: one.get("hashes") for one in json.loads(content)["components"]}
    hashes = [{"alg": "SHA-256", "content": "f" * 64}]
    assert components == {"pkg:pypi/maker@1": None, "pkg:pypi/setuptools@80.9": hashes}


def test_a_compiler_is_named_by_its_content() -> None:
    tools = TOOLS._replace(compiler_sha256="1" * 64, toolkit_sha256="2" * 64, libc="glibc 2.36", flags="-g -O3")
    content = sbom_of(CUDA, plan_of(CUDA), "cu130", Message(), tools)
    hashes = {one["name"]: one["hashes"][0]["content"] for one in json.loads(content)["components"] if "hashes" in one}
    assert hashes == {"C++ compiler": "1" * 64, "CUDA": "2" * 64}
    assert (properties(content)["libc"], properties(content)["python:flags"]) == ("glibc 2.36", "-g -O3")


def test_a_release_states_what_its_job_is_planned_by() -> None:
    said = properties(written(plan_of(CUDA)))
    assert {name: said[name] for name in ("source:commit", "source:sha256", "config", "edition", "tag")} == {
        "source:commit": "c" * 40,
        "source:sha256": "d" * 64,
        "config": "fatwheel.yml",
        "edition": "stable",
        "tag": "v1.0",
    }
    untagged = properties(written(replace(plan_of(CUDA), edition=UNTAGGED)))
    assert {"source:commit", "source:sha256", "tag", "edition"} & untagged.keys() == set()


@pytest.mark.parametrize(
    ("label", "url", "named"),
    [
        pytest.param("Source Code", "https://me@host/x.git", "https://***@host/x.git", id="source"),
        pytest.param("Repository", "https://host/x", "https://host/x", id="repository"),
        pytest.param("Homepage", "https://host/x", "", id="homepage"),
        pytest.param("Source", "file:///home/me/x", "", id="of-this-machine"),
    ],
)
def test_the_repository_of_a_checkout_is_the_one_that_metadata_names(label: str, url: str, named: str) -> None:
    content = written(plan_of(CUDA), fields={"Project-URL": f"{label}, {url}"})
    assert [one["url"] for one in described(content).get("externalReferences", ())] == ([named] if named else [])


def test_a_git_source_is_named_with_tag_and_commit_and_without_a_password() -> None:
    content = written(asking(plan_of(CUDA), **RICH))
    (source,) = described(content)["externalReferences"]
    assert (source["type"], source["comment"]) == ("vcs", f"v1.0 at commit {'c' * 40}")
    assert "secret" not in content.decode()
    assert "example.org/demo.git" in source["url"]


def test_a_path_of_this_machine_is_not_named() -> None:
    for path in ("/home/me/demo", "../demo", "file:///home/me/demo"):
        content = written(asking(plan_of(CUDA), source=replace(GIT, url=path)))
        assert "externalReferences" not in described(content)
        assert properties(content)["source:commit"] == "c" * 40


def test_an_sdist_is_named_with_its_hash() -> None:
    (source,) = described(written(asking(plan_of(CUDA), source=SHIPPED)))["externalReferences"]
    assert source["url"] == "pkg:pypi/demo@1.0"
    assert source["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]


def test_patches_and_dropped_requirements_have_their_reasons() -> None:
    plan = plan_of(CUDA)
    build = plan.request.build._replace(drop=DROPPED)
    found = described(written(asking(plan, patches=PATCHED, build=build)))["pedigree"]
    (patch,) = found["patches"]
    assert patch["diff"]["url"] == f"archs.patch#sha256={'b' * 64}"
    assert patch["resolves"][0]["description"] == "the builder has no GPU"
    assert found["notes"] == "without its requirement fastrlock: it needs the GIL"


@pytest.mark.parametrize(
    ("fields", "licences"),
    [
        pytest.param({"License-Expression": "mit OR apache-2.0"}, ["MIT OR Apache-2.0"], id="expression"),
        pytest.param({"License-Expression": "Mine"}, ["Mine"], id="no-expression"),
        pytest.param({"License": "Apache\n  2.0"}, ["Apache 2.0"], id="field"),
        pytest.param(
            {"License": "All rights " * 90, "Classifier": "License :: OSI Approved :: MIT License"},
            ["MIT License"],
            id="classifier",
        ),
        pytest.param({"Summary": "no word of it"}, [], id="none"),
    ],
)
def test_licences_are_those_of_the_metadata(fields: dict[str, str], licences: list[str]) -> None:
    found = described(written(plan_of(CUDA), fields=fields)).get("licenses", [])
    assert [one.get("expression") or one["license"]["name"] for one in found] == licences


def test_commits_are_stated_for_releases_and_for_fetched_sources_only() -> None:
    plan = plan_of(CUDA)
    assert properties(written(plan))["source:commit"] == "c" * 40
    assert "source:commit" not in properties(written(replace(plan, edition=UNTAGGED)))
    fetched = asking(plan, source=GIT)
    assert properties(written(fetched))["config:commit"] == "e" * 40
    untagged = properties(written(replace(fetched, edition=UNTAGGED)))
    assert (untagged["source:commit"], "config:commit" in untagged) == ("c" * 40, False)
