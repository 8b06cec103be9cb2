"""What Sphinx makes of the pages: its extensions, its theme, and how strict it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from sphinx.application import Sphinx
    from sphinx.config import Config

project = "Fatwheel"
author = "the authors of Fatwheel"
html_title = "Fatwheel"
extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "index"
highlight_language = "text"  # of a block that names none: it shows what a program says
exclude_patterns = ["_extra"]
nitpicky = True

myst_heading_anchors = 6  # as code hosts make them, so that a link holds here and there

html_theme = "pydata_sphinx_theme"
html_favicon = str(Path(__file__).parent / "static" / "fatwheel.svg")
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["fatwheel.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}  # as the system; the theme complains where nothing is said
html_theme_options = {
    "logo": {"text": html_title},
    "check_switcher": False,  # it is written after the last version has been built
    "switcher": {"json_url": "../versions.json", "version_match": ""},
    "show_version_warning_banner": True,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "navbar_end": ["version-switcher", "theme-switcher"],
    "show_prev_next": False,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "search_as_you_type": True,
    "back_to_top_button": False,
}
pygments_style = "default"

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True


def _match_version(_: Sphinx, config: Config) -> None:
    config.html_theme_options["switcher"]["version_match"] = config.version


def _title_front_page(_: Sphinx, page: str, __: str, context: dict[str, Any], ___: object) -> None:
    """Let the title of the front page be the project's name only: the others end in it."""
    if page == root_doc:
        context["docstitle"] = ""


def setup(app: Sphinx) -> None:
    """Tell the theme which version it shows, `-D version=…`, and name the front page."""
    app.connect("config-inited", _match_version, priority=100)
    app.connect("html-page-context", _title_front_page)
