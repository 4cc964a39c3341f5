#!/usr/bin/env python3
"""Opens report pages in headless Chromium and tells what is wrong with them.

  check_pages.py --chromium PATH [--make PROGRAM] --folder DIR [--only NAME ...] [--pictures DIR] [--json PAGE=FILE ...]

--make runs PROGRAM DIR first, which writes the pages. Every *.html of the folder is opened at 1280 and 420 px, light
and dark, with scripts, and at 420 px without; checked are: no console message, no request, no sideways scrolling,
texts of charts inside and apart, figures equal to the data block (and the block equal to FILE where --json names one),
contrast, no foreign element, at most 1 MB. The checks are tried on faulty pages first, so that they cannot pass by
finding nothing.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

from browser import Browser

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = ((1280, 900), (420, 900))
MAX_BYTES = 1_000_000

# A page with one fault of each kind: (what the checks must say, body).
FAULTY = (
    ("HTML overflows", '<div style="width:3000px">wide</div>'),
    ("overlap", '<figure><svg width="200" height="50"><title>t</title><desc>d</desc><text x="10" y="20">one</text>'
                '<text x="14" y="22">two</text></svg></figure>'),
    ("leaves the chart", '<figure><svg width="60" height="50"><title>t</title><desc>d</desc>'
                         '<text x="30" y="20">much too long a text</text></svg></figure>'),
    ("no title or no description", '<figure><svg width="60" height="50"></svg></figure>'),
    ("figure /a", '<data value="4" data-key="/a">4</data>'),
    ("element <img>", '<img alt="">'),
    ("attribute onclick", '<b onclick="1">x</b>'),
    ("no caption", '<main><table><tr><td>x</td></tr></table></main>'),
    ("no scope", '<main><table><caption>c</caption><tr><th>x</th></tr></table></main>'),
    ("contrast", '<p style="color:#888">grey</p>'),
    ("console.log", '<script>console.log("hello")</script>'),
    ("uncaught", '<script>null.x</script>'),
    ("request: http://pages.example", '<img alt="" src="http://pages.example/x.png">'),
)


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def faults_of(browser, path, size, dark, scripts, checker):
    browser.open(path, size[0], size[1], dark, scripts)
    return browser.evaluate(checker) + browser.noise()


def try_checks(browser, checker):
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for expected, body in FAULTY:
            path = os.path.join(folder, "faulty.html")
            with open(path, "w", encoding="utf-8") as file:
                file.write('<!doctype html><meta charset="utf-8"><title>faulty</title><body>' + body +
                           '<script type="application/json" id="data">{"a": 5}</script>')
            found = faults_of(browser, path, SIZES[0], False, True, checker)
            if not any(expected in fault for fault in found):
                faults.append("the checks do not see: {} ({})".format(expected, found))
    return faults


def data_block(path):
    with open(path, encoding="utf-8") as file:
        block = re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read(), re.S)
    return json.loads(block.group(1)) if block else None


def check_page(browser, path, checker, interact, pictures):
    name = os.path.basename(path)
    faults = []
    if os.path.getsize(path) > MAX_BYTES:
        faults.append("{} bytes".format(os.path.getsize(path)))
    for size in SIZES:
        for dark in (False, True):
            label = "{} px {}".format(size[0], "dark" if dark else "light")
            faults += [label + ": " + f for f in faults_of(browser, path, size, dark, True, checker)]
            if pictures:
                browser.screenshot(os.path.join(pictures, "{}-{}-{}.png".format(
                    os.path.splitext(name)[0], size[0], "dark" if dark else "light")))
            if not dark:
                faults += [label + ": " + f for f in browser.evaluate(interact) + browser.noise()]
    faults += ["420 px without scripts: " + f
               for f in faults_of(browser, path, SIZES[1], False, False, checker)]
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chromium", required=True)
    parser.add_argument("--make")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--pictures", help="folder for a screenshot of each state")
    parser.add_argument("--only", nargs="+", help="names of pages without .html")
    parser.add_argument("--json", action="append", default=[], metavar="PAGE=FILE")
    options = parser.parse_args()
    if options.make:
        subprocess.run([options.make, options.folder], check=True, stdout=subprocess.DEVNULL)
    if options.pictures:
        os.makedirs(options.pictures, exist_ok=True)
    pages = sorted(p for p in os.listdir(options.folder) if p.endswith(".html") and
                   (not options.only or os.path.splitext(p)[0] in options.only))
    failed = 0
    if len(pages) < len(options.only or ["one"]):
        print("pages are missing in", options.folder)
        failed += 1
    checker, interact = read("checker.js"), read("interact.js")
    browser = Browser(options.chromium)
    try:
        results = [("the checks", try_checks(browser, checker))]
        for page in pages:
            path = os.path.join(options.folder, page)
            results.append((page, check_page(browser, path, checker, interact, options.pictures)))
    finally:
        browser.close()
    for pair in options.json:
        page, file = pair.split("=", 1)
        with open(file, encoding="utf-8") as source:
            same = json.load(source) == data_block(os.path.join(options.folder, page))
        results.append((pair, [] if same else ["the data block differs"]))
    for name, faults in results:
        print(name + ":", "ok" if not faults else "{} faults".format(len(faults)))
        for fault in faults[:20]:
            print("  " + fault)
        failed += bool(faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
