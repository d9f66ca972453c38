"""A read and a write that the controller answers too late, for tracefaults.sh: late.py RECORD DISK [CTRL]"""

import os
import sys
import threading

from nvmecmd import *

_, path, disk, ctrl = (sys.argv + ["nvme0"])[:4]
open_record(path)
device = Device(ctrl, f"/dev/{disk}", disk, 1)


def late(cpu, opcode, slba, name):
    on_cpu(cpu)
    io(device, opcode, [slba, 0, 0], name, size=512 + 8, may_cancel=True)


threads = [threading.Thread(target=late, args=a)
           for a in [(0, 2, 64, "late read"), (1, 1, 96, "late write")]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
finish()
