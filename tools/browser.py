"""A real browser without a window: Debian's Chromium, driven by the DevTools protocol over a pipe.

`axe_core` is the accessibility checker that npm has; it is fetched through npm, which checks it, into the cache.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools import debian
from tools.programs import CACHE, lock, output, say

AXE = "axe-core@4.14.1"
_WAIT_SECONDS = 30
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # as root there is none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


class BrowserError(Exception):
    """The browser refuses a command, a script fails in it, or a condition does not become true."""


def axe_core() -> str:
    """Return the script of axe-core.

    Raises:
        BuildError: npm does not have it.
    """
    home = CACHE / "axe" / AXE
    with lock("axe"):
        if not home.exists():
            say(f"{AXE}: taking npm's")
            partial = home.with_name(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            output(("npm", "pack", "--silent", AXE), partial)
            (archive,) = partial.glob("*.tgz")
            with tarfile.open(archive) as opened:
                opened.extractall(partial, filter="data")
            partial.rename(home)
    return (home / "package" / "axe.min.js").read_text("utf-8")


class Tab:
    """One page of a browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = os.fdopen(answers, "rb", closefd=False)
        self._rest = b""
        self._numbers = itertools.count(1)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.errors: list[str] = []  # what scripts and the policy of the page complained about

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        number = next(self._numbers)
        command: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == number:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']['message']}")
                result: dict[str, Any] = message["result"]
                return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            content = self._answers.read1(1 << 20)
            if not content:
                raise BrowserError("the browser has ended")
            self._rest += content
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        event = message.get("method", "")
        if event == "Runtime.exceptionThrown":
            self.errors.append(str(message["params"]["exceptionDetails"]))
        elif event == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(message["params"]["entry"]["text"])
        return message

    def run(self, script: str) -> Any:
        """Run a script in the page and return its value; a promise is awaited.

        Raises:
            BrowserError: It has thrown.
        """
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise BrowserError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                raise BrowserError(f"not true within {_WAIT_SECONDS} seconds: {condition}")
            time.sleep(0.05)

    def look(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Set the size of the window, and whether the user prefers dark colours."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        """Open a URL, and note all errors from then on."""
        self.call("Log.enable")
        self.call("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def press(self, key: str) -> None:
        """Press a key such as Tab or Enter."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        key_event = {"key": key, "windowsVirtualKeyCode": codes[key], "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **key_event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key_event)

    def screenshot(self, file: Path) -> None:
        """Write what the window shows, as WebP: a fifth of a PNG."""
        taken = self.call("Page.captureScreenshot", format="webp", quality=80)
        file.write_bytes(b64decode(taken["data"]))


@contextlib.contextmanager
def browse() -> Iterator[Tab]:
    """Start a browser with a profile of its own, and end it.

    Raises:
        BuildError: There is none to be had.
    """
    program = shutil.which("chromium")
    environment = dict(os.environ)
    if program is None:
        home = debian.unpacked("chromium", with_dependencies=True)
        program = str(home / "usr" / "lib" / "chromium" / "chromium")
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, debian.find_libraries(home / "usr" / "lib")))
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory() as profile:
        # The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        shell = f'exec "$0" "$@" 3<&{in_read} 4>&{out_write}'
        command = ("bash", "-c", shell, program, *_FLAGS, f"--user-data-dir={profile}", "about:blank")
        process = subprocess.Popen(
            command,
            env={**environment, "HOME": profile},
            pass_fds=(in_read, out_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(in_read)
        os.close(out_write)
        try:
            yield Tab(in_write, out_read)
        finally:
            process.terminate()
            process.wait()
            os.close(in_write)
            os.close(out_read)
