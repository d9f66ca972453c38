/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One function per point of a command's life after its setup (setup.bpf.h). All attach methods of
 * a point call the same function. Each point reads the clock once. */
#pragma once

#include "recover.bpf.h"

/* `top`: the commands of each queue, and as events those that take longer than a bar. User space
 * sets the bar before each interval; each event moves it an eighth of the way to its latency. So
 * the slowest command is always an event, and a change of all latencies makes some dozens. */

/* The least number of tags per queue (MIN_STRIDE of src/session/layout.rs): the first slot of a
 * queue, divided by it, is the number of the queue's counter. */
#define ND_MIN_TAGS 64

/* What the command asks for, as far as the request still has it. */
static __always_inline void read_again(struct nd_submission *a, struct nd_slot *s,
				       struct request *rq, u32 opcode, u32 admin,
				       enum nd_access access)
{
	struct request_queue *q;
	u64 at, words[3], block, sector;

	*a = (struct nd_submission){.bytes = s->bytes, .known = ND_KNOWN_BYTES};
	if (!cfg_cmd_arg) {
		/* Word by word: lockdown=confidentiality forbids the helper. */
		at = entry_of(rq) + __builtin_offsetof(struct nvme_command, cdw10);
		for (u32 i = 0; i < 3; i++)
			words[i] = peek(at + i * sizeof(u64));
		__builtin_memcpy(a->cdw, words, sizeof(a->cdw));
		return;
	}
	/* Before 5.14 the request has no pointer to its command. */
	q = GET(access, rq, q);
	block = GET(access, q, limits.logical_block_size) >> 9;
	if (says_blocks(admin, opcode) && block) {
		sector = GET(access, rq, __sector) / block;
		a->cdw[0] = sector;
		a->cdw[1] = sector >> 32;
		a->cdw[2] = s->bytes / (u32)(block << 9) - 1;
	}
}

/* Reads status, retries and flags: neighbours on every kernel so far, so mostly with one load. */
static __always_inline void read_verdict(struct nd_outcome *o, struct request *rq)
{
	u64 pdu = pdu_of(rq), from = bpf_core_field_offset(struct nvme_request, retries);
	u64 word = peek(pdu + from);

	o->retries = word;
	o->flags = part_of(pdu, bpf_core_field_offset(struct nvme_request, flags), from, word);
	o->status = part_of(pdu, bpf_core_field_offset(struct nvme_request, status), from, word);
}

static __always_inline void note_outcome(struct nd_outcome *o, struct request *rq)
{
	if (cfg_by_name) {
		*o = (struct nd_outcome){.cpu = bpf_get_smp_processor_id(),
					 .beside = cfg_context ? o->beside : 0};
		return;
	}
	o->cpu = bpf_get_smp_processor_id();
	o->known = 1;
	if (!cfg_context)
		o->beside = 0;
	o->result = FIELD_AT(pdu_of(rq), struct nvme_request, result);
	read_verdict(o, rq);
}

/* The slot still has the times of the finished command. */
static __always_inline void emit_slow(struct nd_slot *s, struct request *rq, u64 complete, u64 end,
				      enum nd_access access)
{
	u32 submitter = cfg_who & ND_WHO_SUBMITTER ? sizeof(struct nd_origin) : 0;
	struct nd_pair *p = reserve(sizeof(*p) + submitter);
	struct nd_event *e;

	if (!p) {
		count(ND_LOST_EVENT);
		return;
	}
	e = &p->end.event;
	about(e, ND_KIND_PAIR, s, complete);
	e->pattern = s->saw | (end >= complete ? ND_SAW_END : 0);
	p->end.outcome = (struct nd_outcome){};
	note_outcome(&p->end.outcome, rq);
	p->end.setup_out_ns = s->setup_out_ns;
	read_again(&p->submission, s, rq, e->opcode, e->admin, access);
	p->submission.nsid = e->nsid;
	times_of(&p->times, s, end);
	if (cfg_waits)
		early_times_of(&p->early, s);
	if (submitter) {
		p->submission.known |= ND_KNOWN_ORIGIN;
		put_submitter((void *)p + sizeof(*p), rq, access);
	}
	bpf_ringbuf_submit(p, BPF_RB_NO_WAKEUP);
}

static __always_inline void note_details(struct nd_slot *s, struct request *rq, u64 complete,
					 u64 end, enum nd_access access)
{
	u32 ctrl = (s->key >> (ND_ROW_BITS + ND_KEY_CTRL_SHIFT)) & (ND_MAX_CTRLS - 1), at = 0;
	struct nd_ctrl *c = bpf_map_lookup_elem(&ctrls, &ctrl);
	u64 *commands, *bar, from, ns;

	if (!c)
		return;
	bar = bpf_map_lookup_elem(&slow_bar, &at);
	at = first_slot(c->base, c->stride, s->qid) / ND_MIN_TAGS;
	commands = bpf_map_lookup_elem(&queue_counts, &at);
	if (commands)
		__sync_fetch_and_add(commands, 1);
	/* A command whose setup was skipped has no latency. */
	if (!bar || !s->setup_out_ns)
		return;
	from = s->saw & ND_SAW_START ? s->start_ns : s->setup_out_ns;
	if (cfg_waits && s->saw & ND_SAW_BIO)
		from = waits_in(s)->submit_ns;
	ns = (end >= complete ? end : complete) - from;
	if ((s64)ns <= 0 || ns <= *bar)
		return;
	*bar += (ns - *bar) / 8 + 1;
	emit_slow(s, rq, complete, end, access);
}

static __always_inline int on_issue(struct request *rq, u32 hook, enum nd_access access)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;

	if (!rq || !cpu)
		return 0;
	s = slot_of(rq, cpu, ND_AT_ISSUE, access);
	if (!s)
		return 0;
	tally(cpu, hook, access);
	/* Skip a slot of the request's previous command: this setup was skipped. */
	if (s->state == ND_OPEN && !s->issue_ns && !s->cqe_ns && !is_outdated(s, rq))
		s->issue_ns = bpf_ktime_get_ns();
	return 0;
}

/* Identifies an interrupt on this CPU, by the count of interrupts and the interrupted task. */
static __always_inline u64 this_interrupt(void)
{
	return interrupts() ^ bpf_get_current_pid_tgid() << 32;
}

static __always_inline int on_irq_in(u64 nvmeq, u32 hook, enum nd_access access)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	tally(cpu, hook, access);
	cpu->irq_nvmeq = nvmeq;
	if (cfg_irq_count)
		cpu->irq_id = this_interrupt();
	cpu->irq_ns = now;
	return 0;
}

/* Clears the stamp: a later poll of the same queue on this CPU (a timeout) must not take it. */
static __always_inline int on_irq_out(u32 hook, enum nd_access access)
{
	struct nd_cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	tally(cpu, hook, access);
	cpu->irq_ns = 0;
	return 0;
}

/* Whether the interrupt that began last on this CPU reaps this request. */
static __always_inline int is_reaped_by_irq(struct nd_cpu *cpu, struct request *rq,
					    enum nd_access access)
{
	return cpu->irq_ns && cpu->irq_nvmeq == nvmeq_of(rq, access) &&
	       (!cfg_irq_count || cpu->irq_id == this_interrupt());
}

/* Records what the CPU did at the CQE. The submitting CPU may write `s->beside` meanwhile. */
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

/* The kernel guards each program against itself per CPU: if an interrupt comes while a polling task
 * runs the first instance, only the second sees the commands of the interrupt. `anyone`: the kprobe
 * sees the requests of every driver, and cancellations (NVME_REQ_CANCELLED), which have no CQE. */
static __always_inline int on_cqe(struct request *rq, u32 hook, enum nd_access access)
{
	int second = hook == ND_HOOK_CQE_SECOND, anyone = hook == ND_HOOK_CQE_KPROBE;
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;
	int outdated, by_irq, followed;
	u32 mode = cfg_mode;
	u64 flags;

	if (!cpu)
		return 0;
	s = slot_near(rq, cpu, second ? ND_AT_CQE_SECOND : ND_AT_CQE, &followed, access);
	if (anyone) {
		if (!s)
			return 0;
		flags = pdu_of(rq) + bpf_core_field_offset(struct nvme_request, flags);
		if (peek(flags) & 1)
			return 0;
	}
	outdated = s && (anyone ? is_outdated(s, rq) : is_outdated_at_cqe(s, rq));
	if (!s || s->state != ND_OPEN || outdated) {
		if (second && s && !outdated)
			return 0; /* the first instance has handled it */
		if (cfg_setup_skips && cfg_recover && !anyone && followed != ND_LEFT_OUT &&
		    (!s || s->state == ND_FREE || s->state == ND_REQUEUED_SLOT || outdated))
			s = recover_setup(rq, 0);
		if (!second || s)
			tally(cpu, hook, access);
		if (!s || s->state != ND_OPEN)
			return 0;
		/* Without the setup's time, has_completed_of() needs the CQE's. */
		if (mode == ND_MODE_TOTAL && !s->setup_out_ns) {
			s->cqe_ns = bpf_ktime_get_ns();
			return 0;
		}
	} else {
		if (second && s->cqe_ns)
			return 0; /* as above */
		tally(cpu, hook, access);
	}
	if (mode == ND_MODE_TOTAL) {
		s->cqe_ns = 1; /* only shows that the CQE was observed */
		return 0;
	}
	s->cqe_ns = bpf_ktime_get_ns();
	by_irq = mode == ND_MODE_FINE && is_reaped_by_irq(cpu, rq, access);
	if (by_irq)
		s->irq_ns = cpu->irq_ns;
	if (cfg_context)
		note_reaped(s, by_irq);
	return 0;
}

static __always_inline int on_complete(void *ctx, struct request *rq, u32 hook,
				       enum nd_access access)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_cpu *cpu = this_cpu();
	struct nd_outcome verdict;
	struct nd_slot *s;
	int followed;

	if (!cpu)
		return 0;
	tally(cpu, hook, access);
	s = slot_near(rq, cpu, ND_AT_COMPLETE, &followed, access);
	if (!s || s->state != ND_OPEN || is_outdated(s, rq)) {
		if (s && s->state == ND_SKIPPED && !is_outdated(s, rq)) {
			end_filtered(s);
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
				count_without_slot(rq, access);
			return 0;
		}
		s = recover_setup(rq, 1);
		if (!s)
			return 0;
	}
	if (cfg_recover && !generation_changes)
		learn_generation(s->rq);
	if (cfg_trace) {
		note_outcome(&s->outcome, rq);
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
		read_verdict(&verdict, rq);
		count_status(s, verdict.status, verdict.retries);
		if (cfg_details && !cfg_end)
			note_details(s, rq, now, 0, access);
	}
	return 0;
}

/* The end of a request whose completion was not observed also shows that the command is over. */
static __always_inline int on_end(struct request *rq, u32 hook, enum nd_access access)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_slot *s;
	u64 now;

	if (!cpu)
		return 0;
	s = slot_of(rq, cpu, ND_AT_END, access);
	if (!s || (s->state != ND_COMPLETED && s->state != ND_OPEN))
		return 0;
	if (s->state == ND_COMPLETED) {
		tally(cpu, hook, access);
		now = bpf_ktime_get_ns();
		finish(s, cpu, s->complete_ns, now);
		if (cfg_details)
			note_details(s, rq, s->complete_ns, now, access);
	} else if (has_completed(s) && !is_outdated(s, rq)) {
		tally(cpu, hook, access);
		now = bpf_ktime_get_ns();
		count(ND_UNSEEN_COMPLETE);
		end_slot(s);
		finish_partial(s, cpu, 0, now);
	}
	return 0;
}

static __always_inline void emit_retry(struct nd_slot *s, struct request *rq)
{
	u64 at = pdu_of(rq) + bpf_core_field_offset(struct nvme_request, retries);

	if (traces_events())
		emit_event(ND_KIND_RETRY, s, cfg_by_name ? ~0ull : (u8)peek(at));
}

/* blk-mq takes a request back. If it has not completed, the driver has rejected it: it keeps its
 * start and will be set up again. If it has, this is a retry, and the completed attempt has no end.
 * A scheduled request no longer has a driver tag: its slot is found by the scheduler's tag. */
static __always_inline int on_requeue(struct request *rq, u32 hook, enum nd_access access)
{
	struct nd_queue *e;
	s32 internal;
	struct nd_start *st;
	struct nd_slot *s;
	u32 qid, tag, first, index;
	int completed;

	if (!rq)
		return 0;
	if (access == ACCESS_BTF)
		rq = drop_trust(rq); /* requeues are rare */
	e = known_queue(rq, GET(access, rq, q), &qid, &first, access);
	if (!e)
		return 0;
	hit(hook, access);
	internal = GET(access, rq, internal_tag);
	tag = GET(access, rq, tag);
	st = start_entry(internal, tag, first, e->stride, spread_of(GET(access, rq, q), access));
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
		emit_retry(s, rq);
		return 0;
	}
	if (cfg_trace && !cfg_end && s->state == ND_FREE && s->complete_ns == (u64)rq) {
		emit_retry(s, rq);
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
		emit_retry(s, rq);
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
			st->mark = mark_of(rq, access);
	}
	return 0;
}

/* An event about a command; without a trace, the hits are the result. `value`: for ND_KIND_SQ how
 * far the device has read the SQ, as it has posted a CQE. */
static __always_inline int on_event(struct request *rq, u32 kind, u64 value, u32 hook,
				    enum nd_access access)
{
	struct nd_slot *s = slot_of(rq, 0, 0, access);

	if (!s)
		return 0;
	hit(hook, access);
	if (traces_events() && s->state == ND_OPEN)
		emit_event(kind, s, kind == ND_KIND_SQ ? value : s->setup_out_ns);
	return 0;
}

static __always_inline int on_ctrl(struct nvme_ctrl *ctrl, u32 kind, u64 value, u32 hook,
				   enum nd_access access)
{
	u32 instance;

	if (!ctrl)
		return 0;
	instance = GET(access, ctrl, instance);
	if (!wanted_ctrl(instance))
		return 0;
	hit(hook, access);
	emit_ctrl(kind, instance, value);
	return 0;
}
