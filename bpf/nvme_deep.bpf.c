// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The hook table. Every program is a thin wrapper that reads its arguments and calls one on_*().
 * All are optional ("?"): user space enables those in its plan. */
#include "activity.bpf.h"
#include "bio.bpf.h"
#include "points.bpf.h"
#include "setup.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("?tp_btf/block_io_start")
int BPF_PROG(start_btf, struct request *rq)
{
	return rq ? on_start(rq, ND_HOOK_START_BTF, ACCESS_BTF) : 0;
}

SEC("?raw_tp/block_io_start")
int BPF_PROG(start_raw, struct request *rq)
{
	return on_start(rq, ND_HOOK_START_RAW, ACCESS_PROBE_READ);
}

SEC("?fentry/nvme_setup_cmd")
int BPF_PROG(setup_in_fentry, void *ns, struct request *rq)
{
	return rq ? on_setup_in(ctx, rq, 0, ND_HOOK_SETUP_IN_FENTRY, ACCESS_BTF) : 0;
}

SEC("?kprobe/nvme_setup_cmd")
int BPF_KPROBE(setup_in_kprobe, void *ns, struct request *rq, void *cmd)
{
	return on_setup_in(ctx, rq, (u64)cmd, ND_HOOK_SETUP_IN_KPROBE, ACCESS_PROBE_READ);
}

SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(setup_out_btf, struct request *rq, struct nvme_command *cmd)
{
	return rq && cmd ? on_setup_out(ctx, rq, cmd, 0, ND_HOOK_SETUP_OUT_BTF, ACCESS_BTF) : 0;
}

SEC("?raw_tp/nvme_setup_cmd")
int BPF_PROG(setup_out_raw, struct request *rq, struct nvme_command *cmd)
{
	return on_setup_out(ctx, rq, cmd, 0, ND_HOOK_SETUP_OUT_RAW, ACCESS_PROBE_READ);
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

	return rq ? on_issue(rq, ND_HOOK_ISSUE_BTF, ACCESS_BTF) : 0;
}

SEC("?raw_tp/block_rq_issue")
int BPF_PROG(issue_raw)
{
	return on_issue(RQ_OF(ctx), ND_HOOK_ISSUE_RAW, ACCESS_PROBE_READ);
}

SEC("?kprobe/blk_mq_start_request")
int BPF_KPROBE(issue_kprobe, struct request *rq)
{
	return on_issue(rq, ND_HOOK_ISSUE_KPROBE, ACCESS_PROBE_READ);
}

SEC("?fexit/nvme_queue_rq")
int BPF_PROG(queue_rq_fexit, struct blk_mq_hw_ctx *hctx, struct blk_mq_queue_data *bd, int ret)
{
	return on_queued(hctx, bd, ret & 0xff, ND_HOOK_QUEUE_RQ_FEXIT, ACCESS_BTF);
}

/* Does not read the argument: the verifier of 6.1 rejects it (a pointer to a pointer), and the list
 * is empty by now. It held the commands that the task has set up since its last doorbell. */
SEC("?fexit/nvme_queue_rqs")
int BPF_PROG(queue_rqs_fexit)
{
	return on_doorbell(ND_HOOK_QUEUE_RQS_FEXIT, ACCESS_BTF);
}

SEC("?fexit/nvme_commit_rqs")
int BPF_PROG(commit_rqs_fexit)
{
	return on_doorbell(ND_HOOK_COMMIT_RQS_FEXIT, ACCESS_BTF);
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
	return on_irq_in((u64)nvmeq, ND_HOOK_IRQ_IN_FENTRY, ACCESS_BTF);
}

SEC("?fexit/nvme_irq")
int BPF_PROG(irq_out_fexit, int irq, void *nvmeq, int handled)
{
	note_interrupt(handled);
	return on_irq_out(ND_HOOK_IRQ_OUT_FEXIT, ACCESS_BTF);
}

SEC("?kprobe/nvme_irq")
int BPF_KPROBE(irq_in_kprobe, int irq, void *nvmeq)
{
	return on_irq_in((u64)nvmeq, ND_HOOK_IRQ_IN_KPROBE, ACCESS_PROBE_READ);
}

SEC("?kretprobe/nvme_irq")
int BPF_KRETPROBE(irq_out_kretprobe, int handled)
{
	note_interrupt(handled);
	return on_irq_out(ND_HOOK_IRQ_OUT_KRETPROBE, ACCESS_PROBE_READ);
}

SEC("?tp_btf/nvme_sq")
int BPF_PROG(cqe_btf, struct request *rq)
{
	return rq ? on_cqe(rq, ND_HOOK_CQE_BTF, ACCESS_BTF) : 0;
}

SEC("?raw_tp/nvme_sq")
int BPF_PROG(cqe_raw, struct request *rq)
{
	return on_cqe(rq, ND_HOOK_CQE_RAW, ACCESS_PROBE_READ);
}

/* The first function that the driver calls for a CQE, some instructions after the tracepoint. */
SEC("?kprobe/blk_mq_complete_request_remote")
int BPF_KPROBE(cqe_kprobe, struct request *rq)
{
	return on_cqe(rq, ND_HOOK_CQE_KPROBE, ACCESS_PROBE_READ);
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(complete_btf, struct request *rq)
{
	return rq ? on_complete(ctx, rq, ND_HOOK_COMPLETE_BTF, ACCESS_BTF) : 0;
}

SEC("?raw_tp/nvme_complete_rq")
int BPF_PROG(complete_raw, struct request *rq)
{
	return on_complete(ctx, rq, ND_HOOK_COMPLETE_RAW, ACCESS_PROBE_READ);
}

SEC("?kprobe/nvme_complete_rq")
int BPF_KPROBE(complete_kprobe, struct request *rq)
{
	return on_complete(ctx, rq, ND_HOOK_COMPLETE_KPROBE, ACCESS_PROBE_READ);
}

SEC("?kprobe/nvme_complete_batch_req")
int BPF_KPROBE(complete_batch_kprobe, struct request *rq)
{
	return on_complete(ctx, rq, ND_HOOK_COMPLETE_BATCH_KPROBE, ACCESS_PROBE_READ);
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(end_btf, struct request *rq)
{
	return rq ? on_end(rq, ND_HOOK_END_BTF, ACCESS_BTF) : 0;
}

SEC("?raw_tp/block_rq_complete")
int BPF_PROG(end_raw, struct request *rq)
{
	return on_end(rq, ND_HOOK_END_RAW, ACCESS_PROBE_READ);
}

SEC("?tp_btf/block_rq_requeue")
int BPF_PROG(requeue_btf)
{
	struct request *rq = RQ_OF(ctx);

	return rq ? on_requeue(rq, ND_HOOK_REQUEUE_BTF, ACCESS_BTF) : 0;
}

SEC("?raw_tp/block_rq_requeue")
int BPF_PROG(requeue_raw)
{
	return on_requeue(RQ_OF(ctx), ND_HOOK_REQUEUE_RAW, ACCESS_PROBE_READ);
}

SEC("?kprobe/blk_mq_requeue_request")
int BPF_KPROBE(requeue_kprobe, struct request *rq)
{
	return on_requeue(rq, ND_HOOK_REQUEUE_KPROBE, ACCESS_PROBE_READ);
}

/* The second instance: see on_cqe(). */
SEC("?tp_btf/nvme_sq")
int BPF_PROG(cqe_second, struct request *rq)
{
	return rq ? on_cqe(rq, ND_HOOK_CQE_SECOND, ACCESS_BTF) : 0;
}

/* Trace events other than commands. */
SEC("?tp_btf/nvme_sq")
int BPF_PROG(sq_btf, struct request *rq, u16 head, u32 tail)
{
	return rq ? on_sq(rq, head, tail, ND_HOOK_SQ_BTF, ACCESS_BTF) : 0;
}

SEC("?raw_tp/nvme_sq")
int BPF_PROG(sq_raw, struct request *rq, u16 head, u32 tail)
{
	return on_sq(rq, head, tail, ND_HOOK_SQ_RAW, ACCESS_PROBE_READ);
}

SEC("?tp_btf/nvme_async_event")
int BPF_PROG(async_btf, struct nvme_ctrl *ctrl, u32 result)
{
	return ctrl ? on_ctrl(ctrl->instance, ND_KIND_ASYNC, result, ND_HOOK_ASYNC_BTF, ACCESS_BTF)
		    : 0;
}

SEC("?raw_tp/nvme_async_event")
int BPF_PROG(async_raw, struct nvme_ctrl *ctrl, u32 result)
{
	return on_ctrl(GET(ACCESS_PROBE_READ, ctrl, instance), ND_KIND_ASYNC, result,
		       ND_HOOK_ASYNC_RAW, ACCESS_PROBE_READ);
}

SEC("?fentry/nvme_timeout")
int BPF_PROG(timeout_fentry, struct request *rq)
{
	return on_trouble(rq, ND_KIND_TIMEOUT, ND_HOOK_TIMEOUT_FENTRY, ACCESS_BTF);
}

SEC("?kprobe/nvme_timeout")
int BPF_KPROBE(timeout_kprobe, struct request *rq)
{
	return on_trouble(rq, ND_KIND_TIMEOUT, ND_HOOK_TIMEOUT_KPROBE, ACCESS_PROBE_READ);
}

SEC("?fentry/nvme_cancel_request")
int BPF_PROG(cancel_fentry, struct request *rq)
{
	return on_trouble(rq, ND_KIND_CANCEL, ND_HOOK_CANCEL_FENTRY, ACCESS_BTF);
}

SEC("?kprobe/nvme_cancel_request")
int BPF_KPROBE(cancel_kprobe, struct request *rq)
{
	return on_trouble(rq, ND_KIND_CANCEL, ND_HOOK_CANCEL_KPROBE, ACCESS_PROBE_READ);
}

SEC("?fexit/nvme_change_ctrl_state")
int BPF_PROG(state_fexit, struct nvme_ctrl *ctrl, u32 state, u8 changed)
{
	return changed ? on_ctrl(ctrl->instance, ND_KIND_STATE, state, ND_HOOK_STATE_FEXIT,
				 ACCESS_BTF)
		       : 0;
}

SEC("?kprobe/nvme_change_ctrl_state")
int BPF_KPROBE(state_kprobe, struct nvme_ctrl *ctrl, u32 state)
{
	return on_ctrl(GET(ACCESS_PROBE_READ, ctrl, instance), ND_KIND_STATE, state | 1ull << 32,
		       ND_HOOK_STATE_KPROBE, ACCESS_PROBE_READ);
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
	return on_split(bio_of(ctx), ND_HOOK_SPLIT_BTF);
}

SEC("?tp_btf/swiotlb_bounced")
int BPF_PROG(bounce_btf, void *device, u64 address, u64 bytes)
{
	return on_volume(bytes, ND_HOOK_BOUNCE_BTF);
}

/* Of the IOMMU. */
SEC("?tp_btf/map")
int BPF_PROG(map_btf, u64 iova, u64 address, u64 bytes)
{
	return on_volume(bytes, ND_HOOK_MAP_BTF);
}

SEC("?tp_btf/unmap")
int BPF_PROG(unmap_btf, u64 iova, u64 bytes, u64 unmapped)
{
	return on_volume(unmapped, ND_HOOK_UNMAP_BTF);
}

/* The timer of a CPU, which user space opens. */
SEC("?perf_event")
int tick(void *ctx)
{
	return on_tick(ctx);
}

/* --stages=full. */

/* To 5.15: blk-mq has allocated the request. */
SEC("?fentry/blk_account_io_start")
int BPF_PROG(start_fentry, struct request *rq)
{
	return on_start(rq, ND_HOOK_START_FENTRY, ACCESS_BTF);
}

/* 5.16 to 6.4: no function is left that has the request, too. */
SEC("?tp_btf/block_getrq")
int BPF_PROG(start_bio_btf)
{
	u64 bio = bio_of(ctx);

	return bio ? on_bio_start(bio, ND_HOOK_START_BIO_BTF) : 0;
}

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(bio_queued_btf)
{
	return on_bio_queued(bio_of(ctx), ND_HOOK_BIO_QUEUED_BTF);
}

SEC("?tp_btf/block_split")
int BPF_PROG(bio_split_btf)
{
	return on_bio_split(bio_of(ctx), ND_HOOK_BIO_SPLIT_BTF);
}

SEC("?tp_btf/block_bio_backmerge")
int BPF_PROG(bio_back_btf)
{
	return on_bio_merged(bio_of(ctx), ND_HOOK_BIO_BACK_BTF);
}

SEC("?tp_btf/block_bio_frontmerge")
int BPF_PROG(bio_front_btf)
{
	return on_bio_merged(bio_of(ctx), ND_HOOK_BIO_FRONT_BTF);
}

/* Its arguments are (queue, bio) on every kernel. */
SEC("?tp_btf/block_bio_complete")
int BPF_PROG(bio_done_btf, void *q, void *bio)
{
	return on_bio_gone((u64)bio, ND_HOOK_BIO_DONE_BTF);
}

SEC("?fentry/__blk_throtl_bio")
int BPF_PROG(throttle_fentry, void *bio)
{
	return on_throttle((u64)bio, ND_HOOK_THROTTLE_FENTRY);
}

/* Before 5.18. */
SEC("?fentry/blk_throtl_bio")
int BPF_PROG(limits_in_fentry, void *bio)
{
	return on_limits_in((u64)bio, ND_HOOK_LIMITS_IN_FENTRY);
}

SEC("?fexit/blk_throtl_bio")
int BPF_PROG(limits_out_fexit, void *bio, u8 waits)
{
	return on_limits_out((u64)bio, waits, ND_HOOK_LIMITS_OUT_FEXIT);
}

SEC("?fentry/__bio_queue_enter")
int BPF_PROG(freeze_in_fentry, void *q, void *bio)
{
	return on_wait_in((u64)bio, ND_HOOK_FREEZE_IN_FENTRY);
}

SEC("?fexit/__bio_queue_enter")
int BPF_PROG(freeze_out_fexit, void *q, void *bio)
{
	return on_wait_out((u64)bio, 1, ND_HOOK_FREEZE_OUT_FEXIT);
}

/* Before 5.14. */
SEC("?fentry/blk_queue_enter")
int BPF_PROG(enter_in_fentry, void *q)
{
	return on_enter_in((u64)q, ND_HOOK_ENTER_IN_FENTRY);
}

SEC("?fexit/blk_queue_enter")
int BPF_PROG(enter_out_fexit)
{
	return on_enter_out(ND_HOOK_ENTER_OUT_FEXIT);
}

SEC("?fentry/blk_zone_plug_bio")
int BPF_PROG(zone_in_fentry, void *bio)
{
	return on_zone_in((u64)bio, ND_HOOK_ZONE_IN_FENTRY);
}

SEC("?fexit/blk_zone_plug_bio")
int BPF_PROG(zone_out_fexit, void *bio, u32 segments, u8 waits)
{
	return on_zone_out((u64)bio, waits, ND_HOOK_ZONE_OUT_FEXIT);
}

SEC("?fentry/ioc_rqos_throttle")
int BPF_PROG(iocost_in_fentry, void *rqos, void *bio)
{
	return on_wait_in((u64)bio, ND_HOOK_IOCOST_IN_FENTRY);
}

SEC("?fexit/ioc_rqos_throttle")
int BPF_PROG(iocost_out_fexit, void *rqos, void *bio)
{
	return on_wait_out((u64)bio, 0, ND_HOOK_IOCOST_OUT_FEXIT);
}

SEC("?fentry/rq_qos_wait")
int BPF_PROG(wbt_in_fentry)
{
	return on_wbt_in(ND_HOOK_WBT_IN_FENTRY);
}

SEC("?fexit/rq_qos_wait")
int BPF_PROG(wbt_out_fexit)
{
	return on_wbt_out(ND_HOOK_WBT_OUT_FEXIT);
}

/* 7.2 and later: only if no tag is free. */
SEC("?tp_btf/block_rq_tag_wait")
int BPF_PROG(tag_wait_btf)
{
	return on_tag_wait(ND_HOOK_TAG_WAIT_BTF);
}

SEC("?fexit/__blk_mq_get_tag")
int BPF_PROG(tag_fexit, void *data, void *bt, u32 tag)
{
	return tag == ~0u && !may_not_wait((u64)data) ? on_tag_wait(ND_HOOK_TAG_FEXIT) : 0;
}

/* Submitters. */

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(submit_btf)
{
	return note_submission_of(bio_of(ctx), 0, ND_HOOK_SUBMIT_BTF);
}

SEC("?tp_btf/block_split")
int BPF_PROG(submit_split_btf)
{
	return on_submitted_split(bio_of(ctx), ND_HOOK_SUBMIT_SPLIT_BTF);
}

/* Its arguments are (queue, bio) on every kernel. */
SEC("?tp_btf/block_bio_complete")
int BPF_PROG(submit_done_btf, void *q, void *bio)
{
	return on_submitted_done((u64)bio, ND_HOOK_SUBMIT_DONE_BTF);
}

SEC("?fentry/__blk_throtl_bio")
int BPF_PROG(submit_limit_fentry, void *bio)
{
	return note_submission_of((u64)bio, 1, ND_HOOK_SUBMIT_LIMIT_FENTRY);
}

SEC("?fentry/blk_throtl_bio")
int BPF_PROG(submit_limit_old_fentry, void *bio)
{
	return note_submission_of((u64)bio, 1, ND_HOOK_SUBMIT_LIMIT_OLD_FENTRY);
}

/* Never attached: user space runs it (BPF_PROG_TEST_RUN) with ND_CONTROL_* and a slot or ND_END_*.
 */
SEC("?raw_tp")
int control(struct bpf_raw_tracepoint_args *ctx)
{
	return on_control(ctx->args[0], ctx->args[1]);
}
