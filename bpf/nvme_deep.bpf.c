// SPDX-License-Identifier: GPL-2.0
/*
 * The hook table: every program is a thin wrapper that fetches its arguments and calls one on_*().
 * All are optional ("?"): user space switches on what its plan says.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "kernel.bpf.h"
#include "abi.h"
#include "config.bpf.h"
#include "maps.bpf.h"
#include "hist.bpf.h"
#include "rows.bpf.h"
#include "inflight.bpf.h"
#include "setup.bpf.h"
#include "points.bpf.h"

char LICENSE[] SEC("license") = "GPL";

SEC("?tp_btf/block_io_start")
int BPF_PROG(start_btf, struct request *rq)
{
	return rq ? on_start(rq) : 0;
}

SEC("?fentry/nvme_setup_cmd")
int BPF_PROG(setup_in_fentry, void *ns, struct request *rq)
{
	return rq ? on_setup_in(rq) : 0;
}

SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(setup_out_btf, struct request *rq, struct nvme_command *cmd)
{
	return rq && cmd ? on_setup_out(rq, cmd) : 0;
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(issue_btf, struct request *rq)
{
	return rq ? on_issue(rq) : 0;
}

SEC("?fexit/nvme_queue_rq")
int BPF_PROG(queue_rq_fexit, struct blk_mq_hw_ctx *hctx, struct blk_mq_queue_data *bd, int ret)
{
	return on_queued(hctx, bd, ret & 0xff);
}

/* No look at the argument: 6.1's verifier refuses it (a pointer to a pointer), and the list is
 * empty by now. What the task has set up since its last doorbell is what was on it. */
SEC("?fexit/nvme_queue_rqs")
int BPF_PROG(queue_rqs_fexit)
{
	return on_doorbell(ND_HOOK_QUEUE_RQS);
}

SEC("?fexit/nvme_commit_rqs")
int BPF_PROG(commit_rqs_fexit)
{
	return on_doorbell(ND_HOOK_COMMIT_RQS);
}

SEC("?fentry/nvme_irq")
int BPF_PROG(irq_in_fentry, int irq, void *nvmeq)
{
	return on_irq_in((u64)nvmeq);
}

SEC("?fexit/nvme_irq")
int BPF_PROG(irq_out_fexit)
{
	return on_irq_out();
}

SEC("?tp_btf/nvme_sq")
int BPF_PROG(cqe_btf, struct request *rq)
{
	return rq ? on_cqe(rq) : 0;
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(complete_btf, struct request *rq)
{
	return rq ? on_complete(rq) : 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(end_btf, struct request *rq)
{
	return rq ? on_end(rq) : 0;
}

SEC("?tp_btf/block_rq_requeue")
int BPF_PROG(requeue_btf, struct request *rq)
{
	return rq ? on_requeue(rq) : 0;
}

/* Anchors: without a use of the type here, it is not in the object's BTF and so not in Rust. */
const enum nd_hook _abi_hook = 0;
const enum nd_count _abi_count = 0;
const enum nd_state _abi_state = 0;
const struct nd_cell _abi_cell = {};
const struct nd_slot _abi_slot = {};
const struct nd_start _abi_start = {};
const struct nd_ctrl _abi_ctrl = {};
const struct nd_queue _abi_queue = {};
const struct nd_task _abi_task = {};
const struct nd_cpu _abi_cpu = {};
const struct nd_record _abi_record = {};
