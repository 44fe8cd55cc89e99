"""Light and dark colors for drawings: an SVG with the colors of both themes.

A drawing in an ``<img>`` cannot read its page's variables. But its ``prefers-color-scheme`` is the ``color-scheme`` of
the ``<img>`` (CSS Color Adjustment Module Level 1, 2.1), which style.css sets from JupyterLab's theme.
"""

import re

HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
PAGE = "#111111"  # JupyterLab's dark page
BRIGHTEST = 0.8, 0.4  # maximal luminance of gray and of saturated ink, whose hue must stay visible
GLOW = 1.3  # exponent of contrast on the dark page, where thin lines look dimmer than on white
IMAGES = "image{filter:invert(1)hue-rotate(180deg)}"  # matrices drawn by Matplotlib's `imshow`


def themed(svg: str) -> str:
    """Return an SVG drawn in colors ``#rrggbb`` for a white page, with added colors for a dark page."""
    colors = dict.fromkeys(["#000000", *map(str.lower, HEX.findall(svg))])
    names = {color: f"--c{number}" for number, color in enumerate(colors)}
    light = ";".join(f"{name}:{color}" for color, name in names.items())
    dark = ";".join(f"{name}:{in_the_dark(color)}" for color, name in names.items())
    black = f"svg:not([fill]){{fill:var({names['#000000']})}}"  # SVG's default color
    rules = f"svg{{{light}}}{black}@media(prefers-color-scheme:dark){{svg{{{dark}}}{IMAGES}}}"
    svg = HEX.sub(lambda found: f"var({names[found[0].lower()]})", svg)
    return svg.replace(">", f"><style>{rules}</style>", 1)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors, from 1 to 21 (Web Content Accessibility Guidelines 2.2, "contrast ratio")."""
    dim, bright = sorted((_luminance(one), _luminance(other)))
    return (bright + 0.05) / (dim + 0.05)


def in_the_dark(color: str) -> str:
    """Return a color of the same hue with at least the contrast on a dark page that `color` has on a white one.

    The brightest ink limits this.
    """
    luminance = _luminance(color)
    linear = [_linear(part) for part in _parts(color)]
    saturated = max(linear) > 2 * min(linear)
    brightest = BRIGHTEST[saturated]
    wanted = min(brightest, (_luminance(PAGE) + 0.05) * contrast(color, "#ffffff") ** GLOW - 0.05)
    scale = min(wanted / luminance, 1 / max(linear)) if luminance else 0
    linear = [scale * part for part in linear]
    white = max(0, wanted - scale * luminance) / (1 - scale * luminance)  # if the hue alone cannot be that bright
    linear = [part + white * (1 - part) for part in linear]
    return "#" + "".join(f"{round(255 * _encoded(part)):02x}" for part in linear)


def _parts(color):
    return [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def _luminance(color):
    """Return the relative luminance, from 0 to 1 (Web Content Accessibility Guidelines 2.2, for sRGB)."""
    return sum(weight * _linear(part) for weight, part in zip((0.2126, 0.7152, 0.0722), _parts(color), strict=True))


def _linear(part):
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _encoded(part):
    return 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055
