/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A command's beginning: its start in blk-mq, and the setup, where it gets its slot and the slot
 * changes hands.
 */
#ifndef ND_SETUP_H
#define ND_SETUP_H

/* RQF_IO_STAT before it became an enum (6.12). Kernels without block_io_start (6.5) have it here.
 */
#define RQF_IO_STAT_OLD (1u << 13)

/*
 * Finishes what has completed, and whose end will not be seen. Not static: such a function is
 * verified once for itself, and not again at each call; before 6.8 also where nothing calls it, so
 * that it must say itself when that is.
 */
__noinline int finish_without_end(u32 index)
{
	struct nd_slot *s = slot_at(index);

	if (cfg_end && s)
		finish(s, this_cpu(), s->complete_ns, 0, 1);
	return 0;
}

/* The start's place of a request on a queue that is not remembered; NULL: not ours. */
static __always_inline struct nd_start *start_by_queue(struct request *rq, struct nd_place *p,
						       int typed)
{
	struct request_queue *q = GET(typed, rq, q);
	u32 qid, age = places_age, first;
	struct nd_queue *e;

	if (!q)
		return 0;
	e = queue_entry(q, typed);
	if (!e)
		return 0;
	if (e->q != (u64)q) {
		/* The first command of a queue. A nameless queue (admin) is left to its setup. */
		u32 instance;
		u64 address;
		struct nd_ctrl *ctrl;

		if (!is_nvme_disk(q, typed))
			return 0;
		ctrl = ctrl_of(rq, q, &instance, &address, typed);
		if (!ctrl || !ctrl->stride)
			return 0;
		learn_queue(q, ctrl, address, instance, typed);
	}
	qid = hctx_number(rq, typed) + e->io;
	if (qid >= e->queues)
		return 0;
	first = first_slot(e->base, e->stride, qid);
	if (p && e->io)
		remember(p, rq, q, first, e->stride, age, typed);
	return start_entry(GET(typed, rq, internal_tag), GET(typed, rq, tag), first, e->stride,
			   spread_of(q, typed));
}

static __noinline struct nd_start *start_slowly(struct request *rq, struct nd_place *p)
{
	return start_by_queue(distrust(rq), p, TYPED);
}

static __always_inline int on_start(struct request *rq, u32 hook, int typed)
{
	struct nd_cpu *cpu = this_cpu();
	struct nd_start *st;

	if (!typed) {
		st = start_by_queue(rq, 0, typed);
	} else if (!cpu) {
		st = start_slowly(rq, 0);
	} else {
		u64 hctx = (u64)rq->mq_hctx;
		struct nd_place *p = place_of(cpu, ND_AT_START, hctx, typed);

		/* an admin command's comes before its setup makes us forget: see where() */
		st = is_of(p, hctx) && !is_admin(rq)
			     ? start_entry(rq->internal_tag, rq->tag, p->first, p->tags, p->spread)
			     : start_slowly(rq, p);
	}
	if (!st)
		return 0;
	if (typed == TWIN && st->fresh && st->rq == (u64)rq) {
		st->fresh = 0;
		return 0;
	}
	tally(cpu, hook, typed);
	st->rq = (u64)rq;
	st->fresh = typed != TWIN;
	st->ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int on_setup_in(void *ctx, struct request *rq, u64 cmd, u32 hook, int typed)
{
	u64 now = bpf_ktime_get_ns();
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct nd_task *t = task_of(tid);

	if (typed == TWIN && t->setup_in_rq == (u64)rq)
		return 0;
	hit(hook, typed);
	t->setup_in_rq = (u64)rq;
	t->setup_in_ns = now;
	if (!typed) {
		t->setup_cmd = cmd;
		t->setup_tid = tid;
		if (cfg_stack_at_entry)
			t->setup_stack = stack_here(ctx, ND_STACK_SUBMIT, typed);
	}
	return 0;
}

/*
 * start_time_ns, where block_io_start does not exist (before 6.5). There it is a clock reading of
 * its own and taken when blk-mq allocates the request. Not ours to believe: zero (iostats off), of
 * a retry (the first attempt's), later than now. Without the driver's types a retry is told by the
 * start that the last command of the same place had.
 */
static __always_inline u64 start_field(struct request *rq, u64 now, u64 last, int typed)
{
	u64 start = GET(typed, rq, start_time_ns);
	int again;

	if (!(GET(typed, rq, rq_flags) & RQF_IO_STAT_OLD) || !start)
		return 0;
	if (!typed && cfg_by_name)
		again = start == last;
	else
		again = (u8)peek(pdu_of(rq) + bpf_core_field_offset(struct nvme_request, retries),
				 typed);
	if (start > now || again) {
		count(ND_START_UNTRUSTED);
		return 0;
	}
	return start;
}

/*
 * Whether an open slot of this request is one of the same command, brought again. The generation in
 * the cid moves on with every completion (before 5.14 with every setup): where completions may go
 * unseen, another one tells that this did.
 */
static __always_inline int same_command(struct nd_slot *s, u32 cid)
{
	return !cfg_lossy || s->cid >> 12 == cid >> 12;
}

/*
 * blk-mq has brought a command again, and no event told that it had it back: what nvme_queue_rqs
 * can't prepare stays on the list, and is issued one by one.
 */
static __always_inline void came_again(struct nd_slot *s)
{
	count(ND_REQUEUED);
	if (cfg_trace && cfg_trace != ND_TRACE_STACKS)
		tell(ND_KIND_REQUEUE, s, 0);
}

/*
 * A scheduled request may come back with another driver tag. Its first slot then waits for a
 * completion that goes elsewhere: found by the scheduler's tag, and closed.
 */
static __always_inline void close_former(struct nd_start *st, struct request *rq, u32 index,
					 u32 cid, u64 *start)
{
	struct nd_slot *former;

	if (st->setup_rq == (u64)rq && st->setup_slot != index) {
		former = slot_at(st->setup_slot);
		if (former && former->rq == (u64)rq) {
			if (cfg_end && former->state == ND_COMPLETED) {
				finish_without_end(st->setup_slot);
			} else if (former->state == ND_OPEN) {
				if (same_command(former, cid)) {
					came_again(former);
					*start = former->start_ns;
				} else {
					count(ND_OVERWRITTEN);
				}
			} else if (former->state == ND_BACK) {
				*start = former->start_ns;
			}
			former->rq = 0;
			former->state = ND_FREE;
		}
	}
	st->setup_rq = (u64)rq;
	st->setup_slot = index;
}

/* What the slot still holds from before. Returns the start of the same request, if it is that. */
static __always_inline u64 close_current(struct nd_slot *s, u32 index, struct request *rq, u32 cid)
{
	u64 start = 0;

	if (cfg_end && s->state == ND_COMPLETED) {
		finish_without_end(index);
	} else if (s->state == ND_OPEN) {
		if (s->rq == (u64)rq && same_command(s, cid)) {
			came_again(s);
			start = s->start_ns;
		} else {
			count(ND_OVERWRITTEN);
		}
	} else if (s->state == ND_BACK && s->rq == (u64)rq) {
		start = s->start_ns;
	}
	return start;
}

static __always_inline u32 size_class(struct request *rq, struct nvme_command *cmd, u32 admin,
				      u32 opcode, u32 bytes, int typed)
{
	struct request_queue *q;

	if (says_blocks(admin, opcode)) {
		q = GET(typed, rq, q);
		bytes = (WIRE(typed, cmd, rw.length) + 1) *
			GET(typed, q, limits.logical_block_size);
	}
	return class_of(bytes);
}

/* The helper copies byte by byte: 150 instructions. */
static __always_inline void name_caller(u64 comm[2], int typed)
{
	u64 at;

	if (typed && HAVE_RDONLY_CAST) {
		at = bpf_get_current_task() + bpf_core_field_offset(struct task_struct, comm);
		comm[0] = peek(at, typed);
		comm[1] = peek(at + sizeof(u64), typed);
	} else {
		bpf_get_current_comm(comm, 2 * sizeof(u64));
	}
}

/* Everything but the stack. */
static __always_inline void note_asked(struct nd_asked *a, struct request *rq,
				       struct nvme_command *cmd, u32 nsid, u32 bytes, int typed)
{
	u64 integrity = 1ull << bpf_core_enum_value(enum req_flag_bits, __REQ_INTEGRITY);

	if (typed) {
		a->cdw[0] = cmd->common.cdw10;
		a->cdw[1] = cmd->common.cdw11;
		a->cdw[2] = cmd->common.cdw12;
		a->cdw[3] = cmd->common.cdw13;
		a->cdw[4] = cmd->common.cdw14;
		a->cdw[5] = cmd->common.cdw15;
	} else {
		bpf_probe_read_kernel(a->cdw, sizeof(a->cdw), &cmd->common.cdw10);
	}
	a->flags = WIRE(typed, cmd, common.flags);
	/* as the kernel's own trace has it: blk_integrity_rq() */
	a->metadata = !!(GET(typed, rq, cmd_flags) & integrity);
	a->nsid = nsid;
	a->bytes = bytes;
	a->bytes_known = 1;
	asked_by(a);
	name_caller((u64 *)a->comm, typed);
}

static __always_inline int wanted_lba(struct nvme_command *cmd, u32 admin, u32 opcode, int typed)
{
	u64 slba;

	if (!says_blocks(admin, opcode))
		return 0;
	slba = WIRE(typed, cmd, common.cdw10) | (u64)WIRE(typed, cmd, common.cdw11) << 32;
	return wanted_blocks(slba, WIRE(typed, cmd, common.cdw12));
}

/* Only what will have a doorbell may wait for one: the next one of this task may be another's. */
static __always_inline void await_doorbell(u32 index, u32 tid, struct nd_task *t, u32 by)
{
	u32 n;

	if (by == 2 && (t->tid != tid || !t->inside))
		return; /* its return would not be seen */
	if (t->tid != tid) {
		t->tid = tid;
		t->n = 0;
	}
	n = t->n;
	if (n < ND_TASK_SLOTS) {
		t->slot[n] = index;
		t->n = n + 1;
	} else {
		count(ND_PENDING_FULL);
	}
}

/* `ctx` is NULL where the stack was taken before: `stack`. */
static __always_inline int on_setup_out(void *ctx, struct request *rq, struct nvme_command *cmd,
					u64 stack, u32 hook, int typed)
{
	u32 opcode, nsid, index, tag, tid = 0, bytes = 0, cid = 0, mode, by, qid, admin;
	struct nd_cpu *cpu = this_cpu();
	struct nd_task *t = 0;
	struct nd_start *st = 0;
	struct nd_where here = {}, *w;
	struct nd_slot *s;
	u64 start = 0, now, key, last = 0;
	s32 internal;

	if (typed == TWIN) {
		s = slot_asked(rq, typed);
		if (s && s->saw == ND_FRESH && (s->state == ND_OPEN || s->state == ND_SKIPPED)) {
			s->saw = 0;
			return 0;
		}
	}
	if (!cpu)
		return 0;
	tally(cpu, hook, typed);
	w = typed ? where(rq, cpu, typed) : where_by_queue(rq, &here, &here, typed);
	tag = GET(typed, rq, tag);
	if (!w || tag >= w->place.tags) {
		count(ND_UNTRACKED);
		return 0;
	}
	internal = GET(typed, rq, internal_tag);
	index = w->place.first + tag;
	qid = w->qid;
	admin = !qid;
	s = slot_at(index);
	if (!s) {
		count(ND_UNTRACKED);
		return 0;
	}
	if (cfg_lossy)
		cid = WIRE(typed, cmd, common.command_id);
	if (s->state != ND_FREE)
		start = close_current(s, index, rq, cid);
	if (cfg_start_hook || internal >= 0 || (!typed && cfg_by_name)) {
		st = start_entry(internal, tag, w->place.first, w->place.tags, w->place.spread);
		if (st) {
			last = st->ns;
			if (internal >= 0)
				close_former(st, rq, index, cid, &start);
			if (cfg_start_hook && st->rq == (u64)rq) {
				start = st->ns;
				st->rq = 0; /* a retry has no start of its own */
			}
		}
	}
	opcode = WIRE(typed, cmd, common.opcode);
	nsid = WIRE(typed, cmd, common.nsid);
	s->rq = (u64)rq;
	if (!wanted((w->key >> ND_KEY_CTRL_SHIFT) & (ND_MAX_CTRLS - 1), qid, nsid, opcode, admin) ||
	    (targ_by_lba && !wanted_lba(cmd, admin, opcode, typed))) {
		count(ND_FILTERED);
		s->saw = typed == TWIN ? 0 : ND_FRESH;
		s->state = ND_SKIPPED;
		return 0;
	}
	/* the low bits of an opcode are the direction: 01 to the device, 10 from it. What blk-mq
	 * gives a discard is not what is transferred, but what is discarded. */
	if (opcode & 3 && (admin || opcode != 0x09))
		bytes = GET(typed, rq, __data_len);
	key = w->key | key_of_command(nsid, opcode);
	if (cfg_split_size)
		key |= size_class(rq, cmd, admin, opcode, bytes, typed) << ND_KEY_CLASS_SHIFT;
	keep_key(s, key);
	s->bytes = bytes;
	mode = cfg_mode;
	if (mode != ND_MODE_TOTAL) {
		s->doorbell_ns = 0;
		s->cqe_ns = 0;
	}
	if (mode == ND_MODE_FINE) {
		s->setup_in_ns = 0;
		s->issue_ns = 0;
		s->irq_ns = 0;
		s->complete_ns = 0;
	}
	by = cfg_doorbell;
	if (by || mode == ND_MODE_FINE) {
		tid = (u32)bpf_get_current_pid_tgid();
		t = task_of(tid);
		if (by && w->doorbell)
			await_doorbell(index, tid, t, by);
		if (mode == ND_MODE_FINE && t->setup_in_rq == (u64)rq) {
			s->setup_in_ns = t->setup_in_ns;
			t->setup_in_rq = 0;
		}
	}
	s->tid = tid;
	if (cfg_lossy)
		s->cid = cid;
	if (cfg_commands || cfg_trace) {
		s->cid = WIRE(typed, cmd, common.command_id);
		s->qid = qid;
		s->tag = tag;
	}
	if (cfg_trace) {
		note_asked(&s->asked, rq, cmd, nsid, bytes, typed);
		s->asked.stack = ctx ? stack_here(ctx, ND_STACK_SUBMIT, typed) : stack;
	}
	s->saw = typed == TWIN ? 0 : ND_FRESH;
	s->state = ND_OPEN;
	now = bpf_ktime_get_ns();
	if (cfg_start_field && !start) {
		start = start_field(rq, now, last, typed);
		if (!typed && cfg_by_name && st && start)
			st->ns = start;
	}
	s->start_ns = start;
	s->setup_out_ns = now;
	tell_submit(s, now);
	return 0;
}

/*
 * nvme_setup_cmd returns, seen by a kretprobe, which has no arguments: those of the entry are with
 * the task. Another task of the same place may have overwritten them; then the command is lost, and
 * counted.
 */
static __always_inline int on_setup_return(u32 hook)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct nd_task *t = task_of(tid);
	u64 rq, cmd;

	if (t->setup_tid != tid || !t->setup_in_rq) {
		hit(hook, 0);
		count(ND_UNTRACKED);
		return 0;
	}
	rq = t->setup_in_rq;
	t->setup_tid = 0;
	cmd = cfg_cmd_arg
		      ? t->setup_cmd
		      : peek(pdu_of((void *)rq) + bpf_core_field_offset(struct nvme_request, cmd),
			     0);
	return on_setup_out(0, (void *)rq, (void *)cmd, t->setup_stack, hook, 0);
}

#endif
