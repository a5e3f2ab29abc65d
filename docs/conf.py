# SPDX-License-Identifier: Apache-2.0
"""Makes a site of the Markdown pages, which read as well without it.

    python -m sphinx -c docs . build/docs    # its first page is build/docs/docs/index.html

The sources begin at the root of the repository, so that README.md and its neighbours are pages, too,
and links between files are the same on a hosting site and here. What the table of contents has is
in docs/index.md alone.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
# The docstrings of classes in C++ are there, not in the stubs.
os.environ["SPHINX_AUTODOC_IGNORE_NATIVE_MODULE_TYPE_STUBS"] = "1"

project = "rocecoll"
author = "the authors of rocecoll"
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md"]
exclude_patterns = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "docs"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = "rocecoll"
highlight_language = "text"
default_role = "literal"  # of what docstrings have in backticks
myst_heading_anchors = 4  # as a hosting site makes them of headings
# Others' classes have their documentation elsewhere, and no network is needed to build this one.
nitpick_ignore_regex = [
    ("py:.*", r"(torch|os|pathlib|datetime|collections|typing)\..*|ProcessGroup|Tensor|timedelta")
]

PART = re.compile(r"^## (.+)\n((?:.*\n)*?)(?=^## |\Z)", re.MULTILINE)
LINK = re.compile(r"^- \[[^\]]+\]\(([^)#]+)\.md\)", re.MULTILINE)


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """The lists of links of the index are the table of contents, a part for each heading."""
    if page != root_doc:
        return
    for title, text in PART.findall(source[0]):
        pages = "\n".join(LINK.findall(text))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_contents)
