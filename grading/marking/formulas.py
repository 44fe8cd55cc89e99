"""MathJax for the formgrader's and the feedback's pages: in the page, so that none loads anything.

A formula is an attendee's text: no command that makes a link, an attribute or a style works in it, nor one that fetches
an extension.
"""

from importlib.resources import files

__all__ = ["TEMPLATE", "template"]

# In nbconvert's own folders for templates; the one that stands first wins.
TEMPLATE = "nbconvert/templates/base/mathjax.html.j2"
# Whatever a page holds that somebody wrote, the browser asks no other machine for it.
POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; "
    "frame-src 'none'; base-uri 'none'; form-action 'self'"
)
SETTINGS = r"""
window.MathJax = {
  tex: {
    inlineMath: [['$', '$'], ['\\(', '\\)']], displayMath: [['$$', '$$'], ['\\[', '\\]']],
    processEscapes: true, processEnvironments: true, tags: 'ams',
    packages: {'[-]': ['html', 'require', 'autoload', 'noerrors']}
  },
  options: {
    enableMenu: false,
    safeOptions: {allow: {URLs: 'none', classes: 'none', cssIDs: 'none', styles: 'none'}}
  },
  startup: {ready() {}}
};
"""
START = "MathJax.startup.defaultReady();"  # not before the part is there that makes it safe


def template() -> str:
    """The template that nbconvert puts MathJax into a page with."""
    parts = files("mathjax") / "static" / "mathjax" / "es5"
    scripts = [SETTINGS, (parts / "tex-svg-full.js").read_text(), (parts / "ui" / "safe.js").read_text(), START]
    page = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n' + "".join(
        "<script>" + script.replace("</script", r"<\/script") + "</script>\n" for script in scripts
    )
    return f"{{%- macro mathjax(url='') -%}}{{% raw %}}{page}{{% endraw %}}{{%- endmacro %}}"
