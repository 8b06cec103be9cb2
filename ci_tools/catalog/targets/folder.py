"""A folder of this machine, which is a package index."""

from ci_tools.catalog.targets import TargetKind

FOLDER = TargetKind(
    prefix="dir",
    form="dir:PATH",
    pattern="dir:.+",
    opens="ci_tools.publish.targets.addresses:open_folder",
    check="ci_tools.publish.targets.addresses:find_folder",
    order=0,
    is_local=True,
    is_index=True,
)
