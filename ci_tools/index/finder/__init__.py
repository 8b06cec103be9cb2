"""The finder: the front page of an index, where a visitor selects a machine and copies the install command.

The page lists only the projects (PEP 503). The data of each project is in `finder/PROJECT.js`, a script that the page
loads when the project is selected, since a page opened from a folder may load nothing but scripts.
"""
