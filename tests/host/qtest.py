#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drives the NVMe controller of a stock QEMU over the qtest protocol. No CPU runs.

usage: qtest.py SOCKET COUNT

QEMU runs with -S -qtest unix:SOCKET,server=on and one NVMe controller. The driver sets up the admin
queue and one I/O queue pair, issues COUNT reads and writes, a flush and a read beyond the end, and
prints a JSON object for each completed command: the truth that a trace is compared with.
"""
import json
import socket
import struct
import sys
import time

BAR = 0xE0000000
ASQ, ACQ, SQ, CQ, DATA = 0x100000, 0x110000, 0x120000, 0x130000, 0x200000
DEPTH = 64
READ, WRITE, FLUSH = 2, 1, 0
CREATE_SQ, CREATE_CQ, IDENTIFY = 1, 5, 6


class Qtest:
    """The protocol: one line per request, one per answer."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        for _ in range(200):
            try:
                self.socket.connect(path)
                break
            except OSError:
                time.sleep(0.05)
        self.file = self.socket.makefile("rw", newline="\n")

    def ask(self, text):
        self.file.write(text + "\n")
        self.file.flush()
        while True:
            answer = self.file.readline().split()
            if answer and answer[0] == "OK":
                return answer[1] if len(answer) > 1 else None
            if not answer or answer[0] in ("FAIL", "ERR"):
                sys.exit(f"qtest: {text}: {answer}")

    def read32(self, at):
        return int(self.ask(f"readl {at:#x}"), 16)

    def write32(self, at, value):
        self.ask(f"writel {at:#x} {value:#x}")

    def read(self, at, size):
        return bytes.fromhex(self.ask(f"read {at:#x} {size:#x}")[2:])

    def write(self, at, data):
        self.ask(f"write {at:#x} {len(data):#x} 0x{data.hex()}")

    def config(self, slot, offset, value=None):
        self.ask(f"outl 0xcf8 {0x80000000 | slot << 11 | offset:#x}")
        if value is None:
            return int(self.ask("inl 0xcfc"), 16)
        self.ask(f"outl 0xcfc {value:#x}")
        return value


def find(qtest):
    """The slot of the controller on bus 0."""
    for slot in range(32):
        if qtest.config(slot, 0) != 0xFFFFFFFF and qtest.config(slot, 8) >> 8 == 0x010802:
            return slot
    sys.exit("no NVMe controller on bus 0")


class Queue:
    """A queue pair. One command at a time."""

    def __init__(self, qtest, qid, sq, cq):
        self.qtest, self.qid, self.sq, self.cq = qtest, qid, sq, cq
        self.tail, self.head, self.phase = 0, 0, 1

    def put(self, cid, opcode, nsid=0, prp1=0, cdw=(0,) * 6):
        words = (opcode | cid << 16, nsid, 0, 0, 0, 0, prp1, 0, 0, 0) + tuple(cdw)
        sqe = struct.pack("<16I", *words)
        self.qtest.write(self.sq + 64 * self.tail, sqe)
        self.tail = (self.tail + 1) % DEPTH

    def ring(self):
        self.qtest.write32(BAR + 0x1000 + 8 * self.qid, self.tail)

    def take(self):
        """Waits for the next CQE: its cid and status."""
        for _ in range(10000):
            cqe = self.qtest.read(self.cq + 16 * self.head, 16)
            word = struct.unpack("<4I", cqe)[3]
            if word >> 16 & 1 == self.phase:
                self.head = (self.head + 1) % DEPTH
                self.phase ^= self.head == 0
                self.qtest.write32(BAR + 0x1004 + 8 * self.qid, self.head)
                return word & 0xFFFF, word >> 17
            time.sleep(0.0005)
        sys.exit("no completion")


def set_up(qtest):
    slot = find(qtest)
    qtest.config(slot, 0x10, BAR)
    qtest.config(slot, 0x14, 0)
    qtest.config(slot, 0x20, BAR + 0x100000)
    qtest.config(slot, 4, qtest.config(slot, 4) | 6)
    at = qtest.config(slot, 0x34) & 0xFC
    while at:
        head = qtest.config(slot, at)
        if head & 0xFF == 0x11:  # MSI-X
            qtest.config(slot, at, head | 1 << 31)
        at = head >> 8 & 0xFC
    qtest.write32(BAR + 0x14, 0)
    qtest.write32(BAR + 0x24, (DEPTH - 1) << 16 | (DEPTH - 1))
    qtest.write32(BAR + 0x28, ASQ)
    qtest.write32(BAR + 0x2C, 0)
    qtest.write32(BAR + 0x30, ACQ)
    qtest.write32(BAR + 0x34, 0)
    qtest.write32(BAR + 0x14, 6 << 16 | 4 << 20 | 1)
    while not qtest.read32(BAR + 0x1C) & 1:
        time.sleep(0.01)
    return Queue(qtest, 0, ASQ, ACQ)


def commands(count):
    """cid, opcode, slba, nlb. The cids differ from the order, and are used again."""
    for n in range(count):
        opcode = WRITE if n % 3 == 2 else READ
        yield (n * 7 % 50 + 1, opcode, n * 24, n % 8 + 1)
    yield (200, FLUSH, None, None)
    yield (201, READ, 1 << 40, 8)


def main():
    qtest, count = Qtest(sys.argv[1]), int(sys.argv[2])
    admin = set_up(qtest)
    admin.put(1, IDENTIFY, prp1=DATA, cdw=(1, 0, 0, 0, 0, 0))
    admin.put(2, CREATE_CQ, prp1=CQ, cdw=((DEPTH - 1) << 16 | 1, 1 << 16 | 3, 0, 0, 0, 0))
    admin.put(3, CREATE_SQ, prp1=SQ, cdw=((DEPTH - 1) << 16 | 1, 1 << 16 | 1, 0, 0, 0, 0))
    admin.ring()
    for opcode in (IDENTIFY, CREATE_CQ, CREATE_SQ):
        cid, status = admin.take()
        print(json.dumps({"qid": 0, "cid": cid, "opcode": opcode, "status": status}))
    io = Queue(qtest, 1, SQ, CQ)
    for cid, opcode, slba, nlb in commands(count):
        first = slba or 0
        cdw = (first & 0xFFFFFFFF, first >> 32, (nlb or 1) - 1, 0, 0, 0)
        io.put(cid, opcode, nsid=1, prp1=0 if opcode == FLUSH else DATA, cdw=cdw)
        io.ring()
        done, status = io.take()
        truth = {"qid": 1, "cid": done, "opcode": opcode, "status": status}
        if slba is not None:
            truth.update(slba=slba, nlb=nlb)
        print(json.dumps(truth))


main()
