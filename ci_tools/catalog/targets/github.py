"""The releases of a repository on GitHub."""

from ci_tools.catalog.targets import TargetKind
from ci_tools.model.names import REPOSITORY

GITHUB = TargetKind(
    prefix="github",
    form="github:OWNER/REPO",
    pattern=rf"github:{REPOSITORY.pattern}",
    opens="ci_tools.publish.targets.github_release:GitHubTarget",
    takes_aliases=True,
    rights=(("contents", "write"),),  # to make the release
)
