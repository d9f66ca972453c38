// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Classic tracepoints, for kernels without BTF: an object without relocations. They print no
 * request, so (controller, queue, tag) identifies a command; the tag is the low twelve bits of the
 * cid. The programs share one guard per CPU with all kprobe and tracepoint programs of the system:
 * an interrupt that comes while any of them runs is not observed. */
#define ND_NO_KFUNC /* no requests to read */
#include "filter.bpf.h"
#include "slots.bpf.h"
#include "stages.bpf.h"

/* A completion had the generation of its setup. From then on every completion must match. */
u8 two_sided = 0;

/* By controller << 32 | nsid: the bytes of a block. */
MAP(namespaces, HASH, u64, u32, ND_MAX_NAMESPACES);

/* Reads a number of the event; the low bytes if the field is wider than `type` (little endian). */
#define FIELD(ctx, at, type)                                                                       \
	({                                                                                         \
		type _value = 0;                                                                   \
		bpf_probe_read_kernel(&_value, sizeof(_value), (void *)(ctx) + (at));              \
		_value;                                                                            \
	})

static __always_inline struct nd_slot *slot_by_cid(u32 instance, u32 qid, u32 cid)
{
	struct nd_ctrl *ctrl = bpf_map_lookup_elem(&ctrls, &instance);
	u32 tag = cid & 0xfff;

	if (!ctrl || qid >= ctrl->queues || tag >= ctrl->stride)
		return 0;
	return slot_at(first_slot(ctrl->base, ctrl->stride, qid) + tag);
}

static __always_inline u32 bytes_of(void *ctx, u32 instance, u32 nsid)
{
	u64 key = (u64)instance << 32 | nsid;
	u32 *block = bpf_map_lookup_elem(&namespaces, &key);

	/* CDW12 is the third dword from cdw10; NLB is zero based. */
	return block ? (FIELD(ctx, tp_setup_cdw10 + 8, u16) + 1) * *block : 0;
}

static __always_inline void note_submission(struct nd_submission *a, void *ctx, u32 nsid)
{
	bpf_probe_read_kernel(a->cdw, sizeof(a->cdw), ctx + tp_setup_cdw10);
	a->flags = FIELD(ctx, tp_setup_flags, u8);
	a->metadata = FIELD(ctx, tp_setup_metadata, u8);
	a->nsid = nsid;
	/* Not in the event. */
	a->bytes = 0;
	a->known = 0;
	note_submitter(a);
	bpf_get_current_comm(a->comm, sizeof(a->comm));
	a->stack = stack_here(ctx, ND_STACK_SUBMIT);
}

static __always_inline void note_outcome(struct nd_outcome *o, void *ctx)
{
	o->result = FIELD(ctx, tp_done_result, u64);
	o->status = FIELD(ctx, tp_done_status, u16);
	o->retries = FIELD(ctx, tp_done_retries, u8);
	o->flags = FIELD(ctx, tp_done_flags, u8);
	o->cpu = bpf_get_smp_processor_id();
	o->known = 1;
	o->stack = stack_here(ctx, ND_STACK_COMPLETE);
}

SEC("?tp/nvme/nvme_setup_cmd")
int setup_out_tp(void *ctx)
{
	struct nd_cpu *cpu = this_cpu();
	u32 instance = FIELD(ctx, tp_setup_ctrl, u32), qid = FIELD(ctx, tp_setup_qid, u32);
	u32 nsid = FIELD(ctx, tp_setup_nsid, u32), opcode = FIELD(ctx, tp_setup_opcode, u8);
	u32 cid = FIELD(ctx, tp_setup_cid, u16), admin = !qid, bytes = 0;
	struct nd_slot *s = slot_by_cid(instance, qid, cid);
	u64 key;

	if (!cpu)
		return 0;
	tally(cpu, ND_HOOK_SETUP_OUT_TP, ACCESS_PROBE_READ);
	if (!s) {
		count(wanted_ctrl(instance) ? ND_UNTRACKED : ND_FILTERED);
		return 0;
	}
	/* The completion was not observed, or the driver rejected the command and sets it up again:
	 * no event shows which. Nor does the cid: requests with separate generations share tags. */
	if (s->state == ND_OPEN)
		count(ND_OVERWRITTEN);
	s->cid = cid;
	if (!wanted(qid, nsid, opcode, admin) ||
	    (targ_any && (!wanted_caller() || !in_cgroup_by_task())) ||
	    (targ_by_lba && (!says_blocks(admin, opcode) ||
			     !wanted_blocks(FIELD(ctx, tp_setup_cdw10, u64),
					    FIELD(ctx, tp_setup_cdw10 + 8, u16))))) {
		count(ND_FILTERED);
		s->state = ND_SKIPPED;
		return 0;
	}
	key = key_of(instance, nsid, opcode, admin);
	if (says_blocks(admin, opcode))
		bytes = bytes_of(ctx, instance, nsid);
	if (cfg_trace == ND_TRACE_FLIGHT)
		key |= class_of(bytes) << ND_KEY_CLASS_SHIFT;
	/* It may name blocks that it does not transfer. */
	if (!(opcode & 3))
		bytes = 0;
	keep_key(s, key);
	s->bytes = bytes;
	s->start_ns = 0;
	clear_times(s, cfg_mode);
	s->tid = (u32)bpf_get_current_pid_tgid();
	s->qid = qid;
	s->rq = 1; /* in use; there is no request pointer */
	if (cfg_trace)
		note_submission(&s->submission, ctx, nsid);
	s->state = ND_OPEN;
	s->setup_out_ns = bpf_ktime_get_ns();
	emit_submit(s, s->setup_out_ns);
	return 0;
}

SEC("?tp/nvme/nvme_complete_rq")
int complete_tp(void *ctx)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_cpu *cpu = this_cpu();
	u32 instance = FIELD(ctx, tp_done_ctrl, u32), qid = FIELD(ctx, tp_done_qid, u32);
	u32 cid = FIELD(ctx, tp_done_cid, u16);
	struct nd_slot *s = slot_by_cid(instance, qid, cid);

	if (!cpu)
		return 0;
	tally(cpu, ND_HOOK_COMPLETE_TP, ACCESS_PROBE_READ);
	if (!s) {
		count(wanted_ctrl(instance) ? ND_UNTRACKED_DONE : ND_FILTERED_DONE);
		return 0;
	}
	if (s->state != ND_OPEN && s->state != ND_SKIPPED) {
		count(ND_ORPHAN_DONE);
		return 0;
	}
	if (s->cid == cid) {
		if (cid >> 12)
			two_sided = 1;
	} else if (cid >> 12 || two_sided) {
		/* Another generation: the setup of this command was not observed. */
		count(ND_ORPHAN_DONE);
		return 0;
	}
	if (s->state == ND_SKIPPED) {
		end_filtered(s);
	} else {
		if (cfg_trace)
			note_outcome(&s->outcome, ctx);
		if (cfg_count_status)
			count_status(s, FIELD(ctx, tp_done_status, u16),
				     FIELD(ctx, tp_done_retries, u8));
		finish(s, cpu, now, 0);
	}
	return 0;
}

SEC("?tp/nvme/nvme_sq")
int sq_tp(void *ctx)
{
	u32 instance = FIELD(ctx, tp_sq_ctrl, u32), qid = FIELD(ctx, tp_sq_qid, u32);
	u32 head = FIELD(ctx, tp_sq_head, u16), tail = FIELD(ctx, tp_sq_tail, u16);
	struct nd_other *r;

	if (!wanted_ctrl(instance) || (targ_qid_count && !in_list(targ_qids, targ_qid_count, qid)))
		return 0;
	tally(this_cpu(), ND_HOOK_SQ_TP, ACCESS_PROBE_READ);
	r = other(ND_KIND_SQ, 0, head | tail << 16 | 1ull << 32);
	if (!r)
		return 0;
	r->event.ctrl = instance;
	r->event.qid = qid;
	r->event.admin = !qid;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("?tp/nvme/nvme_async_event")
int async_tp(void *ctx)
{
	u32 instance = FIELD(ctx, tp_async_ctrl, u32);

	if (!wanted_ctrl(instance))
		return 0;
	tally(this_cpu(), ND_HOOK_ASYNC_TP, ACCESS_PROBE_READ);
	emit_ctrl(ND_KIND_ASYNC, instance, FIELD(ctx, tp_async_result, u32));
	return 0;
}
