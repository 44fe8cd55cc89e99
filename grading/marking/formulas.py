"""MathJax for the pages of the formgrader and of the feedback, which load nothing from the network.

Formulas are untrusted text: commands that make a link, an attribute or a style, or load an extension, are disabled.
"""

import re
from importlib.resources import files

# In nbconvert's folders for templates; the first one wins.
TEMPLATE = "nbconvert/templates/base/mathjax.html.j2"
# Whatever a page contains, the browser sends no request to another machine.
POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="'
    "default-src 'self' file: 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; "
    "frame-src 'none'; base-uri 'none'; form-action 'self'\">\n"
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
# After the safe extension is loaded. The formgrader waits for the start of MathJax 2; without it, there are no
# keyboard shortcuts.
START = """
MathJax.startup.defaultReady();
MathJax.Hub = {Startup: {signal: {Interest: (hear) => MathJax.startup.promise.then(() => hear("End"))}}};
"""
PLACE = "<!-- formulas -->"  # in the head of a page of feedback
# What MathJax reads: text outside of these elements, if it has one of the delimiters.
UNREAD = re.compile(r"<(script|style|pre|code)\b.*?</\1>", re.DOTALL)
DELIMITER = re.compile(r"\$|\\\(|\\\[|\\begin\{")


def script() -> str:
    """Return the script that draws a page's formulas."""
    parts = files("mathjax") / "static" / "mathjax" / "es5"
    scripts = [SETTINGS, (parts / "tex-svg-full.js").read_text(), (parts / "ui" / "safe.js").read_text(), START]
    return ";\n".join(script.replace("</script", r"<\/script") for script in scripts)


def macro(text: str) -> str:
    """Return nbconvert's template for MathJax with this text in its place, after the policy."""
    return f"{{%- macro mathjax(url='') -%}}{{% raw %}}{POLICY}{text}\n{{% endraw %}}{{%- endmacro %}}"


def template() -> str:
    """nbconvert's template that puts MathJax into a page."""
    return macro(f"<script>{script()}</script>")


def drawn(page: str) -> str:
    """Return a page of feedback with MathJax, 2 MB, in its `PLACE` if it has formulas."""
    needed = DELIMITER.search(UNREAD.sub("", page))
    return page.replace(PLACE, f"<script>{script()}</script>" if needed else "", 1)
