"""What a wheel states of its build is held to strict forms: anybody can write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci_tools.errors import InputError
from ci_tools.model.request import Channel, Edition
from ci_tools.verify.remake.stated import read_stated
from tests.builders.remade import write_stating_wheel

NAME = "demo-1.0-py3-none-any.whl"


def say(wheel: Path, name: str, value: str) -> Path:
    def change(sbom: dict[str, Any]) -> None:
        sbom["metadata"]["component"]["properties"].append({"name": f"fatwheel:{name}", "value": value})

    return write_stating_wheel(wheel, change)


def test_what_it_states_is_read(tmp_path: Path) -> None:
    found = read_stated(say(tmp_path / NAME, "edition", "nightly 20261121"))
    assert (found.job, found.address, found.edition) == (
        "linux-cpu",
        "https://example.org/demo",
        Edition(Channel.NIGHTLY, date="20261121"),
    )
    assert [(one.name, one.version) for one in found.requires] == [("maker", "1")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("job", "a;b", id="job"),
        pytest.param("source:commit", "--upload-pack=id", id="option-as-commit"),
        pytest.param("source:commit", "main", id="branch-as-commit"),
        pytest.param("config", "../../etc/fatwheel.yml", id="config-outside"),
        pytest.param("config", "/etc/fatwheel.yml", id="absolute-config"),
        pytest.param("tag", "-f", id="option-as-tag"),
        pytest.param("edition", "nightly yesterday", id="edition"),
        pytest.param("run:level", "manylinux", id="level"),
    ],
)
def test_a_value_of_another_form_is_refused(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"the SBOM of {NAME} is not one that Fatwheel writes: ValueError: {name} is"):
        read_stated(say(tmp_path / NAME, name, value))


@pytest.mark.parametrize(
    "version",
    ["1\n--index-url http://127.0.0.1", "1 --config-settings=x", "1;x"],
    ids=["line", "option", "marker"],
)
def test_a_requirement_is_a_name_a_version_and_a_hash(tmp_path: Path, version: str) -> None:
    def change(sbom: dict[str, Any]) -> None:
        sbom["components"][0]["version"] = version

    with pytest.raises(InputError, match="is not a requirement"):
        read_stated(write_stating_wheel(tmp_path / NAME, change))


@pytest.mark.parametrize("url", ["file:///etc", "ext::id", "/etc", "-u id", "https://-u"])
def test_an_address_is_one_of_the_web_or_ssh_or_none(tmp_path: Path, url: str) -> None:
    def change(sbom: dict[str, Any]) -> None:
        sbom["metadata"]["component"]["externalReferences"][0]["url"] = url

    assert read_stated(write_stating_wheel(tmp_path / NAME, change)).address == ""
