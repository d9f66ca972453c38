# SPDX-License-Identifier: MIT OR Apache-2.0
"""frozen.py DISK SCHEDULER: reads a block; gives the disk this scheduler, which waits for the read; reads
another block, which waits for the change. Prints how long the second read took, in nanoseconds."""

import mmap
import os
import sys
import threading
import time

disk, scheduler = sys.argv[1:]


def read(block, took):
    data = mmap.mmap(-1, 4096)
    begin = time.monotonic_ns()
    os.preadv(file, [data], 4096 * block)
    took.append(time.monotonic_ns() - begin)


def change():
    with open(f"/sys/block/{disk}/queue/scheduler", "w") as setting:
        setting.write(scheduler)


def in_flight():
    with open(f"/sys/block/{disk}/inflight") as counts:
        return int(counts.read().split()[0])


file = os.open(f"/dev/{disk}", os.O_RDONLY | os.O_DIRECT)
first, second = [], []
threads = [threading.Thread(target=read, args=(0, first)), threading.Thread(target=change)]
threads[0].start()
while not in_flight():
    time.sleep(0.001)
threads[1].start()
time.sleep(0.05)
read(8, second)
for thread in threads:
    thread.join()
print(first[0], second[0])
