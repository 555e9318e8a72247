#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The documents' site, built anew and looked at in a real Chromium from the disk: site_test.py BUILD

Pictures are kept in BUILD/site-pictures.
"""
import json
import pathlib
import subprocess
import sys
import unittest

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "test/see"))
from browser import Browser  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SITE, PICTURES = BUILD / "site-test", BUILD / "site-pictures"

# Texts whose colour is too near to the ground behind them: [[text, contrast]].
CONTRASTS = """(() => {
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const ground = (n) => { for (; n; n = n.parentElement) { const c = getComputedStyle(n).backgroundColor; if (!/, 0\\)$|transparent/.test(c)) return c; } return "rgb(255, 255, 255)"; };
  const low = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const n = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || !n.checkVisibility({ checkOpacity: true, opacityProperty: true }) || n.closest(".anchor, script, style")) continue;
    const a = light(getComputedStyle(n).color), b = light(ground(n));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.push([text.slice(0, 40), Math.round(contrast * 10) / 10]);
  }
  return low.slice(0, 5);
})()"""


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([sys.executable, "-B", TREE / "tools/site/build.py", SITE], check=True)
        PICTURES.mkdir(exist_ok=True)
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.browser.errors.clear()
        self.browser.resize(1440, 900)
        self.browser.media(prefers_color_scheme="light")

    def tearDown(self):
        self.assertEqual(self.browser.errors, [], "a page threw")

    def open(self, page):
        self.browser.open(f"file://{SITE}/{page}")

    def search(self, words):
        """What is found: [(page, language of it)]. By keyboard: / goes to the search."""
        self.browser.key("/")
        self.browser.until("document.activeElement.type === 'search'", "/ leads to the search")
        self.browser.js("document.activeElement.value = ''")
        self.browser.type(words)
        self.browser.until(f"document.getElementById('results').dataset.query === {json.dumps(words)}", f"results for {words}")
        return self.browser.js("[...document.querySelectorAll('#results a')].map((a) => [a.getAttribute('href'), a.lang])")

    def test_links(self):
        subprocess.run([sys.executable, "-B", TREE / "tools/site/check.py", "site", SITE], check=True)

    def test_search(self):
        self.open("index.html")
        found = self.search("fencing token")
        self.assertIn("./concepts.html", {page.partition("#")[0] for page, _ in found})
        self.browser.picture(PICTURES / "search.png")
        self.browser.key("ArrowDown")
        wanted = self.browser.js("document.querySelectorAll('#results a')[1].href")
        self.browser.key("Enter")
        self.browser.until(f"location.href === {json.dumps(wanted)} && document.readyState === 'complete'", "Enter opens the second result")
        self.assertEqual(self.search("holdfast-run")[0][0].partition("#")[0].rpartition("/")[2], "holdfast-run.1.html")
        self.assertEqual(self.search("xyzzy-nowhere"), [])

    def test_questions(self):
        """Somebody who asks finds a guide first, in the language of the page."""
        for words in ("redis restarts", "take over", "who holds", "redis restart", "windows"):
            self.open("index.html")
            with self.subTest(words=words):
                found = self.search(words)
                self.assertTrue(found)
                self.assertEqual({language for _, language in found}, {"en"})
                self.assertNotRegex(found[0][0], r"/(api|man)/")
                for page, _ in found[:3]:
                    self.assertNotRegex(page, r"/api/|/man/hf_")
        self.open("index.html")
        self.assertRegex(self.search("hf_limit_take")[0][0], r"hf_limit_take")
        self.open("zh-CN/index.html")
        self.assertEqual({language for _, language in self.search("zookeeper")}, {"zh-CN"})
        self.assertEqual({language for _, language in self.search("hf_sql_lock")}, {"en"})  # better than nothing

    def test_faults(self):
        """The table of faults: what is a column is seen at every cell."""
        for size, phone in (((1440, 900), False), ((390, 844), True)):
            self.browser.resize(*size, phone=phone)
            self.open("faults.html")
            self.browser.js("""(() => { const box = document.querySelector('.faults').parentElement;
                box.scrollIntoView(); box.scrollTop = 200; box.scrollLeft = 150; })()""")
            with self.subTest(phone=phone):
                self.assertTrue(self.browser.js("""(() => {
                    const box = document.querySelector('.faults').parentElement.getBoundingClientRect();
                    const head = document.querySelector('.faults thead th:nth-child(5)').getBoundingClientRect();
                    const first = document.querySelector('.faults tbody tr:nth-child(9) td').getBoundingClientRect();
                    return Math.abs(head.top - box.top) < 3 && Math.abs(first.left - box.left) < 3; })()"""))
            self.browser.picture(PICTURES / f"faults-{size[0]}.png")

    def test_search_in_chinese(self):
        for page in ("index.html", "zh-CN/index.html"):
            self.open(page)
            for words in ("续期", "看门狗", "看门狗的续期"):  # the last stands nowhere as it is
                with self.subTest(page=page, words=words):
                    found = self.search(words)
                    self.assertEqual(found[0][1] if found else "nothing", "zh-CN")
        self.browser.picture(PICTURES / "search-zh.png")

    def test_other_language(self):
        self.open("concepts.html")
        self.browser.click("a.switch")
        self.browser.until("location.pathname.endsWith('/zh-CN/concepts.html')")
        self.browser.click("a.switch")
        self.browser.until("!location.pathname.includes('zh-CN') && location.pathname.endsWith('/concepts.html')")

    def test_copy(self):
        self.open("lab.html")
        self.browser.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
        self.browser.click(".code .copy")
        self.assertIn("holdfast lab pause", self.browser.until("window.copied"))

    def test_phone(self):
        """No page is wider than a phone; what is wide scrolls in itself."""
        self.browser.resize(390, 844, phone=True)
        for file in sorted(SITE.rglob("*.html")):
            page = file.relative_to(SITE)
            self.open(page)
            with self.subTest(page=str(page)):
                self.assertLessEqual(self.browser.js("document.documentElement.scrollWidth"), 390)
        self.open("quickstart.html")
        self.browser.click("details.pages > summary")
        self.browser.until("document.querySelector('nav.side').checkVisibility()")
        self.browser.picture(PICTURES / "phone.png")

    def test_contrast(self):
        for mode in ("light", "dark"):
            self.browser.media(prefers_color_scheme=mode)
            for page in ("index.html", "lab.html", "faults.html", "c-api.html", "man/holdfast-run.1.html", "zh-CN/index.html"):
                self.open(page)
                with self.subTest(mode=mode, page=page):
                    self.assertEqual(self.browser.js(CONTRASTS), [])
                self.browser.picture(PICTURES / f"{mode}-{page.replace('/', '-')}.png")


if __name__ == "__main__":
    unittest.main()
