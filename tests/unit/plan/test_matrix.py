from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ci_tools import catalog
from ci_tools.errors import InputError
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.request import HOSTED_MINUTES, Care
from ci_tools.plan import matrix, plan_file
from tests.builders.sources import demo, plan_of

FILES = {
    "fatwheel.yml": """\
package: demo
python: ["3.12", "3.13"]
platforms:
  linux-cuda: {owner: "@demo/cuda", native: ["*.cu"], cuda: ["13.0"], archs: ["9.0"], gpu-runner: [self-hosted, h100]}
  linux-cpu:
  windows: {runner: [self-hosted, win]}
build: {timeout-minutes: 90}
validate: {imports: [demo], commands: [demo], timeout-seconds: 300}
""",
    "pyproject.toml": '[build-system]\nbuild-backend="flit_core.buildapi"\n[project]\nname="demo"\nversion="1.0"\n',
    "demo.py": "",
    "k.cu": "int f;\n",
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_of(demo(tmp_path_factory.mktemp("matrix") / "source", FILES), tag="v1.0")


def rows(plan: Plan, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(matrix.outputs(plan)[name])["include"]
    return found


def test_a_workflow_learns_what_it_needs_on_one_line_each(plan: Plan) -> None:
    found = matrix.outputs(plan)
    assert {key: found[key] for key in ("project", "version", "channel", "any", "changed")} == {
        "project": "demo",
        "version": "1.0",
        "channel": "stable",
        "any": "true",
        "changed": "true",
    }
    assert not [value for value in found.values() if "\n" in value]


def test_the_sdist_is_built_with_the_wheel_it_is_held_against(plan: Plan) -> None:
    assert [row["jobs"] for row in rows(plan, "builds")][:1] == ["sdist,pure"]
    assert all("sdist" not in row["jobs"] for row in rows(plan, "builds")[1:])


def test_every_job_has_a_row_and_every_row_all_that_a_runner_is_chosen_by(plan: Plan) -> None:
    found = rows(plan, "builds")
    assert [row["name"] for row in found] == [job.name for job in plan.jobs]
    native = found[1]
    assert (native["platform"], native["owner"], native["required"]) == ("linux-cuda", "@demo/cuda", False)
    assert native["container"] == "pytorch/manylinux2_28-builder:cpu"
    assert found[0]["container"] == ""


@pytest.mark.parametrize(
    ("care", "container", "root"),
    [
        pytest.param(Care(), "image", "", id="none"),
        pytest.param(Care(job_memory_gib=4), "image", "", id="memory-needs-no-room"),
        pytest.param(Care(free_disk=True), {"image": "image", "volumes": ["/:/host"]}, "/host", id="disk"),
        pytest.param(
            Care(swap_gib=8),
            {"image": "image", "volumes": ["/:/host"], "options": "--privileged"},
            "/host",
            id="swap",
        ),
    ],
)
def test_a_container_sees_its_runner_s_disk_where_that_needs_room(
    plan: Plan, care: Care, container: object, root: str
) -> None:
    job = replace(plan.jobs[1], container="image", care=care)
    row = rows(replace(plan, jobs=(plan.jobs[0], job), sites=()), "builds")[1]
    assert (row["container"], row["root"]) == (container, root)


def test_a_runner_with_several_labels_is_a_list(plan: Plan) -> None:
    runners = [row["runner"] for row in rows(plan, "sites")]
    assert ["self-hosted", "h100"] in runners
    assert ["self-hosted", "win"] in runners
    assert "ubuntu-24.04" in runners


def test_each_site_knows_which_row_has_built_its_files(plan: Plan) -> None:
    built = {row["name"] for row in rows(plan, "builds")}
    found = rows(plan, "sites")
    assert all(row["built"] in built for row in found)
    assert [row["number"] for row in found] == list(range(len(found)))
    assert [row["name"] for row in found] == [site.name for site in plan.sites]


def test_a_site_has_time_for_all_that_it_tries(plan: Plan) -> None:
    minutes = {row["name"].partition(" ")[0]: row["minutes"] for row in rows(plan, "sites")}
    assert minutes["pure"] == matrix.INSTALLING + 2 * 5
    assert minutes["sdist"] == matrix.INSTALLING + 90


def test_a_build_ends_by_its_own_clock_before_its_runner_ends_it(plan: Plan) -> None:
    minutes = {row["jobs"]: row["minutes"] for row in rows(plan, "builds")}
    assert minutes["sdist,pure"] == matrix.INSTALLING + 2 * 90
    assert all(found > 90 for found in minutes.values())


def test_a_plan_without_jobs_has_nothing_to_build(plan: Plan) -> None:
    found = matrix.outputs(replace(plan, jobs=(), sites=()))
    assert (found["any"], found["builds"]) == ("false", '{"include":[]}')


def test_a_platform_s_own_pipeline_makes_its_native_wheels_alone(plan: Plan) -> None:
    own = plan_file.own(plan_file.only(plan, Platform.LINUX_CUDA), Platform.LINUX_CUDA)
    assert [row["name"] for row in rows(own, "builds")] == [job.name for job in plan.jobs if job.name != "pure"]
    assert all(row["name"].startswith("linux-cuda") for row in rows(own, "sites"))
    assert not plan_file.own(plan_file.only(plan, Platform.WINDOWS), Platform.WINDOWS).jobs


def many(plan: Plan, count: int, minutes: int = 90) -> Plan:
    """Return a plan of `count` jobs that differ in nothing but their names, each tried at one place."""
    job, site = plan.jobs[1], next(site for site in plan.sites if site.job == plan.jobs[1].name)
    jobs = [replace(job, name=f"j{number}", wheel=f"{number}.whl", minutes=minutes) for number in range(count)]
    sites = [replace(site, name=f"s{job.name}", job=job.name, files=(job.wheel,)) for job in jobs]
    return replace(plan, jobs=tuple(jobs), sites=tuple(sites))


def test_as_many_rows_as_github_runs_stay_apart(plan: Plan) -> None:
    found = many(plan, 256)
    assert [row["jobs"] for row in rows(found, "builds")] == [job.name for job in found.jobs]
    assert not any(row["several"] for name in ("builds", "sites") for row in rows(found, name))


def test_more_jobs_than_github_runs_are_built_in_turn_and_tried_in_turn(plan: Plan) -> None:
    found = many(plan, 600)
    together, tried = rows(found, "builds"), rows(found, "sites")
    assert [name for row in together for name in row["jobs"].split(",")] == [job.name for job in found.jobs]
    assert [int(word) for row in tried for word in row["numbers"].split()] == list(range(600))
    assert (len(together), len(tried)) == (200, 200)
    assert max(row["minutes"] for row in together) == matrix.INSTALLING + 3 * 90 <= HOSTED_MINUTES
    names = {row["name"] for row in together}
    assert all(set(row["built"].strip("{}").split(",")) <= names for row in tried)
    assert together[0]["name"] == "j0 and 2 more"


def test_rows_that_ask_for_other_runners_are_never_put_together(plan: Plan) -> None:
    found = many(plan, 300)
    own = tuple(replace(job, runner=("own",)) if number % 2 else job for number, job in enumerate(found.jobs))
    for row in rows(replace(found, jobs=own), "builds"):
        assert {int(name[1:]) % 2 for name in row["jobs"].split(",")} == {int(row["runner"] == "own")}


def numbers(rows: Sequence[dict[str, Any]]) -> list[int]:
    """Return the numbers of the sites that rows of trials have."""
    return sorted(int(word) for row in rows for word in row["numbers"].split())


def test_trials_share_a_runner_of_their_kind_whatever_their_python(plan: Plan) -> None:
    found = matrix.trials(plan, {name for site in plan.sites for name in site.files}, plan).rows
    assert numbers(found) == list(range(len(plan.sites)))
    assert [(row["runner"], row["python"], row["required"]) for row in found] == [
        ("ubuntu-24.04", "3.12\n3.13", True),
        (["self-hosted", "win"], "3.12\n3.13", True),
        (["self-hosted", "h100"], "3.12\n3.13", False),
    ]
    assert found[0]["minutes"] == matrix.INSTALLING + 90 + 2 * 2 * 5


def test_a_runner_has_twelve_trials_and_no_more_than_its_time(plan: Plan) -> None:
    found = many(plan, 30)
    files = {name for site in found.sites for name in site.files}
    assert [len(row["numbers"].split()) for row in matrix.trials(found, files, found).rows] == [12, 12, 6]
    hour = found.request.validate._replace(timeout_seconds=3600)
    long = replace(found, request=replace(found.request, validate=hour))
    assert all(row["minutes"] <= HOSTED_MINUTES for row in matrix.trials(long, files, long).rows)


def test_what_a_release_costs_is_counted_by_the_kind_of_runner(plan: Plan) -> None:
    found = matrix.list_runners(plan, catalog.load().tables["minutes"]["jobs"])
    builds, limits = rows(plan, "builds"), catalog.load().tables["minutes"]["jobs"]
    assert {one.runner: one.jobs for one in found} == {
        "ubuntu-24.04": 5 + len(builds) + 1, "self-hosted win": 1, "self-hosted h100": 1,
    }  # fmt: skip
    own = sum(limits[name] for name in ("plan", "trials", "gather", "attest", "publish"))
    assert found[0].minutes == own + sum(row["minutes"] for row in builds) + matrix.INSTALLING + 90 + 2 * 2 * 5


def test_a_failed_wheel_starts_no_trial(plan: Plan) -> None:
    native, *_ = (job for job in plan.jobs if job.owner)
    files = {plan.sdist, *(job.wheel for job in plan.jobs if job is not native)}
    found = matrix.trials(plan, files, plan)
    assert found.unbuilt == (native.name,)
    assert numbers(found.rows) == [n for n, site in enumerate(plan.sites) if site.job != native.name]


def test_a_site_of_one_platform_has_its_number_in_the_whole_plan(plan: Plan) -> None:
    native = next(job for job in plan.jobs if job.platform)
    part = plan_file.own(plan, native.platform)
    found = matrix.trials(part, {job.wheel for job in part.jobs}, plan)
    assert {plan.sites[number].job for number in numbers(found.rows)} == {job.name for job in part.jobs}


def test_without_a_wheel_there_is_no_trial(plan: Plan) -> None:
    found = matrix.trials(plan, {plan.sdist}, plan)
    assert found.outputs() == {"any": "false", "sites": '{"include":[]}'}
    assert found.unbuilt == tuple(job.name for job in plan.jobs)


def test_matrices_that_are_too_large_for_github_are_refused(plan: Plan) -> None:
    site = replace(plan.sites[1], name="x" * 10_000)
    with pytest.raises(InputError, match="GitHub takes 1048576 from a job"):
        matrix.outputs(replace(plan, sites=(site,) * 250))


def test_each_shard_has_a_row_and_its_job_knows_how_many_there_are(plan: Plan) -> None:
    jobs = (replace(plan.jobs[0], shards=3), *plan.jobs[1:])
    found, name = rows(replace(plan, jobs=jobs), "shards"), jobs[0].name
    assert [(row["name"], row["job"], row["shard"], row["folder"]) for row in found] == [
        (f"{name} {number}/3", name, f"{number}/3", f"{number}-of-3") for number in (1, 2, 3)
    ]
    assert {row["shards"] for row in rows(replace(plan, jobs=jobs), "builds")} == {1, 3}
    assert (rows(plan, "shards"), matrix.outputs(plan)["sharded"]) == ([], "false")


def test_more_shards_than_a_matrix_takes_are_refused(plan: Plan) -> None:
    jobs = tuple(replace(job, shards=200) for job in plan.jobs[:2])
    with pytest.raises(InputError, match="the plan has 400 shards, and GitHub runs 256 jobs of one matrix"):
        matrix.outputs(replace(plan, jobs=jobs, sites=()))
