"""fatwheel ci tell: faults on the way, and refusals."""

from __future__ import annotations

import pytest

from ci_tools.errors import FatwheelError, InputError, LeftUndone, MachineError
from tests.builders.owner_issues import tell
from tests.servers.github import Answer, Fault, GitHub, asked_too_fast, rate_limited, refusal
from tests.servers.github_issues import READ_ONLY, Talk

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("config")]

STEPS = {"opens": (), "updates": ("failure",), "closes": ("failure",), "opens-again": ("failure", "success")}


@pytest.mark.long
@pytest.mark.parametrize(
    "fault", [Fault.CLOSE, Fault.FORGET, Fault.CUT, refusal(502, "Bad Gateway"), asked_too_fast(0)]
)
@pytest.mark.parametrize("step", STEPS)
def test_whatever_goes_wrong_once_there_is_one_issue_and_one_comment(
    step: str, fault: Fault | Answer, hub: GitHub, talk: Talk
) -> None:
    result = "success" if step == "closes" else "failure"
    for at in range(1, 8):
        talk.issues.clear()
        talk.comments.clear()
        for number, before in enumerate(STEPS[step], 1):
            tell(hub, before, number=number)
        said = len(talk.comments)
        hub.faults.clear()
        hub.fail_at(at, fault)
        tell(hub, result, number=9)
        assert [one.state for one in talk.issues] == ["closed" if step == "closes" else "open"]
        assert len(talk.comments) - said == (step in {"closes", "opens-again"})


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        pytest.param(refusal(401, "Bad credentials"), InputError, "rejects the token in GH_TOKEN", id="token"),
        pytest.param(refusal(403, READ_ONLY), InputError, "permissions: issues: write", id="workflow"),
        pytest.param(
            refusal(403, "Resource not accessible by personal access token"),
            InputError,
            "Issues: Read and write",
            id="fine-grained",
        ),
        pytest.param(refusal(403, "Repository was archived so is read-only."), InputError, "archived", id="archive"),
        pytest.param(rate_limited(3600), MachineError, "GitHub's rate limit is reached", id="limit"),
        pytest.param(refusal(500, "\x1b[2J"), MachineError, "GitHub answers 500", id="broken"),
    ],
)
def test_a_refusal_says_what_mends_it(answer: Answer, kind: type[FatwheelError], words: str, hub: GitHub) -> None:
    for at in range(4, 30):
        hub.fail_at(at, answer)
    with pytest.raises(kind) as refused:
        tell(hub, "failure")
    assert words in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_a_token_that_may_not_write_issues_is_told_so(hub: GitHub, talk: Talk) -> None:
    talk.may_write = False
    with pytest.raises(InputError, match="give the job `permissions: issues: write`"):
        tell(hub, "failure")


def test_a_repository_without_issues_is_told_so(hub: GitHub, talk: Talk) -> None:
    talk.has_issues = False
    with pytest.raises(InputError, match="gh repo edit octo/demo --enable-issues"):
        tell(hub, "failure")
    with pytest.raises(LeftUndone, match="issues are disabled in"):
        tell(hub, "success")
