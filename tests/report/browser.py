#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""browser.py PAGE PICTURES: opens a page of `report` in headless Chromium, uses it as a person would, and writes
screenshots to the directory PICTURES. Fails if the page writes to the console, asks for anything by the network,
or does not sort and fold."""
import base64
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


class Browser:
    """Chromium, by the protocol of its developer tools over two pipes."""

    def __init__(self, profile):
        to_read, self.to = os.pipe()
        self.answers, to_write = os.pipe()

        def wire():
            # copies first: the ends may have the numbers 3 and 4 themselves
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3), os.dup2(b, 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}",
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read), os.close(to_write)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]

    def message(self):
        while b"\0" not in self.rest:
            some = os.read(self.answers, 1 << 20)
            assert some, "the browser has gone"
            self.rest += some
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.number += 1
        ask = {"id": self.number, "method": method, "params": params}
        if self.session:
            ask["sessionId"] = self.session
        os.write(self.to, json.dumps(ask).encode() + b"\0")
        while (got := self.message()).get("id") != self.number:
            self.events.append(got)
        assert "error" not in got, got
        return got["result"]

    def load(self, method, **params):
        known = len(self.events)
        self.call(method, **params)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events[known:]):
            self.events.append(self.message())

    def value(self, script):
        got = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def key(self, key, code):
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                      text="\r" if key == "Enter" and kind == "keyDown" else "")

    def picture(self, path, dark, width, height=1400, at=0):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.value(f"scrollTo(0, {at})")
        shot = self.call("Page.captureScreenshot", format="png")
        Path(path).write_bytes(base64.b64decode(shot["data"]))
        # the colours that people see, and nothing that is wider than the window
        return self.value("[getComputedStyle(document.body).backgroundColor, document.documentElement.scrollWidth]")


# Rows of the table below a heading, as numbers of nanoseconds in a column.
COLUMN = """(name, column) => {
  const section = [...document.querySelectorAll('section')].find(s => s.querySelector('h2').textContent === name);
  const heads = [...section.querySelectorAll('th')].map(th => th.textContent);
  const units = {ns: 1, us: 1e3, ms: 1e6, s: 1e9};
  return [...section.querySelectorAll('tbody tr')].map(row => {
    const found = /([\\d.]+)(\\D+)/.exec(row.cells[heads.indexOf(column)].textContent);
    return found[1] * units[found[2]];
  });
}"""


def check(browser, page, pictures):
    for domain in ["Page", "Runtime", "Log", "Network"]:
        browser.call(domain + ".enable")
    browser.events.clear()
    browser.load("Page.navigate", url=page.as_uri())

    slowest = f"({COLUMN})('Slowest commands', 'TOTAL')"
    times = browser.value(slowest)
    assert len(times) > 10 and times == sorted(times, reverse=True), times
    head = """[...document.querySelectorAll('section')].find(s => s.querySelector('h2').textContent
        === 'Slowest commands').querySelectorAll('th button')"""
    place = f"[...{head}].findIndex(b => b.textContent === 'TOTAL')"
    # by keyboard
    browser.value(f"{head}[{place}].focus()")
    browser.key("Enter", 13)
    assert browser.value(slowest) == times, "the largest come first"
    browser.key("Enter", 13)
    assert browser.value(slowest) == sorted(times), "sorted the other way round"
    sorts = browser.value("document.activeElement.parentNode.getAttribute('aria-sort')")
    assert sorts == "ascending", sorts
    # by name
    names = "[...document.activeElement.closest('table').tBodies[0].rows].map(r => r.cells[3].textContent)"
    browser.value(f"{head}[3].focus(), {head}[3].click()")
    assert browser.value(names) == sorted(browser.value(names))

    open_ones = "[...document.querySelectorAll('details')].filter(d => d.open).length"
    count = browser.value("document.querySelectorAll('details').length")
    before = browser.value(open_ones)
    browser.value("document.querySelector('details:not([open]) summary').focus()")
    browser.key("Enter", 13)
    assert browser.value(open_ones) == before + 1
    for number in [count, 0]:
        browser.value("document.querySelector('nav button').click()")
        assert browser.value(open_ones) == number
    # links lead to sections
    links = browser.value("[...document.querySelectorAll('nav a')].map(a => !!document.querySelector(a.hash))")
    assert len(links) > 4 and all(links), links
    # what hostile names would have done
    assert browser.value("typeof hacked") == "undefined"

    browser.load("Page.reload")
    for name, dark, width in [("light", False, 1300), ("dark", True, 1300), ("narrow", False, 480)]:
        colour, wide = browser.picture(pictures / f"{name}.png", dark, width)
        assert wide <= width, f"{name}: {wide} pixels are wider than the window"
        assert colour == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)"), colour
        for number, at in enumerate(browser.value("[...document.querySelectorAll('h2')].map(h => h.offsetTop)")):
            browser.picture(pictures / f"{name}-{number}.png", dark, width, at=at)
    pdf = browser.call("Page.printToPDF", printBackground=True)["data"]
    (pictures / "paper.pdf").write_bytes(base64.b64decode(pdf))
    assert browser.value(open_ones) < count, "folded again after printing"

    bad = [e for e in browser.events if e.get("method") in
           ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"]]
    assert not bad, f"console: {bad}"
    asked = [e["params"]["request"]["url"] for e in browser.events
             if e.get("method") == "Network.requestWillBeSent"]
    assert set(asked) == {page.as_uri()}, asked


def main():
    page, pictures = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            check(browser, page, pictures)
        finally:
            browser.process.kill()
            browser.process.wait()
    print(f"{page.name}: sorts, folds, prints, and asks for nothing")


main()
