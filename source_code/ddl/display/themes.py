"""Drawings that are light or dark as the page around them is: SVG that holds the colours of both themes.

A drawing in an ``<img>`` cannot see its page's variables. But its ``prefers-color-scheme`` is the ``color-scheme`` of
the ``<img>`` (CSS Color Adjustment Module Level 1, 2.1), which style.css sets by JupyterLab's theme.
"""

import re

HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
PAGE = "#111111"  # JupyterLab's dark page
BRIGHTEST = 0.8, 0.4  # luminance of grey ink on it, and of ink with much colour, whose hue is still seen
GLOW = 1.3  # exponent of contrast on it: what is drawn in thin lines looks dimmer on black than on white
IMAGES = "image{filter:invert(1)hue-rotate(180deg)}"  # of cells' values, as Matplotlib's `imshow` draws them


def themed(svg: str) -> str:
    """Return an SVG element drawn in colours ``#rrggbb`` for a white page, with those for a dark page beside them."""
    colours = dict.fromkeys(["#000000", *map(str.lower, HEX.findall(svg))])
    names = {colour: f"--c{number}" for number, colour in enumerate(colours)}
    light = ";".join(f"{name}:{colour}" for colour, name in names.items())
    dark = ";".join(f"{name}:{in_the_dark(colour)}" for colour, name in names.items())
    black = f"svg:not([fill]){{fill:var({names['#000000']})}}"  # SVG's own colour, where it is not named
    rules = f"svg{{{light}}}{black}@media(prefers-color-scheme:dark){{svg{{{dark}}}{IMAGES}}}"
    svg = HEX.sub(lambda found: f"var({names[found[0].lower()]})", svg)
    return svg.replace(">", f"><style>{rules}</style>", 1)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21 (Web Content Accessibility Guidelines 2.2, "contrast ratio")."""
    dim, bright = sorted((_luminance(one), _luminance(other)))
    return (bright + 0.05) / (dim + 0.05)


def in_the_dark(colour: str) -> str:
    """Return the colour of the same hue that has on a dark page at least the contrast of `colour` on a white one.

    So has any pair of colours, up to the brightest ink.
    """
    luminance = _luminance(colour)
    linear = [_linear(part) for part in _parts(colour)]
    saturated = max(linear) > 2 * min(linear)
    brightest = BRIGHTEST[saturated]
    wanted = min(brightest, (_luminance(PAGE) + 0.05) * contrast(colour, "#ffffff") ** GLOW - 0.05)
    scale = min(wanted / luminance, 1 / max(linear)) if luminance else 0
    linear = [scale * part for part in linear]
    white = max(0, wanted - scale * luminance) / (1 - scale * luminance)  # where the hue itself cannot be so bright
    linear = [part + white * (1 - part) for part in linear]
    return "#" + "".join(f"{round(255 * _encoded(part)):02x}" for part in linear)


def _parts(colour):
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def _luminance(colour):
    """Return a colour's relative luminance, from 0 to 1 (the guidelines' "relative luminance", for sRGB)."""
    return sum(weight * _linear(part) for weight, part in zip((0.2126, 0.7152, 0.0722), _parts(colour), strict=True))


def _linear(part):
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _encoded(part):
    return 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055
