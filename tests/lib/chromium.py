# SPDX-License-Identifier: MIT
"""Headless chromium, spoken to over the DevTools protocol through a pipe; needs Python's own library
alone. What goes wrong in the page and what it asks for is kept: Browser.trouble, Browser.requests."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE = float(os.environ.get("TEST_DEADLINE", "120"))


def executable():
    return shutil.which("chromium") or shutil.which("chromium-browser")


def is_of_the_page(entry):
    """Not of what draws it: a machine without a graphics card has software for that, and warns of it."""
    return entry["level"] in ("error", "warning") and entry["source"] != "rendering"


class Browser:
    def __init__(self, width=1280, height=800, dark=False):
        self.profile = tempfile.TemporaryDirectory(prefix="pdump-chromium-")
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        command = [executable(), "--headless", "--no-sandbox", "--disable-gpu",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync",
                   "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--window-size={width},{height}", "--user-data-dir=" + self.profile.name]
        shell = ["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "sh"]
        self.process = subprocess.Popen(shell + command, pass_fds=(to_read, to_write),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.session, self.buffer = 0, None, b""
        self.trouble, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)
        self.dark(dark)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def message(self, end):
        while b"\0" not in self.buffer:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("chromium does not answer")
            part = os.read(self.back, 1 << 20)
            if not part:
                raise OSError("chromium has ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.trouble.append(given["exceptionDetails"])
        elif method == "Log.entryAdded" and is_of_the_page(given["entry"]):
            self.trouble.append(given["entry"])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.trouble.append(given)
        elif method == "Page.javascriptDialogOpening":
            self.trouble.append(given)
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        return message

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.to, text):]
        end = time.monotonic() + DEADLINE
        while True:
            answer = self.message(end)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise ValueError(f"{method}: {answer['error']}")
                return answer["result"]

    def dark(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path, fragment="", ready="document.readyState === 'complete'"):
        """The seconds until `ready` holds."""
        self.call("Page.navigate", url="about:blank")
        self.trouble, self.requests = [], []
        started = time.monotonic()
        self.call("Page.navigate", url="file://" + os.path.abspath(path) + fragment)
        while not self.run(f"location.protocol === 'file:' && Boolean({ready})"):
            if self.trouble or time.monotonic() > started + DEADLINE:
                raise TimeoutError(f"{path} does not get ready: {str(self.trouble)[:500]}")
        return time.monotonic() - started

    def run(self, code):
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def key(self, key, **more):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, **more)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def drag(self, x, y, to_x, to_y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseMoved", (x + to_x) / 2, (y + to_y) / 2, buttons=1)
        self.mouse("mouseMoved", to_x, to_y, buttons=1)
        self.mouse("mouseReleased", to_x, to_y)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path):
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => 1)")
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        os.close(self.to)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.back)
        self.profile.cleanup()
