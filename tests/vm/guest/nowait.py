# SPDX-License-Identifier: MIT OR Apache-2.0
"""nowait.py DISK THREADS READS: each thread reads blocks, first with RWF_NOWAIT; if that fails because
it would have to wait, again without. Prints how many reads were done, and how many had to be
submitted again."""

import mmap
import os
import sys
import threading

disk, threads, reads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
file = os.open(f"/dev/{disk}", os.O_RDONLY | os.O_DIRECT)
again = []


def run(number):
    data = mmap.mmap(-1, 4096)
    for n in range(reads):
        at = 4096 * (number * reads + n)
        try:
            os.preadv(file, [data], at, os.RWF_NOWAIT)
        except BlockingIOError:
            again.append(at)
            os.preadv(file, [data], at)


all_threads = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
for thread in all_threads:
    thread.start()
for thread in all_threads:
    thread.join()
print(threads * reads, len(again))
