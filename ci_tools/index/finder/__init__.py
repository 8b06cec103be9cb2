"""The finder: the front page of an index, where a visitor selects a machine and copies the install command.

The page lists only the projects (PEP 503). The data of each project is in `finder/PROJECT.js`, a script that the page
loads when the project is selected, since a page opened from a folder may load nothing but scripts.
"""

from __future__ import annotations

from ci_tools.index.finder.data import DATA, data_path, project_data
from ci_tools.index.finder.page import front_page
from ci_tools.index.finder.shelf import About, File, Shelf, ShelfVersion, read_newest, shelf_of

__all__ = [
    "DATA",
    "About",
    "File",
    "Shelf",
    "ShelfVersion",
    "data_path",
    "front_page",
    "project_data",
    "read_newest",
    "shelf_of",
]
