"""Headless Chromium driven through its debugging pipe: no network port, standard library only."""

import base64
import json
import os
import select
import shlex
import shutil
import subprocess
import tempfile
import time


class BrowserError(Exception):
    pass


class Browser:
    """One browser with one tab. Messages are JSON, each ended by a zero byte (remote-debugging-pipe)."""

    def __init__(self, chromium):
        self.profile = tempfile.mkdtemp(prefix="sextant-pages-")
        command_read, self.command_write = os.pipe()
        self.reply_read, reply_write = os.pipe()
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage",
            "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
            "--user-data-dir=" + self.profile, "--remote-debugging-pipe", "about:blank",
        ]
        line = "exec {} 3<&{} 4>&{}".format(
            " ".join(shlex.quote(word) for word in [chromium] + flags), command_read, reply_write)
        self.log = open(os.path.join(self.profile, "browser.log"), "wb")
        # bash, because dash takes only one digit in 3<&10.
        self.process = subprocess.Popen(["bash", "-c", line], pass_fds=(command_read, reply_write),
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(command_read)
        os.close(reply_write)
        self.buffer = b""
        self.next_id = 0
        self.events = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close", seconds=5)
        except BrowserError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.command_write)
        os.close(self.reply_read)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def _receive(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            ready = select.select([self.reply_read], [], [], max(left, 0))[0] if left > 0 else []
            if not ready:
                raise BrowserError("the browser does not answer")
            chunk = os.read(self.reply_read, 1 << 20)
            if not chunk:
                with open(self.log.name, "rb") as file:
                    raise BrowserError("the browser ended: " + file.read()[-2000:].decode(errors="replace"))
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, seconds=120, **params):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.command_write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + seconds
        while True:
            reply = self._receive(deadline)
            if reply.get("id") == self.next_id:
                if "error" in reply:
                    raise BrowserError(method + ": " + reply["error"]["message"])
                return reply["result"]
            if "method" in reply:
                self.events.append(reply)

    def open(self, path, width, height, dark, scripts=True):
        """Loads a file. Afterwards `self.events` holds what happened since."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        for url in ("about:blank", "file://" + os.path.abspath(path)):
            self.events = []
            self.call("Page.navigate", url=url)
            self._wait_for_load()

    def _wait_for_load(self):
        deadline = time.monotonic() + 120
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            reply = self._receive(deadline)
            if "method" in reply:
                self.events.append(reply)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def screenshot(self, path):
        size = self.evaluate("({w: document.documentElement.clientWidth, h: document.documentElement.scrollHeight})")
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": size["w"], "height": size["h"], "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def noise(self):
        """Console messages, uncaught errors, dialogs and requests since `open`, as sentences."""
        out = []
        for event in self.events:
            params = event.get("params", {})
            method = event["method"]
            if method == "Runtime.consoleAPICalled":
                out.append("console." + params["type"] + ": " +
                           " ".join(str(a.get("value", a.get("description", "?"))) for a in params["args"]))
            elif method == "Runtime.exceptionThrown":
                out.append("uncaught: " + params["exceptionDetails"].get("text", "") + " " +
                           params["exceptionDetails"].get("exception", {}).get("description", ""))
            elif method == "Log.entryAdded":
                out.append("log: " + params["entry"]["text"])
            elif method == "Page.javascriptDialogOpening":
                out.append("dialog: " + params["message"])
            elif method == "Network.requestWillBeSent" and params.get("type") != "Document":
                out.append("request: " + params["request"]["url"][:200])
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith("file://"):
                out.append("request: " + params["request"]["url"][:200])
        return out
