/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One function per point of a command's life after its set-up (setup.bpf.h). All attach methods of
 * a point call the same function. Each point reads the clock once. */
#ifndef ND_POINTS_H
#define ND_POINTS_H

static __always_inline int on_issue(struct request *rq, u32 hook, int typed)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;

	if (!cpu || ignored(hook))
		return 0;
	s = slot_of(rq, cpu, ND_AT_ISSUE, typed);
	if (!s)
		return 0;
	tally(cpu, hook, typed);
	/* Skip a slot of the request's previous command: this set-up was skipped. */
	if (s->state == ND_OPEN && !s->issue_ns && !s->cqe_ns && !is_outdated(s, rq, typed))
		s->issue_ns = bpf_ktime_get_ns();
	return 0;
}

/* Identifies an interrupt on this CPU, by the count of interrupts and the interrupted task. Other
 * interrupts and other tasks have other values. */
static __always_inline u64 this_interrupt(void)
{
	return interrupts() ^ bpf_get_current_pid_tgid() << 32;
}

static __always_inline int on_irq_in(u64 nvmeq, u32 hook, int typed)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_cpu *cpu = this_cpu();

	if (!cpu || ignored(hook))
		return 0;
	tally(cpu, hook, typed);
	cpu->irq_nvmeq = nvmeq;
	if (cfg_irq_count)
		cpu->irq_id = this_interrupt();
	cpu->irq_ns = now;
	return 0;
}

/* Clears the stamp. Otherwise a poll of the same queue on this CPU (a timeout) would take the stamp
 * of an old interrupt. */
static __always_inline int on_irq_out(u32 hook, int typed)
{
	struct nd_cpu *cpu = this_cpu();

	if (!cpu || ignored(hook))
		return 0;
	tally(cpu, hook, typed);
	cpu->irq_ns = 0;
	return 0;
}

/* Whether the interrupt that began last on this CPU reaps this request. */
static __always_inline int is_reaped_by_irq(struct nd_cpu *cpu, struct request *rq, int typed)
{
	return cpu->irq_ns && cpu->irq_nvmeq == nvmeq_of(rq, typed) &&
	       (!cfg_irq_count || cpu->irq_id == this_interrupt());
}

/* Records what the CPU did when a command was reaped. The submitting CPU may write `s->beside` at
 * the same time. */
static __always_inline void note_reaped(struct nd_slot *s, int by_irq)
{
	u8 beside = 0;
	int soft;

	if (by_irq && cfg_hard_irq) {
		beside = ND_BESIDE_IRQ;
		if (!bpf_get_current_pid_tgid())
			beside |= ND_BESIDE_IDLE;
	}
	soft = cfg_softirq ? soft_interrupt() : -1;
	if (soft >= 0)
		beside |= soft ? ND_BESIDE_KNOWS_SOFTIRQ | ND_BESIDE_SOFTIRQ
			       : ND_BESIDE_KNOWS_SOFTIRQ;
	s->outcome.beside = beside;
}

/* `anyone`: the hook sees the requests of every driver. It also sees cancellations by the nvme
 * driver (NVME_REQ_CANCELLED), which have no CQE. */
static __always_inline int on_cqe(struct request *rq, u32 hook, int typed, int anyone)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;
	int outdated, by_irq, followed;
	u32 mode = cfg_mode;
	u64 flags;

	if (!cpu || ignored(hook))
		return 0;
	s = slot_near(rq, cpu, typed == SECOND ? ND_AT_CQE_SECOND : ND_AT_CQE, &followed, typed);
	if (anyone) {
		if (!s)
			return 0;
		flags = pdu_of(rq) + bpf_core_field_offset(struct nvme_request, flags);
		if (peek(flags, typed) & 1)
			return 0;
	}
	outdated = s && (anyone ? is_outdated(s, rq, typed) : is_outdated_at_cqe(s, rq, typed));
	if (!s || s->state != ND_OPEN || outdated) {
		if (typed == SECOND && s && !outdated)
			return 0; /* the first instance has handled it */
		if (cfg_setup_skips && cfg_recover && !anyone && followed != ND_LEFT_OUT &&
		    (!s || s->state == ND_FREE || s->state == ND_REQUEUED_SLOT || outdated))
			s = recover_setup(rq, 0);
		if (typed != SECOND || s)
			tally(cpu, hook, typed);
		if (!s || s->state != ND_OPEN)
			return 0;
		/* Without a time of the set-up, has_completed_of() needs that of the CQE. */
		if (mode == ND_MODE_TOTAL && !s->setup_out_ns) {
			s->cqe_ns = bpf_ktime_get_ns();
			return 0;
		}
	} else {
		if (typed == SECOND && s->cqe_ns)
			return 0; /* as above */
		tally(cpu, hook, typed);
	}
	if (mode == ND_MODE_TOTAL) {
		s->cqe_ns = 1; /* only shows that the CQE was observed */
		return 0;
	}
	s->cqe_ns = bpf_ktime_get_ns();
	by_irq = mode == ND_MODE_FINE && is_reaped_by_irq(cpu, rq, typed);
	if (by_irq)
		s->irq_ns = cpu->irq_ns;
	if (cfg_context)
		note_reaped(s, by_irq);
	return 0;
}

/* Records the outcome that the driver reports, if the driver's types are available. */
static __always_inline void note_outcome(struct nd_outcome *o, struct request *rq, int typed)
{
	u64 pdu = pdu_of(rq), from, word;

	o->cpu = bpf_get_smp_processor_id();
	o->known = cfg_verdict;
	if (!cfg_context)
		o->beside = 0;
	if (!cfg_verdict) {
		o->result = 0;
		o->status = 0;
		o->retries = 0;
		o->flags = 0;
		return;
	}
	o->result = peek(pdu + bpf_core_field_offset(struct nvme_request, result), typed);
	/* These three are neighbours on every kernel so far. */
	from = bpf_core_field_offset(struct nvme_request, retries);
	word = peek(pdu + from, typed);
	o->retries = word;
	o->flags =
		part_of(pdu, bpf_core_field_offset(struct nvme_request, flags), from, word, typed);
	o->status =
		part_of(pdu, bpf_core_field_offset(struct nvme_request, status), from, word, typed);
}

/* Counts the command if it failed, or was a retry: one load more. */
static __always_inline void note_failure(struct nd_slot *s, struct request *rq, int typed)
{
	u64 pdu = pdu_of(rq), from = bpf_core_field_offset(struct nvme_request, retries);
	u64 word = peek(pdu + from, typed);
	u16 status =
		part_of(pdu, bpf_core_field_offset(struct nvme_request, status), from, word, typed);

	count_status(s, status, (u8)word);
}

static __always_inline int on_complete(void *ctx, struct request *rq, u32 hook, int typed)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;
	int followed;

	if (!cpu)
		return count_no_cpu();
	if (ignored(hook))
		return 0;
	tally(cpu, hook, typed);
	s = slot_near(rq, cpu, ND_AT_COMPLETE, &followed, typed);
	if (!s || s->state != ND_OPEN || is_outdated(s, rq, typed)) {
		if (s && s->state == ND_SKIPPED && !is_outdated(s, rq, typed)) {
			count(ND_FILTERED_DONE);
			s->state = ND_FREE;
			s->rq = 0;
			return 0;
		}
		if (followed == ND_LEFT_OUT) {
			count(ND_FILTERED_DONE);
			return 0;
		}
		if (!cfg_recover) {
			if (followed)
				count(ND_ORPHAN_DONE);
			else
				count_without_slot(rq, typed);
			return 0;
		}
		s = recover_setup(rq, 1);
		if (!s)
			return 0;
	}
	if (cfg_recover && !generation_changes)
		learn_generation(s->rq);
	if (cfg_trace) {
		note_outcome(&s->outcome, rq, typed);
		s->outcome.stack = stack_here(ctx, ND_STACK_COMPLETE);
		if (cfg_context)
			s->outcome.beside |= s->beside;
	}
	if (cfg_end) {
		s->complete_ns = now;
		s->state = ND_COMPLETED;
	} else {
		finish(s, cpu, now, 0);
	}
	if (cfg_count_status) {
		note_failure(s, rq, typed);
		if (cfg_details && !cfg_end)
			note_details(s, rq, now, 0, typed);
	}
	return 0;
}

/* The end of a request whose completion was not observed also shows that the command is over. */
static __always_inline int on_end(struct request *rq, u32 hook, int typed)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;
	u64 now;

	if (!cpu || ignored(hook))
		return 0;
	s = slot_of(rq, cpu, ND_AT_END, typed);
	if (!s || (s->state != ND_COMPLETED && s->state != ND_OPEN))
		return 0;
	if (s->state == ND_COMPLETED) {
		tally(cpu, hook, typed);
		now = bpf_ktime_get_ns();
		finish(s, cpu, s->complete_ns, now);
		if (cfg_details)
			note_details(s, rq, s->complete_ns, now, typed);
	} else if (has_completed(s) && !is_outdated(s, rq, typed)) {
		tally(cpu, hook, typed);
		now = bpf_ktime_get_ns();
		count(ND_UNSEEN_COMPLETE);
		end_slot(s);
		finish_partial(s, cpu, 0, now);
	}
	return 0;
}

/* The command has completed, and will be tried again. */
static __always_inline void emit_retry(struct nd_slot *s, struct request *rq, int typed)
{
	u64 at = pdu_of(rq) + bpf_core_field_offset(struct nvme_request, retries);

	if (traces_events())
		emit_event(ND_KIND_RETRY, s, cfg_verdict ? (u8)peek(at, typed) : ~0ull);
}

/*
 * blk-mq takes a request back. If it has not completed, the driver has rejected it: it keeps its
 * start and will be set up again, with a scheduler possibly under another tag. If it has completed,
 * this is a retry, and the completed attempt has no end.
 *
 * A scheduled request no longer has a driver tag: its slot is found by the scheduler's tag.
 */
static __always_inline int on_requeue(struct request *rq, u32 hook, int typed)
{
	struct request_queue *q;
	struct nd_queue *e;
	s32 internal;
	struct nd_start *st;
	struct nd_slot *s;
	u32 qid, tag, first, index;
	int completed;

	if (typed)
		rq = drop_trust(rq); /* requeues are rare */
	q = GET(typed, rq, q);
	if (!q)
		return 0;
	e = queue_entry(q, typed);
	if (!e || e->q != (u64)q || !e->queues || ignored(hook))
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
	if (internal < 0 && e->former_queues)
		index = index_before_move(index, e, rq, qid, tag);
	s = slot_at(index);
	if (!s)
		return 0;
	if (cfg_end && s->state == ND_COMPLETED && s->rq == (u64)rq) {
		finish_without_end(index);
		emit_retry(s, rq, typed);
		return 0;
	}
	if (cfg_trace && !cfg_end && s->state == ND_FREE && s->complete_ns == (u64)rq) {
		emit_retry(s, rq, typed);
		return 0;
	}
	if (!is_still_of(s, rq))
		return 0;
	completed = s->state == ND_OPEN && has_completed_of(s, (u64)rq);
	/* as in close_former(): blk-mq gives the tag back first */
	if (!is_still_of(s, rq))
		return 0;
	if (completed) {
		close_unseen(index);
		emit_retry(s, rq, typed);
		return 0;
	}
	if (s->state == ND_OPEN) {
		s->state = ND_REQUEUED_SLOT;
		count(ND_REQUEUED);
	}
	if (traces_events() && s->state == ND_REQUEUED_SLOT)
		emit_event(ND_KIND_REQUEUE, s, 0);
	if (cfg_start_hook && s->state == ND_REQUEUED_SLOT && s->start_ns) {
		st->rq = (u64)rq;
		st->ns = s->start_ns;
		if (HAS_MARKS)
			st->mark = mark_of(rq, typed);
	}
	return 0;
}

/* The device has posted a CQE: report how far it has read the SQ. */
static __always_inline int on_sq(struct request *rq, u16 head, u16 tail, u32 hook, int typed)
{
	struct nd_slot *s = slot_checked(rq, typed);

	if (!s)
		return 0;
	hit(hook, typed);
	if (s->state == ND_OPEN)
		emit_event(ND_KIND_SQ, s, head | (u32)tail << 16);
	return 0;
}

/* A timeout or a cancellation of a command in flight. */
static __always_inline int on_trouble(struct request *rq, u32 kind, u32 hook, int typed)
{
	struct nd_slot *s = slot_of(rq, 0, 0, typed);

	if (!s)
		return 0;
	hit(hook, typed);
	/* without a trace, the hits are the result */
	if (traces_events() && s->state == ND_OPEN)
		emit_event(kind, s, s->setup_out_ns);
	return 0;
}

static __always_inline int on_ctrl(u32 instance, u32 kind, u64 value, u32 hook, int typed)
{
	if (!wanted_ctrl(instance))
		return 0;
	hit(hook, typed);
	emit_ctrl(kind, instance, value);
	return 0;
}

#endif
