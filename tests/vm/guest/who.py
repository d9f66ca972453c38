# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads for who.sh: a thread with another name than its process."""

import ctypes
import mmap
import os
import sys
import threading

BLOCK = 4096
PR_SET_NAME = 15


def reads(device, count):
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"renamed", 0, 0, 0)
    disk = os.open(device, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, BLOCK)
    for at in range(count):
        os.preadv(disk, [buffer], at * BLOCK)


thread = threading.Thread(target=reads, args=(sys.argv[1], int(sys.argv[2])))
thread.start()
thread.join()
