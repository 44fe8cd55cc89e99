"""A static site on any host: `faults` lists broken and external links."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

LOADED = {"src", "srcset", "data", "poster"}  # attributes that a browser follows by itself
IN_STYLE = re.compile(r"url\(\s*[\"']?((?!data:|#)[^\"')]+)|@import\s+[\"']([^\"']+)")


class Page(HTMLParser):
    """A page's links, what it loads, and the names that links may point at."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.names, self.unnamed = [], [], set(), []
        self.feed(text)
        for style in re.findall(r"<style.*?</style>", text, re.DOTALL):
            self.loads += [first or second for first, second in IN_STYLE.findall(style)]

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.names |= {found[name] for name in ("id", "name") if found.get(name)}
        self.loads += [found[name] for name in LOADED & found.keys() if found[name]]
        if "href" in found:
            (self.links if tag == "a" else self.loads).append(found["href"])
        if tag == "img" and not found.get("alt"):
            self.unnamed.append(found.get("src", "")[:40])


def faults(site):
    """Return what is wrong with the pages in this folder, a sentence each.

    Links to the web are for people to follow; a page that loads something from there is at fault.
    """
    pages = {file: Page(file.read_text()) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        where = file.relative_to(site)
        found += [f"{where}: {source}: a picture without a text alternative" for source in page.unnamed]
        for address in page.loads + page.links:
            parts = urlsplit(address)
            if parts.scheme == "data" or (parts.scheme in ("http", "https") and address in page.links):
                continue
            if parts.scheme or parts.netloc:
                found.append(f"{where}: {address}: on another host")
            elif parts.path.startswith("/"):
                found.append(f"{where}: {address}: an absolute path")
            else:
                target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
                if not (target.is_file() and target.is_relative_to(site)):
                    found.append(f"{where}: {address}: no such file")
                elif parts.fragment and unquote(parts.fragment) not in pages[target].names:
                    found.append(f"{where}: {address}: no such place")
    return found
