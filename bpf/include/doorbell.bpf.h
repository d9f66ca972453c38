/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The doorbell. When a submitting function returns after it has rung the doorbell, the commands
 * that its task has set up have been announced to the device. struct nd_task lists them. */
#pragma once

#include "slots.bpf.h"

/* How the driver announced commands: by a write to the doorbell register, or by the shadow doorbell
 * only. It writes the register if the new tail has passed the event index (nvme_dbbuf_need_event()
 * in drivers/nvme/host/pci.c), which the device may move at any time. So the index is read when the
 * first command of a batch is set up, and when the submitting function returns; if the decision
 * depends on the moment, the result is 0. tests/parity tests the rule. */

static __always_inline u32 entries_between(u32 from, u32 to, u32 depth)
{
	return to >= from ? to - from : to + depth - from;
}

/* How `n` entries from the tail `old` on were announced. The event index moved `from` -> `to`. */
static __always_inline u8 announced_how(u32 old, u32 n, u32 depth, u32 from, u32 to)
{
	u32 before = entries_between(old, from, depth), after = entries_between(old, to, depth);

	if (before > after || (before < n) != (after < n))
		return 0;
	return before < n ? ND_BESIDE_RUNG : ND_BESIDE_ELIDED;
}

#define SHADOW		       bpf_core_field_exists(struct nvme_queue, dbbuf_sq_ei)
#define OF_QUEUE(nvmeq, field) FIELD_AT((nvmeq), struct nvme_queue, field)

/* The address of the event index of a queue; 0: the queue has no shadow doorbell. */
static __always_inline u64 event_index_of(u64 nvmeq)
{
	return SHADOW ? OF_QUEUE(nvmeq, dbbuf_sq_ei) : 0;
}

/* Records the queue of a batch at its first setup. A batch of several queues has none. */
static __always_inline void note_batch(struct nd_task *t, u64 nvmeq)
{
	u64 index;

	if (is_waiting(t)) {
		if (t->nvmeq != nvmeq)
			t->nvmeq = 0;
		return;
	}
	t->nvmeq = nvmeq;
	index = event_index_of(nvmeq);
	if (!index)
		return;
	t->announced_tail = OF_QUEUE(nvmeq, last_sq_tail);
	t->event_index = peek(index);
}

/* How the driver announced the `n` commands of this batch. Not known if others were announced since
 * it began: the driver's decision may have been about these. */
static __always_inline u8 announcement_of(struct nd_task *t, u32 n)
{
	u64 nvmeq = t->nvmeq, index;
	u32 old = t->announced_tail, depth;
	u16 last;

	if (!nvmeq || !SHADOW)
		return 0;
	index = event_index_of(nvmeq);
	if (!index)
		return ND_BESIDE_RUNG;
	last = OF_QUEUE(nvmeq, last_sq_tail);
	depth = OF_QUEUE(nvmeq, q_depth);
	if (entries_between(old, last, depth) != n)
		return 0;
	return announced_how(old, n, depth, t->event_index, (u16)peek(index));
}

static __always_inline void announce(u32 index, u32 tid, u64 now, u8 beside)
{
	struct nd_slot *s = slot_at(index);

	/* One condition, not three: the verifier explores this once per list entry. */
	if (s && !((s->tid ^ tid) | (s->state ^ ND_OPEN) | s->doorbell_ns)) {
		s->beside = beside;
		s->doorbell_ns = now;
	} else {
		count(ND_LATE_DOORBELL);
	}
}

/* For the rest of a large batch: a call costs more. Not static: the verifier verifies it once. */
__noinline int announce_rest(u32 index, u32 tid, u64 now, u32 beside)
{
	announce(index, tid, now, beside);
	return 0;
}

/* Whether the driver has announced exactly as many entries as commands wait. If not, a setup was
 * not observed, or another task's entries were announced. Nonzero `rq`: the function submitted only
 * `rq`, but the task set up another command last. */
static __always_inline int are_all(struct nd_task *t, u32 n, u64 rq)
{
	u16 last;

	if (rq)
		return 0;
	last = OF_QUEUE(t->nvmeq, last_sq_tail);
	return n == entries_between(t->announced_tail, last, OF_QUEUE(t->nvmeq, q_depth));
}

/* The task has rung the doorbell for all it set up. `rq`: if the function submits just this. */
static __always_inline int ring_doorbell(u64 rq)
{
	u64 now = bpf_ktime_get_ns();
	u32 tid = this_task(), n, all;
	struct nd_task *t = task_of(tid);
	u8 beside = 0;

	if (t->tid != tid)
		return 0;
	n = t->n;
	all = n + (targ_any ? t->others : 0);
	wait_no_more(t);
	if (cfg_exit_skips && n && rq != t->last_rq && !are_all(t, all, rq)) {
		count_n(ND_UNSURE_DOORBELL, n);
		return 0;
	}
	if (cfg_context && n)
		beside = announcement_of(t, all);
	for (u32 i = 0; i < ND_TASK_SLOTS; i++) {
		if (i >= n)
			return 0;
		if (i < 32) /* few batches are larger */
			announce(t->slot[i], tid, now, beside);
		else
			announce_rest(t->slot[i], tid, now, beside);
	}
	return 0;
}

static __always_inline int on_doorbell(u32 hook, enum nd_access access)
{
	hit(hook, access);
	return ring_doorbell(0);
}

/* The task's last command did not reach the SQ: blk-mq issues it again, or fails it. */
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

/* nvme_queue_rq returns. It has rung the doorbell if this request was the last of a batch, or if
 * the SQ was about to be full (nvme_write_sq_db in drivers/nvme/host/pci.c); then sq_tail equals
 * last_sq_tail. A rejected command was not copied to the SQ. */
static __always_inline int on_queued(struct blk_mq_hw_ctx *hctx, struct blk_mq_queue_data *bd,
				     u32 ret, u32 hook, enum nd_access access)
{
	u64 nvmeq, rq;
	u16 tail;

	hit(hook, access);
	rq = FIELD_AT((u64)bd, struct blk_mq_queue_data, rq);
	if (ret) {
		mark_rejected(rq);
		return 0;
	}
	if (!GET(access, bd, last)) {
		nvmeq = (u64)GET(access, hctx, driver_data);
		tail = OF_QUEUE(nvmeq, sq_tail);
		if (tail != (u16)OF_QUEUE(nvmeq, last_sq_tail))
			return 0;
	}
	return ring_doorbell(rq);
}

/* Kprobes only: a submitting function begins. If the return of the previous one was not observed,
 * the commands that wait for it must not take this doorbell. */
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
