/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The start of a command in blk-mq, and its setup, which closes the former command of its slot. */
#pragma once

#include "bio.bpf.h"
#include "doorbell.bpf.h"
#include "recover.bpf.h"

/* RQF_IO_STAT before it became an enum (6.12): for kernels without block_io_start (before 6.5). */
#define RQF_IO_STAT_OLD (1u << 13)

static __always_inline struct nd_start *start_by_queue(struct request *rq, struct nd_place *p,
						       enum nd_access access)
{
	struct request_queue *q = GET(access, rq, q);
	u32 qid, age = places_age, first, instance;
	struct nd_queue *e = known_queue(rq, q, &qid, &first, access);
	struct nd_ctrl *ctrl;
	u64 address;

	if (!q)
		return 0;
	if (!e) {
		/* First command of a queue. The setup handles a queue without a disk (admin). */
		if (!is_nvme_disk(rq, q, access))
			return 0;
		ctrl = ctrl_of(rq, q, &instance, &address, access);
		if (!ctrl || !ctrl->stride)
			return 0;
		learn_queue(q, ctrl, address, instance, 1, access);
		e = known_queue(rq, q, &qid, &first, access);
		if (!e)
			return 0;
	}
	if (p && e->io)
		remember(p, rq, first, e->stride, age, access);
	return start_entry(GET(access, rq, internal_tag), GET(access, rq, tag), first, e->stride,
			   spread_of(q, access));
}

static __noinline struct nd_start *start_slowly(struct request *rq, struct nd_place *p)
{
	return start_by_queue(drop_trust(rq), p, ACCESS_BTF);
}

static __always_inline int on_start(struct request *rq, u32 hook, enum nd_access access)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_start *st;

	if (!cpu)
		return 0;
	if (access != ACCESS_BTF) {
		st = start_by_queue(rq, 0, access);
	} else {
		u64 hctx = (u64)rq->mq_hctx;
		struct nd_place *p = &cpu->place[ND_AT_START][place_number(hctx)];

		ONE_REGISTER(p);
		/* An admin command starts before its setup invalidates the cache: see where(). */
		st = is_of(p, hctx) && !is_admin(rq)
			     ? start_entry(rq->internal_tag, rq->tag, p->first, p->tags, p->spread)
			     : start_slowly(rq, p);
	}
	if (!st) {
		if (cfg_waits)
			forget_pause();
		return 0;
	}
	tally(cpu, hook, access);
	st->rq = (u64)rq;
	if (HAS_MARKS)
		st->mark = mark_of(rq, access);
	st->ns = bpf_ktime_get_ns();
	if (cfg_waits)
		note_waits(st, rq, access);
	return 0;
}

static __always_inline int on_setup_in(void *ctx, struct request *rq, u64 cmd, u32 hook,
				       enum nd_access access)
{
	u64 now = bpf_ktime_get_ns();
	u32 tid = this_task();
	struct nd_task *t = task_of(tid);

	hit(hook, access);
	t->setup_in_rq = (u64)rq;
	t->setup_in_ns = now;
	if (cfg_recover)
		t->setup_in_gen = generation_of((u64)rq);
	if (access != ACCESS_BTF) {
		t->setup_cmd = cmd;
		t->setup_tid = tid;
		if (cfg_stack_at_entry)
			t->setup_stack = stack_here(ctx, ND_STACK_SUBMIT);
	}
	return 0;
}

/* start_time_ns, for kernels without block_io_start (before 6.5). 0: none (iostats off), later than
 * now, or of a retry (it has the start of the first attempt). */
static __always_inline u64 start_field(struct request *rq, u64 now, u64 last, enum nd_access access)
{
	u64 start = GET(access, rq, start_time_ns);
	int again;

	if (!(GET(access, rq, rq_flags) & RQF_IO_STAT_OLD) || !start)
		return 0;
	if (access != ACCESS_BTF && cfg_by_name)
		again = start == last;
	else
		again = (u8)FIELD_AT(pdu_of(rq), struct nvme_request, retries);
	if (start > now || again) {
		count(ND_START_UNTRUSTED);
		return 0;
	}
	return start;
}

/* Closes the command that is still in a slot when `rq` is set up there. Returns its start if `rq`
 * is the same command again. Without the driver's types, only another generation of the same
 * request shows a missed completion. `over`: the command has completed. */
static __always_inline u64 close_slot(struct nd_slot *s, u32 index, struct request *rq, u32 cid,
				      int over)
{
	int again;

	if (cfg_end && s->state == ND_COMPLETED) {
		finish_without_end(index);
	} else if (s->state == ND_REQUEUED_SLOT) {
		return s->rq == (u64)rq ? s->start_ns : 0;
	} else if (over) {
		close_unseen(index);
	} else if (s->state == ND_OPEN) {
		again = cfg_recover || !cfg_lossy || s->cid >> 12 == cid >> 12;
		if (again && s->rq == (u64)rq) {
			/* No event shows it: nvme_queue_rqs() leaves the requests that it cannot
			 * prepare on the list, and blk-mq issues them one by one. */
			count(ND_REQUEUED);
			if (traces_events())
				emit_event(ND_KIND_REQUEUE, s, 0);
			return s->start_ns;
		}
		count(ND_OVERWRITTEN);
	}
	return 0;
}

/* A scheduled request may return with another driver tag: closes its first slot, unless its command
 * is over: the next one with its tag does that, perhaps now, on another CPU. This program may be
 * preempted between the tests, so the owner is tested again after them. */
static __always_inline void close_former(struct nd_start *st, struct request *rq, u32 index,
					 u32 cid, u64 *start)
{
	struct nd_slot *former;
	u64 again;

	if (st->setup_rq == (u64)rq && st->setup_slot != index) {
		former = slot_at(st->setup_slot);
		if (former && is_still_of(former, rq) && former->state != ND_FREE &&
		    !(cfg_recover && cfg_end && former->state == ND_COMPLETED) &&
		    !has_completed_of(former, (u64)rq) && is_still_of(former, rq)) {
			again = close_slot(former, st->setup_slot, rq, cid, 0);
			if (again)
				*start = again;
			former->rq = 0;
			former->state = ND_FREE;
		}
	}
	st->setup_rq = (u64)rq;
	st->setup_slot = index;
}

/* Drops the commands that wait for a doorbell if they belong to another queue, or if it has had a
 * doorbell since the first of them was set up, which may have been theirs. */
static __always_inline void check_waiting(struct nd_task *t, struct request *rq, u64 nvmeq)
{
	u16 announced_tail = FIELD_AT(nvmeq, struct nvme_queue, last_sq_tail);

	if (is_waiting(t) && (t->nvmeq != nvmeq || t->announced_tail != announced_tail)) {
		if (t->n)
			count_n(ND_UNSURE_DOORBELL, t->n);
		wait_no_more(t);
	}
	t->nvmeq = nvmeq;
	t->announced_tail = announced_tail;
	t->last_rq = (u64)rq;
}

/* Adds a command to those that wait for a doorbell. ND_NO_SLOT: see await_rejected(). */
static __always_inline void await_doorbell(u32 index, u32 tid, struct nd_task *t, u32 by,
					   struct request *rq, struct nd_where *w)
{
	u32 n;

	if (by == 2 && (t->tid != tid || !t->inside))
		return; /* its return would not be observed */
	if (t->tid != tid) {
		t->tid = tid;
		wait_no_more(t);
	}
	if (cfg_exit_skips)
		check_waiting(t, rq, w->nvmeq);
	if (cfg_context)
		note_batch(t, w->nvmeq);
	if (targ_any && index == ND_NO_SLOT) {
		t->last_rq = (u64)rq;
		t->others++;
		return;
	}
	n = t->n;
	if (n < ND_TASK_SLOTS) {
		t->slot[n] = index;
		t->n = n + 1;
	} else {
		count(ND_PENDING_FULL);
	}
}

/* Whether the setup that the task has begun belongs to this command. */
static __always_inline int is_begun(struct nd_task *t, struct nd_slot *s)
{
	u32 generation = t->setup_in_gen + (generation_changes == ND_GEN_AT_SETUP);

	return !cfg_recover || (generation & 0xf) == s->cid >> 12;
}

/* A filter has rejected the command, but it is announced, and may be counted with the others. */
static __always_inline void await_rejected(struct request *rq, struct nd_where *w)
{
	u32 by = cfg_doorbell, tid;

	if (!by || !(cfg_exit_skips || cfg_context) || !(w->points & ND_SAW_DOORBELL))
		return;
	tid = this_task();
	await_doorbell(ND_NO_SLOT, tid, task_of(tid), by, rq, w);
}

static __always_inline void take_from_task(struct nd_slot *s, u32 index, struct request *rq,
					   struct nd_where *w)
{
	u32 by = cfg_doorbell, mode = cfg_mode, tid;
	struct nd_task *t;

	if (by || mode == ND_MODE_FINE) {
		tid = this_task();
		t = task_of(tid);
		if (by && w->points & ND_SAW_DOORBELL)
			await_doorbell(index, tid, t, by, rq, w);
		if (mode == ND_MODE_FINE && t->setup_in_rq == (u64)rq) {
			if (is_begun(t, s))
				s->setup_in_ns = t->setup_in_ns;
			t->setup_in_rq = 0;
		}
		s->tid = tid;
	}
}

/* A request's start entry, if needed. `start`: its time, if there; `last`: the time before. */
static __always_inline struct nd_start *take_start(struct request *rq, u32 index, u32 cid,
						   struct nd_place *place, u64 *start, u64 *last,
						   enum nd_access access)
{
	s32 internal = GET(access, rq, internal_tag);
	struct nd_start *st;

	if (!cfg_start_hook && internal < 0 && (access == ACCESS_BTF || !cfg_by_name))
		return 0;
	st = start_entry(internal, GET(access, rq, tag), place->first, place->tags, place->spread);
	if (!st)
		return 0;
	*last = st->ns;
	if (internal >= 0)
		close_former(st, rq, index, cid, start);
	if (cfg_start_hook && st->rq == (u64)rq) {
		if (!cfg_setup_skips || st->mark == mark_of(rq, access))
			*start = st->ns;
		st->rq = 0; /* a retry has no start */
	}
	return st;
}

/* `ctx` is NULL if the stack was taken before: `stack`. */
static __always_inline int on_setup_out(void *ctx, struct request *rq, struct nvme_command *cmd,
					u64 stack, u32 hook, enum nd_access access)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_where here = {}, *w;
	struct nd_start *st = 0;
	struct nd_slot *s = 0;
	u64 start = 0, now, last = 0;
	u32 index, cid;
	int found;

	if (!cpu)
		return 0;
	tally(cpu, hook, access);
	cid = WIRE(access, cmd, command_id);
	w = access == ACCESS_BTF ? where(rq, cpu) : where_by_queue(rq, &here, &here, access);
	if (w) {
		index = tag_slot(w->place.first, w->place.tags, GET(access, rq, tag));
		s = slot_at(index);
	}
	if (w && is_left_out(w->place.first)) {
		count(ND_FILTERED);
		await_rejected(rq, w);
		return 0;
	}
	if (!s) {
		count(ND_UNTRACKED);
		return 0;
	}
	if (s->state != ND_FREE)
		start = close_slot(s, index, rq, cid, has_completed(s));
	st = take_start(rq, index, cid, &w->place, &start, &last, access);
	if (cfg_waits && cfg_start_bio && !start)
		start = start_of_bios(s, index, st, rq, access);
	take_submitter(s, st, rq, start, access);
	found = fill_slot(s, rq, cmd, w, 1, access);
	if (found != WANTED) {
		count(found == UNATTRIBUTED ? ND_UNATTRIBUTED : ND_FILTERED);
		s->state = ND_SKIPPED;
		await_rejected(rq, w);
		return 0;
	}
	take_from_task(s, index, rq, w);
	if (cfg_trace)
		s->submission.stack = ctx ? stack_here(ctx, ND_STACK_SUBMIT) : stack;
	s->state = ND_OPEN;
	now = bpf_ktime_get_ns();
	if (!start && cfg_start_field) {
		start = start_field(rq, now, last, access);
		if (access != ACCESS_BTF && cfg_by_name && st && start)
			st->ns = start;
	}
	s->start_ns = start;
	s->setup_out_ns = now;
	if (cfg_waits)
		take_waits(s, st, rq);
	emit_submit(s, now);
	return 0;
}

/* A kretprobe has no arguments: struct nd_task keeps the entry's, unless another task takes it. */
static __always_inline int on_setup_return(u32 hook)
{
	u32 tid = this_task();
	struct nd_task *t = task_of(tid);
	u64 rq, cmd;

	if (t->setup_tid != tid || !t->setup_in_rq) {
		hit(hook, ACCESS_PROBE_READ);
		count(ND_UNTRACKED);
		return 0;
	}
	rq = t->setup_in_rq;
	t->setup_tid = 0;
	cmd = cfg_cmd_arg ? t->setup_cmd : entry_of((void *)rq);
	return on_setup_out(0, (void *)rq, (void *)cmd, t->setup_stack, hook, ACCESS_PROBE_READ);
}
