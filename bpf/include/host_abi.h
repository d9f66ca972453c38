/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What bpf/host.bpf.c shares with src/session/host. */
#pragma once

#include <linux/types.h>

enum nd_host_limit {
	ND_HOST_FLYING = 65536,		/* commands in flight */
	ND_HOST_CTRLS = 1024,		/* controllers */
	ND_HOST_RING = 8 * 1024 * 1024, /* bytes of the ring */
	ND_HOST_NQN = 224,		/* bytes of an NQN, with its end */
};

enum nd_host_point {
	ND_HOST_FETCH,
	ND_HOST_BACKEND_SUBMIT,
	ND_HOST_BACKEND_DONE,
	ND_HOST_POST,
	ND_HOST_ITSELF, /* of an interrupt, and of the end of a command without a response */
	ND_HOST_POINTS,
};

enum nd_host_count {
	ND_HOST_HIT_INIT,
	ND_HOST_HIT_COMPLETE,
	ND_HOST_HIT_FETCH,
	ND_HOST_HIT_SUBMIT,
	ND_HOST_HIT_DONE,
	ND_HOST_HIT_INTERRUPT,
	ND_HOST_HIT_FREE,
	ND_HOST_WITHOUT_BEGIN,
	ND_HOST_WITHOUT_END,
	ND_HOST_NO_ROOM,
	ND_HOST_LOST,
	ND_HOST_FAILED_CHECK,
	ND_HOST_COUNTS,
};

enum nd_host_flag {
	ND_HOST_HAS_STATUS = 1,	  /* `status` is valid */
	ND_HOST_IS_INTERRUPT = 2, /* an interrupt: sqe[0] is the vector */
	ND_HOST_IS_ABANDONED = 4, /* a command that ended without a response */
};

/* struct NvmeRequest and struct NvmeSQueue of QEMU (hw/nvme/nvme.h, 6.1 to 10.0). */
enum nd_qemu {
	ND_QEMU_REQ_SQ = 0,
	ND_QEMU_REQ_CID = 52,
	ND_QEMU_SQ_CTRL = 0,
	ND_QEMU_SQ_ID = 8,
};

enum nd_spdk {
	ND_SPDK_CTRLR_SUBSYSTEM = 232, /* in struct spdk_nvmf_ctrlr, 22.01 to 26.05 */
	ND_SPDK_SUBSYSTEM = 512,       /* bytes of a subsystem that have its NQN */
	ND_SPDK_FABRICS = 0x7f,	       /* opcode of fabrics commands */
	ND_SPDK_MSGS = 4096,	       /* functions to count */
	ND_CQE_CID = 12,	       /* in a completion queue entry */
	ND_CQE_STATUS = 14,
};

/* Functions of SPDK that pass on a function. */
enum nd_spdk_call {
	ND_SPDK_SEND_MSG,
	ND_SPDK_EACH_CHANNEL,
};

struct nd_spdk_msg {
	__u64 function;
	__u64 call;
};

/* A controller: its address in the kernel or the process. */
struct nd_host_ctrl {
	__u64 address;
	__u64 cntlid;
};

struct nd_host_name {
	char nqn[ND_HOST_NQN];
};

/* A command, or an interrupt. */
struct nd_host {
	__u64 points_ns[ND_HOST_POINTS]; /* 0: not observed */
	__u64 request;
	struct nd_host_ctrl ctrl;
	__u32 sqe[16];
	__u16 qid;
	__u16 status;
	__u32 flags;
};

/* What bpf/usdt.bpf.c shares with src/session/host/usdt.rs. */

enum nd_usdt_limit {
	ND_USDT_ARGS = 6,		/* arguments of a probe that are read */
	ND_USDT_TEXTS = 3,		/* arguments that are texts */
	ND_USDT_TEXT = 224,		/* bytes of a text, with its end */
	ND_USDT_RING = 8 * 1024 * 1024, /* bytes of the ring */
	/* In a probe's cookie, above its number: a bit for each argument that is a text. */
	ND_USDT_TEXT_SHIFT = 16,
};

enum nd_usdt_count {
	ND_USDT_HITS,
	ND_USDT_LOST,
	ND_USDT_COUNTS,
};

/* A hit. Without texts a record ends before them. */
struct nd_usdt {
	__u64 at_ns;
	__u64 cookie;
	__u64 args[ND_USDT_ARGS];
	char texts[ND_USDT_TEXTS * ND_USDT_TEXT];
};
