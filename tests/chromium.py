"""A real browser for tests and pictures: Chromium without a window, spoken to over a pair of pipes.

It speaks the Chrome DevTools Protocol, messages of JSON that end in a zero byte, on its file descriptors 3 and 4
(https://chromedevtools.github.io/devtools-protocol/, `--remote-debugging-pipe`): no port, no package.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# A start takes one to three seconds; a page of ours is there in some hundredths of one.
_TIMEOUT_SECONDS = 60


def find_chromium() -> str | None:
    """The browser that is installed: what CHROMIUM names, or one of the usual commands."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """One tab. What the page asks the network for is refused, and listed in `requests`."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Above 4, so that neither is overwritten before it is passed on.
        passed = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs_in, theirs_out)]
        self._pid = os.posix_spawn(
            program,
            [
                program,
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",  # which root and many containers cannot have; only our own pages are opened
                "--no-first-run",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--hide-scrollbars",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={profile}",
            ],
            {**os.environ, "HOME": str(profile)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, passed[0], 3),
                (os.POSIX_SPAWN_DUP2, passed[1], 4),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setpgroup=0,
        )
        for fd in (theirs_in, theirs_out, *passed):
            os.close(fd)
        self._received = b""
        self._last = 0
        self._session: str | None = None
        self.requests: list[str] = []
        """Addresses that the page asked for."""
        self.complaints: list[str] = []
        """What the page wrote to its console, and its uncaught errors."""
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and all its processes."""
        os.close(self._out)
        os.close(self._in)
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = memoryview(json.dumps(message).encode() + b"\0")
        while data:
            data = data[os.write(self._out, data) :]
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            reply = self._receive(deadline)
            if reply.get("id") == self._last:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']['message']}")
                result: dict[str, Any] = reply["result"]
                return result
            self._note(reply)

    def show(self, page: str) -> None:
        """Show a page, and forget what earlier ones asked and said."""
        frame = self.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.setDocumentContent", frameId=frame, html=page)
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript, awaited."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description", "an exception"))
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key: its name, its key code, and what it writes."""
        for kind in ("keyDown", "keyUp"):
            written = {"text": text} if kind == "keyDown" and text else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **written)

    def look(self, *, dark: bool = False, width: int = 900, height: int = 800, scale: float = 1) -> None:
        """Set what the reader's system prefers, and the size of the window in CSS pixels."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": scale}
        self.call("Emulation.setDeviceMetricsOverride", **size, mobile=width < 500)

    def picture(self, top: float = 0, height: float | None = None) -> bytes:
        """A PNG of the page as wide as the window, from `top` on."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": top, "width": size["width"], "height": height or size["height"] - top, "scale": 1}
        taken = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(taken["data"])

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            piece = os.read(self._in, 1 << 20) if ready else b""
            if not piece:
                raise RuntimeError("the browser has died" if ready else "the browser does not answer")
            self._received += piece
        message, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(told["args"]))
            case "Runtime.exceptionThrown":
                self.complaints.append(str(told["exceptionDetails"]))
            case "Log.entryAdded":
                self.complaints.append(told["entry"]["text"])


@contextmanager
def chromium(program: str, profile: Path) -> Iterator[Chromium]:
    """A browser that ends with the block."""
    browser = Chromium(program, profile)
    try:
        yield browser
    finally:
        browser.close()
