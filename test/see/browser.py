# SPDX-License-Identifier: MIT
"""A headless Chromium, driven by its DevTools protocol over a pipe: Python's standard library alone.

Every wait is for an event of the page (until()), with a generous limit.
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

LIMIT_S = 60


class Browser:
    def __init__(self, width=1440, height=900, args=()):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if not program:
            raise SystemExit("page: there is no chromium: tools/packages.sh test")
        self.profile = tempfile.mkdtemp(prefix="holdfast-chromium.")
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()

        def pipes():  # Chromium reads commands at 3 and writes at 4
            first, second = os.dup(to_read), os.dup(from_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--disable-extensions", "--disable-background-networking", f"--user-data-dir={self.profile}",
             f"--window-size={width},{height}", *args, "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(from_write)
        self.number = 0
        self.answers = {}
        self.errors = []  # what the page threw or the policy refused
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        page = next(each for each in self.send("Target.getTargets", session=None)["targetInfos"] if each["type"] == "page")
        self.session = self.send("Target.attachToTarget", session=None, targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.send(f"{domain}.enable")
        self.resize(width, height)

    session = None

    def _read(self):
        rest = b""
        while True:
            try:
                more = os.read(self.from_read, 1 << 16)
            except OSError:
                more = b""
            if not more:
                with self.changed:
                    self.answers[None] = "ended"
                    self.changed.notify_all()
                return
            rest += more
            *whole, rest = rest.split(b"\0")
            for text in whole:
                self._take(json.loads(text))

    def _take(self, message):
        with self.changed:
            if "id" in message:
                self.answers[message["id"]] = message
            elif message.get("method") == "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["source"] in ("security", "javascript"):
                self.errors.append(message["params"]["entry"]["text"])
            self.changed.notify_all()

    def send(self, method, session="page", **params):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_write, data):]
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.answers or None in self.answers, LIMIT_S):
                raise AssertionError(f"{method}: no answer of the browser")
            answer = self.answers.pop(number, {"error": "the browser ended"})
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def js(self, text):
        """The value of an expression, or of a promise."""
        result = self.send("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{text}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def until(self, text, what=None, limit=LIMIT_S):
        """Wait until an expression is true; says what was there instead."""
        end = time.monotonic() + limit
        while True:
            value = self.js(text)
            if value or value == {}:  # an element comes as an empty object
                return value
            if time.monotonic() > end:
                raise AssertionError(f"never came: {what or text}; the page says: {self.js('document.body.innerText')[:1500]!r}")
            time.sleep(0.05)

    def open(self, url):
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def resize(self, width, height, phone=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def media(self, **features):
        self.send("Emulation.setEmulatedMedia", features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def key(self, key, text=None):
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "Tab": 9}
        extra = {"text": text or (key if len(key) == 1 else "\r" if key == "Enter" else "")}
        code = codes.get(key, 0)
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **({} if not extra["text"] else extra))
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def mouse(self, x, y, click=False):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click(self, selector):
        """A real click in the middle of what the selector finds."""
        place = self.until(f"(() => {{ const n = document.querySelector({json.dumps(selector)}); if (!n) return null; n.scrollIntoView({{block: 'nearest'}});"
                           "const r = n.getBoundingClientRect(); return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null; })()", f"{selector} to click")
        self.mouse(*place, click=True)

    def picture(self, path):
        data = self.send("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        if self.process.poll() is None:
            try:
                self.send("Browser.close", session=None)
            except (AssertionError, OSError):
                pass
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for end in (self.to_write, self.from_read):
            os.close(end)
        shutil.rmtree(self.profile, ignore_errors=True)
