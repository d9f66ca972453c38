// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of QEMU and SPDK that `host trace --pid` attaches to.

/// A program, and the functions that it may be attached to.
pub struct Wanted {
    /// The program.
    pub program: &'static str,
    /// The functions.
    pub functions: &'static [&'static str],
    /// Whether the stages of the backend need it, and not the command as a whole.
    pub is_inner: bool,
    /// Whether some releases lack some of its functions.
    pub is_optional: bool,
}

const fn wanted(program: &'static str, functions: &'static [&'static str]) -> Wanted {
    Wanted { program, functions, is_inner: false, is_optional: false }
}

/// Programs for QEMU. The begin is last, so that no command is without its later points.
pub const QEMU: [Wanted; 4] = [
    wanted("qemu_done", &["nvme_rw_complete_cb"]),
    Wanted {
        is_inner: true,
        ..wanted(
            "qemu_submit",
            &["dma_blk_read", "dma_blk_write", "blk_aio_preadv", "blk_aio_pwritev"],
        )
    },
    Wanted { is_inner: true, ..wanted("qemu_interrupt", &["msix_notify"]) },
    wanted("qemu_fetch", &["nvme_map_dptr"]),
];

/// Programs for SPDK, in the same order. 22.01 and earlier have no functions `_ext`.
pub const SPDK: [Wanted; 5] = [
    wanted("spdk_complete", &["nvmf_transport_req_complete"]),
    wanted("spdk_free", &["nvmf_transport_req_free"]),
    Wanted { is_inner: true, ..wanted("spdk_done", &["spdk_nvmf_request_complete"]) },
    Wanted {
        is_inner: true,
        is_optional: true,
        ..wanted(
            "spdk_submit",
            &[
                "spdk_bdev_readv_blocks_ext",
                "spdk_bdev_writev_blocks_ext",
                "spdk_bdev_readv_blocks",
                "spdk_bdev_writev_blocks",
            ],
        )
    },
    wanted("spdk_fetch", &["spdk_nvmf_request_exec"]),
];

/// The functions that a process must have for these programs.
pub fn needed(programs: &'static [Wanted]) -> impl Iterator<Item = &'static str> {
    let needed = programs.iter().filter(|wanted| !wanted.is_optional);
    needed.flat_map(|wanted| wanted.functions).copied()
}
