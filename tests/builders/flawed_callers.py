"""Flaws of a caller's workflows, each as a job or a file that is added to any repository, and the rule that sees it.

The line that has to be named ends with `# here`.
"""

from __future__ import annotations

from typing import NamedTuple

FATWHEEL = "octo/fatwheel/.github/workflows"
OWN = "@v0.1.0"  # the version of this package, whose workflows it has
SIGNS = "permissions: { contents: read, id-token: write, attestations: write }"
APART = "      artifacts: seeded\n"  # from those of another call in the run
OF_ANOTHER_RUN = """\
    permissions: { actions: read, attestations: read, contents: write }
    with: { run-id: "5" }
"""
PYPI = "pypa/gh-action-pypi-publish@dc37677b2e1c63e2034f94d8a5b11f265b73ba33 # v1.14.2"
UPLOAD = "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1"
DOWNLOAD = "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"
RUNS = "runs-on: ubuntu-24.04"


class Flaw(NamedTuple):
    """What is added: jobs for the release's workflow, and files; and what has to be said of it."""

    rule: str
    edit: str  # words of the edit that is offered
    jobs: str = ""
    files: dict[str, str] = {}  # noqa: RUF012 - nobody changes it


def workflow(jobs: str, on: str = "workflow_dispatch", more: str = "") -> str:
    return f"on: {on}\npermissions: {{}}\n{more}jobs:\n{jobs}"


def job(name: str, steps: str, more: str = "", runs: str = RUNS) -> str:
    lines = "".join(f"      - {{ {step} }}\n" if "\n" not in step else step for step in steps.split("; "))
    return f"  {name}:\n    {runs}\n{more}    steps:\n{lines}"


CALLED = ".github/workflows/seeded-called.yml"
SEEDED = ".github/workflows/seeded.yml"
TAKES_A_SECRET = "{ workflow_call: { secrets: { token: { required: true } } } }"
ROWS = "    strategy: { matrix: { python: ['3.12', '3.13'] } }\n"

FLAWS: dict[str, Flaw] = {
    "an-input-left-out": Flaw(
        "input-missing",
        "platform",
        f"  seeded: # here\n    {SIGNS[:-2]}, issues: write }}\n    uses: {FATWHEEL}/platform.yml{OWN}\n",
    ),
    "an-input-misspelt": Flaw(
        "input-unknown",
        'did you mean "config"?',
        f"  seeded:\n    {SIGNS}\n    uses: {FATWHEEL}/wheels.yml{OWN}\n    with:\n      confg: fatwheel.yml # here\n{APART}",
    ),
    "an-input-of-another-type": Flaw(
        "input-type",
        "a number",
        f"  seeded:\n    {SIGNS}\n    uses: {FATWHEEL}/wheels.yml{OWN}\n    with:\n      retention-days: many # here\n{APART}",
    ),
    "a-default-that-is-no-option": Flaw(
        "input-type",
        'one of "stable"',
        files={
            SEEDED: workflow(
                job("a", "run: 'true'"),
                "\n  workflow_dispatch:\n    inputs:\n      channel:\n        type: choice\n        options: [stable, test]\n"
                "        default: nightly # here",
            )
        },
    ),
    "an-input-of-an-action-misspelt": Flaw(
        "input-unknown",
        'did you mean "if-no-files-found"?',
        f"  seeded:\n    {RUNS}\n    steps:\n      - uses: {UPLOAD}\n        with:\n          name: seeded\n          path: dist\n"
        "          if-no-file-found: error # here\n",
    ),
    "a-workflow-that-is-not-there": Flaw(
        "not-there", "did you mean", "  seeded:\n    uses: ./.github/workflows/relaese.yml # here\n"
    ),
    "a-workflow-that-nobody-can-call": Flaw(
        "not-callable",
        "on: workflow_call",
        f"  seeded:\n    uses: ./{CALLED} # here\n",
        {CALLED: workflow(job("a", "run: 'true'"))},
    ),
    "a-grant-too-few": Flaw(
        "permissions",
        "permissions: {",
        f"  seeded: # here\n    permissions: {{ contents: read }}\n    uses: {FATWHEEL}/wheels.yml{OWN}\n    with:\n{APART}",
    ),
    "a-grant-too-few-two-calls-deep": Flaw(
        "permissions",
        "id-token: write",
        f"  seeded: # here\n    permissions: {{ contents: read, attestations: write }}\n    uses: ./{CALLED}\n",
        {
            CALLED: f"on: {{ workflow_call: }}\njobs:\n  a:\n    {SIGNS}\n    uses: ./.github/workflows/seeded-deeper.yml\n",
            ".github/workflows/seeded-deeper.yml": f"on: {{ workflow_call: }}\njobs:\n{job('a', 'run: x', f'    {SIGNS}' + chr(10))}",
        },
    ),
    "a-step-without-its-right": Flaw(
        "permissions",
        "contents: write",
        f"  seeded: # here\n    {RUNS}\n    if: github.ref_type == 'tag'\n    permissions: {{}}\n    steps: [{{ run: gh release create v1 }}]\n",
    ),
    "a-secret-not-passed": Flaw(
        "secret-not-passed",
        "secrets: { token:",
        f"  seeded: # here\n    uses: ./{CALLED}\n",
        {CALLED: workflow(job("a", "run: x", "    env: { T: '${{ secrets.token }}' }\n"), TAKES_A_SECRET)},
    ),
    "a-secret-that-nobody-takes": Flaw(
        "secret-unknown",
        'did you mean "pypi-token"?',
        f"  seeded:\n    if: github.ref_type == 'tag' && vars.outputs.channel\n    uses: {FATWHEEL}/publish.yml{OWN}\n{OF_ANOTHER_RUN}"
        "    secrets:\n      pypi-tokn: ${{ secrets.PYPI }} # here\n",
    ),
    "secrets-that-are-lost-on-the-way": Flaw(
        "secret-name",
        "on: workflow_call: secrets: TOKEN",
        f"  seeded:\n    uses: ./{CALLED}\n",
        {
            CALLED: f"on: {{ workflow_call: }}\njobs:\n  a:\n    {RUNS}\n    steps:\n      - run: x\n        env:\n          T: ${{{{ secrets.TOKEN }}}} # here\n"
        },
    ),
    "secrets-inherited-by-another-owner": Flaw(
        "inherit-elsewhere",
        "name them",
        f"  seeded:\n    if: github.ref_type == 'tag' && vars.outputs.channel\n    uses: {FATWHEEL}/publish.yml{OWN}\n{OF_ANOTHER_RUN}"
        "    secrets: inherit # here\n",
    ),
    "a-need-that-there-is-not": Flaw(
        "needs", "did you mean", "  seeded:\n    needs: seded # here\n" + job("x", "run: x")[5:]
    ),
    "a-job-that-is-not-needed": Flaw(
        "not-needed",
        "needs: seeded",
        job("seeded", "run: x") + job("after", "run: x", "    env:\n      A: ${{ needs.seeded.result }} # here\n"),
    ),
    "an-output-that-there-is-not": Flaw(
        "output-name",
        'did you mean "wheels"?',
        job("seeded", "run: x", "    outputs: { wheels: x }\n")
        + job("after", "run: x", "    needs: seeded\n    env:\n      A: ${{ needs.seeded.outputs.whels }} # here\n"),
    ),
    "an-output-that-the-called-lacks": Flaw(
        "output-name",
        'did you mean "channel"?',
        f"  seeded:\n    {SIGNS}\n    uses: {FATWHEEL}/wheels.yml{OWN}\n    with:\n{APART}"
        + job("after", "run: x", "    needs: seeded\n    env:\n      A: ${{ needs.seeded.outputs.chanel }} # here\n"),
    ),
    "a-step-that-comes-later": Flaw(
        "step-name",
        "known: ",
        f"  seeded:\n    {RUNS}\n    steps:\n      - run: x\n        env:\n          A: ${{{{ steps.later.outputs.a }}}} # here\n      - {{ id: later, run: x }}\n",
    ),
    "an-input-that-nobody-declares": Flaw(
        "input-name", "known: ", job("seeded", "run: x", "    env:\n      A: ${{ inputs.seeded-one }} # here\n")
    ),
    "a-column-that-the-matrix-lacks": Flaw(
        "matrix-name",
        'did you mean "python"?',
        job("seeded", "run: x", f"{ROWS}    env:\n      A: ${{{{ matrix.pyton }}}} # here\n"),
    ),
    "a-matrix-of-400": Flaw(
        "matrix-size",
        "several jobs",
        job(
            "seeded",
            "run: x",
            f"    strategy:\n      matrix: {{ a: {list(range(20))}, b: {list(range(20))} }} # here\n",
        ),
    ),
    "rows-that-upload-one-name": Flaw(
        "artifact-collision",
        "a name for each row",
        f"  seeded:\n    {RUNS}\n{ROWS}    steps:\n      - uses: {UPLOAD}\n        with:\n          name: seeded # here\n          path: dist\n          overwrite: true\n",
    ),
    "two-calls-with-one-prefix": Flaw(
        "artifact-collision",
        "in one of the two calls",
        f"  seeded:\n    uses: ./{CALLED}\n  again:\n    uses: ./{CALLED}\n",
        {
            CALLED: f"on: {{ workflow_call: }}\njobs:\n  a:\n    {RUNS}\n    steps:\n      - uses: {UPLOAD}\n        with:\n          name: seeded-wheels # here\n          path: dist\n"
        },
    ),
    "an-artifact-that-nobody-uploads": Flaw(
        "artifact-missing",
        "did you mean",
        f"  seeded:\n    {RUNS}\n    steps:\n      - uses: {UPLOAD}\n        with: {{ name: seeded-wheels, path: dist }}\n"
        f"  after:\n    needs: seeded\n    {RUNS}\n    steps:\n      - uses: {DOWNLOAD}\n        with:\n          name: seeded-wheel # here\n",
    ),
    "an-artifact-too-early": Flaw(
        "artifact-early",
        "needs: seeded",
        f"  seeded:\n    {RUNS}\n    steps:\n      - uses: {UPLOAD}\n        with: {{ name: seeded-wheels, path: dist }}\n"
        f"  after:\n    {RUNS}\n    steps:\n      - uses: {DOWNLOAD}\n        with:\n          name: seeded-wheels # here\n",
    ),
    "an-upload-that-cannot-be-repeated": Flaw(
        "overwrite",
        "overwrite: true",
        f"  seeded:\n    {RUNS}\n    steps:\n      - uses: {UPLOAD} # here\n        with: {{ name: seeded, path: dist }}\n      - run: x\n",
    ),
    "an-action-that-is-gone": Flaw(
        "action-gone",
        "actions/upload-artifact@v4",
        f"  seeded:\n    {RUNS}\n    steps:\n      - uses: actions/upload-artifact@v3 # here\n        with: {{ path: dist }}\n",
    ),
    "published-on-a-pull-request": Flaw(
        "unguarded",
        "github.event_name != 'pull_request'",
        files={
            SEEDED: workflow(
                f"  a:\n    {RUNS}\n    permissions: {{ id-token: write }}\n    environment: pypi\n    steps:\n      - uses: {PYPI} # here\n",
                "[pull_request]",
            )
        },
    ),
    "published-without-a-tag": Flaw(
        "unguarded",
        "outputs.channel != 'none'",
        files={
            SEEDED: workflow(
                f"  wheels:\n    {SIGNS}\n    uses: {FATWHEEL}/wheels.yml{OWN}\n  publish: # here\n    needs: wheels\n"
                f"    permissions: {{ attestations: read, contents: write }}\n    if: needs.wheels.outputs.any == 'true'\n    uses: {FATWHEEL}/publish.yml{OWN}\n"
            )
        },
    ),
    "a-release-that-the-next-one-ends": Flaw(
        "cancelled",
        "cancel-in-progress: false",
        files={
            SEEDED: workflow(
                f"  a:\n    {RUNS}\n    permissions: {{ id-token: write }}\n    environment: pypi\n    steps: [{{ uses: {PYPI.partition(' ')[0]} }}]\n",
                "{ push: { tags: [w*] } }",
                "concurrency: # here\n  group: release\n  cancel-in-progress: true\n",
            )
        },
    ),
    "a-config-that-is-not-there": Flaw(
        "config",
        "",
        f"  seeded:\n    {SIGNS}\n    uses: {FATWHEEL}/wheels.yml{OWN}\n    with:\n      config: seeded/fatwhel.yml # here\n{APART}",
        {"seeded/fatwheel.yml": "package: seeded\n"},
    ),
    "tags-that-start-nothing": Flaw(
        "tags",
        "seeded-v*",
        files={
            "seeded/fatwheel.yml": 'package: seeded\nrelease: { tag: "seeded-v{version}" }\n',
            SEEDED: workflow(
                f"  wheels:\n    {SIGNS}\n    uses: {FATWHEEL}/wheels.yml{OWN}\n    with: {{ config: seeded/fatwheel.yml }}\n",
                "\n  push:\n    tags: [v*] # here",
            ),
        },
    ),
    "a-second-publisher": Flaw(
        "second-publisher",
        "leave out one",
        files={
            "seeded/fatwheel.yml": 'package: seeded\nrelease: { tag: "w{version}" }\npublish: { targets: [pypi] }\n',
            SEEDED: workflow(
                f"  wheels:\n    {SIGNS}\n    uses: {FATWHEEL}/wheels.yml{OWN}\n    with: {{ config: seeded/fatwheel.yml }}\n"
                f"  publish:\n    needs: wheels\n    if: needs.wheels.outputs.channel != 'none'\n    permissions: {{ attestations: read }}\n    uses: {FATWHEEL}/publish.yml{OWN}\n",
                "{ push: { tags: [w*] } }",
            ),
            CALLED: workflow(
                f"  a:\n    {RUNS}\n    permissions: {{ id-token: write }}\n    environment: pypi\n    steps:\n      - uses: {PYPI} # here\n",
                "{ push: { tags: [w*] } }",
            ),
        },
    ),
    "two-events-for-one-tag": Flaw(
        "second-publisher",
        "leave out one of the two events",
        files={
            SEEDED: workflow(
                f"  a:\n    {RUNS}\n    permissions: {{ id-token: write }}\n    environment: pypi\n    steps:\n      - uses: {PYPI} # here\n",
                "{ push: { tags: [w*] }, release: { types: [published] } }",
            )
        },
    ),
    "a-runner-that-is-gone": Flaw(
        "runner-gone", "macos-15-intel", job("seeded", "run: x", runs="runs-on: macos-13 # here")
    ),
    "a-runner-that-goes": Flaw(
        "runner-gone", "ubuntu-24.04", job("seeded", "run: x", runs="runs-on: ubuntu-22.04 # here")
    ),
    "a-runner-misspelt": Flaw(
        "runner-unknown", 'did you mean "ubuntu-24.04"?', job("seeded", "run: x", runs="runs-on: ubuntu-24.4 # here")
    ),
    "a-runner-in-a-matrix": Flaw(
        "runner-gone",
        "windows-2022",
        job(
            "seeded",
            "run: x",
            "    strategy:\n      matrix:\n        os:\n          - windows-2019 # here\n",
            "runs-on: ${{ matrix.os }}",
        ),
    ),
    "labels-that-no-runner-has-together": Flaw(
        "labels-together", "a matrix", job("seeded", "run: x", runs="runs-on: [ubuntu-24.04, windows-2025] # here")
    ),
    "a-container-on-macos": Flaw(
        "container", "ubuntu-24.04", job("seeded", "run: x", "    container: python:3.12 # here\n", "runs-on: macos-15")
    ),
    "an-image-that-is-too-old": Flaw(
        "image",
        "manylinux_2_28",
        job("seeded", "uses: actions/checkout@v5", "    container: quay.io/pypa/manylinux2014_x86_64 # here\n"),
    ),
    "a-shell-that-there-is-not": Flaw(
        "shell",
        'did you mean "bash"?',
        f"  seeded:\n    {RUNS}\n    steps:\n      - run: x\n        shell: bsh # here\n",
    ),
    "a-condition-that-always-holds": Flaw(
        "condition-true",
        "one `${{ }}` around",
        job("seeded", "run: x", "    if: ${{ github.ref_type == 'tag' }} && false # here\n"),
    ),
    "a-condition-that-nothing-meets": Flaw(
        "condition-false",
        "the events are",
        files={SEEDED: workflow(job("a", "run: x", "    if: github.event_name == 'relaese' # here\n"), "{ push: }")},
    ),
    "groups-that-wait-for-each-other": Flaw(
        "deadlock",
        "another group",
        f"  seeded: # here\n    concurrency: seeded-${{{{ github.ref }}}}\n    uses: ./{CALLED}\n",
        {CALLED: "on: { workflow_call: }\nconcurrency: seeded-${{ github.ref }}\njobs:\n" + job("a", "run: x")},
    ),
    "no-yaml": Flaw("broken", "mend it", files={SEEDED: "on: push\njobs:\n  a: b: c # here\n"}),
    "a-key-that-is-there-twice": Flaw(
        "broken",
        "mend it",
        files={
            SEEDED: "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    runs-on: x # here\n    steps: [{ run: x }]\n"
        },
    ),
}


def line_of(text: str) -> int:
    """Return the line of a text that ends with the mark."""
    return next((number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# here")), 0)
