"""Objects by key, with conditional writes: a folder, an S3 bucket, and the lock of buckets that have none."""
