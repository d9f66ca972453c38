// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The hook table. Every program is a thin wrapper that reads its arguments and calls one on_*().
 * All are optional ("?"): user space enables those in its plan. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "kernel.bpf.h"
#include "abi.h"
#include "activity_abi.h"
#include "config.bpf.h"
#include "maps.bpf.h"
#include "filter.bpf.h"
#include "peek.bpf.h"
#include "hist.bpf.h"
#include "rows.bpf.h"
#include "times.bpf.h"
#include "waits.bpf.h"
#include "trace.bpf.h"
#include "slots.bpf.h"
#include "stages.bpf.h"
#include "queues.bpf.h"
#include "where.bpf.h"
#include "cgroup.bpf.h"
#include "bio.bpf.h"
#include "command.bpf.h"
#include "recover.bpf.h"
#include "announce.bpf.h"
#include "setup.bpf.h"
#include "doorbell.bpf.h"
#include "details.bpf.h"
#include "points.bpf.h"
#include "activity.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("?tp_btf/block_io_start")
int BPF_PROG(start_btf, struct request *rq)
{
	return rq ? on_start(rq, ND_HOOK_START_BTF, TYPED) : 0;
}

SEC("?raw_tp/block_io_start")
int BPF_PROG(start_raw, struct request *rq)
{
	return on_start(rq, ND_HOOK_START_RAW, RAW);
}

SEC("?fentry/nvme_setup_cmd")
int BPF_PROG(setup_in_fentry, void *ns, struct request *rq)
{
	return rq ? on_setup_in(ctx, rq, 0, ND_HOOK_SETUP_IN_FENTRY, TYPED) : 0;
}

SEC("?kprobe/nvme_setup_cmd")
int BPF_KPROBE(setup_in_kprobe, void *ns, struct request *rq, void *cmd)
{
	return on_setup_in(ctx, rq, (u64)cmd, ND_HOOK_SETUP_IN_KPROBE, RAW);
}

SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(setup_out_btf, struct request *rq, struct nvme_command *cmd)
{
	return rq && cmd ? on_setup_out(ctx, rq, cmd, 0, ND_HOOK_SETUP_OUT_BTF, TYPED) : 0;
}

SEC("?raw_tp/nvme_setup_cmd")
int BPF_PROG(setup_out_raw, struct request *rq, struct nvme_command *cmd)
{
	return on_setup_out(ctx, rq, cmd, 0, ND_HOOK_SETUP_OUT_RAW, RAW);
}

SEC("?kretprobe/nvme_setup_cmd")
int BPF_KRETPROBE(setup_out_kretprobe)
{
	return on_setup_return(ND_HOOK_SETUP_OUT_KRETPROBE);
}

/* The request in this kernel's event: arguments are (request) or (queue, request). */
#define RQ_OF(ctx) ((struct request *)(cfg_rq_second ? (ctx)[1] : (ctx)[0]))

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(issue_btf)
{
	struct request *rq = RQ_OF(ctx);

	return rq ? on_issue(rq, ND_HOOK_ISSUE_BTF, TYPED) : 0;
}

SEC("?raw_tp/block_rq_issue")
int BPF_PROG(issue_raw)
{
	return on_issue(RQ_OF(ctx), ND_HOOK_ISSUE_RAW, RAW);
}

SEC("?kprobe/blk_mq_start_request")
int BPF_KPROBE(issue_kprobe, struct request *rq)
{
	return on_issue(rq, ND_HOOK_ISSUE_KPROBE, RAW);
}

SEC("?fexit/nvme_queue_rq")
int BPF_PROG(queue_rq_fexit, struct blk_mq_hw_ctx *hctx, struct blk_mq_queue_data *bd, int ret)
{
	return on_queued(hctx, bd, ret & 0xff, ND_HOOK_QUEUE_RQ_FEXIT, TYPED);
}

/* Does not read the argument: the verifier of 6.1 rejects it (a pointer to a pointer), and the list
 * is empty by now. It held the commands that the task has set up since its last doorbell. */
SEC("?fexit/nvme_queue_rqs")
int BPF_PROG(queue_rqs_fexit)
{
	return on_doorbell(ND_HOOK_QUEUE_RQS_FEXIT, TYPED);
}

SEC("?fexit/nvme_commit_rqs")
int BPF_PROG(commit_rqs_fexit)
{
	return on_doorbell(ND_HOOK_COMMIT_RQS_FEXIT, TYPED);
}

SEC("?kprobe/nvme_queue_rq")
int BPF_KPROBE(queue_rq_kprobe, void *hctx, void *bd)
{
	return on_submit_in(ND_HOOK_QUEUE_RQ_KPROBE, ND_INSIDE_QUEUE_RQ, (u64)hctx, (u64)bd);
}

SEC("?kretprobe/nvme_queue_rq")
int BPF_KRETPROBE(queue_rq_kretprobe, int ret)
{
	return on_submit_out(ND_HOOK_QUEUE_RQ_KRETPROBE, ND_INSIDE_QUEUE_RQ, ret & 0xff);
}

SEC("?kprobe/nvme_queue_rqs")
int BPF_KPROBE(queue_rqs_kprobe)
{
	return on_submit_in(ND_HOOK_QUEUE_RQS_KPROBE, ND_INSIDE_QUEUE_RQS, 0, 0);
}

SEC("?kretprobe/nvme_queue_rqs")
int BPF_KRETPROBE(queue_rqs_kretprobe)
{
	return on_submit_out(ND_HOOK_QUEUE_RQS_KRETPROBE, ND_INSIDE_QUEUE_RQS, 0);
}

SEC("?kprobe/nvme_commit_rqs")
int BPF_KPROBE(commit_rqs_kprobe)
{
	return on_submit_in(ND_HOOK_COMMIT_RQS_KPROBE, ND_INSIDE_COMMIT_RQS, 0, 0);
}

SEC("?kretprobe/nvme_commit_rqs")
int BPF_KRETPROBE(commit_rqs_kretprobe)
{
	return on_submit_out(ND_HOOK_COMMIT_RQS_KRETPROBE, ND_INSIDE_COMMIT_RQS, 0);
}

SEC("?fentry/nvme_irq")
int BPF_PROG(irq_in_fentry, int irq, void *nvmeq)
{
	return on_irq_in((u64)nvmeq, ND_HOOK_IRQ_IN_FENTRY, TYPED);
}

SEC("?fexit/nvme_irq")
int BPF_PROG(irq_out_fexit)
{
	return on_irq_out(ND_HOOK_IRQ_OUT_FEXIT, TYPED);
}

SEC("?kprobe/nvme_irq")
int BPF_KPROBE(irq_in_kprobe, int irq, void *nvmeq)
{
	return on_irq_in((u64)nvmeq, ND_HOOK_IRQ_IN_KPROBE, RAW);
}

SEC("?kretprobe/nvme_irq")
int BPF_KRETPROBE(irq_out_kretprobe)
{
	return on_irq_out(ND_HOOK_IRQ_OUT_KRETPROBE, RAW);
}

SEC("?tp_btf/nvme_sq")
int BPF_PROG(cqe_btf, struct request *rq)
{
	return rq ? on_cqe(rq, ND_HOOK_CQE_BTF, TYPED, 0) : 0;
}

SEC("?raw_tp/nvme_sq")
int BPF_PROG(cqe_raw, struct request *rq)
{
	return on_cqe(rq, ND_HOOK_CQE_RAW, RAW, 0);
}

/* The first function that the driver calls for a CQE, some instructions after the tracepoint. */
SEC("?kprobe/blk_mq_complete_request_remote")
int BPF_KPROBE(cqe_kprobe, struct request *rq)
{
	return on_cqe(rq, ND_HOOK_CQE_KPROBE, RAW, 1);
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(complete_btf, struct request *rq)
{
	return rq ? on_complete(ctx, rq, ND_HOOK_COMPLETE_BTF, TYPED) : 0;
}

SEC("?raw_tp/nvme_complete_rq")
int BPF_PROG(complete_raw, struct request *rq)
{
	return on_complete(ctx, rq, ND_HOOK_COMPLETE_RAW, RAW);
}

SEC("?kprobe/nvme_complete_rq")
int BPF_KPROBE(complete_kprobe, struct request *rq)
{
	return on_complete(ctx, rq, ND_HOOK_COMPLETE_KPROBE, RAW);
}

SEC("?kprobe/nvme_complete_batch_req")
int BPF_KPROBE(complete_batch_kprobe, struct request *rq)
{
	return on_complete(ctx, rq, ND_HOOK_COMPLETE_BATCH_KPROBE, RAW);
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(end_btf, struct request *rq)
{
	return rq ? on_end(rq, ND_HOOK_END_BTF, TYPED) : 0;
}

SEC("?raw_tp/block_rq_complete")
int BPF_PROG(end_raw, struct request *rq)
{
	return on_end(rq, ND_HOOK_END_RAW, RAW);
}

SEC("?tp_btf/block_rq_requeue")
int BPF_PROG(requeue_btf)
{
	struct request *rq = RQ_OF(ctx);

	return rq ? on_requeue(rq, ND_HOOK_REQUEUE_BTF, TYPED) : 0;
}

SEC("?raw_tp/block_rq_requeue")
int BPF_PROG(requeue_raw)
{
	return on_requeue(RQ_OF(ctx), ND_HOOK_REQUEUE_RAW, RAW);
}

SEC("?kprobe/blk_mq_requeue_request")
int BPF_KPROBE(requeue_kprobe, struct request *rq)
{
	return on_requeue(rq, ND_HOOK_REQUEUE_KPROBE, RAW);
}

/* The second instance: see SECOND in maps.bpf.h. */
SEC("?tp_btf/nvme_sq")
int BPF_PROG(cqe_second, struct request *rq)
{
	return rq ? on_cqe(rq, ND_HOOK_CQE_SECOND, SECOND, 0) : 0;
}

/* Trace events other than commands. */
SEC("?tp_btf/nvme_sq")
int BPF_PROG(sq_btf, struct request *rq, u16 head, u32 tail)
{
	return rq ? on_sq(rq, head, tail, ND_HOOK_SQ_BTF, TYPED) : 0;
}

SEC("?raw_tp/nvme_sq")
int BPF_PROG(sq_raw, struct request *rq, u16 head, u32 tail)
{
	return on_sq(rq, head, tail, ND_HOOK_SQ_RAW, RAW);
}

SEC("?tp_btf/nvme_async_event")
int BPF_PROG(async_btf, struct nvme_ctrl *ctrl, u32 result)
{
	return ctrl ? on_ctrl(ctrl->instance, ND_KIND_ASYNC, result, ND_HOOK_ASYNC_BTF, TYPED) : 0;
}

SEC("?raw_tp/nvme_async_event")
int BPF_PROG(async_raw, struct nvme_ctrl *ctrl, u32 result)
{
	return on_ctrl(GET(RAW, ctrl, instance), ND_KIND_ASYNC, result, ND_HOOK_ASYNC_RAW, RAW);
}

SEC("?fentry/nvme_timeout")
int BPF_PROG(timeout_fentry, struct request *rq)
{
	return on_trouble(rq, ND_KIND_TIMEOUT, ND_HOOK_TIMEOUT_FENTRY, TYPED);
}

SEC("?kprobe/nvme_timeout")
int BPF_KPROBE(timeout_kprobe, struct request *rq)
{
	return on_trouble(rq, ND_KIND_TIMEOUT, ND_HOOK_TIMEOUT_KPROBE, RAW);
}

SEC("?fentry/nvme_cancel_request")
int BPF_PROG(cancel_fentry, struct request *rq)
{
	return on_trouble(rq, ND_KIND_CANCEL, ND_HOOK_CANCEL_FENTRY, TYPED);
}

SEC("?kprobe/nvme_cancel_request")
int BPF_KPROBE(cancel_kprobe, struct request *rq)
{
	return on_trouble(rq, ND_KIND_CANCEL, ND_HOOK_CANCEL_KPROBE, RAW);
}

SEC("?fexit/nvme_change_ctrl_state")
int BPF_PROG(state_fexit, struct nvme_ctrl *ctrl, u32 state, u8 changed)
{
	return changed ? on_ctrl(ctrl->instance, ND_KIND_STATE, state, ND_HOOK_STATE_FEXIT, TYPED)
		       : 0;
}

SEC("?kprobe/nvme_change_ctrl_state")
int BPF_KPROBE(state_kprobe, struct nvme_ctrl *ctrl, u32 state)
{
	return on_ctrl(GET(RAW, ctrl, instance), ND_KIND_STATE, state | 1ull << 32,
		       ND_HOOK_STATE_KPROBE, RAW);
}

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(bio_btf)
{
	return on_bio(ND_HOOK_BIO_BTF);
}

SEC("?tp_btf/block_getrq")
int BPF_PROG(getrq_btf)
{
	u64 bio = bio_of(ctx);

	return bio ? on_getrq(bio, ND_HOOK_GETRQ_BTF) : 0;
}

SEC("?tp_btf/block_split")
int BPF_PROG(split_btf)
{
	u64 bio = bio_of(ctx);

	return bio ? on_split(bio, ND_HOOK_SPLIT_BTF) : 0;
}

SEC("?tp_btf/swiotlb_bounced")
int BPF_PROG(bounce_btf, void *device, u64 address, u64 bytes)
{
	return on_bounce(bytes, ND_HOOK_BOUNCE_BTF);
}

/* Of the IOMMU. */
SEC("?tp_btf/map")
int BPF_PROG(map_btf, u64 iova, u64 address, u64 bytes)
{
	return on_map(bytes, ND_HOOK_MAP_BTF);
}

SEC("?tp_btf/unmap")
int BPF_PROG(unmap_btf, u64 iova, u64 bytes, u64 unmapped)
{
	return on_unmap(unmapped, ND_HOOK_UNMAP_BTF);
}

/* The timer of a CPU, which user space opens. */
SEC("?perf_event")
int tick(void *ctx)
{
	return on_tick(ctx);
}

#include "pre_request.bpf.h"
#include "submitter_hooks.bpf.h"

/* Never attached: user space runs it (BPF_PROG_TEST_RUN) with ND_CONTROL_* and a slot or ND_END_*.
 */
SEC("?raw_tp")
int control(struct bpf_raw_tracepoint_args *ctx)
{
	return on_control(ctx->args[0], ctx->args[1]);
}
