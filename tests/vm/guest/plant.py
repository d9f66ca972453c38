"""Plants faults between the driver and the controller, for inflight.sh.

plant.py mask|unmask CTRL VECTOR     sets the mask bit of an MSI-X vector
plant.py deafen|cure CTRL QID        sets the event index of an SQ's shadow doorbell so that the
                                     driver does not notify the controller; or to its tail
"""

import json
import mmap
import os
import re
import struct
import subprocess
import sys

FOUND = "/tmp/doorbells"

_, action, ctrl, number = sys.argv
number = int(number)
device = os.path.realpath(f"/sys/class/nvme/{ctrl}/device")


def msix_table():
    """BAR and offset of the table (PCI local bus 3.0, section 6.8.2)."""
    with open(f"{device}/config", "rb") as file:
        config = file.read()
    at = config[0x34]
    while config[at] != 0x11:
        at = config[at + 1]
    table = struct.unpack_from("<I", config, at + 4)[0]
    return table & 7, table & ~7


def mask(bit):
    bar, offset = msix_table()
    with open(f"{device}/resource{bar}", "r+b") as file:
        with mmap.mmap(file.fileno(), 0) as table:
            # vector control, bit 0
            struct.pack_into("<I", table, offset + 16 * number + 12, bit)


def doorbells():
    """Guest addresses of the shadow doorbells and event indexes, one pair per controller."""
    with open("/mnt/qemu.log") as log:
        found = re.findall(r"dbs_addr=(0x[0-9a-f]+) eis_addr=(0x[0-9a-f]+)", log.read())
    return [(int(a, 16), int(b, 16)) for a, b in found]


def word(ram, at):
    ram.seek(at)
    return struct.unpack("<I", ram.read(4))[0]


def tails(ram):
    return [word(ram, shadow + 8 * number) for shadow, _ in doorbells()]


def disk():
    return next(d for d in os.listdir("/sys/block") if re.match(ctrl + "(c[0-9]+)?n", d))


def of_queue(name):
    with open(f"/sys/block/{disk()}/mq/{number - 1}/{name}", encoding="ascii") as file:
        return file.read().strip()


def doorbell_of(ram):
    """The controllers are set up in any order: the right one's tail moves with a read."""
    before = tails(ram)
    read = ["dd", f"if=/dev/{disk()}", "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"]
    cpu = of_queue("cpu_list").split(",")[0]
    subprocess.run(["taskset", "-c", cpu, *read], check=True)
    moved = [n for n, tail in enumerate(tails(ram)) if tail != before[n]]
    if len(moved) != 1:
        sys.exit(f"{len(moved)} tails have moved")
    return doorbells()[moved[0]]


def event_index(ahead):
    with open("/mnt/ram", "r+b", buffering=0) as ram:
        if ahead:
            with open(FOUND, "w") as file:
                json.dump(doorbell_of(ram), file)
        with open(FOUND) as file:
            shadow, index = json.load(file)
        tail = word(ram, shadow + 8 * number)
        print("tail", tail, "event index", word(ram, index + 8 * number))
        ram.seek(index + 8 * number)
        # one entry of the queue is always free
        ram.write(struct.pack("<I", (tail + ahead) % (int(of_queue("nr_tags")) + 1)))


{
    "mask": lambda: mask(1),
    "unmask": lambda: mask(0),
    "deafen": lambda: event_index(100),
    "cure": lambda: event_index(0),
}[action]()
