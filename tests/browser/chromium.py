"""One headless Chromium, controlled by its DevTools protocol over two pipes: without a port, a
library or a further process.

It ends when its pipe closes, so it can't outlive a test run. `make browser` installs it; a missing
browser is an error that names the command, never a skip.
"""

from __future__ import annotations

import base64
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "browser"
ANSWER_SECONDS = 120
# Chromium uses the descriptors 3 and 4 for its pipes.
_AS_3_AND_4 = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
# The browser has no network: a page that requests a resource fails to get it.
_FLAGS = (
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
# The one font installed with it, so that pages look alike on every machine.
_FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>
"""


# What the browser answers where a page went away while a command ran on it.
_NAVIGATED = re.compile("navigated or closed|[Cc]ontext (was destroyed|with specified id)")


class NavigatedError(AssertionError):
    """The page went away for another one while a command ran on it."""


class Chromium:
    """A running browser."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._number = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Runs one command of the protocol; events before its answer are stored in `events`."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            got = self._next(until)
            if got.get("id") != self._number:
                self.events.append(got)
            elif "error" in got:
                kind = NavigatedError if _NAVIGATED.search(str(got["error"])) else AssertionError
                raise kind(f"{method}: {got['error']}")
            else:
                result: dict[str, Any] = got["result"]
                return result

    def wait_for(self, method: str, session: str) -> None:
        """Waits for an event that may have arrived already."""
        until = time.monotonic() + ANSWER_SECONDS
        while not any(e.get("method") == method and e.get("sessionId") == session for e in self.events):
            self.events.append(self._next(until))

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            # `select.select` takes no descriptors from 1,024 on.
            polled = select.poll()
            polled.register(self._back, select.POLLIN)
            ready = polled.poll(1000 * max(0.0, until - time.monotonic()))
            more = os.read(self._back, 1 << 20) if ready else b""
            if not more:
                raise AssertionError("the browser ended" if ready else "the browser doesn't answer")
            self._rest += more
        first, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        return message

    @contextmanager
    def page(
        self,
        path: Path,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
    ) -> Iterator[Page]:
        """A loaded page of a file; it is closed afterwards."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session: str = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", session)
        page = Page(self, session)
        page.resize(width, height)
        page.theme(dark)
        self.call("Emulation.setScriptExecutionDisabled", session, value=not scripts)
        self.call("Page.navigate", session, url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired", session)
        try:
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)
            self.events.clear()


class Page:
    """A loaded page."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Runs one command of the protocol on the page."""
        return self._browser.call(method, self._session, **parameters)

    def go(self, path: Path) -> None:
        """Loads another file in the same tab; the events of the last one are forgotten."""
        self.value("0")
        self._browser.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._browser.wait_for("Page.loadEventFired", self._session)

    def resize(self, width: int, height: int = 900) -> None:
        """Resizes the window, in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, dark: bool) -> None:
        """Sets the colour scheme that the page's reader prefers."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, script: str) -> Any:
        """Evaluates an expression, whose value must be plain JSON."""
        got = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def screenshot(self, path: Path) -> bytes:
        """The whole page as a PNG, also saved to a file."""
        return _decoded(path, self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True))

    def printed(self, path: Path) -> bytes:
        """The page as a PDF on A4, also saved to a file."""
        return _decoded(path, self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False))

    def complaints(self) -> list[Mapping[str, Any]]:
        """The page's errors: exceptions, and all messages in the console."""
        wrong = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
        return [e["params"] for e in self._events() if e["method"] in wrong]

    def requests(self) -> list[str]:
        """The addresses that it requested, including its own."""
        return [e["params"]["request"]["url"] for e in self._events() if e["method"] == "Network.requestWillBeSent"]

    def _events(self) -> list[dict[str, Any]]:
        # An answer arrives after all earlier events.
        self.value("0")
        return [e for e in self._browser.events if e.get("sessionId") == self._session]


def _decoded(path: Path, made: dict[str, Any]) -> bytes:
    data = base64.b64decode(made["data"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return data


@contextmanager
def chromium(scratch: Path) -> Iterator[Chromium]:
    """A browser that stores its files in the caller's directory."""
    program = CACHE / "chromium"
    if not program.exists():
        raise FileNotFoundError(f"no {program}: run `make browser`")
    fonts = scratch / "fonts.conf"
    fonts.write_text(_FONTS.format(fonts=CACHE / "fonts", cache=scratch / "fonts"))
    environment = {
        "FONTCONFIG_FILE": str(fonts),
        "HOME": str(scratch),
        "LD_LIBRARY_PATH": str(CACHE / "lib"),
        "PATH": os.environ["PATH"],
        "TZ": "UTC",
    }
    its_end, to = os.pipe()
    back, its_other_end = os.pipe()
    flags = [*_FLAGS, f"--user-data-dir={scratch / 'profile'}"]
    with (scratch / "chromium.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _AS_3_AND_4, str(its_end), str(its_other_end), str(program), *flags],
            pass_fds=(its_end, its_other_end),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
        )
    os.close(its_end)
    os.close(its_other_end)
    try:
        yield Chromium(to, back)
    finally:
        os.close(to)
        os.close(back)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)
