"""Issues NVMe commands one at a time and keeps a record of each: what was asked, what it should decode
to, when, by whom, and with which status it must end. The ioctl's own return value is the first witness:
a command that ends otherwise than expected ends the script.

A record is one JSON line of the file named on the command line: a step with the commands that it must
have caused, in order where `ordered`. `t0` and `t1` are CLOCK_MONOTONIC: steps follow each other, so what
a trace has between them on that controller is this step's. `others` names what may come on top (a
program's own identify commands), `pid` whose they are (none: the kernel hands them over, from a worker).
"""

import ctypes
import fcntl
import json
import mmap
import os
import struct
import subprocess
import sys
import time

ADMIN, IO, SUBMIT_IO, ADMIN64, IO64 = 0xC0484E41, 0xC0484E43, 0x40304E42, 0xC0504E47, 0xC0504E48

record = None
wrong = 0


def open_record(path):
    global record
    record = open(path, "a", buffering=1)


def on_cpu(cpu):
    """Queue cpu + 1: checked by the judge against what the kernel says."""
    os.sched_setaffinity(0, {cpu})


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def complain(what):
    global wrong
    wrong += 1
    print("WRONG:", what, flush=True)


class Device:
    """A block device, a generic device or a controller, as a place to send commands to."""

    def __init__(self, ctrl, path, disk, nsid):
        self.ctrl, self.path, self.disk, self.nsid = ctrl, path, disk, nsid
        self.fd = os.open(path, os.O_RDWR if disk else os.O_RDONLY)
        self.direct = None

    def base(self, queue, opcode, nsid):
        return {
            "queue": queue,
            "opcode": opcode,
            "nsid": self.nsid if nsid is None else nsid,
            "disk": self.disk,
            "pid": os.getpid(),
            "cpu": min(os.sched_getaffinity(0)),
        }


def address(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def buffer_of(size, content=b""):
    """Memory that is page aligned."""
    buffer = mmap.mmap(-1, max(size, 1))
    buffer[: len(content)] = content
    return buffer


def step(name, device, commands, t0, ordered=True, others=(), **more):
    line = {"name": name, "ctrl": device.ctrl, "t0": t0, "t1": now(), "ordered": ordered}
    line |= {"others": list(others), "commands": commands} | more
    record.write(json.dumps(line) + "\n")


def passthru(device, kind, opcode, cdw, name, *, nsid=None, flags=0, data=b"", size=None, meta=0,
             status=0, result=None, fields=None, wide=False, timeout_ms=0, may_refuse=False,
             may_cancel=False, counted=None):
    """One command by ioctl. `cdw` are CDW10 and on; `size` bytes of data, or as many as `data` has."""
    size = len(data) if size is None else size
    cdw = (list(cdw) + [0] * 6)[:6]
    want = device.base(kind, opcode, nsid)
    buffer = buffer_of(size, data) if size else None
    meta_buffer = buffer_of(meta) if meta else None
    head = struct.pack(
        "=BBHIIIQQII6II", opcode, flags, 0, want["nsid"], 0, 0,
        address(meta_buffer) if meta else 0, address(buffer) if size else 0, meta, size, *cdw, timeout_ms)
    number = {("admin", 0): ADMIN, ("admin", 1): ADMIN64, ("io", 0): IO, ("io", 1): IO64}[kind, wide]
    block = bytearray(head + (struct.pack("=IQ", 0, 0) if wide else struct.pack("=I", 0)))
    t0 = now()
    try:
        got = fcntl.ioctl(device.fd, number, block)
    except OSError as error:
        if may_cancel and isinstance(error, InterruptedError):
            got = None  # a command that the driver cancels ends so, whatever its status
        else:
            # a kernel may refuse the command; then nothing is issued
            if not (may_refuse and isinstance(error, PermissionError)):
                complain(f"{name}: {error}")
            return None
    t1 = now()
    value = struct.unpack("=Q", block[-8:])[0] if wide else struct.unpack("=I", block[-4:])[0]
    accepted = [got] if may_cancel else status if isinstance(status, (list, tuple)) else [status]
    if got not in accepted:
        complain(f"{name}: status {got:#x} and not {[hex(s) for s in accepted]}")
    if result is not None and value != result:
        complain(f"{name}: result {value:#x} and not {result:#x}")
    want |= {"flags": flags, "metadata": bool(meta), "cdw": cdw,
             "bytes": size if counted is None else counted, "status": got,
             "retries": 0, "fields": fields or {}}
    # the kernel returns the result only if the command has not failed
    want["result"] = value if got == 0 else None
    line = {"name": name, "ctrl": device.ctrl, "t0": t0, "t1": t1, "ordered": True, "others": [],
            "commands": [want]}
    record.write(json.dumps(line) + "\n")
    return value if buffer is None else bytes(buffer[:size])


def admin(device, opcode, cdw, name, **more):
    return passthru(device, "admin", opcode, cdw, name, **({"nsid": 0} | more))


def io(device, opcode, cdw, name, **more):
    return passthru(device, "io", opcode, cdw, name, **more)


def submit_io(device, opcode, slba, blocks, name, *, control=0, dsmgmt=0, reftag=0, apptag=0, appmask=0,
              lba=512, status=0, fields=None):
    """The oldest ioctl: a read or write of blocks."""
    want = device.base("io", opcode, None)
    buffer = buffer_of(blocks * lba)
    block = bytearray(struct.pack("=BBHHHQQQIIHH", opcode, 0, control, blocks - 1, 0, 0,
                                  address(buffer), slba, dsmgmt, reftag, apptag, appmask))
    t0 = now()
    got = fcntl.ioctl(device.fd, SUBMIT_IO, block)
    if got != status:
        complain(f"{name}: status {got:#x} and not {status:#x}")
    cdw = [slba & 0xFFFFFFFF, slba >> 32, blocks - 1 | control << 16, dsmgmt, reftag,
           apptag | appmask << 16]
    want |= {"flags": 0, "metadata": False, "cdw": cdw, "bytes": blocks * lba, "status": got,
             "retries": 0, "result": 0 if got == 0 else None, "fields": fields or {}}
    step(name, device, [want], t0)


def block_cdw(slba, blocks):
    return [slba & 0xFFFFFFFF, slba >> 32, blocks - 1, 0, 0, 0]


def system(device, opcode, offset, size, name, *, lba=512, statuses=(0,), fails=False, fields=None):
    """A read or write of the file as programs do it: pread or pwrite, without the page cache."""
    if device.direct is None:
        device.direct = os.open(device.path, os.O_RDWR | os.O_DIRECT)
    buffer = buffer_of(size)
    t0 = now()
    try:
        if opcode == 2:
            os.preadv(device.direct, [buffer], offset)
        else:
            os.pwritev(device.direct, [buffer], offset)
        if fails:
            complain(f"{name}: did not fail")
    except OSError as error:
        if not fails:
            complain(f"{name}: {error}")
    commands = []
    for n, status in enumerate(statuses):
        want = device.base("io", opcode, None)
        # a worker dispatches retries, on any CPU, and before 6.12 also writes
        want |= {"pid": None, "cpu": None} if n or opcode == 1 else {}
        want |= {"flags": 0, "metadata": False, "cdw": block_cdw(offset // lba, size // lba),
                 "bytes": size, "status": status, "retries": n, "result": 0 if status == 0 else None,
                 "fields": fields or {"slba": offset // lba, "len": size // lba - 1}}
        if opcode == 1:
            # the kernel decides whether a write has FUA or hints
            want["cdw"] = None
        commands.append(want)
    step(name, device, commands, t0)


def program(device, words, commands, name, *, ordered=True, others=(), code=0, cpu=0, more=None):
    """Another program that issues known commands. `pid` True stands for its process."""
    t0 = now()
    out = subprocess.Popen(["taskset", "-c", str(cpu), *words], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = out.communicate()[0].decode(errors="replace")
    if code is not None and (out.returncode != 0) != (code != 0):
        complain(f"{name}: {' '.join(words)}: exit code {out.returncode}: {said[-400:]}")
    filled = []
    for command in commands:
        want = device.base(command.get("queue", "io"), command["opcode"], command.get("nsid"))
        want |= {"flags": 0, "metadata": False, "cdw": None, "bytes": None, "status": 0, "retries": 0,
                 "result": None, "fields": {}, "pid": out.pid, "cpu": cpu} | command
        filled.append(want)
    step(name, device, filled, t0, ordered, others, **(more or {}))
    return said


def finish():
    record.close()
    if wrong:
        sys.exit(f"{wrong} commands did not go as they should")
