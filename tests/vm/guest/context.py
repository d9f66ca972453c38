# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads for context.sh.

context.py identify CTRL COUNT: Identify commands, one at a time.
context.py threads DISK COUNT: as many threads, each reads a block of its own, all at once and on CPU 0.
"""

import ctypes
import fcntl
import mmap
import os
import struct
import sys
import threading

ADMIN = 0xC0484E41


def identify(ctrl, count):
    data = ctypes.create_string_buffer(4096)
    control = os.open(f"/dev/{ctrl}", os.O_RDONLY)
    for _ in range(count):
        command = struct.pack("<BBHIII QQII 6I II", 6, 0, 0, 0, 0, 0, 0, ctypes.addressof(data), 0, 4096,
                              1, 0, 0, 0, 0, 0, 0, 0)
        fcntl.ioctl(control, ADMIN, bytearray(command))


def threads(disk, count):
    os.sched_setaffinity(0, {0})
    fd = os.open(f"/dev/{disk}", os.O_RDONLY | os.O_DIRECT)
    start = threading.Barrier(count)

    def read(number):
        page = mmap.mmap(-1, 4096)
        start.wait()
        os.preadv(fd, [page], number << 20)

    all_of_them = [threading.Thread(target=read, args=(number,)) for number in range(count)]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()


{"identify": identify, "threads": threads}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
