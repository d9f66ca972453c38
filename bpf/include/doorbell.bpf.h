/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The doorbell. When a submitting function returns after it has rung the doorbell, the commands
 * that its task has set up have been announced to the device. struct nd_task lists them. */
#ifndef ND_DOORBELL_H
#define ND_DOORBELL_H

#include "slots.bpf.h"

/*
 * How the driver announced commands, with conditions: by a write to the doorbell register, or by
 * the shadow doorbell only (NVMe base specification, "Doorbell Buffer Config"). tests/parity tests
 * the rule.
 *
 * The driver writes the register if the new tail has passed the event index
 * (nvme_dbbuf_need_event() in drivers/nvme/host/pci.c). The device may move the event index at any
 * time. So the index is read when the first command of a batch is set up, and when the submitting
 * function returns. If it moved in between such that the driver's decision depends on the moment,
 * the result is 0: not known.
 */

/* Entries of a ring from one index to another. */
static __always_inline u32 entries_between(u32 from, u32 to, u32 depth)
{
	return to >= from ? to - from : to + depth - from;
}

/*
 * How `n` entries from the tail `old` on were announced, in a ring of `depth` entries. The device
 * moved the event index from `from` forward to `to` meanwhile. The driver writes the register if
 * the index is one of the new entries.
 */
static __always_inline u8 announced_how(u32 old, u32 n, u32 depth, u32 from, u32 to)
{
	u32 before = entries_between(old, from, depth), after = entries_between(old, to, depth);

	if (before > after || (before < n) != (after < n))
		return 0;
	return before < n ? ND_BESIDE_RUNG : ND_BESIDE_ELIDED;
}

#define SHADOW bpf_core_field_exists(struct nvme_queue, dbbuf_sq_ei)
#define OF_QUEUE(nvmeq, field, access)                                                             \
	peek((nvmeq) + bpf_core_field_offset(struct nvme_queue, field), access)

/* The address of the event index of a queue; 0: the queue has no shadow doorbell. */
static __always_inline u64 event_index_of(u64 nvmeq, enum nd_access access)
{
	return SHADOW ? OF_QUEUE(nvmeq, dbbuf_sq_ei, access) : 0;
}

/* Records the queue of a batch at its first setup. A batch of several queues has none. */
static __always_inline void note_batch(struct nd_task *t, u64 nvmeq, enum nd_access access)
{
	u64 index;

	if (is_waiting(t)) {
		if (t->nvmeq != nvmeq)
			t->nvmeq = 0;
		return;
	}
	t->nvmeq = nvmeq;
	index = event_index_of(nvmeq, access);
	if (!index)
		return;
	t->announced_tail = OF_QUEUE(nvmeq, last_sq_tail, access);
	t->event_index = peek(index, access);
}

/* How the driver announced the `n` commands of this batch; ND_BESIDE_*. Not known if other commands
 * were announced since the batch began: the driver's decision may have been about these. */
static __always_inline u8 announcement_of(struct nd_task *t, u32 n, enum nd_access access)
{
	u64 nvmeq = t->nvmeq, index;
	u32 old = t->announced_tail, depth;
	u16 last;

	if (!nvmeq || !SHADOW)
		return 0;
	index = event_index_of(nvmeq, access);
	if (!index)
		return ND_BESIDE_RUNG;
	last = OF_QUEUE(nvmeq, last_sq_tail, access);
	depth = OF_QUEUE(nvmeq, q_depth, access);
	if (entries_between(old, last, depth) != n)
		return 0;
	return announced_how(old, n, depth, t->event_index, (u16)peek(index, access));
}

/* `beside`: how the command was announced, if observed. */
static __always_inline void announce(struct nd_task *t, u32 i, u32 tid, u64 now, u8 beside)
{
	struct nd_slot *s = slot_at(t->slot[i]);

	/* One condition, not three: the verifier explores this once per list entry. */
	if (s && !((s->tid ^ tid) | (s->state ^ ND_OPEN) | s->doorbell_ns)) {
		if (cfg_context)
			s->beside = beside;
		s->doorbell_ns = now;
	} else {
		count(ND_LATE_DOORBELL);
	}
}

#ifdef ND_LOOP
/*
 * The verifier explores every iteration of a plain loop, but not of bpf_loop() (5.17). bpf_loop()
 * costs a call per iteration, so it handles only the entries beyond ND_BATCH, which few batches
 * have. Kernels before 5.13 reject a program that refers to a function; they never use the build
 * for the usual cases.
 */
#define HAVE_LOOP bpf_core_enum_value_exists(enum bpf_func_id___loop, BPF_FUNC_loop___loop)
#define ND_BATCH  32

/* A doorbell, for the commands beyond ND_BATCH. */
struct nd_bell {
	struct nd_task *task;
	u64 now;
	u32 tid;
	u8 beside;
};

static long announce_further(u32 i, struct nd_bell *bell)
{
	i += ND_BATCH;
	if (i >= ND_TASK_SLOTS)
		return 1;
	announce(bell->task, i, bell->tid, bell->now, bell->beside);
	return 0;
}

static __always_inline void announce_rest(struct nd_task *t, u32 n, u32 tid, u64 now, u8 beside)
{
	struct nd_bell bell = {.task = t, .now = now, .tid = tid, .beside = beside};

	bpf_loop(n, announce_further, &bell, 0);
}
#else
#define HAVE_LOOP			      0
#define ND_BATCH			      ND_TASK_SLOTS
#define announce_rest(t, n, tid, now, beside) ((void)0)
#endif

/*
 * Returns whether the driver has announced exactly as many entries as commands wait, since the
 * first of them was set up. If not, the setup of some entries was not observed, or they belong to
 * another task: the doorbell cannot be attributed. Nonzero `rq`: the function submitted only `rq`,
 * and the caller has found that the task set up another command last.
 */
static __always_inline int are_all(struct nd_task *t, u32 n, u64 rq, enum nd_access access)
{
	u16 last;
	u32 depth;

	if (rq)
		return 0;
	last = peek(t->nvmeq + bpf_core_field_offset(struct nvme_queue, last_sq_tail), access);
	depth = peek(t->nvmeq + bpf_core_field_offset(struct nvme_queue, q_depth), access);
	return n == (last >= t->announced_tail ? last - t->announced_tail
					       : last + depth - t->announced_tail);
}

/*
 * The task has rung the doorbell: stamp the commands that it has set up since the last doorbell.
 * Skip a slot whose command has completed meanwhile, and one that another task has taken over. `rq`
 * is the command, if the function submits only one.
 */
static __always_inline int ring_doorbell(u64 rq, enum nd_access access)
{
	u64 now = bpf_ktime_get_ns();
	u32 tid = this_task(), n, all, turns = ND_TASK_SLOTS;
	struct nd_task *t = task_of(tid);
	u8 beside = 0;

	if (t->tid != tid)
		return 0;
	n = t->n;
	all = n + (targ_any ? t->others : 0);
	wait_no_more(t);
	if (cfg_exit_skips && n && rq != t->last_rq && !are_all(t, all, rq, access)) {
		count_n(ND_UNSURE_DOORBELL, n);
		return 0;
	}
	if (cfg_context && n)
		beside = announcement_of(t, all, access);
	if (HAVE_LOOP)
		turns = ND_BATCH;
	for (u32 i = 0; i < turns; i++) {
		if (i >= n)
			return 0;
		announce(t, i, tid, now, beside);
	}
	if (HAVE_LOOP && n > ND_BATCH)
		announce_rest(t, n - ND_BATCH, tid, now, beside);
	return 0;
}

static __always_inline int on_doorbell(u32 hook, enum nd_access access)
{
	if (ignored(hook))
		return 0;
	hit(hook, access);
	return ring_doorbell(0, access);
}

/* Marks the command that this task set up last: it never reached the SQ. blk-mq issues it again (no
 * resources) or ends it with an error. This setup has no completion. */
static __always_inline void mark_rejected(u64 rq)
{
	u32 tid = this_task(), n;
	struct nd_task *t = task_of(tid);
	struct nd_slot *s;

	if (t->tid != tid || !is_waiting(t))
		return;
	n = t->n - 1;
	s = n < ND_TASK_SLOTS ? slot_at(t->slot[n]) : 0;
	if (s && s->rq == rq && s->state == ND_OPEN) {
		t->n = n;
		s->state = ND_REQUEUED_SLOT;
		count(ND_REQUEUED);
	} else if (targ_any && t->others && t->last_rq == rq) {
		t->others--; /* a filter had rejected it */
	}
}

/*
 * nvme_queue_rq returns. It has rung the doorbell if this request was the last of a batch, or if
 * the SQ was about to be full (nvme_write_sq_db in drivers/nvme/host/pci.c); then sq_tail equals
 * last_sq_tail. A rejected command was not copied to the SQ; if blk-mq issues it again, it has
 * another setup.
 */
static __always_inline int on_queued(struct blk_mq_hw_ctx *hctx, struct blk_mq_queue_data *bd,
				     u32 ret, u32 hook, enum nd_access access)
{
	u64 nvmeq, tail, last, rq;

	if (ignored(hook))
		return 0;
	hit(hook, access);
	rq = peek((u64)bd + bpf_core_field_offset(struct blk_mq_queue_data, rq), access);
	if (ret) {
		mark_rejected(rq);
		return 0;
	}
	if (!GET(access, bd, last)) {
		nvmeq = (u64)GET(access, hctx, driver_data);
		tail = peek(nvmeq + bpf_core_field_offset(struct nvme_queue, sq_tail), access);
		last = peek(nvmeq + bpf_core_field_offset(struct nvme_queue, last_sq_tail), access);
		if ((u16)tail != (u16)last)
			return 0;
	}
	return ring_doorbell(rq, access);
}

/*
 * Kprobes only: a submitting function begins. If the return of the task's previous one was not
 * observed, its doorbell time is unknown. Drop the commands that wait for it: they must not take
 * this function's doorbell.
 */
static __always_inline int on_submit_in(u32 hook, u32 what, u64 hctx, u64 bd)
{
	u32 tid = this_task();
	struct nd_task *t = task_of(tid);

	hit(hook, ACCESS_PROBE_READ);
	if (t->tid != tid || t->inside) {
		if (t->n)
			count_n(ND_PENDING_FULL, t->n);
		wait_no_more(t);
		t->tid = tid;
	}
	t->inside = what;
	t->hctx = hctx;
	t->bd = bd;
	return 0;
}

/* Kprobes only: a submitting function returns. Its entry must have been observed. */
static __always_inline int on_submit_out(u32 hook, u32 what, u32 ret)
{
	u32 tid = this_task();
	struct nd_task *t = task_of(tid);

	if (t->tid != tid || t->inside != what) {
		hit(hook, ACCESS_PROBE_READ);
		return 0;
	}
	t->inside = 0;
	if (what == ND_INSIDE_QUEUE_RQ)
		return on_queued((void *)t->hctx, (void *)t->bd, ret, hook, ACCESS_PROBE_READ);
	return on_doorbell(hook, ACCESS_PROBE_READ);
}

#endif
