"""The known list of commands, of trace.sh: what each must decode to stands next to it. Names of fields
are the kernel's (drivers/nvme/host/trace.c) or the specification's.

commands.py RECORD DISK SCRATCH ZONED FAULTY META: nvme0's first and second disk, nvme1's, nvme2's and
nvme3's.
"""

import os
import struct
import sys

from nvmecmd import *

_, path, disk, scratch_disk, zoned_disk, faulty_disk, meta_disk = sys.argv
open_record(path)
on_cpu(0)
INVALID = 0x4001

plain = Device("nvme0", f"/dev/{disk}", disk, 1)
ctrl = Device("nvme0", "/dev/nvme0", None, 0)


def zeroed(numd):
    """NUMDL in CDW10's upper half, NUMDU in CDW11's lower."""
    return (numd & 0xFFFF) << 16, numd >> 16


def nvm():
    io(plain, 0x02, [0, 0, 0], "read one block", size=512,
       fields={"slba": 0, "len": 0, "nlb": 1, "ctrl": 0, "dsmgmt": 0, "reftag": 0})
    io(plain, 0x02, [0x123, 0, 7, 0x53, 0xABCD, 0x12345678], "read with hints", size=4096,
       fields={"slba": 0x123, "len": 7, "nlb": 8, "dsmgmt": 0x53, "reftag": 0xABCD, "seq": True,
               "freq": {"code": 3, "name": "frequent-reads"}, "latency": {"code": 1, "name": "idle"},
               "apptag": 0x5678, "appmask": 0x1234})
    io(plain, 0x02, [77, 0, 0x8000_0000 | 1], "limited retry", size=1024, wide=True,
       fields={"slba": 77, "ctrl": 0x8000, "lr": True, "fua": False})
    io(plain, 0x01, [100, 0, 0x4000_000F, 5], "write with FUA", size=8192,
       fields={"slba": 100, "len": 15, "ctrl": 0x4000, "fua": True, "dsmgmt": 5})
    io(plain, 0x02, [0, 0x100, 0], "a block that is not there", size=512, status=0x4080,
       fields={"slba": 1 << 40})
    io(plain, 0x02, [2**21 - 1, 0, 1], "one block too far", size=1024, status=0x4080)
    io(plain, 0x05, [64, 0, 7], "compare", size=4096, fields={"slba": 64, "nlb": 8})
    io(plain, 0x05, [64, 0, 7], "compare that fails", data=b"x" * 4096, status=(0x285, 0x4285))
    io(plain, 0x08, [500, 0, 63 | 1 << 25], "write zeroes",
       fields={"slba": 500, "len": 63, "ctrl": 0x200, "deac": True})
    ranges = struct.pack("=IIQIIQ", 0, 8, 1000, 0, 16, 2000)
    # The list of ranges does not count as data: for the kernel's own discards, the length of the
    # list cannot be derived from the discarded size.
    io(plain, 0x09, [1, 4], "deallocate", data=ranges, counted=0,
       fields={"nr": 1, "ranges": 2, "attributes": 4, "ad": True, "idw": False})
    io(plain, 0x00, [], "flush")
    io(plain, 0x0C, [10, 0, 7], "verify", fields={"slba": 10, "len": 7})
    io(plain, 0x19, [3000, 0, 0], "copy", data=struct.pack("=QQIHHIHH", 0, 0, 0, 0, 0, 0, 0, 0),
       status=(0, 0x4183, 0x183), fields={"sdlba": 3000, "nr_range": 0, "ranges": 1})
    io(plain, 0x01, [7, 0, 0x0010_0000, 0x0042_0000], "write of a stream", size=512,
       fields={"dtype": {"code": 1, "name": "streams"}, "dspec": 0x42})
    on_cpu(1)
    io(plain, 0x02, [9, 0, 0], "read on the other CPU", size=512, fields={"slba": 9})
    submit_io(plain, 2, 0x1_0000, 16, "read by the oldest ioctl", control=0x8000, dsmgmt=0x40,
              reftag=3, apptag=4, appmask=0xFFFF,
              fields={"slba": 0x10000, "len": 15, "lr": True, "seq": True, "apptag": 4})
    on_cpu(0)
    system(plain, 2, 1 << 20, 4096, "pread")
    system(plain, 2, 12345 * 512, 65536, "pread of 64 KiB", fields={"slba": 12345, "nlb": 128})
    system(plain, 1, 2 << 20, 16384, "pwrite", fields={"slba": 4096, "nlb": 32})
    # dwords that have a meaning in commands that QEMU does not implement
    for opcode, cdw, fields, name in [
        (0x04, [8, 0, 3], {"slba": 8, "len": 3}, "write uncorrectable"),
        (0x0D, [1 | 1 << 3 | 3 << 30], {"rrega": {"code": 1, "name": "unregister"}, "iekey": 1,
                                        "ptpl": {"code": 3, "name": "persist"}}, "reservation register"),
        (0x0E, [31, 1], {"numd": 31, "bytes": 128, "eds": 1}, "reservation report"),
        (0x11, [0x301], {"racqa": {"code": 1, "name": "preempt"},
                         "rtype": {"code": 3, "name": "write-exclusive-registrants-only"}}, "acquire"),
        (0x15, [0x101], {"rrela": {"code": 1, "name": "clear"}}, "release"),
        (0x12, [0x0002_0001, 255], {"mo": {"code": 1, "name": "reclaim-unit-handle-status"}, "mos": 2,
                                    "bytes": 1024}, "io-mgmt-recv"),
        (0x1D, [1], {"mo": {"code": 1, "name": "reclaim-unit-handle-update"}}, "io-mgmt-send"),
        (0x18, [0x0007_0001, 1], {"sqid": 1, "cid": 7}, "cancel"),
        (0x79, [16, 0, 0, 3], {"slba": 16, "zsa": {"code": 3, "name": "open"}}, "zone send without zones"),
        (0x9D, [0xAAAA_0001, 0xBBBB_0002, 0xCCCC_0003, 0xDDDD_0004, 0xEEEE_0005, 0xFFFF_0006],
         {"cdw10": 0xAAAA0001, "cdw12": 0xCCCC0003, "cdw15": 0xFFFF0006}, "a vendor's command"),
        (0x0A, [1, 2, 3], {"cdw11": 2}, "an opcode that is reserved"),
    ]:
        io(plain, opcode, cdw, name, status=INVALID, fields=fields)


def admins():
    for cns, nsid, what in [(1, 0, "controller"), (0, 1, "namespace"), (2, 0, "active-namespaces"),
                            (3, 1, "namespace-descriptors")]:
        admin(ctrl, 0x06, [cns], f"identify {what}", nsid=nsid, size=4096,
              fields={"cns": {"code": cns}, "ctrlid": 0})
    admin(ctrl, 0x06, [6 | 0x33 << 16, 2 << 24 | 0x1234], "identify by command set", size=4096,
          status=(0, 0x4002), fields={"cns": {"code": 6}, "ctrlid": 0x33, "cnssid": 0x1234,
                                      "csi": {"code": 2, "name": "zoned"}})
    admin(ctrl, 0x06, [0xFE], "identify of what is not there", size=4096, status=(0x4002,),
          fields={"cns": {"code": 0xFE}})
    for lid, size, name in [(1, 64, "error"), (2, 512, "smart"), (3, 512, "firmware-slot"),
                            (5, 4096, "effects")]:
        low, high = zeroed(size // 4 - 1)
        admin(ctrl, 0x02, [lid | low, high], f"log {name}", nsid=0xFFFFFFFF, size=size,
              fields={"lid": {"code": lid}, "numd": size // 4 - 1, "bytes": size, "lpo": 0, "rae": 0})
    admin(ctrl, 0x02, [2 | 1 << 15 | 15 << 16, 0, 0x40], "log from an offset on", nsid=0xFFFFFFFF, size=64,
          wide=True, fields={"lid": {"code": 2}, "rae": 1, "lpo": 0x40})
    admin(ctrl, 0x02, [0x7F | 15 << 16], "log that is not there", size=64, status=(0x4002, 0x4109),
          fields={"lid": {"code": 0x7F}})
    for fid, cdw11, sel in [(2, 0, 0), (4, 0, 0), (6, 0, 1), (7, 0, 0), (9, 0, 0), (0xB, 0, 3)]:
        admin(ctrl, 0x0A, [fid | sel << 8, cdw11], f"get feature {fid:#x}",
              fields={"fid": {"code": fid}, "sel": {"code": sel}, "cdw11": cdw11})
    admin(ctrl, 0x0A, [0x77], "get a feature that is not there", status=0x4002,
          fields={"fid": {"code": 0x77}})
    admin(ctrl, 0x09, [6, 1], "set write cache", fields={"fid": {"code": 6}, "wce": 1, "sv": 0})
    admin(ctrl, 0x09, [7, 0x0003_0003], "set queues too late", status=0x400C, may_refuse=True,
          fields={"fid": {"code": 7, "name": "number-of-queues"}, "cdw11": 0x30003, "sqs": 4, "cqs": 4})
    admin(ctrl, 0x09, [4 | 1 << 31, 0x200], "save what can't be saved", status=0x410D,
          fields={"fid": {"code": 4}, "sv": 1, "tmpth": 0x200})
    admin(ctrl, 0x08, [1 | 0x77 << 16], "abort of nothing", result=1, fields={"sqid": 1, "cid": 0x77})
    admin(ctrl, 0x00, [99], "delete SQ", status=0x4101, fields={"sqid": 99})
    admin(ctrl, 0x04, [99], "delete CQ", status=(0x4100, 0x4101), fields={"cqid": 99})
    admin(ctrl, 0x01, [0x001F_0009, 0x0063_0003], "create SQ", status=(0x4100,),
          fields={"sqid": 9, "qsize": 31, "entries": 32, "cqid": 99, "pc": 1,
                  "qprio": {"code": 1, "name": "high"}})
    admin(ctrl, 0x05, [0x001F_FFFF, 0x0002_0003], "create CQ", status=(0x4101,),
          fields={"cqid": 0xFFFF, "irq_vector": 2, "pc": 1, "ien": 1})
    for opcode, cdw, fields, name in [
        (0x0D, [1], {"sel": {"code": 1, "name": "delete"}}, "ns-management"),
        (0x10, [0x9], {"fs": 1, "ca": {"code": 1, "name": "replace-activate-at-reset"}}, "fw-commit"),
        (0x11, [127, 256], {"numd": 127, "ofst": 256, "offset": 1024}, "fw-download"),
        (0x14, [2], {"stc": {"code": 2, "name": "extended"}}, "self-test"),
        (0x18, [], {}, "keep-alive"),
        (0x19, [0, 0x0001, 0x0101], {"dtype": {"code": 0}, "endir": 1}, "directive-send"),
        (0x1A, [7, 0x0102, 0], {"dtype": {"code": 1, "name": "streams"}, "numd": 7}, "directive-receive"),
        (0x1D, [0x800, 0x55], {"nmimt": 1, "mi_opcode": 0x55}, "mi-send"),
        (0x24, [0x0611], {"prhbt": 1, "ofi": 6}, "lockdown"),
        (0x81, [0x0100_0200, 512], {"spsp0": 2, "tl": 512}, "security-send"),
        (0x82, [0x0100_0000, 512], {"secp": {"code": 1}, "al": 512}, "security-receive"),
        (0x86, [0x10, 0, 15, 2 << 24 | 8], {"slba": 16, "mndw": 15, "rl": 8}, "get-lba-status"),
        (0xC5, [1, 2, 3, 4, 5, 6], {"cdw10": 1, "cdw15": 6}, "a vendor's admin command"),
    ]:
        admin(ctrl, opcode, cdw, name, status=INVALID, fields=fields)


def tools():
    """The commands of nvme-cli and util-linux, which look at the controller first."""
    ns = f"/dev/{disk}"
    admin_ = {"queue": "admin", "disk": None}
    look = {"others": ["admin:0x06"]}
    program(ctrl, ["nvme", "id-ctrl", "/dev/nvme0"],
            [admin_ | {"opcode": 6, "nsid": 0, "fields": {"cns": {"code": 1}}}], "nvme id-ctrl", **look)
    program(ctrl, ["nvme", "get-log", "/dev/nvme0", "--log-id=3", "--log-len=512", "-b"],
            [admin_ | {"opcode": 2, "nsid": 0xFFFFFFFF, "fields": {"lid": {"code": 3}, "bytes": 512}}],
            "nvme get-log", **look)
    program(ctrl, ["nvme", "get-feature", "/dev/nvme0", "-f", "7"],
            [admin_ | {"opcode": 10, "nsid": None, "fields": {"fid": {"code": 7}}}], "nvme get-feature",
            **look)
    program(ctrl, ["nvme", "set-feature", "/dev/nvme0", "-f", "6", "--value=1"],
            [admin_ | {"opcode": 9, "nsid": None, "fields": {"fid": {"code": 6}, "wce": 1}}],
            "nvme set-feature", **look)
    program(plain, ["nvme", "read", ns, "-s", "40", "-c", "3", "-z", "2048", "-d", "/dev/null"],
            [{"opcode": 2, "bytes": 2048, "fields": {"slba": 40, "len": 3}}], "nvme read", **look)
    program(plain, ["nvme", "write", ns, "-s", "41", "-c", "0", "-z", "512", "-d", "/dev/zero"],
            [{"opcode": 1, "bytes": 512, "fields": {"slba": 41, "len": 0}}], "nvme write", **look)
    program(plain, ["nvme", "compare", ns, "-s", "41", "-c", "0", "-z", "512", "-d", "/etc/passwd"],
            [{"opcode": 5, "status": 0x285, "status_mask": 0x7FF, "fields": {"slba": 41}}],
            "nvme compare that fails", code=1, **look)
    program(plain, ["nvme", "dsm", ns, "-n", "1", "-a", "0", "-b", "8", "-s", "8", "-d"],
            [{"opcode": 9, "fields": {"ranges": 1, "ad": True}}], "nvme dsm", **look)
    program(plain, ["nvme", "write-zeroes", ns, "-s", "64", "-c", "7", "-n", "1"],
            [{"opcode": 8, "fields": {"slba": 64, "len": 7}}], "nvme write-zeroes", **look)
    program(plain, ["nvme", "flush", ns, "-n", "1"], [{"opcode": 0}], "nvme flush", **look)
    program(plain, ["nvme", "io-passthru", ns, "--opcode=0x9d", "-n", "1", "--cdw10=0x1234", "--cdw15=7"],
            [{"opcode": 0x9D, "status": INVALID, "fields": {"cdw10": 0x1234, "cdw15": 7}}],
            "nvme io-passthru", code=1, **look)
    # a kernel worker issues these; blkdiscard also reads, because it searches for file systems
    worker = {"pid": None, "cpu": None}
    program(plain, ["blkdiscard", "-o", "1048576", "-l", "65536", ns],
            [worker | {"opcode": 9, "fields": {"ranges": 1, "attributes": 4}}], "blkdiscard",
            others=["io:0x02"])
    program(plain, ["blkdiscard", "-z", "-o", "2097152", "-l", "65536", ns],
            [worker | {"opcode": 8, "fields": {"slba": 4096, "len": 127}}], "blkdiscard -z",
            others=["io:0x02"])


def fio():
    def run(name, opcode, engine, path, words, offsets, size, **more):
        first = 512
        # before 6.12, a worker dispatches synchronous writes
        whose = {"pid": None, "cpu": None} if opcode == 1 else {}
        commands = [whose | {"opcode": opcode, "bytes": size,
                             "fields": {"slba": o // first, "len": size // first - 1}} for o in offsets]
        program(plain, ["fio", f"--name={name}", f"--filename={path}", f"--ioengine={engine}", "--thread=1",
                        f"--bs={size}", "--output=/dev/null", *words], commands, f"fio {name}", **more)

    direct = ["--direct=1"]
    every = [1 << 20 | n * 8192 for n in range(24)]
    run("libaio", 2, "libaio", f"/dev/{disk}", direct + ["--rw=read:4k", "--offset=1m", "--size=192k",
        "--io_size=96k", "--iodepth=4"], every, 4096, ordered=False)
    run("psync", 1, "psync", f"/dev/{disk}", direct + ["--rw=write", "--offset=4m", "--size=128k"],
        [4 << 20 | n * 16384 for n in range(8)], 16384)
    run("io_uring", 2, "io_uring", f"/dev/{disk}", direct + ["--rw=read", "--offset=8m", "--size=64k",
        "--iodepth=8", "--iodepth_batch_submit=8"], [8 << 20 | n * 4096 for n in range(16)], 4096,
        ordered=False)
    generic = f"/dev/ng{disk.removeprefix('nvme')}"
    if os.path.exists(generic):
        run("io_uring_cmd", 2, "io_uring_cmd", generic, ["--cmd_type=nvme", "--rw=read", "--offset=16m",
            "--size=32k", "--iodepth=4"], [16 << 20 | n * 4096 for n in range(8)], 4096, ordered=False,
            others=["admin:0x06"])


def zones():
    ns = Device("nvme1", f"/dev/{zoned_disk}", zoned_disk, 1)
    zone = 2048  # in blocks: nvme1 has zones of 1 MiB (see trace.sh)
    io(ns, 0x79, [0, 0, 0, 3], "open a zone", fields={"slba": 0, "zsa": {"code": 3, "name": "open"}, "all": 0})
    io(ns, 0x7D, [0, 0, 7], "append", size=4096, result=0, wide=True, fields={"slba": 0, "len": 7})
    io(ns, 0x7D, [0, 0, 7], "append again", size=4096, result=8, wide=True)
    io(ns, 0x01, [16, 0, 7], "write where it goes on", size=4096)
    io(ns, 0x01, [100, 0, 7], "write elsewhere", size=4096, status=(0x41BC, 0x1BC))
    io(ns, 0x7A, [0, 0, 1023, 0x10000], "report", size=4096,
       fields={"slba": 0, "numd": 1023, "bytes": 4096, "zra": {"code": 0, "name": "report"},
               "zrasf": {"code": 0, "name": "all"}, "pr": 1})
    io(ns, 0x79, [0, 0, 0, 1], "close", fields={"zsa": {"code": 1, "name": "close"}})
    io(ns, 0x79, [0, 0, 0, 2], "finish", fields={"zsa": {"code": 2, "name": "finish"}})
    io(ns, 0x7D, [0, 0, 0], "append to a full zone", size=512, status=(0x41B9, 0x1B9), wide=True)
    io(ns, 0x7A, [zone, 0, 255, 0x0501], "report of full ones", size=1024, status=(0, 0x4002),
       fields={"slba": zone, "zra": {"code": 1, "name": "extended-report"},
               "zrasf": {"code": 5, "name": "full"}})
    io(ns, 0x79, [0, 0, 0, 0x104], "reset all", fields={"zsa": {"code": 4, "name": "reset"}, "all": 1})
    program(ns, ["nvme", "zns", "report-zones", f"/dev/{zoned_disk}", "-d", "1"],
            [{"opcode": 0x7A}], "nvme zns report-zones", others=["admin:0x06", "io:0x7a"])


def faults():
    """blkdebug fails reads of block 2048 each time, of 4096 once, writes of 8192 each time."""
    ns = Device("nvme2", f"/dev/{faulty_disk}", faulty_disk, 1)
    io(ns, 0x02, [2048, 0, 0], "a block that can't be read", size=512, status=0x281)
    system(ns, 2, 2048 * 512, 4096, "pread of it", statuses=[0x281] * 6, fails=True)
    system(ns, 2, 4096 * 512, 4096, "pread that works when tried again", statuses=[0x281, 0])
    io(ns, 0x01, [8192, 0, 0], "a block that can't be written", size=512, status=0x280)
    system(ns, 1, 8192 * 512, 4096, "pwrite of it", statuses=[0x280] * 6, fails=True)
    io(ns, 0x02, [0, 0, 7], "one that can", size=4096)


def metadata():
    ns = Device("nvme3", f"/dev/{meta_disk}", meta_disk, 1)
    io(ns, 0x02, [0, 0, 0], "read with metadata", size=512, meta=8, fields={"slba": 0})
    io(ns, 0x02, [0, 0, 1 << 29], "read with PRACT", size=512, fields={"pract": True})
    io(ns, 0x01, [4, 0, 3], "write with metadata", size=2048, meta=32)
    io(ns, 0x02, [5, 0, 1 << 26, 0, 99], "a reference tag that is wrong", size=512, meta=8,
       status=(0x284, 0x4181), fields={"reftag": 99, "prchk": 1})


def events():
    """A threshold below the temperature: the controller tells of it, once it is to."""
    was = admin(ctrl, 0x0A, [0x0B], "which events")
    admin(ctrl, 0x09, [0x0B, was | 2], "tell of temperature", fields={"fid": {"code": 0xB}, "smart": 2})
    admin(ctrl, 0x09, [4, 0x0100], "threshold", fields={"tmpth": 0x100, "thsel": {"code": 0}})
    low, high = zeroed(127)
    admin(ctrl, 0x02, [2 | low, high], "log that acknowledges it", nsid=0xFFFFFFFF, size=512)
    admin(ctrl, 0x09, [4, 0x0160], "threshold as before")
    admin(ctrl, 0x09, [0x0B, was], "events as before")


def formatting():
    """What the kernel does then (it looks at the namespace anew) is its own."""
    admin(ctrl, 0x80, [0x0F], "a format that is not there", nsid=2, status=(0x410A,),
          fields={"lbaf": 15, "pi": {"code": 0}, "ses": {"code": 0}})
    program(ctrl, ["nvme", "format", f"/dev/{scratch_disk}", "-l", "0", "-s", "0", "-f"],
            [{"queue": "admin", "disk": None, "opcode": 0x80, "nsid": 2,
              "fields": {"lbaf": 0, "ses": {"code": 0}}}], "nvme format",
            others=["admin:0x06", "io:0x02", "admin:0x02"], more={"then_kernel": True})


for part in [nvm, admins, tools, fio, zones, faults, metadata, events, formatting]:
    part()
finish()
