"""Wheel variants: their wheels, their document, and the index that lists them.

It stays one file, although it is long: all start from the same release, whose bytes a variant must not change.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import loader
from ci_tools.errors import InputError, MachineError
from ci_tools.formats import receipts
from ci_tools.index import maintain
from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import parse_manifest
from ci_tools.index.objects.store import Content, FolderStore, Found
from ci_tools.index.pages import project_and_version, variant_label
from ci_tools.index.units import Item, JobEntry, Unit
from ci_tools.index.variants import SCHEMA, Variant, documents, dumps, variant_of, variants_of
from ci_tools.index.wheel_index import NIGHTLIES, WheelIndex
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.plan import SDIST
from ci_tools.model.platforms import Platform
from ci_tools.model.request import Channel, Edition
from ci_tools.publish import publishing
from ci_tools.publish.promotion import promote
from tests.builders.indexes import rewrite
from tests.builders.plans import job_of, plan_json
from tests.builders.releases import folder_index, item, publish, receipt, unit
from tests.builders.wheels import MACHINE, Links, edited, hexdigest, listed, make, members_of, recorded

PURE = "demo-1.0-py3-none-any.whl"
CPU = f"demo-1.0-cp310-abi3-linux_{MACHINE}.whl"
CUDA = f"demo-1.0+cu130-cp310-abi3-linux_{MACHINE}.whl"
LABEL = "cu130_sm90_sm100_ptx100"
VARIANT = f"demo-1.0-cp310-abi3-linux_{MACHINE}-{LABEL}.whl"
DOCUMENT = "demo-1.0-variants.json"
DRIVER = "nvidia :: cuda_version_lower_bound :: 13.0"
NEEDS = (DRIVER, *(f"nvidia :: sm_arch :: {value}" for value in ("100_real", "100_virtual", "90_real")))


def made(accelerator: str, *archs: str) -> JobEntry:
    return JobEntry("job", "native", "linux-cuda", "3.10", "2.10", accelerator, archs, "pypi", "", ())


def variants(items: tuple[Item, ...], folder: Path) -> tuple[Item, ...]:
    return variants_of(items, folder, catalog.load(), Silent().say)


@pytest.fixture
def release(tmp_path: Path) -> Unit:
    """A release with a pure wheel, one for CUDA, and its variant."""
    return release_of(tmp_path / "made")


def release_of(folder: Path, version: str = "1.0") -> Unit:
    names = {name.replace("1.0", version): name for name in (PURE, CUDA)}
    pure, cuda = (make(folder, name, {"demo.py": f"where = {was!r}\n".encode()}) for name, was in names.items())
    items = (item(pure), item(cuda, "cu130"))
    return replace(unit("demo", *items, version=version), variants=variants(items, folder / "variants"))


@pytest.fixture
def root(tmp_path: Path, release: Unit) -> Path:
    """An index that holds the release."""
    publish(folder_index(tmp_path / "index"), release)
    return tmp_path / "index"


def outside(folder: Path) -> Outside:
    return Outside(environ={}, cache=folder / "cache", reporter=Silent())


# ---------------------------------------------------------------- what a variant is called, and what it needs


@pytest.mark.parametrize(
    ("archs", "label", "values"),
    [
        pytest.param((), "cu130", "", id="unknown"),
        pytest.param(("7.5",), "cu130_sm75", "75_real", id="one"),
        pytest.param(("9.0", "10.0+PTX"), LABEL, "100_real 100_virtual 90_real", id="ptx"),
        pytest.param(("9.0a",), "cu130_sm90a", "90_real 90a_real", id="the-only-gpu-of-its-kind"),
        pytest.param(("10.0a", "12.0f"), "cu130_sm100a_sm120f", "100a_real 120f_real", id="one-chip-and-a-family"),
    ],
)
def test_a_variant_needs_its_driver_and_one_of_its_architectures(
    archs: tuple[str, ...], label: str, values: str
) -> None:
    needs = (DRIVER, *(f"nvidia :: sm_arch :: {value}" for value in values.split()))
    assert variant_of(made("cu130", *archs), catalog.load()) == Variant(label, needs)


@pytest.mark.parametrize("accelerator", ["", "rocm7.1", "xpu", "cu1300", "cu13", "cu99"])
def test_what_no_draft_has_words_for_is_no_variant(accelerator: str) -> None:
    assert variant_of(made(accelerator), catalog.load()) is None


def test_the_document_says_who_knows_what_a_machine_has() -> None:
    assert json.loads(dumps([Variant(LABEL, NEEDS)])) == {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": ["nvidia"]},
        "providers": {
            "nvidia": {
                "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
                "requires": ["nvidia-variant-provider"],
            }
        },
        "variants": {
            LABEL: {
                "nvidia": {
                    "cuda_version_lower_bound": ["13.0"],
                    "sm_arch": ["100_real", "100_virtual", "90_real"],
                }
            }
        },
    }


def test_the_document_is_the_same_whatever_came_first() -> None:
    both = [Variant(LABEL, NEEDS), Variant("cu126", ("nvidia :: cuda_version_lower_bound :: 12.6",))]
    assert dumps(both) == dumps(reversed(both))


@pytest.mark.parametrize(
    ("name", "label"),
    [
        (VARIANT, LABEL),
        ("demo-1.0-1-py3-none-any-cu130.whl", "cu130"),
        ("demo-1.0-py3-none-any-null.whl", "null"),
        (PURE, ""),
        ("demo-1.0-1-py3-none-any.whl", ""),
        ("demo-1.0.tar.gz", ""),
        ("demo-1.0-py3-none-any-CU130.whl", ""),
        ("demo-1.0-py3-none-any-cu130-x.whl", ""),
        ("a-b-c-d-e-f", ""),
    ],
)
def test_a_label_is_what_comes_after_the_tags(name: str, label: str) -> None:
    assert variant_label(name) == label
    if label:
        assert tuple(map(str, project_and_version(name))) == ("demo", "1.0")


# ---------------------------------------------------------------- the wheel


def test_a_variant_is_its_wheel_under_the_plain_version(release: Unit) -> None:
    wheel, (variant,) = release.items[1].path, release.variants
    before = {name.replace("1.0+cu130", "1.0"): data for name, data in members_of(wheel).items()}
    after = members_of(variant.path)
    metadata, own = "demo-1.0.dist-info/METADATA", "demo-1.0.dist-info/variant.json"
    before[metadata] = before[metadata].replace(b"Version: 1.0+cu130", b"Version: 1.0")
    sbom = "demo-1.0.dist-info/sboms/fatwheel.cdx.json"
    described = json.loads(after[sbom])["metadata"]["component"]
    assert (described["name"], described["version"], described["purl"]) == ("demo", "1.0", "pkg:pypi/demo@1.0")
    assert (variant.name, after[own]) == (VARIANT, dumps([Variant(LABEL, NEEDS)]))
    assert recorded({**before, own: after[own]}).keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {"demo-1.0.dist-info/RECORD", sbom}


def test_a_variant_has_the_same_bytes_each_time(release: Unit, tmp_path: Path) -> None:
    again = variants(release.items, tmp_path / "again")
    assert [one.sha256 for one in again] == [one.sha256 for one in release.variants]
    assert again[0].path.read_bytes() == release.variants[0].path.read_bytes()


def test_a_variant_that_is_there_is_not_made_again_unless_it_was_damaged(release: Unit, tmp_path: Path) -> None:
    path = release.variants[0].path
    before = path.stat().st_mtime_ns
    assert variants(release.items, tmp_path / "made" / "variants") == release.variants
    assert path.stat().st_mtime_ns == before
    path.write_bytes(b"half")
    assert variants(release.items, tmp_path / "made" / "variants") == release.variants


def test_a_wheel_that_changed_meanwhile_is_rejected(release: Unit, tmp_path: Path) -> None:
    release.items[1].path.write_bytes(b"other")
    with pytest.raises(MachineError, match="changed while it was published"):
        variants(release.items, tmp_path / "again")


@pytest.mark.parametrize(
    ("name", "folder", "accelerator"),
    [
        pytest.param(PURE, "", "", id="pure"),
        pytest.param("demo-1.0+rocm7.1-py3-none-any.whl", "rocm7.1", "rocm7.1", id="rocm"),
        pytest.param("demo-1.0+cu130torch2.10-py3-none-any.whl", "cu130torch2.10", "cu130", id="for-one-torch"),
    ],
)
def test_some_wheels_have_no_variant(name: str, folder: str, accelerator: str, tmp_path: Path) -> None:
    found = item(make(tmp_path, name), folder)
    assert found.made
    found = found._replace(made=found.made._replace(accelerator=accelerator))
    assert variants((found,), tmp_path / "variants") == ()


def test_a_cuda_wheel_without_a_local_version_has_a_variant_too(tmp_path: Path) -> None:
    assert [one.name for one in variants((item(make(tmp_path, CPU), "cu130"),), tmp_path / "variants")] == [VARIANT]


# ---------------------------------------------------------------- the index


def test_variants_are_listed_in_a_folder_of_their_own(root: Path) -> None:
    assert listed(root, "variants") == [VARIANT, PURE, DOCUMENT]
    assert [listed(root, folder) for folder in ("cpu", "cu130", "")] == [[PURE], [PURE, CUDA], [PURE]]
    assert (root / "variants" / DOCUMENT).read_bytes() == dumps([Variant(LABEL, NEEDS)])
    files = json.loads((root / "variants" / "demo" / "index.json").read_bytes())["files"]
    assert {"filename": DOCUMENT, "url": f"../{DOCUMENT}", "hashes": {}} in files
    assert {file["filename"]: file["hashes"].get("sha256") for file in files}[VARIANT] == hexdigest(
        root / "variants" / VARIANT
    )


def test_the_document_is_written_before_the_page_that_names_it(root: Path) -> None:
    target = folder_index(root)
    ledger = Ledger(target.store, "")
    keys = [page.keys[0] for page in target.writer.pages(ledger, ledger.manifest("demo"), ["variants"])]
    assert keys.index(f"variants/{DOCUMENT}") < keys.index("variants/demo/index.html")


def test_a_cpu_wheel_is_listed_beside_them_unless_its_version_is_a_later_one(tmp_path: Path) -> None:
    others = [make(tmp_path, name) for name in (CPU, CPU.replace("1.0", "1.0+cpu"))]
    found = release_of(tmp_path / "made")
    with_others = replace(found, items=(*found.items, *(item(path, "cpu") for path in others)))
    publish(folder_index(tmp_path / "index"), with_others)
    assert listed(tmp_path / "index", "variants") == [VARIANT, CPU, PURE, DOCUMENT]


def test_a_dry_run_says_which_variants_would_come(release: Unit, tmp_path: Path) -> None:
    target = folder_index(tmp_path / "index")
    told = {change.where.rpartition("/")[2]: change.what for change in target.check(release)}
    assert (told[VARIANT], told[DOCUMENT]) == ("add", "update")
    assert not (tmp_path / "index").exists()
    publish(target, release)
    assert {change.what for change in target.check(release)} == {"keep"}


def test_publishing_twice_changes_nothing(root: Path, release: Unit) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.suffix in {".whl", ".json", ".html"}}
    assert [file.new for file in publish(folder_index(root), release)] == [False, False, False]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_variants_can_come_later_and_change_no_published_byte(release: Unit, tmp_path: Path) -> None:
    target = folder_index(tmp_path / "index")
    publish(target, replace(release, variants=()))
    before = {path: path.read_bytes() for path in (tmp_path / "index").rglob("*.whl")}
    assert [file.new for file in publish(target, release)] == [False, False, True]
    assert {path: path.read_bytes() for path in before} == before


def test_a_second_platform_s_variants_join_those_of_the_first(root: Path, tmp_path: Path) -> None:
    wheel = item(make(tmp_path / "other", "demo-1.0+cu126-cp310-abi3-win_amd64.whl"), "cu126")
    publish(folder_index(root), replace(unit("demo", wheel), variants=variants((wheel,), tmp_path / "other")))
    labels = json.loads((root / "variants" / DOCUMENT).read_bytes())["variants"]
    assert sorted(labels) == ["cu126_sm90_sm100_ptx100", LABEL]


def test_a_variant_with_other_bytes_is_refused(root: Path, release: Unit) -> None:
    (variant,) = release.variants
    other = edited(variant.path, {"demo.py": b"where = 'elsewhere'\n"})
    changed = item(other)._replace(folder=variant.folder, variant=variant.variant)
    with pytest.raises(InputError, match=f"{LABEL}.whl is in .* already with other bytes"):
        publish(folder_index(root), replace(release, variants=(changed,)))


def test_the_name_of_a_variant_alone_makes_none(release: Unit, tmp_path: Path) -> None:
    nameless = release.variants[0]._replace(variant=())
    with pytest.raises(InputError, match="has the name of a wheel variant, and its properties are not known"):
        folder_index(tmp_path / "index").check(replace(release, items=(nameless,), variants=()))


def test_no_project_is_called_as_their_folder(tmp_path: Path) -> None:
    wheel = item(make(tmp_path, "variants-1.0-py3-none-any.whl"))
    with pytest.raises(InputError, match="a project cannot be called variants"):
        folder_index(tmp_path / "index").check(unit("variants", wheel))


@pytest.mark.parametrize("needs", [["x"], ["nvidia :: sm_arch :: <b>"], [], [1]])
def test_a_manifest_that_says_something_else_of_a_variant_is_damaged(
    needs: list[object], root: Path, release: Unit
) -> None:
    path = root / ".fatwheel" / "projects" / "demo.json"
    rewrite(path, json.dumps(NEEDS), json.dumps(needs))
    with pytest.raises(MachineError, match="is damaged"):
        publish(folder_index(root), release)


# ---------------------------------------------------------------- what a config asks for


PLATFORM = "package: demo\nplatforms:\n  linux-cuda: {cuda: ['13.0'], archs: ['9.0'], native: ['*.cu']}\n"


@pytest.mark.parametrize(
    ("text", "answer"), [("", "no"), ("publish: {variants: false}", "no"), ("publish: {variants: true}", "yes")]
)
def test_a_config_asks_for_variants_or_gets_none(text: str, answer: str, tmp_path: Path) -> None:
    (tmp_path / "fatwheel.yml").write_text(f"python: ['3.12']\ntorch: ['2.10']\n{PLATFORM}{text}\n")
    asked = loader.load(tmp_path / "fatwheel.yml", catalog.load()).publish.variants
    assert asked is (answer == "yes")


def test_variants_of_no_cuda_are_refused(tmp_path: Path) -> None:
    (tmp_path / "fatwheel.yml").write_text(
        "package: demo\npython: ['3.12']\nplatforms:\n  linux-cpu:\npublish: {variants: true}\n"
    )
    with pytest.raises(InputError, match="5:21: variants are made of CUDA wheels, and no platform asks for CUDA"):
        loader.load(tmp_path / "fatwheel.yml", catalog.load())


def test_a_folder_is_published_with_the_variants_its_plan_asks_for(tmp_path: Path) -> None:
    folder, to = built(tmp_path / "dist", asked=True), publishing.Destination((f"dir:{tmp_path / 'index'}",))
    publishing.publish(folder, to, outside(tmp_path))
    assert listed(tmp_path / "index", "variants") == [VARIANT, PURE, "demo-1.0.tar.gz", DOCUMENT]


def test_nothing_is_made_of_a_folder_whose_plan_asks_for_none(tmp_path: Path) -> None:
    folder, to = built(tmp_path / "dist", asked=False), publishing.Destination((f"dir:{tmp_path / 'index'}",))
    publishing.publish(folder, to, outside(tmp_path))
    assert list(tmp_path.rglob("variants*")) == []


def built(folder: Path, *, asked: bool) -> Path:
    """Return a folder of finished files, with the plan that they were built by."""
    jobs = (job_of(PURE), job_of(CUDA, Platform.LINUX_CUDA, "9.0", "10.0+PTX"))
    plan = plan_json("5" * 64, jobs, {Platform.LINUX_CUDA: True})
    plan["request"]["publish"]["variants"] = asked
    made = [make(folder, name) for name in (PURE, CUDA)]
    (folder / "demo-1.0.tar.gz").write_bytes(b"sdist")
    (folder / "plan.json").write_text(json.dumps(plan))
    for path in (*made, folder / "demo-1.0.tar.gz"):
        receipts.save(path, receipt(path, JOBS.get(path.name, SDIST)))
    return folder


JOBS = {PURE: "pure", CUDA: "linux-cuda-cu130"}


# ---------------------------------------------------------------- upkeep


def test_the_index_verifies_and_repairs_what_it_says_of_variants(root: Path, tmp_path: Path) -> None:
    target = folder_index(root)
    assert maintain.verify(target, outside(tmp_path)) == ()
    document = root / "variants" / DOCUMENT
    before = document.read_bytes()
    document.write_bytes(b"{}")
    assert [flaw.key for flaw in maintain.verify(target, outside(tmp_path))] == [f"variants/{DOCUMENT}"]
    maintain.repair(target, outside(tmp_path))
    assert document.read_bytes() == before


def test_a_lost_variant_is_listed_no_longer(root: Path, tmp_path: Path) -> None:
    (root / "variants" / VARIANT).unlink()
    maintain.repair(folder_index(root), outside(tmp_path), remove_unlisted=True)
    assert listed(root, "variants") == [PURE, DOCUMENT]  # what it says of a label stays true
    assert [flaw.key for flaw in maintain.verify(folder_index(root), outside(tmp_path))] == [f"variants/{VARIANT}"]


def test_a_yanked_release_is_yanked_with_its_variants(root: Path) -> None:
    assert VARIANT in maintain.yank(folder_index(root), "demo==1.0", "it broke")
    page = (root / "variants" / "demo" / "index.html").read_text()
    assert page.count('data-yanked="it broke"') == 2


def test_a_candidate_is_promoted_with_its_variants(release: Unit, tmp_path: Path) -> None:
    publish(folder_index(tmp_path / "index"), replace(release, edition=Edition(Channel.TEST, 1)))
    stable = folder_index(tmp_path / "stable")
    promote(folder_index(tmp_path / "index" / "test"), [stable], "demo==1.0", outside(tmp_path))
    assert listed(tmp_path / "stable", "variants") == [VARIANT, PURE, DOCUMENT]
    assert hexdigest(tmp_path / "stable" / "variants" / VARIANT) == release.variants[0].sha256


def test_an_old_nightly_goes_with_its_variants(tmp_path: Path) -> None:
    target, edition = folder_index(tmp_path / "index"), Edition(Channel.NIGHTLY, date="20260101")
    oldest = replace(release_of(tmp_path / "made", "1.0.dev1"), edition=edition)
    publish(target, oldest)
    place = tmp_path / "index" / "nightly" / "variants"
    assert (place / "demo-1.0.dev1-variants.json").exists()
    newer = [item(make(tmp_path / "newer", f"demo-2.0.dev{number}-py3-none-any.whl")) for number in range(NIGHTLIES)]
    publish(target, unit("demo", *newer, edition=edition))
    assert [path.name for path in place.glob("demo-*")] == []


def test_a_manifest_without_variants_has_no_document(root: Path) -> None:
    manifest = Ledger(folder_index(root).store, "").manifest("demo")
    assert list(documents(manifest)) == [DOCUMENT]
    files = {name: file for name, file in manifest.files.items() if not file.variant}
    assert documents(manifest._replace(files=files)) == {}
    assert parse_manifest(manifest.dumps(), "demo") == manifest


__all__ = ["release", "root"]  # fixtures


class Breaking(FolderStore):
    """A folder that breaks down when so many things have been written to it."""

    def __init__(self, root: Path, writes: int) -> None:
        super().__init__(root, Silent())
        self.left = writes

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content at a key, unless it is one too many."""
        self.left -= 1
        if self.left < 0:
            raise OSError(key)
        return super().put(key, content, instead_of=instead_of, generation=generation)


@pytest.mark.slow
def test_wherever_publishing_stops_no_page_names_what_is_not_there_and_a_retry_finishes(
    release: Unit, tmp_path: Path
) -> None:
    publish(folder_index(tmp_path / "whole"), release)
    for writes in range(100):
        root = tmp_path / str(writes)
        try:
            publish(WheelIndex(Breaking(root, writes), order=0), release)
        except OSError:
            assert missing(root) == []
        else:
            break
        publish(folder_index(root), release)
        assert names_in(root) == names_in(tmp_path / "whole")
    assert writes > 20


def missing(root: Path) -> list[Path]:
    """Return what the variants' page names and is not there."""
    page = root / "variants" / "demo" / "index.html"
    return [file for file, _ in Links(page).found if not file.is_file()] if page.exists() else []


def names_in(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
