"""PyPI, or another package index with its interface for uploads."""

from ci_tools.catalog.targets import TargetKind

PYPI = TargetKind(
    prefix="pypi",
    form="pypi[:NAME or URL]",
    pattern="pypi(:.+)?",
    opens="ci_tools.publish.targets.pypi:PyPITarget",
    takes_uploader=True,
    order=3,  # the last: an upload cannot be undone
)
