from __future__ import annotations

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ci_tools import catalog
from ci_tools.cli.main import main
from ci_tools.config import include, loader
from ci_tools.errors import InputError
from ci_tools.formats.json_file import unstructure
from ci_tools.model.platforms import Platform
from ci_tools.model.request import Enabled, PlatformRequest, Request
from ci_tools.plan import make, plan_file
from tests.builders.sources import demo, plan_of, world, write

ROOT = Path(__file__).parents[3]
SCHEMA = loader.read_schema()
MAIN = """\
package: demo
python: ["3.12"]
platforms:
  linux-cpu:
  linux-rocm: { include: ci/rocm.yml }
"""
TABLE = """\
# ROCm is ours.
owner: "@demo/rocm"
native: ["*.hip"]
rocm: ["7.1"]
archs: [gfx942]
required: true
"""


def load(folder: Path, files: dict[str, str]) -> Request:
    """Return what the config in a folder asks for; each of its problems is named below that folder."""
    return loader.load(write(folder, files) / "fatwheel.yml", catalog.load())


def rocm(request: Request) -> PlatformRequest:
    return next(platform for platform in request.platforms if platform.platform is Platform.LINUX_ROCM)


def mistakes(folder: Path, files: dict[str, str]) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(folder, files)
    return caught.value.message.replace(f"{folder}/", "").splitlines()


# ---------------------------------------------------------------- what it means


def test_an_included_file_is_its_platforms_table(tmp_path: Path) -> None:
    found = rocm(load(tmp_path, {"fatwheel.yml": MAIN, "ci/rocm.yml": TABLE}))
    assert (found.owner, found.native.include, found.archs) == ("@demo/rocm", ("*.hip",), ("gfx942",))
    assert (found.required, [one.label for one in found.accelerators]) == (True, ["rocm7.1"])


def test_it_asks_for_the_same_as_the_table_in_its_place(tmp_path: Path) -> None:
    indented = "".join(f"    {line}\n" for line in TABLE.splitlines())
    written = MAIN.replace(" { include: ci/rocm.yml }", f"\n{indented}")
    one = rocm(load(tmp_path / "a", {"fatwheel.yml": MAIN, "ci/rocm.yml": TABLE}))
    other = rocm(load(tmp_path / "b", {"fatwheel.yml": written}))
    assert (one.where, other.where) == ("ci/rocm.yml:2", "fatwheel.yml:5")
    assert unstructure(one) == {**unstructure(other), "where": one.where}


def test_an_included_file_of_nothing_is_a_platform_that_needs_nothing(tmp_path: Path) -> None:
    assert rocm(load(tmp_path, {"fatwheel.yml": MAIN, "ci/rocm.yml": "~\n"})).enabled is Enabled.AUTO


def test_one_file_may_serve_two_platforms(tmp_path: Path) -> None:
    text = MAIN.replace("linux-cpu:", "linux-aarch64: { include: ci/cpu.yml }\n  linux-cpu: { include: ci/cpu.yml }")
    request = load(tmp_path, {"fatwheel.yml": text, "ci/cpu.yml": "owner: me\n", "ci/rocm.yml": TABLE})
    assert [platform.owner for platform in request.platforms] == ["me", "me", "@demo/rocm"]


def test_a_plan_names_the_included_file_and_not_the_machine(tmp_path: Path) -> None:
    files = {"fatwheel.yml": MAIN, "ci/rocm.yml": f"enabled: false\n{TABLE}"}
    plans = [plan_of(demo(tmp_path / name, files)) for name in ("a", "b")]
    assert plan_file.dumps(plans[0]) == plan_file.dumps(plans[1])
    assert {why for _, why in plans[0].skipped} == {"switched off by `enabled: false` (ci/rocm.yml:1)"}


def test_a_file_is_named_below_the_source_that_its_config_lies_in(tmp_path: Path) -> None:
    text = f"{MAIN}source: {{ path: .. }}\n"
    found = rocm(load(tmp_path / "package", {"fatwheel.yml": text, "ci/rocm.yml": TABLE}))
    assert found.where == "package/ci/rocm.yml:2"


def test_a_file_is_named_below_a_config_outside_the_source(tmp_path: Path) -> None:
    write(tmp_path, {"source/pyproject.toml": ""})
    text = f"{MAIN}source: {{ path: ../source }}\n"
    assert rocm(load(tmp_path / "recipe", {"fatwheel.yml": text, "ci/rocm.yml": TABLE})).where == "ci/rocm.yml:2"


def test_a_plan_is_refused_once_the_included_file_says_otherwise(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {"fatwheel.yml": MAIN, "ci/rocm.yml": TABLE, ".gitignore": "ci/\n"})
    pinned = tmp_path / "plan.json"
    pinned.write_text(plan_file.dumps(plan_of(folder)))
    write(folder, {"ci/rocm.yml": TABLE.replace("gfx942", "gfx90a")})
    with pytest.raises(InputError, match=r'archs.*"gfx942" in the plan, "gfx90a" here'):
        make.make_plan(folder / "fatwheel.yml", world(tmp_path), pinned=pinned)


def test_a_patch_leaves_an_included_platform_alone() -> None:
    assert include.set_platform_key(MAIN, "linux-rocm", "enabled", "auto") is None


def test_the_guide_shows_what_is_accepted(tmp_path: Path) -> None:
    text = (ROOT / "docs/how-to/give-a-platform-to-its-team.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\S+).*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    first = dict(reversed(blocks))  # of each kind
    main_text, part = first["yaml"], first["yml"]
    files = {"fatwheel.yml": f"package: demo\npython: ['3.12']\n{main_text}", "ci/rocm.yml": part}
    assert rocm(load(tmp_path, files)).owner == "@my-org/rocm"
    parts = re.findall(r"`#/\$defs/([\w-]+)`", text)
    assert sorted(parts) == sorted(
        name for name in SCHEMA["$defs"] if name.endswith("platform") and "wheel" not in name
    )


# ---------------------------------------------------------------- what is wrong with it


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        pytest.param("{ include: ci/none.yml }",
                     ["fatwheel.yml:5:26: there is no ci/none.yml, expected a file with the table of linux-rocm"],
                     id="not-there"),
        pytest.param("{ include: ../rocm.yml }",
                     ['fatwheel.yml:5:26: "../rocm.yml" is not allowed, expected a path below'], id="above"),
        pytest.param("{ include: ci/../../rocm.yml }",
                     ['fatwheel.yml:5:26: "ci/../../rocm.yml" is not allowed, expected a path below'],
                     id="above-by-a-detour"),
        pytest.param("{ include: /etc/hostname }",
                     ['fatwheel.yml:5:26: "/etc/hostname" is not allowed, expected a path below'], id="absolute"),
        pytest.param("{ include: 'ci\\rocm.yml' }",
                     ['fatwheel.yml:5:26: "ci\\\\rocm.yml" is not allowed, expected a path below'], id="backslash"),
        pytest.param("{ include: [ci/rocm.yml] }",
                     ['fatwheel.yml:5:26: ["ci/rocm.yml"] is not allowed, expected a path below'], id="list"),
        pytest.param('{ include: "" }',
                     ['fatwheel.yml:5:26: "" is not allowed, expected a path below'], id="empty"),
        pytest.param("{ include: ci }", ["fatwheel.yml:5:26: ci is a folder, expected a YAML file"], id="folder"),
        pytest.param("{ include: ci/blank.yml }", ["fatwheel.yml:5:26: ci/blank.yml is empty"], id="blank"),
        pytest.param("{ include: ci/rocm.yml, owner: me, rocm: [7.1] }",
                     ['fatwheel.yml:5:39: "owner" is next to "include", expected it in the included file',
                      'fatwheel.yml:5:50: "rocm" is next to "include", expected it in the included file'],
                     id="keys-beside"),
        pytest.param("{ include: ci/nested.yml }",
                     ["ci/nested.yml:2:1: an included file includes no other, expected the table of linux-rocm"],
                     id="nested"),
        pytest.param("{ include: fatwheel.yml }",
                     ["fatwheel.yml:5:26: this file includes itself, expected one with the table of linux-rocm"],
                     id="itself"),
    ],
)  # fmt: skip
def test_a_wrong_include_is_told_where_it_stands(tmp_path: Path, include: str, expected: list[str]) -> None:
    files = {"ci/rocm.yml": TABLE, "ci/blank.yml": "# later\n", "ci/nested.yml": "owner: me\ninclude: ci/rocm.yml\n"}
    found = mistakes(tmp_path, {**files, "fatwheel.yml": MAIN.replace("{ include: ci/rocm.yml }", include)})
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param("onwer: me\n", ['ci/rocm.yml:1:1: unknown key "onwer", did you mean "owner"?'], id="unknown-key"),
        pytest.param("- a\n", ["ci/rocm.yml:1:1: a list is not allowed, expected a mapping of what the ROCm platform"],
                     id="list"),
        pytest.param("rocm: [", ["ci/rocm.yml:1:8: this is not YAML: while parsing a flow node"], id="broken"),
        pytest.param("owner: a\nowner: b\nrocm: !x 1\n",
                     ['ci/rocm.yml:2:1: the key "owner" is here twice, first on line 1',
                      'ci/rocm.yml:3:7: the YAML tag "!x" is not allowed'], id="strict-as-the-config"),
        pytest.param("# a\nwheel-platform: win\n",
                     ['ci/rocm.yml:2:17: "win" is not a wheel platform of linux, expected one that starts with many'],
                     id="of-another-system"),
        pytest.param('native: ["[z-a]"]\narchs: [sm_90]\n',
                     ['ci/rocm.yml:1:10: "[z-a]" is not a path pattern', 'ci/rocm.yml:2:9: "sm_90" is not allowed'],
                     id="two-at-once"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_told_where_it_stands(tmp_path: Path, table: str, expected: list[str]) -> None:
    found = mistakes(tmp_path, {"fatwheel.yml": MAIN, "ci/rocm.yml": table})
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


def test_the_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    text = MAIN.replace("3.12", "3.99").replace("linux-cpu:", "windows: { include: ci/win.yml }") + "bulid: {}\n"
    found = mistakes(tmp_path, {"fatwheel.yml": text, "ci/rocm.yml": "a: 1\nb: 2\n", "ci/win.yml": "rocm: [7.1]\n"})
    assert [line.partition(" ")[0] for line in found] == [
        "fatwheel.yml:2:10:", "fatwheel.yml:6:1:", "ci/rocm.yml:1:1:", "ci/rocm.yml:2:1:", "ci/win.yml:1:1:"
    ]  # fmt: skip


def test_a_contradiction_is_told_where_the_platform_is_asked_for(tmp_path: Path) -> None:
    files = {"fatwheel.yml": MAIN, "ci/rocm.yml": TABLE.replace("rocm:", "# rocm:"), "a.hip": ""}
    with pytest.raises(InputError, match=r"^ci/rocm.yml:2:1: linux-rocm has native code \(a.hip\) and no version of"):
        plan_of(demo(tmp_path / "a", files))


def test_a_link_that_leads_out_of_the_source_is_refused(tmp_path: Path) -> None:
    outside = write(tmp_path, {"rocm.yml": TABLE}) / "rocm.yml"
    folder = write(tmp_path / "a", {"ci/x": ""})
    (folder / "ci/rocm.yml").symlink_to("../../rocm.yml")
    assert mistakes(folder, {"fatwheel.yml": MAIN}) == [
        f"fatwheel.yml:5:26: ci/rocm.yml leads out of the source, to {outside}"
    ]


def test_a_folder_that_is_a_link_out_of_the_source_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"ci/rocm.yml": TABLE})
    folder = write(tmp_path / "a", {"x": ""})
    (folder / "ci").symlink_to("../ci")
    assert "leads out of the source" in mistakes(folder, {"fatwheel.yml": MAIN})[0]


def test_a_link_within_the_source_is_followed(tmp_path: Path) -> None:
    folder = write(tmp_path, {"ci/mine.yml": TABLE})
    (folder / "ci/rocm.yml").symlink_to("mine.yml")
    assert rocm(load(folder, {"fatwheel.yml": MAIN})).where == "ci/mine.yml:2"


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, {"ci/x": ""})
    (folder / "ci/rocm.yml").symlink_to("rocm.yml")
    assert "there is no ci/rocm.yml" in mistakes(folder, {"fatwheel.yml": MAIN})[0]


def test_a_path_that_no_file_system_takes_is_refused(tmp_path: Path) -> None:
    found = mistakes(tmp_path, {"fatwheel.yml": MAIN.replace("ci/rocm.yml", "x" * 300)})
    assert "is not allowed, expected a path below" in found[0]


def test_the_command_line_refuses_it_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(write(tmp_path, {"fatwheel.yml": MAIN, "ci/rocm.yml": "owner: [a]\n"}))
    assert main(["plan"]) == 2
    assert capsys.readouterr().err.startswith("fatwheel: ci/rocm.yml:1:8: a list is not allowed, expected who")


# ---------------------------------------------------------------- what editors know


@pytest.mark.parametrize(
    ("table", "is_valid"),
    [
        pytest.param({"include": "ci/rocm.yml"}, True, id="an-include"),
        pytest.param({"owner": "me"}, True, id="a-table"),
        pytest.param(None, True, id="nothing"),
        pytest.param({"include": "/ci/rocm.yml"}, False, id="an-absolute-path"),
        pytest.param({"include": "ci/rocm.yml", "owner": "me"}, False, id="keys-beside-it"),
    ],
)
def test_the_schema_of_the_config_knows_includes(table: object, *, is_valid: bool) -> None:
    document = {"package": "demo", "python": ["3.12"], "platforms": {"linux-rocm": table}}
    assert Draft202012Validator(SCHEMA).is_valid(document) is is_valid


@pytest.mark.parametrize("kind", ["platform", "rocm-platform", "cuda-platform"])
def test_the_schema_has_a_part_for_a_file_by_itself(kind: str) -> None:
    alone = Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]})
    table = {"owner": "me", **({"cuda": ["13.0"], "archs": ["9.0"]} if kind == "cuda-platform" else {})}
    assert alone.is_valid(table)
    assert not alone.is_valid({**table, "include": "ci/other.yml"})
