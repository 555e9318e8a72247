#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""draw_browser.py WRITER: the pictures and pages of made reports in a real Chromium.

Here letters have their true widths: no two texts of a picture may meet, and none may leave it. Pages fit a phone, walk through
their steps by key, and throw nothing.
"""
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "see"))
from browser import Browser  # noqa: E402

# A text box is higher than its letters: only what is left of its middle counts. The frame is that of its svg.
MEETING = """(() => {
  const bad = [];
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) continue;
    const texts = [...svg.querySelectorAll('text')].map((each) => [each.textContent, each.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0).map(([text, box]) => [text, box.left + 1, box.right - 1, box.top + box.height * .28, box.bottom - box.height * .28]);
    texts.forEach(([text, left, right, top, bottom], i) => {
      if (left < frame.left - 2 || right > frame.right + 2 || top < frame.top || bottom > frame.bottom) bad.push(`outside: ${text}`);
      for (const [other, l, r, t, b] of texts.slice(i + 1))
        if (left < r && l < right && top < b && t < bottom) bad.push(`${text} | ${other}`);
    });
  }
  return bad;
})()"""


def check(what, good, found=""):
    if not good:
        raise AssertionError(f"{what}: {found}")


def well_formed(path):
    names = {each.tag.split("}")[-1] for each in tree.parse(path).iter()}
    check(f"{path}: only shapes", not names & {"script", "image", "foreignObject", "a", "use", "animate"}, names)


def picture(browser, path, hostile):
    well_formed(path)
    browser.open(f"file://{path}")
    meeting = browser.js(MEETING)
    # a title that is far too long for its lane may be cut by the picture's edge, but nothing else
    check(f"{path}: texts that meet", hostile or not meeting, meeting)


def page(browser, path, steps, hostile):
    browser.resize(1440, 900)
    browser.open(f"file://{path}")
    for width, phone in ((1440, False), (390, True)):
        browser.resize(width, 844, phone)
        wide = browser.js("document.documentElement.scrollWidth")
        check(f"{path}: fits {width}", wide <= width, wide)
        meeting = browser.js(MEETING)
        check(f"{path}: texts that meet at {width}", hostile or not meeting, meeting)
    check(f"{path}: one script", browser.js("document.scripts.length") == 1)
    later = "document.querySelectorAll('svg.stepped .later').length"
    current = "document.querySelector('.steps li.current')?.dataset.step"
    check(f"{path}: whole at first", browser.js(later) == 0)
    if not steps:
        return
    browser.key("ArrowRight")
    check(f"{path}: step 1", browser.js(current) == "1", browser.js(current))
    first = browser.js(later)
    check(f"{path}: later is dimmed", first > 0)
    browser.key("ArrowRight")
    check(f"{path}: less is later", browser.js(later) < first, browser.js(later))
    check(f"{path}: the words", browser.js("[...document.querySelectorAll('.walk p > span')].filter((each) => !each.hidden).length") == 1)
    browser.key("ArrowLeft")
    check(f"{path}: back", browser.js(current) == "1")
    browser.key("Escape")
    check(f"{path}: whole again", browser.js(later) == 0 and browser.js("document.querySelectorAll('.veil.on').length") == 0)
    browser.click('button[data-go="1"]')
    check(f"{path}: the button", browser.js(current) == "1")
    before = browser.js("document.querySelector('h1').innerText")
    browser.key("l")
    after = browser.js("document.querySelector('h1').innerText")
    check(f"{path}: the other language", before != after and after, after)
    browser.key("t")
    check(f"{path}: dark", browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(15, 21, 27)")


def main(writer):
    with tempfile.TemporaryDirectory(prefix="holdfast-draw.") as folder:
        subprocess.run([writer, folder], check=True)
        browser = Browser(1600, 1000)
        try:
            browser.media(prefers_color_scheme="light")
            for name in sorted(os.listdir(folder)):
                path = os.path.join(folder, name)
                if name.endswith(".svg"):
                    browser.resize(1600, 1000)
                    picture(browser, path, "evil" in name)
                elif name.endswith(".html"):
                    page(browser, path, name.startswith(("pause", "nodes")), "evil" in name)
            browser.resize(390, 844, True)
            browser.open(f"file://{folder}/gallery/index.html")
            check("the gallery fits a phone", browser.js("document.documentElement.scrollWidth") <= 390)
            check("a card for each", browser.js("document.querySelectorAll('.card').length") == browser.js("[...document.querySelectorAll('.card svg')].filter((each) => each.getBoundingClientRect().width > 100).length"))
            check("nothing was thrown or refused", not browser.errors, browser.errors)
        finally:
            browser.close()


main(sys.argv[1])
