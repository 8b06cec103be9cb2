"""Stands for actions/deploy-pages: unpacks the run's artifact to a shared folder, by the rules of the real one."""

from __future__ import annotations

from standin import INPUTS, hand_on, refuse, shared

from ci_tools.formats.tar import tarfile


def main() -> None:
    name = INPUTS["artifact_name"]
    artifact = shared("artifacts") / name / "artifact.tar"
    if not artifact.is_file():
        refuse(f'No artifacts named "{name}" were found for this workflow run. Ensure artifacts are uploaded with it')
    with tarfile.open(artifact) as archive:
        archive.extractall(shared("pages"), filter="data")
    hand_on(page_url="http://127.0.0.1/pages/")


main()
