#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs `top` in a pseudo-terminal: drive.py DIRECTORY COMMAND... Keys are pressed, the size changes, the
process is stopped and continued. DIRECTORY/STEP has all bytes that the terminal got up to that step, and
DIRECTORY/facts what else was seen."""

import fcntl
import json
import os
import select
import signal
import struct
import sys
import termios
import time

LIMIT = 40  # seconds until a step must have come


class Terminal:
    """A command in a pseudo-terminal of its own session."""

    def __init__(self, command, environment):
        self.master, self.slave = os.openpty()
        self.size(24, 80)
        self.before = termios.tcgetattr(self.slave)
        self.bytes = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for fd in range(3):
                os.dup2(self.slave, fd)
            os.closerange(3, 64)
            os.execvpe(command[0], command, {**os.environ, **environment})

    def size(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """Reads for a time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                self.bytes += os.read(self.master, 65536)

    def until(self, done):
        """Reads until a condition holds; returns whether it does."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if done():
                return True
            self.read(0.1)
        return False

    def quiet(self):
        """Waits for an answer, then reads until half a second is silent, or the next intervals came."""
        before = len(self.bytes)
        self.until(lambda: len(self.bytes) > before)
        for _ in range(8):
            seen = len(self.bytes)
            self.read(0.5)
            if len(self.bytes) == seen:
                break

    def press(self, keys):
        os.write(self.master, keys)
        self.quiet()

    def wait(self, stopped):
        """The wait status, or None."""
        found = []

        def look():
            pid, status = os.waitpid(self.pid, os.WNOHANG | (os.WUNTRACED if stopped else 0))
            if pid:
                found.append(status)
            return bool(pid)

        self.until(look)
        self.read(0.3)
        return found[0] if found else None

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before


def keys(directory, command, facts):
    t = Terminal(command, {"TERM": "xterm-256color", "LANG": "C.UTF-8"})

    def step(name):
        with open(f"{directory}/{name}", "wb") as file:
            file.write(t.bytes)

    facts["begins"] = t.until(lambda: b"read" in t.bytes)
    t.read(2)
    step("begin")
    facts["raw"] = not t.restored()
    t.press(b"sss")
    step("device")
    t.press(b"?")
    step("help")
    t.press(b"?")
    t.press(b"\t")
    step("slowest")
    t.press(b"\t")
    step("queues")
    t.press(b"\t")
    t.press(b"/write\r")
    step("filter")
    t.press(b"\x1b")
    t.press(b"o")
    step("all")
    t.size(30, 100)
    t.quiet()
    step("large")
    t.size(30, 120)
    t.quiet()
    step("wide")
    t.size(30, 100)
    # crossterm leaves keys unread until the next one if they come together with a new size
    t.quiet()
    t.press(b"<{")
    step("back")
    t.press(b"> ")
    for name, stop in [
        ("key", lambda: os.write(t.master, b"\x1a")),
        ("signal", lambda: os.kill(t.pid, signal.SIGTSTP)),
    ]:
        stop()
        status = t.wait(stopped=True)
        facts[f"{name}_stops"] = status is not None and os.WIFSTOPPED(status)
        facts[f"{name}_restores"] = t.restored()
        step(f"{name}_stopped")
        os.kill(t.pid, signal.SIGCONT)
        t.quiet()
        facts[f"{name}_raw_again"] = not t.restored()
        step(f"{name}_continued")
    t.press(b"q")
    status = t.wait(stopped=False)
    facts["code"] = None if status is None else os.waitstatus_to_exitcode(status)
    facts["restored"] = t.restored()
    step("end")


def terminated(directory, command, facts):
    t = Terminal(command, {"TERM": "xterm-256color", "NO_COLOR": "1", "LANG": "C"})
    t.until(lambda: b"read" in t.bytes)
    t.read(1)
    os.kill(t.pid, signal.SIGTERM)
    status = t.wait(stopped=False)
    facts["terminated"] = None if status is None else os.waitstatus_to_exitcode(status)
    facts["terminated_restored"] = t.restored()
    with open(f"{directory}/no_color", "wb") as file:
        file.write(t.bytes)


def panicked(directory, command, facts):
    # only a debug build has the option
    command = [os.environ.get("NVME_DEEP_FAULTY", command[0]), *command[1:], "--test-panic"]
    t = Terminal(command, {"TERM": "xterm-256color", "RUST_BACKTRACE": "0"})
    status = t.wait(stopped=False)
    # 101 is the code of a panic
    code = None if status is None else os.waitstatus_to_exitcode(status)
    facts["panicked"] = code == 101
    facts["panicked_restored"] = t.restored()
    with open(f"{directory}/panicked", "wb") as file:
        file.write(t.bytes)


def dumb(directory, command, facts):
    t = Terminal(command, {"TERM": "dumb"})
    t.until(lambda: t.bytes.count(b"nvme-deep top") > 2)
    facts["dumb_not_raw"] = t.restored()
    # a recording may be over
    try:
        os.kill(t.pid, signal.SIGINT)
    except ProcessLookupError:
        pass
    status = t.wait(stopped=False)
    facts["dumb"] = None if status is None else os.waitstatus_to_exitcode(status)
    with open(f"{directory}/dumb", "wb") as file:
        file.write(t.bytes)


def main():
    directory, command, facts = sys.argv[1], sys.argv[2:], {}
    os.makedirs(directory, exist_ok=True)
    for part in (keys, terminated, panicked, dumb):
        part(directory, command, facts)
    with open(f"{directory}/facts", "w", encoding="utf-8") as file:
        json.dump(facts, file)


main()
