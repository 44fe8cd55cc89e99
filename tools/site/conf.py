"""Sphinx's settings for the web site of the executed lessons; tools/website.py puts its source together."""

project = "Distributed deep learning, by doing it"
author = "the authors of the course"
copyright = "the authors of the course; lesson texts and diagrams are CC BY 4.0, code is Apache-2.0"
extensions = ["myst_nb", "sphinx_copybutton"]
html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "_static/favicon.svg"
mathjax_path = "mathjax.js"  # on the site itself: its pages load nothing from elsewhere
html_theme_options = {"show_toc_level": 2, "navbar_persistent": [], "navbar_start": [], "navbar_end": []}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system is
html_sourcelink_suffix = ""
html_show_sphinx = False
myst_enable_extensions = ["dollarmath", "amsmath", "html_image"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the outputs are those that were kept
nb_merge_streams = True
copybutton_selector = ".cell_input pre, div.highlight-bash pre"
suppress_warnings = [
    "mystnb.unknown_mime_type",  # widgets, which also have a text version
    "myst.header",  # a lesson may go from a title to a question's heading
]
