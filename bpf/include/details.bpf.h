/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `top`: the commands of each queue, and the slowest commands as events.
 *
 * A command is an event if it takes longer than a bar. User space sets the bar before each
 * interval; each event moves it an eighth of the way to the latency of its command. So the slowest
 * command of an interval is always an event, and a change of all latencies makes some dozens of
 * events.
 */
#ifndef ND_DETAILS_H
#define ND_DETAILS_H

/* The least number of tags per queue (MIN_STRIDE of src/session/layout.rs): the first slot of a
 * queue, divided by it, is the number of the queue's counter. */
#define ND_MIN_TAGS 64

/* What the command asks for, as far as the request still has it. */
static __always_inline void read_again(struct nd_submission *a, struct nd_slot *s,
				       struct request *rq, u32 opcode, u32 admin, int typed)
{
	struct request_queue *q;
	u64 at, words[3], block, sector;

	a->stack = 0;
	__builtin_memset(a->cdw, 0, sizeof(a->cdw));
	__builtin_memset(a->comm, 0, sizeof(a->comm));
	a->tgid = 0;
	a->tid = 0;
	a->cpu = 0;
	a->flags = 0;
	a->metadata = 0;
	a->bytes = s->bytes;
	a->known = ND_KNOWN_BYTES;
	if (!cfg_cmd_arg) {
		/* Word by word: lockdown=confidentiality forbids the helper. */
		at = peek(pdu_of(rq) + bpf_core_field_offset(struct nvme_request, cmd), typed) +
		     __builtin_offsetof(struct nvme_command, common.cdw10);
		for (u32 i = 0; i < 3; i++)
			words[i] = peek(at + i * sizeof(u64), typed);
		__builtin_memcpy(a->cdw, words, sizeof(a->cdw));
		return;
	}
	/* Before 5.14 the request has no pointer to its command. */
	q = GET(typed, rq, q);
	block = GET(typed, q, limits.logical_block_size) >> 9;
	if (says_blocks(admin, opcode) && block) {
		sector = GET(typed, rq, __sector) / block;
		a->cdw[0] = sector;
		a->cdw[1] = sector >> 32;
		a->cdw[2] = s->bytes / (u32)(block << 9) - 1;
	}
}

static __always_inline void outcome_of(struct nd_outcome *o, struct request *rq, int typed)
{
	u64 pdu = pdu_of(rq), from = bpf_core_field_offset(struct nvme_request, retries);
	u64 word = peek(pdu + from, typed);

	o->stack = 0;
	o->result = 0;
	o->retries = word;
	o->flags = 0;
	o->status =
		part_of(pdu, bpf_core_field_offset(struct nvme_request, status), from, word, typed);
	o->cpu = bpf_get_smp_processor_id();
	o->known = 1;
	o->beside = 0;
}

/* Emits the event of a finished command. The slot still has its times. With submitters, it ends
 * with that of the command. */
static __always_inline void emit_slow(struct nd_slot *s, struct request *rq, u64 complete, u64 end,
				      int typed)
{
	u32 submitter = cfg_who & ND_WHO_SUBMITTER ? sizeof(struct nd_origin) : 0;
	struct nd_pair *p = reserve(sizeof(*p) + submitter);
	u64 key = s->key >> ND_ROW_BITS;
	struct nd_event *e;

	if (!p) {
		count(ND_LOST_EVENT);
		return;
	}
	e = &p->end.event;
	e->kind = ND_KIND_PAIR;
	e->admin = (key >> ND_KEY_ADMIN_SHIFT) & 1;
	e->opcode = key >> ND_KEY_OPCODE_SHIFT;
	e->_pad = 0;
	e->qid = s->qid;
	e->cid = s->cid;
	e->ns = complete;
	e->ctrl = (key >> ND_KEY_CTRL_SHIFT) & (ND_MAX_CTRLS - 1);
	e->pattern = s->saw | (end >= complete ? ND_SAW_END : 0);
	e->nsid = (key >> ND_KEY_NSID_SHIFT) & ND_KEY_NSID_MASK;
	outcome_of(&p->end.outcome, rq, typed);
	p->end.setup_out_ns = s->setup_out_ns;
	read_again(&p->submission, s, rq, e->opcode, e->admin, typed);
	p->submission.nsid = e->nsid;
	times_of(&p->times, s, end);
	if (cfg_waits)
		early_times_of(&p->early, s);
	if (submitter) {
		p->submission.known |= ND_KNOWN_ORIGIN;
		put_submitter((void *)p + sizeof(*p), rq, typed);
	}
	bpf_ringbuf_submit(p, BPF_RB_NO_WAKEUP);
}

/* Counts a finished command, and emits it if it is slow. `end` is 0 if blk-mq's end is not
 * observed. */
static __always_inline void note_details(struct nd_slot *s, struct request *rq, u64 complete,
					 u64 end, int typed)
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
	/* A command whose set-up was skipped has no latency. */
	if (!bar || !s->setup_out_ns)
		return;
	from = s->saw & ND_SAW_START ? s->start_ns : s->setup_out_ns;
	if (cfg_waits && s->saw & ND_SAW_BIO)
		from = waits_in(s)->submit_ns;
	ns = (end >= complete ? end : complete) - from;
	if ((s64)ns <= 0 || ns <= *bar)
		return;
	*bar += (ns - *bar) / 8 + 1;
	emit_slow(s, rq, complete, end, typed);
}

#endif
