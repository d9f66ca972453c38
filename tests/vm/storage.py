# SPDX-License-Identifier: MIT OR Apache-2.0
"""storage.py SOCKET: an NBD server on a Unix socket, whose exports answer after 4 ms, with a fault each.

Each export has 1 GiB that reads as zeroes and discards writes:
    hold       each 501st read is held for 700 ms (the NBD client of QEMU 7.2 may block all reads
               beside the last one of a batch; 501 is not a multiple of a number in flight)
    late       reads beyond 256 KiB take 26 s, but not those of the last MiB: the kernel finds the
               partition table at once
    soon       the same, but 4 s
    discard    a trim takes 100 ms, and what begins beside a trim takes 8 ms more
"""

import asyncio
import struct
import sys

SIZE = 1 << 30
BASE = 0.004
# of the NBD protocol (doc/proto.md of the NetworkBlockDevice project)
MAGIC, OPTION, REPLY = b"NBDMAGIC", b"IHAVEOPT", 0x3E889045565A9
FIXED_NEWSTYLE, NO_ZEROES = 1, 2
OPT_EXPORT_NAME, OPT_ABORT, OPT_INFO, OPT_GO = 1, 2, 6, 7
REP_ACK, REP_INFO, REP_UNSUPPORTED, REP_UNKNOWN = 1, 3, 0x80000001, 0x80000006
# has flags, flush, trim, write zeroes
FLAGS = 1 | 4 | 32 | 64
REQUEST, ANSWER = 0x25609513, 0x67446698
READ, WRITE, DISCONNECT, TRIM = 0, 1, 2, 4


class Export:
    def __init__(self, rule):
        self.rule = rule
        self.reads = 0
        self.trims = 0

    def delay(self, kind, offset):
        """Seconds for this request."""
        if self.rule in ("late", "soon"):
            held = kind == READ and 1 << 18 <= offset < SIZE - (1 << 20)
            return (26 if self.rule == "late" else 4) if held else 0
        if self.rule == "hold" and kind == READ:
            self.reads += 1
            return 0.7 if self.reads % 501 == 0 else BASE
        if self.rule == "discard":
            return 0.1 if kind == TRIM else BASE + 0.008 * bool(self.trims)
        return BASE

    async def serve(self, reader, writer):
        while True:
            head = await reader.readexactly(28)
            magic, _, kind, handle, offset, length = struct.unpack(">IHHQQI", head)
            assert magic == REQUEST, hex(magic)
            if kind == DISCONNECT:
                return
            if kind == WRITE:
                await reader.readexactly(length)
            asyncio.get_running_loop().create_task(self.answer(writer, kind, offset, length, handle))

    async def answer(self, writer, kind, offset, length, handle):
        delay = self.delay(kind, offset)
        self.trims += kind == TRIM
        await asyncio.sleep(delay)
        self.trims -= kind == TRIM
        writer.write(struct.pack(">IIQ", ANSWER, 0, handle) + bytes(length if kind == READ else 0))


EXPORTS = {rule: Export(rule) for rule in ("hold", "late", "soon", "discard")}


async def negotiate(reader, writer):
    """The export that the client asks for; None if it goes away."""
    writer.write(MAGIC + OPTION + struct.pack(">H", FIXED_NEWSTYLE | NO_ZEROES))
    await reader.readexactly(4)
    while True:
        _, option, length = struct.unpack(">QII", await reader.readexactly(16))
        data = await reader.readexactly(length)

        def reply(kind, body=b"", option=option):
            writer.write(struct.pack(">QIII", REPLY, option, kind, len(body)) + body)

        if option == OPT_ABORT:
            reply(REP_ACK)
            return None
        if option in (OPT_INFO, OPT_GO):
            (named,) = struct.unpack(">I", data[:4])
            export = EXPORTS.get(data[4 : 4 + named].decode())
            if export is None:
                reply(REP_UNKNOWN)
                continue
            reply(REP_INFO, struct.pack(">HQH", 0, SIZE, FLAGS))
            reply(REP_ACK)
            if option == OPT_GO:
                return export
        elif option == OPT_EXPORT_NAME:
            writer.write(struct.pack(">QH", SIZE, FLAGS))
            return EXPORTS[data.decode()]
        else:
            reply(REP_UNSUPPORTED)


async def client(reader, writer):
    try:
        export = await negotiate(reader, writer)
        if export is not None:
            await export.serve(reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(path):
    server = await asyncio.start_unix_server(client, path)
    await server.serve_forever()


asyncio.run(main(sys.argv[1]))
