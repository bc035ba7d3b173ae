"""Takes the documentation's pictures from the real dashboard: python docs/make_pictures.py

Runs the demo in a folder of its own, waits until its stories have been told, and looks at it with Chromium.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent / "pictures"
PICTURES = (
    # name, address, colours, height
    ("overview-light", "/", "light", 760),
    ("batch-light", "/batches/1", "light", 900),
    ("archive-dark", "/archives/My-Project", "dark", 700),
    ("robots-light", "/robots", "light", 900),
    ("channel-light", "/channels/{channel}", "light", 900),
    ("item-light", "/items/{item}", "light", 1060),
    ("history-dark", "/history", "dark", 900),
)


def start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    argv = [sys.executable, "-m", "custody", "demo"]
    process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"Dashboard\s+(http://\S+)/", line)
        if found:
            return process, found[1]
    raise SystemExit("the demo printed no address")


def read(url: str, path: str) -> dict[str, list[dict[str, str]]]:
    with urllib.request.urlopen(url + path, timeout=10) as answer:
        found: dict[str, list[dict[str, str]]] = json.load(answer)
        return found


def wait(url: str) -> None:
    """Until the objects are catalogued and the channel is mirrored."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        catalogued = read(url, "/robots.json?type=object")["items"]
        done = [row for row in catalogued if "catalogued" in row["events"]]
        channels = read(url, "/channels.json")["channels"]
        if len(done) >= 9 and channels and channels[0]["sentence"].startswith("without a gap"):
            time.sleep(6)  # for the last tasks, and a block of the history
            return
        time.sleep(0.5)
    raise SystemExit("the demo did not come to its end")


def take(browser: Browser, url: str) -> None:
    item = read(url, "/items.json?type=object")["items"][0]["id"]
    channel = read(url, "/channels.json")["channels"][0]["number"]
    for name, address, scheme, height in PICTURES:
        colours = "dark" if scheme == "dark" else "light"
        context = browser.new_context(
            viewport={"width": 1240, "height": height}, color_scheme=colours, reduced_motion="reduce"
        )  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(url + address.format(item=item, channel=channel), wait_until="load")
        page.screenshot(path=HERE / f"{name}.png")
        context.close()


def main() -> None:
    HERE.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or "/usr/bin/chromium"
    with tempfile.TemporaryDirectory(prefix="custody-pictures-") as folder, sync_playwright() as play:
        process, url = start(Path(folder))
        try:
            wait(url)
            browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            take(browser, url)
            browser.close()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


if __name__ == "__main__":
    main()
