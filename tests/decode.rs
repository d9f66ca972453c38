// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoding of commands that are written by hand from the specifications. In guests, tests/vm/judge/trace_kernel.rs
//! compares them with what the kernel prints.

use nvme_deep::nvme::decode::{Blocks, CommandSet, blocks, describe, name};
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::nvme::opcode::QueueKind::{Admin, Io};
use nvme_deep::nvme::sqe::{Parts, Sqe};

fn sqe(opcode: u8, nsid: u32, cdw: [u32; 6]) -> Sqe {
    Sqe::from(Parts { opcode, nsid, cdw, ..Parts::default() })
}

fn text(queue: QueueKind, set: CommandSet, sqe: &Sqe) -> String {
    let mut text = String::new();
    describe(queue, set, sqe, &mut text).unwrap();
    text
}

/// Queue, opcode, CDW10 to CDW15, expected text.
type Known = (QueueKind, u8, [u32; 6], &'static str);

#[rustfmt::skip]
const COMMANDS: &[Known] = &[
    (Io, 0x00, [0; 6], ""),
    (Io, 0x02, [0x800, 1, 0x0000_0007, 0, 0, 0],
        "slba=4294969344 len=7 nlb=8 ctrl=0x0 dsmgmt=0 reftag=0"),
    // FUA; protection checked and generated; sequential, frequent writes; directive 2, handle 3
    (Io, 0x01, [0, 0, 0x7420_00ff, 0x0003_0044, 9, 0xffff_0005],
        "slba=0 len=255 nlb=256 ctrl=0x7420 dsmgmt=196676 reftag=9 fua=1 pract=1 prchk=0x5 \
         apptag=5 appmask=0xffff freq=4:frequent-writes seq=1 dtype=2:data-placement dspec=0x3"),
    // a command extension replaces the hints
    (Io, 0x02, [0, 0, 0x0001_0000, 0x0000_0044, 0, 0],
        "slba=0 len=0 nlb=1 ctrl=0x1 dsmgmt=68 reftag=0 cetype=1 cev=0x44"),
    (Io, 0x04, [5, 0, 0xffff, 0, 0, 0], "slba=5 len=65535 nlb=65536"),
    (Io, 0x05, [1, 0, 0x8000_0000, 0, 0, 0],
        "slba=1 len=0 nlb=1 ctrl=0x8000 dsmgmt=0 reftag=0 lr=1"),
    (Io, 0x08, [16, 0, 0x0280_000f, 0, 0, 0],
        "slba=16 len=15 nlb=16 ctrl=0x280 dsmgmt=0 reftag=0 deac=1 nsz=1"),
    (Io, 0x09, [2, 4, 0, 0, 0, 0], "nr=2 ranges=3 attributes=4 ad=1"),
    (Io, 0x09, [0, 3, 0, 0, 0, 0], "nr=0 ranges=1 attributes=3 idw=1 idr=1"),
    (Io, 0x0d, [0xc000_000a, 0, 0, 0, 0, 0], "rrega=2:replace iekey=1 ptpl=3:persist"),
    (Io, 0x0e, [1023, 1, 0, 0, 0, 0], "numd=1023 bytes=4096 eds=1"),
    (Io, 0x11, [0x0102, 0, 0, 0, 0, 0], "racqa=2:preempt-abort iekey=0 rtype=1:write-exclusive"),
    (Io, 0x12, [1, 63, 0, 0, 0, 0], "mo=1:reclaim-unit-handle-status mos=0x0 numd=63 bytes=256"),
    (Io, 0x15, [0x0611, 0, 0, 0, 0, 0],
        "rrela=1:clear iekey=0 rtype=6:exclusive-access-all-registrants disnsrs=1"),
    (Io, 0x18, [0x0007_0003, 1, 0, 0, 0, 0], "sqid=3 cid=7 acode=1:multiple"),
    (Io, 0x19, [64, 0, 0x4000_0203, 0, 0, 0],
        "sdlba=64 nr_range=3 ranges=4 desfmt=2 ctrl=0x4000 dsmgmt=0 reftag=0 fua=1"),
    (Io, 0x1d, [0x0002_0001, 0, 0, 0, 0, 0], "mo=1:reclaim-unit-handle-update mos=0x2"),
    (Io, 0xc1, [1, 0, 0, 0, 0, 0xff],
        "cdw10=0x1 cdw11=0x0 cdw12=0x0 cdw13=0x0 cdw14=0x0 cdw15=0xff"),
    // zones
    (Io, 0x79, [0x8000, 0, 0, 0x0104, 0, 0], "slba=32768 zsa=4:reset all=1"),
    (Io, 0x79, [0, 0, 0, 0x10, 0, 0], "slba=0 zsa=16:set-descriptor-extension all=0"),
    (Io, 0x7a, [0, 0, 1023, 0x0001_0500, 0, 0],
        "slba=0 numd=1023 bytes=4096 zra=0:report zrasf=5:full pr=1"),
    (Io, 0x7d, [0x8000, 0, 0x0200_0007, 0, 0x8000, 0],
        "slba=32768 len=7 nlb=8 ctrl=0x200 dsmgmt=0 reftag=32768 piremap=1"),
    (Admin, 0x00, [3, 0, 0, 0, 0, 0], "sqid=3"),
    (Admin, 0x01, [0x03ff_0001, 0x0001_0005, 0, 0, 0, 0],
        "sqid=1 qsize=1023 entries=1024 sq_flags=0x5 cqid=1 pc=1 qprio=2:medium"),
    (Admin, 0x02, [0x007f_8002, 0, 0, 0, 0, 0], "lid=0x2:smart numd=127 bytes=512 lpo=0 rae=1"),
    // NUMDU, a log specific field and identifier, an offset above 4 GiB, UUID index, ZNS
    (Admin, 0x02, [0xffff_01bf, 0x0002_0001, 8, 1, 0x0200_0003, 0],
        "lid=0xbf:changed-zones numd=131071 bytes=524288 lpo=4294967304 rae=0 lsp=0x1 lsi=2 \
         uidx=3 csi=2:zoned"),
    (Admin, 0x04, [2, 0, 0, 0, 0, 0], "cqid=2"),
    (Admin, 0x05, [0x00ff_0002, 0x0007_0003, 0, 0, 0, 0],
        "cqid=2 qsize=255 entries=256 cq_flags=0x3 irq_vector=7 pc=1 ien=1"),
    (Admin, 0x06, [1, 0, 0, 0, 0, 0], "cns=1:controller ctrlid=0"),
    (Admin, 0x06, [0x0004_0005, 0x0200_0000, 0, 0, 0, 0],
        "cns=5:csi-namespace ctrlid=4 csi=2:zoned"),
    (Admin, 0x08, [0x1005_0002, 0, 0, 0, 0, 0], "sqid=2 cid=4101"),
    (Admin, 0x0d, [1, 0, 0, 0, 0, 0], "sel=1:delete"),
    (Admin, 0x10, [0x1a, 0, 0, 0, 0, 0], "fs=2 ca=3:activate-now"),
    (Admin, 0x11, [1023, 1024, 0, 0, 0, 0], "numd=1023 bytes=4096 ofst=1024 offset=4096"),
    (Admin, 0x14, [2, 0, 0, 0, 0, 0], "stc=2:extended"),
    (Admin, 0x15, [0, 0, 0, 0, 0, 0], "sel=0:attach"),
    (Admin, 0x19, [0, 0x0000_0001, 0x0101, 0, 0, 0],
        "numd=0 bytes=4 dtype=0:identify doper=1:enable-directive dspec=0x0 tdtype=1:streams \
         endir=1"),
    (Admin, 0x1a, [7, 0x0000_0103, 4, 0, 0, 0],
        "numd=7 bytes=32 dtype=1:streams doper=3:allocate-resources dspec=0x0 nsr=4"),
    (Admin, 0x1c, [0x0002_0108, 3, 0, 0, 0, 0], "act=8:secondary-assign rt=1:vi cntlid=2 nr=3"),
    (Admin, 0x1d, [0x0804, 3, 0x0300_0001, 7, 0, 0],
        "nmimt=1 mi_opcode=0x3 nmd0=0x3000001 nmd1=0x7"),
    (Admin, 0x20, [0x0005_0001, 0, 1, 0, 0, 0],
        "oper=1:create-endurance-group elid=5 cap=4294967296"),
    (Admin, 0x24, [0x0632, 0, 0, 0, 0, 0],
        "scp=2:feature prhbt=1 ifc=1:admin-queue-and-out-of-band ofi=0x6"),
    (Admin, 0x80, [0x1335, 0, 0, 0, 0, 0],
        "lbaf=21 mset=1:extended pi=1:type1 pil=1:first ses=1:user-data"),
    (Admin, 0x81, [0xea00_0101, 512, 0, 0, 0, 0],
        "secp=0xea:nvme spsp0=0x1 spsp1=0x0 nssf=0x1 tl=512"),
    (Admin, 0x84, [0x0313, 0xdead_beef, 0, 0, 0, 0],
        "sanact=3:overwrite ause=0 owpass=1 oipbp=1 nodas=1 ovrpat=0xdeadbeef"),
    (Admin, 0x86, [0x10, 0, 0xff, 0x1100_0020, 0, 0],
        "slba=0x10 mndw=0xff bytes=1024 rl=0x20 atype=17:tracked"),
    // features, by what they are set to
    (Admin, 0x09, [0x01, 0x0302_0107, 0, 0, 0, 0],
        "fid=0x1:arbitration sv=0 cdw11=0x3020107 ab=7 lpw=1 mpw=2 hpw=3"),
    (Admin, 0x09, [0x8000_0002, 0x23, 0, 0, 0, 0],
        "fid=0x2:power-management sv=1 cdw11=0x23 ps=3 wh=1"),
    (Admin, 0x09, [0x04, 0x0011_0157, 0, 0, 0, 0],
        "fid=0x4:temperature-threshold sv=0 cdw11=0x110157 tmpth=343 tmpsel=1 thsel=1:under"),
    (Admin, 0x09, [0x07, 0x0007_0007, 0, 0, 0, 0],
        "fid=0x7:number-of-queues sv=0 cdw11=0x70007 sqs=8 cqs=8"),
    (Admin, 0x09, [0x0b, 0x8000_031f, 0, 0, 0, 0],
        "fid=0xb:async-event sv=0 cdw11=0x8000031f smart=0x1f nan=1 fan=1 dlpcn=1"),
    (Admin, 0x09, [0x0d, 1, 0x2000, 0x1000, 1, 4],
        "fid=0xd:host-memory-buffer sv=0 cdw11=0x1 ehm=1 mr=0 hsize=8192 hmdl=0x100001000 hmdlec=4"),
    (Admin, 0x09, [0x0e, 0, 0, 0, 0, 0], "fid=0xe:timestamp sv=0 cdw11=0x0"),
    (Admin, 0x09, [0x0f, 15000, 0, 0, 0, 0],
        "fid=0xf:keep-alive-timer sv=0 cdw11=0x3a98 kato=15000"),
    (Admin, 0x09, [0xc5, 1, 0, 7, 0, 0], "fid=0xc5:vendor-specific sv=0 cdw11=0x1 cdw13=0x7"),
    (Admin, 0x0a, [0x0304, 0x0010_0000, 0, 0, 0, 0],
        "fid=0x4:temperature-threshold sel=0x3:capabilities cdw11=0x100000 tmpsel=0 thsel=1:under"),
];

#[test]
fn commands_are_described() {
    for &(queue, opcode, cdw, shown) in COMMANDS {
        let sqe = sqe(opcode, 1, cdw);
        assert_eq!(text(queue, CommandSet::Nvm, &sqe), shown, "{opcode:#x}");
    }
}

/// The type, CDW10 to CDW15, name, text.
#[rustfmt::skip]
const FABRICS: &[(u32, [u32; 6], &str, &str)] = &[
    (0x00, [0, 0x14, 0x0046_0001, 0, 0, 0], "fabrics-property-set",
        "fctype=0:property-set attrib=0:4-bytes ofst=0x14:CC value=0x460001"),
    (0x01, [0x0001_0000, 0x0004_007f, 15000, 0, 0, 0], "fabrics-connect",
        "fctype=1:connect recfmt=0 qid=1 sqsize=127 entries=128 cattr=4 kato=15000 dsqfc=1"),
    (0x04, [1, 0, 0, 0, 0, 0], "fabrics-property-get",
        "fctype=4:property-get attrib=1:8-bytes ofst=0x0:CAP"),
    (0x05, [0xe901_0100, 64, 0, 0, 0, 0], "fabrics-authentication-send",
        "fctype=5:authentication-send spsp0=0x1 spsp1=0x1 secp=0xe9:nvme-authentication tl=64"),
    (0x06, [0xe901_0100, 64, 0, 0, 0, 0], "fabrics-authentication-receive",
        "fctype=6:authentication-receive spsp0=0x1 spsp1=0x1 secp=0xe9:nvme-authentication al=64"),
    (0x08, [0; 6], "fabrics-disconnect", "fctype=8:disconnect recfmt=0"),
];

#[test]
fn fabrics_commands_are_described_by_their_type() {
    for &(fctype, cdw, called, shown) in FABRICS {
        for queue in QueueKind::BOTH {
            // the type is byte 4; the rest of CDW1 is reserved
            let sqe = sqe(0x7f, 0xff00 | fctype, cdw);
            assert_eq!(text(queue, CommandSet::Nvm, &sqe), shown);
            assert_eq!(name(queue, CommandSet::Nvm, &sqe), Some(called));
        }
    }
    let other = sqe(0x7f, 0x33, [1; 6]);
    assert!(text(Admin, CommandSet::Nvm, &other).starts_with("fctype=51:reserved cdw10=0x1 "));
    assert_eq!(name(Io, CommandSet::Nvm, &other), Some("fabrics"));
}

#[test]
fn key_value_commands_need_the_command_set() {
    let store = sqe(0x01, 1, [4096, 0x0210, 0, 0, 0, 0]);
    let set = CommandSet::from_csi(1).unwrap();
    assert_eq!(text(Io, set, &store), "vsize=4096 kl=16 options=0x2");
    assert_eq!(name(Io, set, &store), Some("kv-store"));
    assert_eq!(name(Io, CommandSet::Nvm, &store), Some("write"));
    assert_eq!(blocks(Io, set, &store), None);
    let exist = sqe(0x14, 1, [0, 8, 0, 0, 0, 0]);
    assert_eq!(text(Io, set, &exist), "kl=8");
    assert_eq!(name(Io, set, &exist), Some("kv-exist"));
    // a command that both sets have
    assert_eq!(text(Io, set, &sqe(0x0e, 1, [0; 6])), "numd=0 bytes=4 eds=0");
}

#[test]
fn a_whole_entry_has_addresses_too() {
    let mut bytes = [0; 64];
    bytes[0] = 0x7c;
    bytes[24..32].copy_from_slice(&0x1_0000_u64.to_le_bytes());
    bytes[32..40].copy_from_slice(&0x2_0000_u64.to_le_bytes());
    let shown = text(Admin, CommandSet::Nvm, &Sqe::from(&bytes));
    assert_eq!(shown, "prp1=0x10000 prp2=0x20000");
    assert_eq!(text(Admin, CommandSet::Nvm, &sqe(0x7c, 0, [0; 6])), "");
}

#[test]
fn only_commands_on_logical_blocks_have_some() {
    let of = |queue, opcode| {
        let sqe = sqe(opcode, 1, [7, 1, 0x4000_ffff, 0, 0, 0]);
        blocks(queue, CommandSet::Zoned, &sqe)
    };
    let all = Blocks { slba: 0x1_0000_0007, nlb: 65536 };
    for opcode in 0..=u8::MAX {
        let expected = [0x01, 0x02, 0x04, 0x05, 0x08, 0x0c, 0x7d].contains(&opcode);
        assert_eq!(of(Io, opcode), expected.then_some(all));
        assert_eq!(of(Admin, opcode), None);
    }
}
