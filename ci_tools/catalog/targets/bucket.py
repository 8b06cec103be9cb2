"""An S3 bucket, or a store with the same interface, which is a package index."""

from ci_tools.catalog.targets import TargetKind

BUCKET = TargetKind(
    prefix="s3",
    form="s3://BUCKET/PREFIX",
    pattern="s3:.*",
    opens="ci_tools.publish.targets.addresses:open_bucket",
    check="ci_tools.index.objects.place:place_of",
    order=1,
    is_index=True,
    has_query=True,
    has_login=True,
)
