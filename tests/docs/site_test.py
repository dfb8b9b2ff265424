#!/usr/bin/env python3
"""The documentation builds as a site without a warning, and every page of it is reached from the
first. Sphinx comes from Python's package index into BUILD_DIR/site-env, once.
Usage: site_test.py SOURCE_DIR WEIR BUILD_DIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import subprocess
import sys

source, weir, build = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
tools, site = build / "site-env", build / "site"
requirements = source / "docs/requirements.txt"
mark = tools / "requirements.txt"  # there once all of them are installed
if not mark.exists() or mark.read_text() != requirements.read_text():
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    done = subprocess.run([tools / "bin/pip", "install", "-q", "--disable-pip-version-check", "-r",
                           requirements], text=True, capture_output=True)
    if done.returncode != 0:
        print("site: Python's package index is out of reach: " + done.stderr[-300:])
        sys.exit(77)
    mark.write_text(requirements.read_text())

done = subprocess.run(
    [tools / "bin/sphinx-build", "-q", "-E", "-W", "--keep-going", source / "docs", site],
    text=True, capture_output=True, env=os.environ | {"WEIR": str(weir)})
if done.returncode != 0:
    sys.exit(f"site: {done.stdout}{done.stderr}")

# Links from page to page lead somewhere, to a heading or term too, and from the first to all.
links, faults = {}, []
pages = {page: page.read_text() for page in site.rglob("*.html")}
for page, text in pages.items():
    for href in re.findall(r'<a [^>]*href="([^"]+)"', text):
        if re.match(r"[a-z]+:", href):
            continue
        path, _, fragment = href.partition("#")
        to = (page.parent / path).resolve() if path else page
        links.setdefault(page, set()).add(to)
        if not to.exists():
            faults.append(f"{page.relative_to(site)}: {href} leads nowhere")
        elif fragment and to in pages and f'id="{fragment}"' not in pages[to]:
            faults.append(f"{page.relative_to(site)}: {href} has no such place")
reached, ahead = set(), [site / "index.html"]
while ahead:
    page = ahead.pop()
    if page not in reached:
        reached.add(page)
        ahead += [to for to in links.get(page, ()) if to in pages]
faults += [f"{page.relative_to(site)}: no page leads to it" for page in set(pages) - reached
           - {site / "search.html"}]  # led to by a form
documents = len(list((source / "docs").rglob("*.md")))
if len(pages) < documents:
    faults.append(f"{len(pages)} pages of {documents} documents")
print("\n".join(sorted(faults)) or f"site: {len(pages)} pages, {site}/index.html")
sys.exit(1 if faults else 0)
