#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The live page in a real Chromium, on the real server and real stores: page.py [CASE...]

Every case has a store and a server of its own, and the browser is shared. Nothing depends on a time being short: a case waits until the
page shows what it should. Pictures are kept in BUILD/see-pictures.
"""
import json
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import feed  # noqa: E402
from browser import Browser  # noqa: E402
from store import BREAK_TOKEN, BUILD, LIMIT_S, Place, READ_TOKEN, wait_for  # noqa: E402

PICTURES = BUILD / "see-pictures"
NAMES = "[...document.querySelectorAll('.row:not(.gone)')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((row) => row.querySelector('.c-name').textContent)"


def row(name):
    return f"[...document.querySelectorAll('.row')].find((row) => row.querySelector('.c-name').textContent === {json.dumps(name)})"


def cell(name, cell_name):
    return f"{row(name)}?.querySelector('.c-{cell_name}').textContent"


def state(name, wanted):
    return f"{row(name)}?.dataset.state === {json.dumps(wanted)}"


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        PICTURES.mkdir(exist_ok=True)
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.place = Place()
        self.addCleanup(self.place.close)
        self.browser.errors.clear()
        self.browser.resize(1440, 900)
        self.browser.media(prefers_color_scheme="dark", prefers_reduced_motion="no-preference")
        self.browser.mouse(700, 20)

    def tearDown(self):
        self.assertEqual(self.browser.errors, [], "the page threw, or the policy refused something")

    def show(self, *stores, **more):
        self.serve, self.url = self.place.serve(*stores, **more)
        self.browser.open(self.url)
        self.browser.js("localStorage.clear()")
        self.browser.open(self.url + "?fresh")
        self.browser.until("document.querySelector('#live.is-live')", "live")

    def picture(self, name):
        self.browser.picture(PICTURES / f"{name}.png")

    def click_row(self, name):
        self.browser.until(row(name), f"a row {name}")
        place = self.browser.js(f"(() => {{ const r = {row(name)}.getBoundingClientRect(); return [r.x + 60, r.y + r.height / 2]; }})()")
        self.browser.mouse(*place, click=True)

    # ---- what arrives

    def test_updates_arrive(self):
        browser, place = self.browser, self.place
        self.show()
        browser.until("document.body.innerText.includes('Nobody holds or waits for anything.')", "the empty store")
        self.picture("empty")
        first = place.hold("demo")
        browser.until(state("demo", "held"), "held")
        second = place.hold("demo")
        browser.until(state("demo", "wanted"), "wanted")
        self.assertEqual(browser.js(f"{row('demo')}.querySelector('.c-waiters b').textContent"), "1")
        self.click_row("demo")
        browser.mouse(700, 20)
        browser.until("document.querySelectorAll('.waiter:not(.head)').length === 1", "its queue")
        token = browser.js(cell("demo", "token"))
        shown = json.loads(place.command("show", "demo", "--json").stdout)
        self.assertIn(token, json.dumps(shown), "the token of the page is that of the command")
        self.assertIn(str(second.pid), browser.js("document.querySelector('.waiter:not(.head)').textContent"))
        self.picture("queue")
        self.assertEqual(place.let_go(first), 0)
        browser.until(state("demo", "held"), "held by the second one")
        browser.until(f"{cell('demo', 'token')} !== {json.dumps(token)}", "another token")
        browser.until("document.querySelectorAll('.waiter:not(.head)').length === 0", "nobody waits")
        place.let_go(second)
        browser.until("document.body.innerText.includes('Nobody holds or waits for anything.')", "the empty store again")

    def test_a_real_deadlock(self):
        browser, place = self.browser, self.place
        self.show()
        place.crosswise("order/7741", "stock/sku-118")
        browser.until("document.querySelectorAll('#graph-body .box.in-circle').length === 2", "a circle of two")
        for name in ("order/7741", "stock/sku-118"):
            browser.until(state(name, "deadlock"), f"{name} in a deadlock")
        edges = browser.js("[...document.querySelectorAll('#graph-body .circle-arrow')].map((arrow) => [arrow.dataset.from, arrow.dataset.to])")
        self.assertEqual(len(edges), 2)
        self.assertEqual(edges[0], edges[1][::-1], "each waits for the other")
        has = {node: text for node, text in browser.js("[...document.querySelectorAll('#graph-body .box')].map((box) => [box.dataset.node, box.querySelector('.box-what').textContent])")}
        labels = browser.js("[...document.querySelectorAll('#graph-body .circle-label tspan:last-child')].map((label) => label.textContent)")
        self.assertEqual(sorted(has.values()), ["order/7741", "stock/sku-118"])
        for (_, to), label in zip(edges, labels):
            self.assertEqual(has[to], label, "the arrow goes to the one that has what it says")
        self.assertEqual(browser.js("[...document.querySelectorAll('#graph-body .number')].map((number) => number.textContent).join()"), "1,2")
        browser.until("document.querySelector('#announce').textContent.includes('New deadlock')", "a word for screen readers")
        browser.until("document.querySelector('.chip.deadlock')", "the chip")
        before = browser.js("[...document.querySelectorAll('#graph-body .box rect')].map((rect) => rect.getAttribute('x') + ' ' + rect.getAttribute('y')).join()")
        third = place.hold("order/7741")
        browser.until("document.querySelector('#graph-body .pill')", "one that waits outside of the circle")
        self.assertEqual(browser.js("[...document.querySelectorAll('#graph-body .box rect')].map((rect) => rect.getAttribute('x') + ' ' + rect.getAttribute('y')).join()"),
                         before, "the boxes keep their places")
        self.click_row("order/7741")
        browser.mouse(700, 20)
        self.picture("deadlock-dark")
        browser.media(prefers_color_scheme="light")
        self.picture("deadlock-light")
        browser.resize(390, 844, True)
        browser.js("document.querySelector('#tab-graph').click()")
        browser.until("document.querySelectorAll('#graph-body .box.in-circle').length === 2")
        self.picture("deadlock-phone")
        browser.resize(1440, 900)
        browser.until("document.querySelector('#graph-says .command')", "the command that ends it")
        words = browser.js("document.querySelector('#graph-says .command').textContent").split()
        self.assertEqual(browser.js("(() => { const c = document.querySelector('#graph-says .command'); return c.clientHeight < 2 * parseFloat(getComputedStyle(c).lineHeight) + 14 && getComputedStyle(c).whiteSpace; })()"), "nowrap",
                         "one line: two would read as two commands")
        self.assertEqual(browser.js("document.querySelector('#graph-says button.copy').textContent"), "Copy")
        self.picture("deadlock-remedy")
        self.assertEqual(words[:2], ["holdfast", "break"])
        self.assertEqual(place.command(*words[1:]).returncode, 0, "the command of the page does what it says")
        browser.until("document.querySelectorAll('.in-circle').length === 0", "no circle any more")
        place.let_go(third)

    def test_breaking_needs_the_right(self):
        browser, place = self.browser, self.place
        self.show()
        holder = place.hold("deploy")
        self.click_row("deploy")
        browser.until("document.querySelector('.detail .card .line')", "the detail")
        self.assertIn("read only", browser.js("document.querySelector('.detail header').innerText"))
        self.assertFalse(browser.js("!!document.querySelector('.detail button.danger')"), "no button without the right")
        self.give_token("no-such-token-0000000")
        browser.until("document.querySelector('#token').open && document.querySelector('#token').textContent.includes('refused')", "a wrong token is refused")
        self.picture("token-refused")
        browser.key("Escape")
        browser.until("document.querySelector('#live.is-live')", "still live without a token")
        self.give_token(READ_TOKEN)
        browser.until("!document.querySelector('#token').open && document.querySelector('#live.is-live')")
        self.assertFalse(browser.js("!!document.querySelector('.detail button.danger')"), "reading is not breaking")
        self.give_token(BREAK_TOKEN)
        browser.until("document.querySelector('.detail button.danger')", "the button, with the right")
        browser.click(".detail button.danger")
        browser.until("document.querySelector('#break').open")
        browser.type("deplo")
        self.assertTrue(browser.js("document.querySelector('#break button.danger').disabled"), "not by half a name")
        self.picture("break")
        browser.key("Enter")
        self.assertIsNone(holder.poll())
        browser.type("y")
        browser.until("!document.querySelector('#break button.danger').disabled")
        browser.key("Enter")
        browser.until("!document.querySelector('#break').open", "it is broken")
        browser.until("document.querySelector('#toast').textContent.includes('deploy')")
        self.assertNotEqual(holder.wait(LIMIT_S), 0, "the holder has heard of it")
        self.assertNotIn(BREAK_TOKEN, browser.js("JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie + document.documentElement.outerHTML"),
                         "the token is in memory only")

    def give_token(self, token):
        browser = self.browser
        browser.until("document.querySelector('.detail [data-focus=token]')", "read only")
        browser.click(".detail [data-focus=token]")
        browser.until("document.querySelector('#token').open")
        browser.type(token)
        browser.key("Enter")

    def test_hostile_names_do_no_harm(self):
        browser, place = self.browser, self.place
        self.show()
        hostile = ["<img src=x onerror=window.pwned=1>", "<script>window.pwned=1</script>", "a\x1b[31mred\nline", "abc\u202egnp.exe", "x" * 500,
                   b"not\xfftext\xc0", "javascript:window.pwned=1", "\"'><svg onload=window.pwned=1>", "${window.pwned=1}", "عربي\u200f"]
        held = [place.hold(name, "--label", "<b onmouseover=window.pwned=1>bold</b>\u202e") if isinstance(name, str) else place.hold(name) for name in hostile]
        browser.until(f"document.querySelectorAll('.row').length === {len(hostile)}", "all of them")
        for i in range(len(hostile)):
            browser.js(f"document.querySelectorAll('.row')[{i}].click()")
            browser.until("document.querySelector('.detail .card .line')", "its detail")
        browser.js("document.querySelector('#search').focus()")
        browser.type("<img src=x onerror=window.pwned=2>no")
        browser.until("document.querySelector('#over').innerText.includes('No name has')", "no match")
        self.assertIn("onerror", browser.js("document.querySelector('#over').innerText"))
        browser.click("#over button")
        browser.until(f"document.querySelectorAll('.row').length === {len(hostile)}", "cleared")
        self.assertIsNone(browser.js("window.pwned ?? null"))
        self.assertEqual(browser.js("document.querySelectorAll('img, iframe, object, script:not([src]), [onerror], [onload], .row svg [onload]').length"), 0)
        texts = browser.js("document.body.innerText")
        self.assertFalse([c for c in texts if ord(c) < 32 and c not in "\n\t" or c in "\u202e\u200f\u202d\u2066"], "nothing that a terminal or the eye would obey")
        bytes_shown = browser.js("[...document.querySelectorAll('.row .byte')].map((byte) => byte.textContent)")
        for shown in ("\\x1b", "\\n", "\\u{202e}", "\\xff", "\\xc0"):
            self.assertIn(shown, bytes_shown)
        self.assertTrue(browser.js("[...document.querySelectorAll('.row')].every((row) => row.offsetHeight === 32)"), "no row is higher than another")
        self.assertTrue(browser.js("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the page")
        self.picture("hostile")
        for process in held:
            place.let_go(process)

    # ---- away and back

    def test_reconnect_after_a_kill(self):
        browser, place = self.browser, self.place
        self.show()
        place.hold("steady")
        browser.until(state("steady", "held"))
        where = browser.js("JSON.stringify(document.querySelector('#rows').getBoundingClientRect())")
        port = int(self.url.rsplit(":", 1)[1].strip("/"))
        self.serve.send_signal(signal.SIGKILL)
        self.serve.wait(LIMIT_S)
        browser.until("/again in \\d+s/.test(document.querySelector('#live').textContent)", "a countdown")
        browser.until("document.body.classList.contains('away')")
        self.assertTrue(browser.js(f"!!{row('steady')}"), "the last known rows stay")
        browser.js("new Promise((done) => setTimeout(done, 1500))")  # what it was when the stream ended is shown by now
        age = browser.js(cell("steady", "age"))
        browser.js("new Promise((done) => setTimeout(done, 2500))")
        self.assertEqual(browser.js(cell("steady", "age")), age, "ages stop")
        self.assertEqual(browser.js("JSON.stringify(document.querySelector('#rows').getBoundingClientRect())"), where, "nothing moves when the server goes")
        browser.until("document.querySelector('#strip').textContent.includes('has not answered for')", "what happened")
        self.picture("server-away")
        place.hold("meanwhile")
        place.serve(port=port)
        browser.until("document.querySelector('#live.is-live')", "live again")
        browser.until(state("meanwhile", "held"), "what happened meanwhile")
        self.assertFalse(browser.js("document.body.classList.contains('away')"))

    def test_a_store_goes_away(self):
        browser, place = self.browser, self.place
        redis, url = place.redis()
        self.show(url, place.url)
        place.hold("on-redis", url=url)
        place.hold("on-disk")
        browser.until(state("on-redis", "held"), "the first store")
        redis.send_signal(signal.SIGKILL)
        redis.wait(LIMIT_S)
        browser.until("/has not answered for .*; trying again/.test(document.querySelector('#strip').textContent)", "what, since when, what next")
        self.assertTrue(browser.js("document.body.classList.contains('stale')"))
        self.assertTrue(browser.js(f"!!{row('on-redis')}"), "the last known rows stay")
        self.picture("store-away")
        browser.key("v")
        browser.until("document.querySelectorAll('#side .panel').length === 2", "side by side")
        self.assertEqual(browser.js("document.querySelectorAll('#side .panel.stale').length"), 1, "the other one is as it was")
        self.assertIn("on-disk", browser.js("document.querySelector('#side .panel:not(.stale)').innerText"))
        self.picture("side-by-side")
        browser.key("2")
        browser.until(state("on-disk", "held"), "the second store by its key")
        self.assertFalse(browser.js("document.body.classList.contains('stale')"))

    def test_what_is_not_known_is_a_dash(self):
        """A store that has never answered: no zero, no "nobody", no time of a picture that never was; and an outage is red."""
        browser, place = self.browser, self.place
        self.show("redis://127.0.0.1:1", place.url)
        browser.until("document.querySelector('#strip .chip.bad.long')?.textContent.includes('has not answered for')", "the outage, in red")
        browser.until("document.querySelectorAll('.store')[1].querySelector('.health.absent')", "the other store is not there yet: no green tick for it")
        self.assertEqual(browser.js("document.querySelector('.store .names').textContent"), "–")
        self.assertTrue(browser.js("!!document.querySelector('.store .health.away')"))
        self.assertEqual(browser.js("document.querySelector('#filters').textContent.replace(/\\s+/g, ' ').trim()"), "All –")
        text = browser.js("document.body.innerText")
        for claim in ("Nobody", "Shown as of"):
            self.assertNotIn(claim, text)
        self.assertIn("It is not known who waits", text)
        self.assertTrue(browser.js("document.querySelector('#live').classList.contains('grey')"), "we hear the server, and nothing of the store")
        red = browser.js("getComputedStyle(document.querySelector('#strip .chip.bad')).color")
        self.assertEqual(browser.js("getComputedStyle(document.querySelector('.store .health.away')).color"), red)
        self.picture("unknown")
        browser.key("l")
        self.picture("unknown-zh")
        browser.key("l")
        browser.key("2")
        browser.until("document.body.innerText.includes('Nobody holds or waits for anything.')", "of the other one it is known")

    def test_a_lost_lease_is_told(self):
        browser, place = self.browser, self.place
        redis, url = place.redis()
        self.show(url)
        holder = place.hold("nightly", "--ttl", "3s", url=url)
        browser.until(state("nightly", "held"), "held")
        browser.until(f"{row('nightly')}.querySelector('.c-token').textContent.length > 6", "its token")
        token = browser.js(cell("nightly", "token"))
        holder.send_signal(signal.SIGSTOP)
        try:
            browser.until(state("nightly", "lost"), "lost")
            self.click_row("nightly")
            browser.until("document.querySelector('#detail .card.lost')", "what happened")
            told = browser.js("document.querySelector('#detail').innerText")
            self.assertIn(token, told)
            self.assertIn("ran out", told)
            self.assertNotIn("Nobody has it", told)
            self.picture("lost")
        finally:
            holder.send_signal(signal.SIGCONT)

    # ---- what a person does

    def test_stores_are_told_apart_by_their_ends(self):
        browser = self.browser
        self.show("redis://127.0.0.1:24001", "redis://127.0.0.1:24002")
        shown = """[...document.querySelectorAll('.store:not(.all) b')].map((name) => { const end = name.querySelector('.end'); const tab = name.closest('.store').getBoundingClientRect();
            const at = end.getBoundingClientRect(); return [end.textContent, end.scrollWidth <= end.clientWidth + 1 && at.right <= tab.right && at.width > 0]; })"""
        for width in (1440, 1024, 390):
            browser.resize(width, 844)
            browser.until("document.querySelectorAll('.store:not(.all)').length === 2", "two stores")
            ends = browser.js(shown)
            self.assertEqual([end[-5:] for end, _ in ends], ["24001", "24002"], width)
            self.assertTrue(all(whole for _, whole in ends), f"the end of the name is in view at {width}: {ends}")
            self.picture(f"tabs-{width}")

    def test_a_star_is_one_box(self):
        browser, place = self.browser, self.place
        self.show()
        place.hold("convert")
        browser.until(state("convert", "held"), "held")
        for _ in range(6):
            place.hold("convert")
        browser.until(f"{row('convert')}?.querySelector('.c-waiters b').textContent === '6'", "six wait")
        browser.key("g")
        browser.until("/^6 wait, longest \\d/.test(document.querySelector('#full-body .pill text')?.textContent)", "one box for the six")
        self.assertEqual(browser.js("[document.querySelectorAll('#full-body .pill').length, document.querySelectorAll('#full-body .box').length, document.querySelectorAll('#full-body .other-arrow').length]"), [1, 1, 1])
        self.picture("star")

    def test_names_have_room_and_are_in_order(self):
        browser, place = self.browser, self.place
        self.show()
        names = [f"billing:invoice:{n}" for n in (7, 12, 102)]
        for name in reversed(names):
            place.hold(name)
        for name in names:
            browser.until(row(name), f"all of {name} is shown at 1440")
        self.assertEqual(browser.js(NAMES), names, "7 before 12 before 102")
        self.picture("names-1440")

    def test_many_stores_fit_the_head(self):
        browser, place = self.browser, self.place
        stores = [f"file:{place.dir}/a-store-with-a-rather-long-address/of-the-number/{i}" for i in range(5)]
        self.show(*stores)
        browser.until("document.querySelectorAll('.store').length === 6", "five stores, and all of them side by side")
        for width in (1440, 1920):
            browser.resize(width, 900)
            cut = browser.js("(() => { const all = document.querySelector('#stores').getBoundingClientRect(); return [...document.querySelectorAll('.store')].filter((tab) => tab.getBoundingClientRect().right > all.right + 1).length; })()")
            self.assertEqual(cut, 0, f"every store is in view at {width}")
            self.assertEqual(browser.js("document.querySelector('.tools').getBoundingClientRect().right <= innerWidth"), True)

    def test_rows_stand_still_under_the_pointer(self):
        browser, place = self.browser, self.place
        self.show()
        for name in ("bb", "cc"):
            place.hold(name)
        browser.until(f"JSON.stringify({NAMES}) === '[\"bb\",\"cc\"]'", "two names in order")
        place_of = browser.js("(() => { const r = document.querySelector('#rows').getBoundingClientRect(); return [r.x + 200, r.y + 200]; })()")
        browser.mouse(*place_of)
        place.hold("aa")
        browser.until("!document.querySelector('#changes').hidden", "a change that waits")
        self.assertEqual(browser.js("document.querySelector('#changes').textContent"), "1 change")
        self.assertEqual(browser.js(NAMES), ["bb", "cc"], "nothing has moved")
        place.hold("cc")
        browser.until(state("cc", "wanted"), "values change in place")
        self.assertEqual(browser.js(NAMES), ["bb", "cc"])
        self.picture("changes")
        browser.mouse(700, 20)
        browser.until(f"JSON.stringify({NAMES}) === '[\"cc\",\"aa\",\"bb\"]'", "waiters first, once the pointer has left")
        self.assertTrue(browser.js("document.querySelector('#changes').hidden"))

    def test_keyboard_language_theme(self):
        browser, place = self.browser, self.place
        self.show()
        for name in ("one", "two", "three"):
            place.hold(name)
        browser.until(f"{NAMES}.length === 3")
        browser.key("j")
        browser.key("j")
        browser.until("document.querySelector('.row.cursor .c-name')?.textContent === 'three'", "j moves")
        browser.key("k")
        browser.until("document.querySelector('.row.cursor .c-name')?.textContent === 'one'", "k moves back")
        self.assertEqual(browser.js("getComputedStyle(document.querySelector('.row.cursor')).outlineWidth"), "2px", "a ring that is seen")
        browser.key("Enter")
        browser.until("document.querySelector('.row.opened .c-name')?.textContent === 'one' && document.querySelector('.detail h2')?.textContent === 'one'", "Enter opens")
        browser.key("Escape")
        browser.until("!document.querySelector('.row.opened') && document.querySelector('#detail.none')", "Escape goes back, and the frame after it has been drawn")
        where = browser.js("JSON.stringify([...document.querySelectorAll('.head, #strip, #charts, #list, #graph')].map((part) => part.getBoundingClientRect()))")
        browser.key("/")
        browser.until("document.activeElement.id === 'search'")
        self.assertEqual(browser.js("JSON.stringify([...document.querySelectorAll('.head, #strip, #charts, #list, #graph')].map((part) => part.getBoundingClientRect()))"), where,
                         "the search moves nothing")
        browser.type("tw")
        browser.until(f"JSON.stringify({NAMES}) === '[\"two\"]'", "search")
        browser.key("Escape")
        browser.until(f"{NAMES}.length === 3", "Escape clears it")
        browser.key("s")
        browser.until("document.querySelector('#sort').textContent.startsWith('Name')", "s sorts")
        for key, dialog in (("g", "full"), ("d", "doctor"), ("?", "keys")):
            browser.key(key)
            browser.until(f"document.querySelector('#{dialog}').open", f"{key} opens {dialog}")
            self.picture(f"key-{dialog}")
            browser.key("Escape")
            browser.until(f"!document.querySelector('#{dialog}').open")
        browser.key("l")
        browser.until("document.documentElement.lang === 'zh-CN' && document.body.innerText.includes('持有者')", "Chinese")
        self.picture("chinese")
        browser.until("document.querySelector('#doctor-body').textContent.includes('文件系统剩余')", "findings in Chinese")
        missing = browser.js("import('/text.js').then(({tables: {en, zh}}) => Object.keys(en).filter((key) => typeof en[key] !== typeof zh[key]).concat(Object.keys(zh).filter((key) => !(key in en))))")
        self.assertEqual(missing, [], "every text is in both languages")
        browser.key("l")
        browser.until("document.documentElement.lang === 'en'")
        grounds = []
        for theme in ("dark", "light"):
            browser.key("t")
            browser.until(f"document.documentElement.dataset.theme === '{theme}'")
            grounds.append(browser.js("getComputedStyle(document.body).backgroundColor"))
        self.assertNotEqual(*grounds)
        browser.open(self.url + "?again")
        browser.until("document.documentElement.dataset.theme === 'light'", "the theme is remembered")

    def test_contrast(self):
        browser, place = self.browser, self.place
        self.show()
        place.crosswise("red/a", "red/b")
        for _ in range(3):
            place.hold("wanted")
        place.hold("held")
        browser.until(state("red/a", "deadlock"))
        browser.until(state("wanted", "wanted"))
        self.click_row("wanted")
        browser.until("document.querySelectorAll('.waiter:not(.head)').length === 2")
        browser.mouse(700, 20)
        for theme in ("dark", "light"):
            browser.media(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
            browser.until("document.getAnimations().length === 0", "what began to move before has ended")
            low = browser.js(CONTRAST)
            self.assertEqual(low, [], f"texts of too little contrast in the {theme} theme")
        browser.js("{ const animate = Element.prototype.animate; window.moved = 0;"
                   "Element.prototype.animate = function (...how) { window.moved++; return animate.apply(this, how); }; 0 }")
        place.hold("wanted")
        browser.until("document.querySelectorAll('.waiter:not(.head)').length === 3", "one more waits")
        self.assertEqual(browser.js("window.moved + document.getAnimations().length"), 0, "no motion where none is wanted")

    def test_a_phone(self):
        browser, place = self.browser, self.place
        browser.resize(390, 844, True)
        browser.media(prefers_color_scheme="light")
        self.show()
        place.hold("x" * 200)
        for _ in range(3):
            place.hold("deploy")
        browser.until(state("deploy", "wanted"))
        browser.until("document.querySelectorAll('.row[data-state=held]').length === 1", "the long name")
        self.assertTrue(browser.js("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than a phone")
        self.assertEqual(browser.js("[...document.querySelectorAll('.tabs button')].filter((tab) => tab.offsetHeight >= 44 && tab.offsetWidth >= 44).length"), 4)
        browser.js(f"{row('deploy')}.click()")
        browser.until("document.querySelectorAll('.spacer > .detail .waiter:not(.head)').length === 2", "opened in place")
        gap = browser.js(f"document.querySelector('.spacer > .detail').getBoundingClientRect().top - {row('deploy')}.getBoundingClientRect().bottom")
        self.assertLess(abs(gap), 2, "right below its row")
        last = "[...document.querySelectorAll('.row')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)[1]"
        browser.until(f"{last}.getBoundingClientRect().top >= document.querySelector('.spacer > .detail').getBoundingClientRect().bottom - 2", "the next row is below it")
        self.picture("phone")
        browser.key("l")
        browser.until(f"{row('deploy')}.querySelector('.word').textContent.trim() === '个等待'", "the words of a row change with the language")
        browser.key("l")
        for tab, shown in (("graph", "#graph"), ("charts", "#charts svg"), ("doctor", "#doctor"), ("names", "#rows")):
            browser.click(f"#tab-{tab}")
            browser.until(f"document.querySelector('{shown}').getBoundingClientRect().height > 20", f"the tab {tab}")
            self.assertTrue(browser.js("document.documentElement.scrollWidth <= innerWidth"))
            self.picture(f"phone-{tab}")

    # ---- many names, and pure parts

    def test_ten_thousand_names_stay_fluent(self):
        browser = self.browser
        server = feed.serve(10000)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        browser.open(f"http://127.0.0.1:{server.server_address[1]}/")
        browser.until("document.querySelector('#view').textContent.includes('10,000')", "all names")
        browser.js("""(() => { window.long = []; new PerformanceObserver((list) => window.long.push(...list.getEntries().map((e) => Math.round(e.duration)))).observe({entryTypes: ['longtask']});
            window.mutations = 0; new MutationObserver((list) => { window.mutations += list.length; window.batches = (window.batches ?? 0) + 1; }).observe(document.querySelector('#rows'), {subtree: true, childList: true, attributes: true, characterData: true}); })()""")
        most = 0
        for part in (0.1, 0.5, 0.9, 1, 0):
            browser.js(f"document.querySelector('#rows').scrollTop = {part} * document.querySelector('#rows').scrollHeight")
            browser.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            most = max(most, browser.js("document.querySelectorAll('.row').length"))
            box = browser.js("(() => { const r = document.querySelector('#rows').getBoundingClientRect(); return [r.x + 200, r.y + r.height / 2]; })()")
            self.assertTrue(browser.js(f"!!document.elementFromPoint({box[0]}, {box[1]}).closest('.row')"), "there is a row wherever one scrolls to")
        self.assertLess(most, 60, "as many row elements as fit the view")
        nodes = browser.js("document.querySelectorAll('*').length")
        self.assertLess(nodes, 3000, "elements of the whole page")
        browser.js("window.mutations = 0; window.batches = 0")
        browser.until("window.batches >= 12", "updates that arrive")
        each = browser.js("window.mutations / window.batches")
        self.assertLess(each, 2000, "what one update touches is bounded by the view")
        browser.js("document.querySelector('#search').focus()")
        browser.type("09999")
        browser.until(f"JSON.stringify({NAMES}) === '[\"shard/09999\"]'", "search among all")
        browser.key("Escape")
        browser.until("document.querySelector('#view').textContent.includes('10,000')")
        browser.key("g")
        browser.until("document.querySelector('#full').open && document.querySelector('#full-body').textContent.includes('folded')", "the graph of 1,000 is folded")
        self.assertLessEqual(browser.js("document.querySelectorAll('#full-body .box, #full-body .pill').length"), 31)
        browser.key("Escape")
        self.picture("ten-thousand")
        print(f"fluent: {most} rows, {nodes} elements, {each:.0f} changes of the document for each update, long tasks in ms: {browser.js('window.long')}", file=sys.stderr)

    def test_pure_parts(self):
        browser = self.browser
        self.show()
        ages = browser.js("import('/format.js').then((f) => [18, 1400, 48000, 372000, 5520000, 965000000, 0, 9999, 60000].map(f.age))")
        self.assertEqual(ages, ["18ms", "1.4s", "48s", "6m12s", "1h32m", "11d4h", "0ms", "9.9s", "1m"])
        self.assertEqual(browser.js("import('/format.js').then((f) => [599999, 859000, 5520000, 965000000, null].map(f.shortAge))"), ["9m59s", "14m", "1h", "11d", "–"])
        self.assertEqual(browser.js("import('/format.js').then((f) => [f.count(1234567), f.rate(1174.2), f.rate(0.25), f.plainCut({name: 'mailbox/adalbert@mail.example.org'}, 12)])"),
                         ["1,234,567", "1,174", "0.3", "mailbo…e.org"])
        self.assertEqual(browser.js("import('/format.js').then((g) => [g.shellWord({name: 'a/b'}), g.shellWord({name: \"it's\"}), g.shellWord({name: '-x'}), g.shellWord({name: 'a b'}), g.shellWord({name_hex: '61ff'})])"),
                         ["a/b", "$'it\\x27s'", "'-x'", "'a b'", "$'a\\xff'"])
        rings = browser.js("import('/layout.js').then((l) => [[1,2,3,4,5,6,7].map((n) => { const ids = Array.from({length: n}, (_, i) => 'n' + i); const r = l.ring(ids, 440); return [r.boxes.length, r.arrows.length, new Set(r.boxes.map((b) => b.x + ' ' + b.y)).size, JSON.stringify(r) === JSON.stringify(l.ring(ids, 440))]; }), JSON.stringify(l.turned(['b', 'c', 'a'])) === JSON.stringify(l.turned(['c', 'a', 'b']))])")
        self.assertEqual(rings[0], [[n, n, n, True] for n in range(1, 8)], "every client has a place of its own, the same each time")
        self.assertTrue(rings[1])
        slots = browser.js("import('/layout.js').then((l) => { const m = new Map(); l.slots(['a', 'b', 'c'], m); l.slots(['a', 'c'], m); l.slots(['a', 'c', 'd'], m); return [...m].sort().map((e) => e.join('')).join(); })")
        self.assertEqual(slots, "a0,c2,d1", "who stays keeps its place")
        order = browser.js("import('/store.js').then((s) => ['a1b10', 'a-102', 'a1b2', 'b', 'a-12', 'a-2', 'a', 'a10', 'a01b11', 'b0', 'a-x', 'a-99999999999', 'a-1000000000'].sort((x, y) => s.naturalKey(x) < s.naturalKey(y) ? -1 : 1))")
        self.assertEqual(order, ["a", "a-2", "a-12", "a-102", "a-1000000000", "a-99999999999", "a-x", "a1b2", "a1b10", "a01b11", "a10", "b", "b0"], "as `holdfast top` has them")
        gaps = browser.js("import('/charts.js').then((c) => { const p = [1, 2, 3, 4, 5].map((i) => ({at: i * 1000, handovers: i, away: i === 3})); return [c.segments(p, 'handovers', 6000, 1000000).length, c.gaps(p, 6000)]; })")
        self.assertEqual(gaps, [2, [[3000, 4000]]], "no line across a gap")
        rate = browser.js("""Promise.all([import('/store.js'), import('/charts.js')]).then(([s, c]) => { const world = new s.World();
            world.apply('hello', {stores: [{id: '0', name: 'x'}], rights: []});
            world.apply('history', {store: '0', reset: true, interval_ms: 5000, points: [{at: 5000, handovers: 40, away: false}]});
            const node = document.createElement('div'); new c.Charts(node).show(world.stores[0], 10000, null); return node.querySelector('.value').textContent; })""")
        self.assertEqual(rate, "8", "forty hand-overs in five seconds")
        parsed = browser.js("import('/stream.js').then((s) => { const got = []; const p = new s.Parser((e, d) => got.push(e + '=' + d)); for (const c of 'event: a\\ndata: 1\\n\\n:ping\\n\\nevent: b\\ndata: x\\ndata: y\\n\\nevent: c\\ndata: 3\\n') p.feed(c); return got; })")
        self.assertEqual(parsed, ["a=1", "b=x\ny"])


# Every text that is shown, against the ground below it. Colours may be semi-transparent only where a ground shows through.
CONTRAST = r"""(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => { for (; node; node = node.parentElement) { const back = rgba(getComputedStyle(node).backgroundColor); if (back[3] === 255) return back; } return [255, 255, 255]; };
  const low = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || node.closest(".sr, title, dialog:not([open]), :disabled:not(.live)") || !node.getClientRects().length || getComputedStyle(node).visibility === "hidden") continue;
    const svg = node.closest("svg");
    const style = getComputedStyle(node);
    let back = ground(svg ? svg.parentElement : node);
    if (svg) {
      const shape = node.closest("g.box, g.pill")?.querySelector(node.matches(".number") ? ".number-disc" : "rect");
      if (shape) back = rgba(getComputedStyle(shape).fill);
    }
    const [a, b] = [light(rgba(svg ? style.fill : style.color)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${walk.currentNode.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return low;
})()"""

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *(f"Page.{case}" for case in sys.argv[1:])])
