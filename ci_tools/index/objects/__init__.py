"""Object stores with conditional writes: a folder, an S3 bucket, and a lock for servers without such writes."""
