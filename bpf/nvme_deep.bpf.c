// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The table of programs. Each reads its arguments and calls the on_*() of its point. All are
 * optional ("?"): user space enables those in its plan. */
#include "activity.bpf.h"
#include "points.bpf.h"
#include "setup.bpf.h"

/* A program. build.rs makes PROGRAM_, NUMBER_ and ACCESS_ from its row in src/probe/catalog.rs.
 * `call` may name `ctx`, the arguments, `hook` and `access`. */
#define HOOK(name, args, call)                                                                     \
	PROGRAM_##name args                                                                        \
	{                                                                                          \
		enum { hook = NUMBER_##name, access = ACCESS_##name };                             \
		return ignored(hook) ? 0 : (call);                                                 \
	}

/* The first argument is the request. The verifier wants pointers of tracepoints to be tested. */
#define REQUEST_HOOK(name, call) HOOK(name, (struct request * rq), rq ? call : 0)

/* The same for tracepoints with the arguments (queue, request) on older kernels. */
#define EITHER_REQUEST_HOOK(name, handler) HOOK(name, (), handler(RQ_OF(ctx), hook, access))
#define RQ_OF(ctx)			   ((struct request *)(cfg_rq_second ? (ctx)[1] : (ctx)[0]))

/* clang-format takes arguments for products. */
/* clang-format off */
REQUEST_HOOK(start_btf, on_start(rq, hook, access))
REQUEST_HOOK(start_raw, on_start(rq, hook, access))
/* With --stages=full, to 5.15: blk-mq has allocated the request. */
REQUEST_HOOK(start_fentry, on_start(rq, hook, access))
/* The same from 5.16 to 6.4: no function is left that has the request, too. */
HOOK(start_bio_btf, (), on_bio_start(bio_of(ctx), hook))

HOOK(setup_in_fentry, (void *ns, struct request *rq),
     rq ? on_setup_in(ctx, rq, 0, hook, access) : 0)
HOOK(setup_in_kprobe, (void *ns, struct request *rq, u64 cmd),
     on_setup_in(ctx, rq, cmd, hook, access))
HOOK(setup_out_btf, (struct request *rq, struct nvme_command *cmd),
     rq && cmd ? on_setup_out(ctx, rq, cmd, 0, hook, access) : 0)
HOOK(setup_out_raw, (struct request *rq, struct nvme_command *cmd),
     on_setup_out(ctx, rq, cmd, 0, hook, access))
HOOK(setup_out_kretprobe, (), on_setup_return(hook))

EITHER_REQUEST_HOOK(issue_btf, on_issue)
EITHER_REQUEST_HOOK(issue_raw, on_issue)
REQUEST_HOOK(issue_kprobe, on_issue(rq, hook, access))

HOOK(queue_rq_fexit, (struct blk_mq_hw_ctx *hctx, struct blk_mq_queue_data *bd, int ret),
     on_queued(hctx, bd, ret & 0xff, hook, access))
/* Does not read the argument: the verifier of 6.1 rejects it (a pointer to a pointer), and the list
 * is empty by now. It held the commands that the task has set up since its last doorbell. */
HOOK(queue_rqs_fexit, (), on_doorbell(hook, access))
HOOK(commit_rqs_fexit, (), on_doorbell(hook, access))
HOOK(queue_rq_kprobe, (u64 hctx, u64 bd), on_submit_in(hook, ND_INSIDE_QUEUE_RQ, hctx, bd))
HOOK(queue_rq_kretprobe, (int ret), on_submit_out(hook, ND_INSIDE_QUEUE_RQ, ret & 0xff))
HOOK(queue_rqs_kprobe, (), on_submit_in(hook, ND_INSIDE_QUEUE_RQS, 0, 0))
HOOK(queue_rqs_kretprobe, (), on_submit_out(hook, ND_INSIDE_QUEUE_RQS, 0))
HOOK(commit_rqs_kprobe, (), on_submit_in(hook, ND_INSIDE_COMMIT_RQS, 0, 0))
HOOK(commit_rqs_kretprobe, (), on_submit_out(hook, ND_INSIDE_COMMIT_RQS, 0))

HOOK(irq_in_fentry, (int irq, u64 nvmeq), on_irq_in(nvmeq, hook, access))
HOOK(irq_in_kprobe, (int irq, u64 nvmeq), on_irq_in(nvmeq, hook, access))
HOOK(irq_out_fexit, (int irq, u64 nvmeq, int handled),
     (note_interrupt(handled), on_irq_out(hook, access)))
HOOK(irq_out_kretprobe, (int handled), (note_interrupt(handled), on_irq_out(hook, access)))

REQUEST_HOOK(cqe_btf, on_cqe(rq, hook, access))
/* The second instance: see on_cqe(). */
REQUEST_HOOK(cqe_second, on_cqe(rq, hook, access))
REQUEST_HOOK(cqe_raw, on_cqe(rq, hook, access))
/* The first function that the driver calls for a CQE, some instructions after the tracepoint. */
REQUEST_HOOK(cqe_kprobe, on_cqe(rq, hook, access))

REQUEST_HOOK(complete_btf, on_complete(ctx, rq, hook, access))
REQUEST_HOOK(complete_raw, on_complete(ctx, rq, hook, access))
REQUEST_HOOK(complete_kprobe, on_complete(ctx, rq, hook, access))
REQUEST_HOOK(complete_batch_kprobe, on_complete(ctx, rq, hook, access))

REQUEST_HOOK(end_btf, on_end(rq, hook, access))
REQUEST_HOOK(end_raw, on_end(rq, hook, access))

EITHER_REQUEST_HOOK(requeue_btf, on_requeue)
EITHER_REQUEST_HOOK(requeue_raw, on_requeue)
REQUEST_HOOK(requeue_kprobe, on_requeue(rq, hook, access))

/* Trace events other than commands. */
HOOK(sq_btf, (struct request *rq, u16 head, u16 tail),
     rq ? on_event(rq, ND_KIND_SQ, head | (u32)tail << 16, hook, access) : 0)
HOOK(sq_raw, (struct request *rq, u16 head, u16 tail),
     on_event(rq, ND_KIND_SQ, head | (u32)tail << 16, hook, access))
HOOK(async_btf, (struct nvme_ctrl *ctrl, u32 result),
     on_ctrl(ctrl, ND_KIND_ASYNC, result, hook, access))
HOOK(async_raw, (struct nvme_ctrl *ctrl, u32 result),
     on_ctrl(ctrl, ND_KIND_ASYNC, result, hook, access))
HOOK(state_fexit, (struct nvme_ctrl *ctrl, u32 state, u8 changed),
     changed ? on_ctrl(ctrl, ND_KIND_STATE, state, hook, access) : 0)
HOOK(state_kprobe, (struct nvme_ctrl *ctrl, u32 state),
     on_ctrl(ctrl, ND_KIND_STATE, state | 1ull << 32, hook, access))
REQUEST_HOOK(timeout_fentry, on_event(rq, ND_KIND_TIMEOUT, 0, hook, access))
REQUEST_HOOK(timeout_kprobe, on_event(rq, ND_KIND_TIMEOUT, 0, hook, access))
REQUEST_HOOK(cancel_fentry, on_event(rq, ND_KIND_CANCEL, 0, hook, access))
REQUEST_HOOK(cancel_kprobe, on_event(rq, ND_KIND_CANCEL, 0, hook, access))

/* What else the machine does. The IOMMU maps and unmaps. */
HOOK(split_btf, (), on_split(bio_of(ctx), hook))
HOOK(bounce_btf, (void *device, u64 address, u64 bytes), on_volume(bytes, hook))
HOOK(map_btf, (u64 iova, u64 address, u64 bytes), on_volume(bytes, hook))
HOOK(unmap_btf, (u64 iova, u64 bytes, u64 unmapped), on_volume(unmapped, hook))

/* Before the request (--stages=full). block_bio_complete has (queue, bio) on every kernel. */
HOOK(bio_queued_btf, (), on_bio_queued(bio_of(ctx), hook))
HOOK(bio_split_btf, (), on_bio_split(bio_of(ctx), hook))
HOOK(bio_back_btf, (), on_bio_merged(bio_of(ctx), hook))
HOOK(bio_front_btf, (), on_bio_merged(bio_of(ctx), hook))
HOOK(bio_done_btf, (void *q, u64 bio), on_bio_gone(bio, hook))
HOOK(throttle_fentry, (u64 bio), on_throttle(bio, hook))
/* Before 5.18. */
HOOK(limits_in_fentry, (u64 bio), on_limits_in(bio, hook))
HOOK(limits_out_fexit, (u64 bio, u8 waits), on_limits_out(bio, waits, hook))
HOOK(freeze_in_fentry, (void *q, u64 bio), on_wait_in(bio, 0, hook))
HOOK(freeze_out_fexit, (void *q, u64 bio), on_wait_out(bio, 1, hook))
/* Before 5.14. */
HOOK(enter_in_fentry, (u64 q), on_enter_in(q, hook))
HOOK(enter_out_fexit, (), on_enter_out(hook))
HOOK(zone_in_fentry, (u64 bio), on_wait_in(bio, 1, hook))
HOOK(zone_out_fexit, (u64 bio, u32 segments, u8 waits), on_zone_out(bio, waits, hook))
HOOK(iocost_in_fentry, (void *rqos, u64 bio), on_wait_in(bio, 0, hook))
HOOK(iocost_out_fexit, (void *rqos, u64 bio), on_wait_out(bio, 0, hook))
HOOK(wbt_in_fentry, (), on_wbt_in(hook))
HOOK(wbt_out_fexit, (), on_wbt_out(hook))
/* 7.2 and later: only if no tag is free. */
HOOK(tag_wait_btf, (), on_tag_wait(hook))
HOOK(tag_fexit, (u64 data, void *bt, u32 tag),
     tag == ~0u && !may_not_wait(data) ? on_tag_wait(hook) : 0)

/* Submitters. */
HOOK(submit_btf, (), note_submission_of(bio_of(ctx), 0, hook))
HOOK(submit_split_btf, (), on_submitted_split(bio_of(ctx), hook))
HOOK(submit_done_btf, (void *q, u64 bio), on_submitted_done(bio, hook))
HOOK(submit_limit_fentry, (u64 bio), note_submission_of(bio, 1, hook))
HOOK(submit_limit_old_fentry, (u64 bio), note_submission_of(bio, 1, hook))

/* clang-format on */

/* The timer of a CPU, which user space opens. */
SEC("?perf_event")
int tick(void *ctx)
{
	return on_tick(activity_here(), ctx);
}

/* Never attached: user space runs it (BPF_PROG_TEST_RUN): ND_CONTROL_*, a slot or ND_END_*. */
SEC("?raw_tp")
int control(struct bpf_raw_tracepoint_args *ctx)
{
	return on_control(ctx->args[0], ctx->args[1]);
}
