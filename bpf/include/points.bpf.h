/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One function per point of a command's life after its setup (setup.bpf.h). However a hook is
 * attached, it ends here. Each reads the clock once, and as late as it can where the point is an
 * end, as early where it is a begin.
 */
#ifndef ND_POINTS_H
#define ND_POINTS_H

static __always_inline int on_issue(struct request *rq, u32 hook, int typed)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;

	if (!cpu)
		return 0;
	s = slot_of(rq, cpu, ND_AT_ISSUE, typed);
	if (!s || (typed == TWIN && s->issue_ns))
		return 0;
	tally(cpu, hook, typed);
	if (s->state == ND_OPEN)
		s->issue_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void announce(struct nd_task *t, u32 i, u32 tid, u64 now)
{
	struct nd_slot *s = slot_at(t->slot[i]);

	/* one condition of three: the verifier comes by as often as there are places */
	if (s && !((s->tid ^ tid) | (s->state ^ ND_OPEN) | s->doorbell_ns))
		s->doorbell_ns = now;
	else
		count(ND_LATE_DOORBELL);
}

#ifdef ND_USUAL
/*
 * The verifier goes round a loop as often as it may turn, but not round bpf_loop() (5.17). That
 * takes a call each time, so it is for what few batches have. Kernels before 5.13 do not even load
 * a program that mentions a function: theirs is never the build for usual cases.
 */
#define HAVE_LOOP bpf_core_enum_value_exists(enum bpf_func_id___loop, BPF_FUNC_loop___loop)
#define ND_BATCH  32

/* A doorbell, for those that it announces beyond ND_BATCH. */
struct nd_bell {
	struct nd_task *task;
	u64 now;
	u32 tid;
};

static long announce_further(u32 i, struct nd_bell *bell)
{
	i += ND_BATCH;
	if (i >= ND_TASK_SLOTS)
		return 1;
	announce(bell->task, i, bell->tid, bell->now);
	return 0;
}

static __always_inline void announce_rest(struct nd_task *t, u32 n, u32 tid, u64 now)
{
	struct nd_bell bell = {.task = t, .now = now, .tid = tid};

	bpf_loop(n, announce_further, &bell, 0);
}
#else
#define HAVE_LOOP		      0
#define ND_BATCH		      ND_TASK_SLOTS
#define announce_rest(t, n, tid, now) ((void)0)
#endif

/*
 * The task's doorbell is rung: stamp what it has set up since the last one. A slot that has been
 * completed meanwhile is left alone, and one that another task has taken over is not ours.
 */
static __always_inline int on_doorbell(u32 hook, int typed)
{
	u64 now = bpf_ktime_get_ns();
	u32 tid = (u32)bpf_get_current_pid_tgid(), n, turns = ND_TASK_SLOTS;
	struct nd_task *t = task_of(tid);

	if (typed == TWIN && (t->tid != tid || !t->n))
		return 0;
	hit(hook, typed);
	if (t->tid != tid)
		return 0;
	n = t->n;
	t->n = 0;
	if (HAVE_LOOP)
		turns = ND_BATCH;
	for (u32 i = 0; i < turns; i++) {
		if (i >= n)
			return 0;
		announce(t, i, tid, now);
	}
	if (HAVE_LOOP && n > ND_BATCH)
		announce_rest(t, n - ND_BATCH, tid, now);
	return 0;
}

/*
 * The command that this task set up last never reached the ring. blk-mq will bring it again (no
 * resources), or end it with an error: there will be no completion of this setup.
 */
static __always_inline void turned_away(u64 rq)
{
	u32 tid = (u32)bpf_get_current_pid_tgid(), n;
	struct nd_task *t = task_of(tid);
	struct nd_slot *s;

	if (t->tid != tid || !t->n)
		return;
	n = t->n - 1;
	if (n >= ND_TASK_SLOTS)
		return;
	s = slot_at(t->slot[n]);
	if (!s || s->rq != rq || s->state != ND_OPEN)
		return;
	t->n = n;
	s->state = ND_BACK;
	count(ND_REQUEUED);
}

/*
 * nvme_queue_rq returns. It rang if this was the last of a run, or if the ring was about to be full
 * (drivers/nvme/host/pci.c, nvme_write_sq_db): then nothing is left to announce. A failed command
 * was not even copied; it comes back through another setup.
 */
static __always_inline int on_queued(struct blk_mq_hw_ctx *hctx, struct blk_mq_queue_data *bd,
				     u32 ret, u32 hook, int typed)
{
	u64 nvmeq, tail, last;

	if (ret) {
		if (typed != TWIN)
			hit(hook, typed);
		turned_away(
			peek((u64)bd + bpf_core_field_offset(struct blk_mq_queue_data, rq), typed));
		return 0;
	}
	if (!GET(typed, bd, last)) {
		nvmeq = (u64)GET(typed, hctx, driver_data);
		tail = peek(nvmeq + bpf_core_field_offset(struct nvme_queue, sq_tail), typed);
		last = peek(nvmeq + bpf_core_field_offset(struct nvme_queue, last_sq_tail), typed);
		if ((u16)tail != (u16)last) {
			if (typed != TWIN)
				hit(hook, typed);
			return 0;
		}
	}
	return on_doorbell(hook, typed);
}

/*
 * Kprobes only: a submitting function begins. If the task's last one was not seen to return, its
 * doorbell is unknown, and what waits for it must not take this one's.
 */
static __always_inline int on_submit_in(u32 hook, u32 what, u64 hctx, u64 bd)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct nd_task *t = task_of(tid);

	hit(hook, 0);
	if (t->tid != tid || t->inside) {
		if (t->n)
			count_n(ND_PENDING_FULL, t->n);
		t->n = 0;
		t->tid = tid;
	}
	t->inside = what;
	t->hctx = hctx;
	t->bd = bd;
	return 0;
}

/* Kprobes only: it returns. The entry must have been seen. */
static __always_inline int on_submit_out(u32 hook, u32 what, u32 ret)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct nd_task *t = task_of(tid);

	if (t->tid != tid || t->inside != what) {
		hit(hook, 0);
		return 0;
	}
	t->inside = 0;
	if (what == ND_INSIDE_QUEUE_RQ)
		return on_queued((void *)t->hctx, (void *)t->bd, ret, hook, 0);
	return on_doorbell(hook, 0);
}

static __always_inline int on_irq_in(u64 nvmeq, u32 hook, int typed)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_cpu *cpu = this_cpu();

	if (!cpu || (typed == TWIN && cpu->irq_ns && cpu->irq_nvmeq == nvmeq))
		return 0;
	hit(hook, typed);
	cpu->irq_nvmeq = nvmeq;
	cpu->irq_ns = now;
	return 0;
}

/* Or a poll of the same queue on this CPU (a timeout) would take the stamp of an old interrupt. */
static __always_inline int on_irq_out(u32 hook, int typed)
{
	struct nd_cpu *cpu = this_cpu();

	if (!cpu || (typed == TWIN && !cpu->irq_ns))
		return 0;
	hit(hook, typed);
	cpu->irq_ns = 0;
	return 0;
}

/*
 * `anyone`: the hook sees every driver's requests, and the driver's own cancellations too
 * (NVME_REQ_CANCELLED), which have no CQE.
 */
static __always_inline int on_cqe(struct request *rq, u32 hook, int typed, int anyone)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;
	u64 flags;

	if (!cpu)
		return 0;
	s = slot_of(rq, cpu, ND_AT_CQE, typed);
	if (anyone) {
		if (!s)
			return 0;
		flags = pdu_of(rq) + bpf_core_field_offset(struct nvme_request, flags);
		if (peek(flags, typed) & 1)
			return 0;
	}
	if (typed == TWIN && (!s || s->cqe_ns))
		return 0;
	tally(cpu, hook, typed);
	if (!s || s->state != ND_OPEN)
		return 0;
	s->cqe_ns = bpf_ktime_get_ns();
	if (cfg_mode == ND_MODE_FINE && cpu->irq_ns) {
		struct blk_mq_hw_ctx *hctx = GET(typed, rq, mq_hctx);

		if (cpu->irq_nvmeq == (u64)GET(typed, hctx, driver_data))
			s->irq_ns = cpu->irq_ns;
	}
	return 0;
}

/* The byte or 16 bits at `at` of nvme_request: of the word that begins at `from`, which was read,
 * or else from where it is. */
static __always_inline u64 part_of(u64 pdu, u64 at, u64 from, u64 word, int typed)
{
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && at >= from && at < from + 7)
		return word >> (at - from) * 8;
	return peek(pdu + at, typed);
}

/* The driver's word, if it can be had. */
static __always_inline void note_outcome(struct nd_outcome *o, struct request *rq, int typed)
{
	u64 pdu = pdu_of(rq), from, word;

	o->cpu = bpf_get_smp_processor_id();
	o->known = cfg_verdict;
	if (!cfg_verdict) {
		o->result = 0;
		o->status = 0;
		o->retries = 0;
		o->flags = 0;
		return;
	}
	o->result = peek(pdu + bpf_core_field_offset(struct nvme_request, result), typed);
	/* these three are neighbours on every kernel so far */
	from = bpf_core_field_offset(struct nvme_request, retries);
	word = peek(pdu + from, typed);
	o->retries = word;
	o->flags =
		part_of(pdu, bpf_core_field_offset(struct nvme_request, flags), from, word, typed);
	o->status =
		part_of(pdu, bpf_core_field_offset(struct nvme_request, status), from, word, typed);
}

static __always_inline int on_complete(void *ctx, struct request *rq, u32 hook, int typed)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;

	if (!cpu)
		return 0; /* there is one */
	if (typed != TWIN)
		tally(cpu, hook, typed);
	s = slot_near(rq, cpu, ND_AT_COMPLETE, typed);
	if (typed == TWIN) {
		/* what is nobody's is the first instance's to count */
		if (!s || s->rq != (u64)rq || (s->state != ND_OPEN && s->state != ND_SKIPPED))
			return 0;
		tally(cpu, hook, typed);
	}
	if (!s) {
		count(ND_UNTRACKED_DONE);
	} else if (s->rq == (u64)rq && s->state == ND_SKIPPED) {
		count(ND_FILTERED_DONE);
		s->state = ND_FREE;
		s->rq = 0;
	} else if (s->rq != (u64)rq || s->state != ND_OPEN) {
		count(ND_ORPHAN_DONE);
	} else {
		if (cfg_trace) {
			note_outcome(&s->outcome, rq, typed);
			s->outcome.stack = stack_here(ctx, ND_STACK_COMPLETE, typed);
		}
		if (cfg_end) {
			s->complete_ns = now;
			s->state = ND_COMPLETED;
		} else {
			finish(s, cpu, now, 0, 0);
		}
	}
	return 0;
}

static __always_inline int on_end(struct request *rq, u32 hook, int typed)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;

	if (!cpu)
		return 0;
	s = slot_of(rq, cpu, ND_AT_END, typed);
	if (!s || s->state != ND_COMPLETED)
		return 0;
	tally(cpu, hook, typed);
	finish(s, cpu, s->complete_ns, bpf_ktime_get_ns(), 0);
	return 0;
}

/* It has completed, and is to be tried again. */
static __always_inline void tell_retry(struct nd_slot *s, struct request *rq, int typed)
{
	u64 at = pdu_of(rq) + bpf_core_field_offset(struct nvme_request, retries);

	if (cfg_trace && cfg_trace != ND_TRACE_STACKS)
		tell(ND_KIND_RETRY, s, cfg_verdict ? (u8)peek(at, typed) : ~0ull);
}

/*
 * blk-mq takes a request back. If it was not completed, the driver has turned it away: it will be
 * set up again, with a scheduler maybe under another tag, and keeps its start. If it was, this is a
 * retry, and the completed attempt has no end.
 *
 * A scheduled request has lost its driver tag by now: its slot is found by the scheduler's.
 */
static __always_inline int on_requeue(struct request *rq, u32 hook, int typed)
{
	struct request_queue *q;
	struct nd_queue *e;
	s32 internal;
	struct nd_start *st;
	struct nd_slot *s;
	u32 qid, tag, first, index;

	if (typed)
		rq = distrust(rq); /* it is seldom */
	q = GET(typed, rq, q);
	if (!q)
		return 0;
	e = queue_entry(q, typed);
	if (!e || e->q != (u64)q || !e->queues)
		return 0;
	hit(hook, typed);
	qid = hctx_number(rq, typed) + e->io;
	if (qid >= e->queues)
		return 0;
	first = first_slot(e->base, e->stride, qid);
	internal = GET(typed, rq, internal_tag);
	tag = GET(typed, rq, tag);
	st = start_entry(internal, tag, first, e->stride, spread_of(q, typed));
	if (!st)
		return 0;
	if (internal < 0)
		index = first + (tag & (e->stride - 1));
	else if (st->setup_rq == (u64)rq)
		index = st->setup_slot;
	else
		return 0;
	s = slot_at(index);
	if (!s)
		return 0;
	if (cfg_end && s->state == ND_COMPLETED && s->rq == (u64)rq) {
		finish_without_end(index);
		tell_retry(s, rq, typed);
		return 0;
	}
	if (cfg_trace && !cfg_end && s->state == ND_FREE && s->complete_ns == (u64)rq) {
		tell_retry(s, rq, typed);
		return 0;
	}
	if (s->rq != (u64)rq)
		return 0;
	if (s->state == ND_OPEN) {
		s->state = ND_BACK;
		count(ND_REQUEUED);
	}
	if (cfg_trace && cfg_trace != ND_TRACE_STACKS && s->state == ND_BACK)
		tell(ND_KIND_REQUEUE, s, 0);
	if (cfg_start_hook && s->state == ND_BACK && s->start_ns) {
		st->rq = (u64)rq;
		st->ns = s->start_ns;
	}
	return 0;
}

/* The controller has answered: how far it has read the submission queue. */
static __always_inline int on_sq(struct request *rq, u16 head, u16 tail, u32 hook, int typed)
{
	struct nd_slot *s = slot_asked(rq, typed);

	if (!s)
		return 0;
	hit(hook, typed);
	if (s->state == ND_OPEN)
		tell(ND_KIND_SQ, s, head | (u32)tail << 16);
	return 0;
}

/* Something befalls a command in flight: the timer, or a reset. */
static __always_inline int on_trouble(struct request *rq, u32 kind, u32 hook, int typed)
{
	struct nd_slot *s = slot_of(rq, 0, 0, typed);

	if (!s)
		return 0;
	hit(hook, typed);
	if (s->state == ND_OPEN)
		tell(kind, s, s->setup_out_ns);
	return 0;
}

static __always_inline int on_ctrl(u32 instance, u32 kind, u64 value, u32 hook, int typed)
{
	if (!wanted_ctrl(instance))
		return 0;
	hit(hook, typed);
	tell_ctrl(kind, instance, value);
	return 0;
}

#endif
