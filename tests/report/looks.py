"""How a page looks, in a browser that a test has: on a telephone and on a desk, light and dark, and
on paper; and pictures of it, for who looks at them."""
# SPDX-License-Identifier: Apache-2.0
import base64
import re

WIDTHS = (400, 1400)
PAPER = 718  # A4 without margins of a centimetre, at 96 pixels an inch
SCHEMES = ("light", "dark")


def brightness(colour):
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return 0.299 * red + 0.587 * green + 0.114 * blue


def look(tab, url, texts):
    """Its texts are there and stand out, nothing is wider than the window or smaller than it can be
    read, and it loads nothing."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            tab.show(url, width, scheme)
            where = f"{url}, {width} px, {scheme}"
            wide = tab.ask("document.documentElement.scrollWidth")
            assert wide <= width, f"{where}: {wide} px"
            said = tab.ask("document.body.innerText")
            for text in texts:
                assert text in said, f"{where}: no '{text}'"
            # Text stands out from the page, in the pictures too.
            style = "getComputedStyle({}).{}"
            body = [brightness(tab.ask(style.format("document.body", part)))
                    for part in ("backgroundColor", "color")]
            assert (body[0] > 200 and body[1] < 90) == (scheme == "light"), f"{where}: {body}"
            assert (body[0] < 60 and body[1] > 180) == (scheme == "dark"), f"{where}: {body}"
            for picture in range(tab.ask("document.querySelectorAll('svg').length")):
                svg = f"document.querySelectorAll('svg')[{picture}]"
                parts = [brightness(tab.ask(style.format(f"{svg}.querySelector('{part}')", "fill")))
                         for part in ("rect", "text")]
                assert abs(parts[0] - body[0]) < 2 and abs(parts[1] - body[1]) < 8, (where, parts)
            small = tab.ask("Math.min(...[...document.querySelectorAll('p,td,th,dd,dt,button')]"
                            ".map(e => parseFloat(getComputedStyle(e).fontSize)))")
            assert small >= 13, f"{where}: text of {small} px"
            # A picture's text has its size: what does not fit is scrolled, not shrunk.
            shrunk = tab.ask("[...document.querySelectorAll('svg')].filter(s => s.getClientRects()"
                             ".length && "
                             "s.getBoundingClientRect().width < s.viewBox.baseVal.width).length")
            assert shrunk == 0, f"{where}: {shrunk} pictures are smaller than they are drawn"
    assert tab.ask("performance.getEntriesByType('resource').length") == 0, f"{url}: it loads"


def keep(tab, url, folder, name):
    """Pictures of the whole page: NAME-400-light.png, ..., and NAME-paper.png, as wide as A4."""
    folder.mkdir(parents=True, exist_ok=True)

    def take(what):
        size = tab.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = tab.call("Page.captureScreenshot", captureBeyondViewport=True,
                        clip={**size, "height": min(size["height"], 8000), "scale": 1})
        (folder / f"{name}-{what}.png").write_bytes(base64.b64decode(shot["data"]))

    for width in WIDTHS:
        for scheme in SCHEMES:
            tab.show(url, width, scheme)
            take(f"{width}-{scheme}")
    tab.show(url, PAPER, "light")
    tab.call("Emulation.setEmulatedMedia", media="print")
    take("paper")
    tab.call("Emulation.setEmulatedMedia", media="")
