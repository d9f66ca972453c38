// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs of bpf/host.bpf.c that `host trace` attaches, and what each is attached to.

/// A program, and the functions that it may be attached to.
pub struct Wanted {
    /// The program.
    pub program: &'static str,
    /// Its hook in the ledger.
    pub hook: &'static str,
    /// The functions of the process. The kernel's are in the program.
    pub functions: &'static [&'static str],
    /// Whether the stages of the backend need it, and not the command as a whole.
    pub is_inner: bool,
    /// Whether some releases lack some of its functions.
    pub is_optional: bool,
}

/// A program for one function.
const fn to(program: &'static str, function: &'static [&'static str; 1]) -> Wanted {
    let hook = function[0];
    Wanted { program, hook, functions: function, is_inner: false, is_optional: false }
}

// The begin is last, so that no command is without its later points.

/// Programs for nvmet.
pub static NVMET: [Wanted; 2] =
    [to("nvmet_complete", &["nvmet_req_complete"]), to("nvmet_init", &["nvmet_req_init"])];

/// Programs for QEMU.
pub static QEMU: [Wanted; 4] = [
    to("qemu_done", &["nvme_rw_complete_cb"]),
    Wanted {
        program: "qemu_submit",
        hook: "backend submit",
        functions: &["dma_blk_read", "dma_blk_write", "blk_aio_preadv", "blk_aio_pwritev"],
        is_inner: true,
        is_optional: false,
    },
    Wanted { is_inner: true, ..to("qemu_interrupt", &["msix_notify"]) },
    to("qemu_fetch", &["nvme_map_dptr"]),
];

/// Programs for SPDK. 22.01 and earlier have no functions `_ext`.
pub static SPDK: [Wanted; 5] = [
    to("spdk_complete", &["nvmf_transport_req_complete"]),
    to("spdk_free", &["nvmf_transport_req_free"]),
    Wanted { is_inner: true, ..to("spdk_done", &["spdk_nvmf_request_complete"]) },
    Wanted {
        program: "spdk_submit",
        hook: "bdev submit",
        functions: &[
            "spdk_bdev_readv_blocks_ext",
            "spdk_bdev_writev_blocks_ext",
            "spdk_bdev_readv_blocks",
            "spdk_bdev_writev_blocks",
        ],
        is_inner: true,
        is_optional: true,
    },
    to("spdk_fetch", &["spdk_nvmf_request_exec"]),
];

/// Programs for the functions of SPDK that pass on a function, in the order of `ND_SPDK_SEND_MSG` and
/// `ND_SPDK_EACH_CHANNEL`.
pub static MESSAGES: [Wanted; 2] = [
    to("spdk_send_msg", &["spdk_thread_send_msg"]),
    to("spdk_each_channel", &["spdk_for_each_channel"]),
];

/// The functions that a process must have for these programs.
pub fn needed(programs: &'static [Wanted]) -> impl Iterator<Item = &'static str> {
    let needed = programs.iter().filter(|wanted| !wanted.is_optional);
    needed.flat_map(|wanted| wanted.functions).copied()
}
