"""Makes the website from the pages of docs: `python -m docs.site`, or `make docs`, which installs what it needs."""
