"""Plants faults between the driver and the controller, for inflight.sh.

plant.py mask|unmask CTRL VECTOR     sets the mask bit of an MSI-X vector
plant.py deafen|cure CTRL QID        sets the event index of an SQ's shadow doorbell so that the
                                     driver does not notify the controller; or to its tail
"""

import mmap
import os
import re
import struct
import sys

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
    """Guest addresses of the shadow doorbells and event indexes, of the controllers in order."""
    with open("/mnt/qemu.log") as log:
        found = re.findall(r"dbs_addr=(0x[0-9a-f]+) eis_addr=(0x[0-9a-f]+)", log.read())
    return [(int(a, 16), int(b, 16)) for a, b in found]


def event_index(ahead):
    # the controllers are set up at the same time: the one with this tail is the right one
    shadow, index = doorbells()[int(ctrl.removeprefix("nvme"))]
    with open("/mnt/ram", "r+b", buffering=0) as ram:
        ram.seek(shadow + 8 * number)
        tail = struct.unpack("<I", ram.read(4))[0]
        ram.seek(index + 8 * number)
        print("tail", tail, "event index", struct.unpack("<I", ram.read(4))[0])
        ram.seek(index + 8 * number)
        ram.write(struct.pack("<I", tail + ahead))


{
    "mask": lambda: mask(1),
    "unmask": lambda: mask(0),
    "deafen": lambda: event_index(100),
    "cure": lambda: event_index(0),
}[action]()
