from __future__ import annotations

import io
import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import Rejected, RejectedInput
from ci_tools.formats import receipts
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.files import Outcome, Receipt, Trial, Validated
from ci_tools.model.plan import Plan
from ci_tools.plan import plan_file
from ci_tools.publish import assembly
from ci_tools.publish.gathering import UNSEEN, gather
from tests.builders.releases import receipt
from tests.builders.sources import PROJECT, demo, plan_of
from tests.builders.wheels import make

PURE, SDIST = "demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz"
FILES = {
    "fatwheel.yml": """\
package: demo
python: ["3.12", "3.13"]
platforms:
  linux-cpu:
  linux-cuda: {owner: "@demo/cuda", native: ["*.cu"], cuda: ["13.0"], archs: ["9.0"], wheel-platform: linux}
publish: {pypi: wheels}
""",
    "pyproject.toml": PROJECT,
    "demo.py": "",
    "k.cu": "int f;\n",
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_of(demo(tmp_path_factory.mktemp("gathering") / "source", FILES), tag="v1.0")


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(environ={}, cache=tmp_path / "cache", reporter=Silent())


def noted(plan: Plan, path: Path, job: str, *places: Validated) -> Receipt:
    return receipts.save(path, replace(receipt(path, job), source=plan.pins.source_sha256, validated=places))


def sites_of(plan: Plan, file: str) -> list[str]:
    return [site.name for site in plan.sites if file in site.tried]


def passed(site: str) -> Validated:
    return Validated(site, "key", (Trial("import demo", Outcome.PASSED),))


@pytest.fixture
def built(plan: Plan, tmp_path: Path) -> Path:
    """What a builder left: the wheel and the sdist, in the folder of its artifact."""
    folder = tmp_path / "built" / "fatwheel-built-pure"
    noted(plan, make(folder, PURE), "pure")
    shutil.copy(Path(__file__), folder / SDIST)
    noted(plan, folder / SDIST, "sdist")
    return tmp_path / "built"


def tried(plan: Plan, built: Path, folder: Path, file: str, *places: Validated) -> Path:
    """Leave a receipt without its file, as a validator does."""
    found = receipts.load(next(built.rglob(file)))
    assert found
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    receipts.save(folder / file, replace(found, validated=places))
    assert plan
    return folder.parent


@pytest.mark.slow
def test_what_several_machines_made_and_tried_comes_together(
    plan: Plan, built: Path, tmp_path: Path, outside: Outside
) -> None:
    first, *others = sites_of(plan, PURE)
    tried(plan, built, tmp_path / "tried" / "0", PURE, passed(first))
    for number, site in enumerate(others, start=1):
        tried(plan, built, tmp_path / "tried" / str(number), PURE, passed(site))
    paths = gather([built, tmp_path / "tried"], plan, tmp_path / "dist", outside)
    assert [path.name for path in paths] == [PURE, SDIST]
    found = receipts.load(tmp_path / "dist" / PURE)
    assert found
    assert [place.where for place in found.validated] == [first, *others]
    assert found.trials == (Trial("import demo", Outcome.PASSED),) * (1 + len(others))


@pytest.mark.slow
def test_a_site_that_nothing_was_heard_from_has_failed(
    plan: Plan, built: Path, tmp_path: Path, outside: Outside
) -> None:
    first, *others = sites_of(plan, PURE)
    tried(plan, built, tmp_path / "tried" / "0", PURE, passed(first))
    gather([built, tmp_path / "tried"], plan, tmp_path / "dist", outside)
    found = receipts.load(tmp_path / "dist" / PURE)
    assert found
    assert [place.trials for place in found.validated if place.where in others] == [(UNSEEN,)] * len(others)
    assert not found.is_sound


@pytest.mark.slow
def test_what_a_receipt_says_of_an_audit_or_of_no_site_is_not_taken(
    plan: Plan, built: Path, tmp_path: Path, outside: Outside
) -> None:
    path = next(built.rglob(PURE))
    noted(plan, path, "pure", passed("a site of nobody's"))
    gather([built], plan, tmp_path / "dist", outside)
    found = receipts.load(tmp_path / "dist" / PURE)
    assert found
    assert not found.audited
    assert "a site of nobody's" not in [place.where for place in found.validated]


@pytest.mark.slow
@pytest.mark.parametrize("liar", ["0", "2"])
def test_a_pass_that_others_claim_hides_no_failure(
    plan: Plan, built: Path, tmp_path: Path, outside: Outside, liar: str
) -> None:
    first = sites_of(plan, PURE)[0]
    failed = Validated(first, "key", (Trial("import demo", Outcome.FAILED, "no"),))
    tried(plan, built, tmp_path / "tried" / "1", PURE, failed)
    tried(plan, built, tmp_path / "tried" / liar, PURE, *map(passed, sites_of(plan, PURE)))
    gather([built, tmp_path / "tried"], plan, tmp_path / "dist", outside)
    found = receipts.load(tmp_path / "dist" / PURE)
    assert found
    assert (found.at(first), found.is_sound) == (failed, False)


@pytest.mark.slow
def test_a_builder_that_claims_findings_and_an_audit_is_audited_again(
    plan: Plan, built: Path, filed: Path, tmp_path: Path, outside: Outside
) -> None:
    path = next(built.rglob(PURE))
    bad = make(path.parent, PURE, {"demo.py": b"", "demo/_C.so": b"\x7fELF"})
    claimed = noted(plan, bad, "pure", *map(passed, sites_of(plan, PURE)))
    receipts.save(bad, replace(claimed, audited=True))
    with pytest.raises(Rejected) as refused:
        assembly.assemble([built], filed, tmp_path / "dist", "", outside)
    assert f"{PURE}: it was rejected" in refused.value.message


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"version": "2.0"}, {"sha256": "0" * 64}, {"size": 1}, {"file": SDIST}])
def test_a_receipt_of_another_run_is_not_believed(
    plan: Plan, built: Path, filed: Path, tmp_path: Path, outside: Outside, change: dict[str, object]
) -> None:
    path = next(built.rglob(PURE))
    found = noted(plan, path, "pure", *map(passed, sites_of(plan, PURE)))
    receipts.save(path, replace(found, **change))  # type: ignore[arg-type]
    with pytest.raises((Rejected, RejectedInput), match=r"no receipt of its present bytes|for another version"):
        assembly.assemble([built], filed, tmp_path / "dist", "", outside)


@pytest.mark.slow
def test_a_receipt_of_other_bytes_says_nothing(plan: Plan, built: Path, tmp_path: Path, outside: Outside) -> None:
    other = make(tmp_path / "other", PURE, {"demo.py": b"other = 1\n"})
    noted(plan, other, "pure", *map(passed, sites_of(plan, PURE)))
    other.unlink()
    gather([built, tmp_path / "other"], plan, tmp_path / "dist", outside)
    found = receipts.load(tmp_path / "dist" / PURE)
    assert found
    assert set(found.trials) == {UNSEEN}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param(lambda path: path.write_bytes(b"x"), "it has no receipt of its present bytes", id="tampered"),
        pytest.param(lambda path: receipts.path_of(path).unlink(), "it has no receipt", id="no-receipt"),
        pytest.param(
            lambda path: path.rename(path.with_name("demo-2.0-py3-none-any.whl")),
            'the plan has no such file, did you mean "demo-1.0-py3-none-any.whl"',
            id="another-version",
        ),
        pytest.param(
            lambda path: receipts.save(path, replace(receipts.load(path), job="sdist")),  # type: ignore[type-var]
            "it is of another job",
            id="another-job",
        ),
        pytest.param(
            lambda path: receipts.save(path, replace(receipts.load(path), source="0" * 64)),  # type: ignore[type-var]
            "of another source",
            id="another-source",
        ),
    ],
)
def test_what_is_not_the_plan_s_is_refused(
    plan: Plan, built: Path, tmp_path: Path, outside: Outside, spoil: object, said: str
) -> None:
    assert callable(spoil)
    spoil(next(built.rglob(PURE)))
    with pytest.raises(RejectedInput) as refused:
        gather([built], plan, tmp_path / "dist", outside)
    assert said in refused.value.message
    assert not (tmp_path / "dist").exists()


@pytest.mark.slow
def test_other_bytes_under_one_name_are_refused(plan: Plan, built: Path, tmp_path: Path, outside: Outside) -> None:
    noted(plan, make(tmp_path / "again", PURE, {"demo.py": b"other = 1\n"}), "pure")
    with pytest.raises(RejectedInput, match="it has other bytes than"):
        gather([built, tmp_path / "again"], plan, tmp_path / "dist", outside)


def test_the_same_bytes_twice_are_one_file(plan: Plan, built: Path, tmp_path: Path, outside: Outside) -> None:
    shutil.copytree(built, tmp_path / "again")
    assert len(gather([built, tmp_path / "again"], plan, tmp_path / "dist", outside)) == 2


def test_a_link_is_no_file(plan: Plan, built: Path, tmp_path: Path, outside: Outside) -> None:
    path = next(built.rglob(PURE))
    path.rename(tmp_path / PURE)
    path.symlink_to(tmp_path / PURE)
    with pytest.raises(RejectedInput, match="it has no receipt of its present bytes"):
        gather([built], plan, tmp_path / "dist", outside)


def test_of_a_run_in_which_all_failed_everything_is_missing(filed: Path, tmp_path: Path, outside: Outside) -> None:
    with pytest.raises(Rejected) as refused:
        assembly.assemble([tmp_path / "none"], filed, tmp_path / "dist", "", outside)
    assert f"{PURE}, of the job pure, is missing" in refused.value.message
    assert (tmp_path / "dist" / "plan.json").is_file()


# ---------------------------------------------------------------- a release out of it


@pytest.fixture
def filed(plan: Plan, tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(plan_file.dumps(plan), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_release_that_is_not_whole_is_bad_and_says_what_is_missing(
    built: Path, filed: Path, tmp_path: Path, outside: Outside
) -> None:
    with pytest.raises(Rejected) as refused:
        assembly.assemble([built], filed, tmp_path / "dist", "", outside)
    assert "no result was received from there (pure on ubuntu-24.04, Python 3.12)" in refused.value.message
    assert (tmp_path / "dist" / "plan.json").read_bytes() == filed.read_bytes()


@pytest.mark.slow
def test_an_optional_platform_that_is_missing_is_withheld(
    plan: Plan, built: Path, filed: Path, tmp_path: Path, outside: Outside
) -> None:
    tried(plan, built, tmp_path / "tried" / "0", PURE, *map(passed, sites_of(plan, PURE)))
    tried(plan, built, tmp_path / "tried" / "1", SDIST, *map(passed, sites_of(plan, SDIST)))
    made_by(plan, built)
    found = assembly.assemble([built, tmp_path / "tried"], filed, tmp_path / "dist", "", outside)
    assert [unit.name for unit in found.units] == ["core"]
    assert [one.name for one in found.withheld] == ["linux-cuda"]
    assert json.loads(assembly.outputs(found)["withheld"]) == ["linux-cuda"]
    assembly.copy_for_pypi(found, tmp_path / "pypi")
    assert sorted(path.name for path in (tmp_path / "pypi").iterdir()) == [PURE, SDIST]


def made_by(plan: Plan, built: Path) -> None:
    """Leave a real sdist in place of the stand-in, with a receipt that says the same."""
    path = next(built.rglob(SDIST))
    content = {"PKG-INFO": b"Metadata-Version: 2.2\nName: demo\nVersion: 1.0\n", "pyproject.toml": b"", "demo.py": b""}
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, data in content.items():
            info = tarfile.TarInfo(f"demo-1.0/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    noted(plan, path, "sdist", *map(passed, sites_of(plan, SDIST)))
