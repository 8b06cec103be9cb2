"""Files that a build imports in place of torch's: nothing here imports the toolkit, and none of it runs in ours."""
