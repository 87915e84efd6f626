"""Sphinx configuration of the site; `make docs` runs it."""

import re
from typing import Any

import fairdp

project = "fairdp"
author = "The fairdp authors"
copyright = "The fairdp authors"
version = release = fairdp.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
highlight_language = "none"
# Dashes only: quotes stay as they are typed.
smartquotes_action = "D"

# furo: a sidebar and a contents list that work on a phone and in the dark; alabaster would save four small packages.
html_theme = "furo"
html_title = f"fairdp {version}"
html_copy_source = False
html_show_sourcelink = False

# Types are in the docstrings' words: spelt out, "anything like an array" is five lines of unions.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_attr_annotations = False
napoleon_custom_sections = [("Attributes", "params_style")]
# Names of other projects are not linked, so that building needs no network.
nitpick_ignore_regex = [("py:.*", r"(collections|numpy|pandas|sklearn|torch)\..*")]
# What stands in single backticks in a docstring is a name.
default_role = "literal"

# Links such as privacy.md#rounding work here as they do on the repository's page.
myst_heading_anchors = 4


def setup(app: Any) -> None:
    """Pages of the repository that are not of this site, such as ../results/methods.md, are offered as files."""
    app.connect("source-read", _offer_files)
    app.connect("autodoc-process-docstring", _keep_stars)


def _offer_files(app: Any, page: str, source: list[str]) -> None:
    # The links stay plain in the pages, so that they work on the repository's page too.
    above = "../" * (page.count("/") + 1)
    source[0] = re.sub(rf"\]\(({re.escape(above)}[^)#]+\.md)\)", r"](<path:\1>)", source[0])


def _keep_stars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """A shape such as (n, *shape) is no emphasis."""
    lines[:] = [re.sub(r"(?<=[ (])\*(?=\w+\))", r"\\*", line) for line in lines]
