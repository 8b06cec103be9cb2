"""Files and pages that others wrote in an index: read, kept, and adopted on request."""
