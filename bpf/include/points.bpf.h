/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One function per point of a command's life. However a hook is attached, it ends here. Each reads
 * the clock once, and as late as it can where the point is an end, as early where it is a begin.
 */
#ifndef ND_POINTS_H
#define ND_POINTS_H

/* RQF_IO_STAT before it became an enum (6.12): kernels without block_io_start (6.5) have it here.
 */
#define RQF_IO_STAT_OLD (1u << 13)
#define REQ_OP_MASK	0xffu

static __always_inline int is_nvme_disk(struct request_queue *q)
{
	struct gendisk *d = q->disk;

	return d && d->disk_name[0] == 'n' && d->disk_name[1] == 'v' && d->disk_name[2] == 'm' &&
	       d->disk_name[3] == 'e';
}

static __always_inline int on_start(struct request *rq)
{
	struct request_queue *q = rq->q;
	struct nd_start *st;
	struct nd_queue *e;
	u32 qid, at;

	if (!q)
		return 0;
	e = queue_entry(q);
	if (!e)
		return 0;
	if (e->q != (u64)q) {
		/* The first command of a queue. A nameless queue (admin) is left to its setup. */
		u32 instance;
		struct nd_ctrl *ctrl;

		if (!is_nvme_disk(q))
			return 0;
		ctrl = ctrl_of(rq, &instance);
		if (!ctrl || !ctrl->stride)
			return 0;
		learn_queue(q, ctrl);
	}
	if (!e->queues)
		return 0;
	hit(ND_HOOK_START);
	qid = rq->mq_hctx->queue_num + e->io;
	if (qid >= e->queues)
		return 0;
	at = start_index(rq, q, e->base, e->stride, qid);
	st = bpf_map_lookup_elem(&starts, &at);
	if (!st)
		return 0;
	st->rq = (u64)rq;
	st->ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int on_setup_in(struct request *rq)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_task *t = task_of((u32)bpf_get_current_pid_tgid());

	hit(ND_HOOK_SETUP_IN);
	if (!t)
		return 0;
	t->setup_in_rq = (u64)rq;
	t->setup_in_ns = now;
	return 0;
}

/*
 * start_time_ns, where block_io_start does not exist (before 6.5). There it is a clock reading of
 * its own and taken when blk-mq allocates the request. Not ours to believe: zero (iostats off), of
 * a retry (the first attempt's), later than now.
 */
static __always_inline u64 start_field(struct request *rq, u64 now)
{
	struct nvme_request *nr = (void *)((u64)rq + bpf_core_type_size(struct request));
	u64 start = rq->start_time_ns;

	if (!(rq->rq_flags & RQF_IO_STAT_OLD) || !start)
		return 0;
	if (start > now || BPF_CORE_READ(nr, retries)) {
		count(ND_START_UNTRUSTED);
		return 0;
	}
	return start;
}

/*
 * A scheduled request may come back with another driver tag. Its first slot then waits for a
 * completion that goes elsewhere: found by the scheduler's tag, and closed.
 */
static __always_inline void close_former(struct nd_start *st, struct request *rq, u32 index,
					 u64 *start)
{
	struct nd_slot *former;

	if (st->setup_rq == (u64)rq && st->setup_slot != index) {
		former = slot_at(st->setup_slot);
		if (former && former->rq == (u64)rq) {
			if (cfg_end && former->state == ND_COMPLETED) {
				finish(former, former->complete_ns, 0, 1);
			} else if (former->state == ND_OPEN) {
				count(ND_REQUEUED);
				*start = former->start_ns;
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
static __always_inline u64 close_current(struct nd_slot *s, struct request *rq)
{
	u64 start = 0;

	if (cfg_end && s->state == ND_COMPLETED) {
		finish(s, s->complete_ns, 0, 1);
	} else if (s->state == ND_OPEN) {
		if (s->rq == (u64)rq) {
			count(ND_REQUEUED);
			start = s->start_ns;
		} else {
			count(ND_OVERWRITTEN);
		}
	} else if (s->state == ND_BACK && s->rq == (u64)rq) {
		start = s->start_ns;
	}
	return start;
}

static __always_inline u32 size_class(struct request_queue *q, struct nvme_command *cmd, u32 admin,
				      u32 opcode, u32 bytes)
{
	/* by blocks where the command says blocks, so that write zeroes has a size too */
	if (admin)
		;
	else if (opcode == 0x01 || opcode == 0x02 || opcode == 0x04 || opcode == 0x05 ||
		 opcode == 0x08 || opcode == 0x0c || opcode == 0x7d)
		bytes = (cmd->rw.length + 1) * q->limits.logical_block_size;
	if (bytes <= 16 << 10)
		return ND_CLASS_SMALL;
	return bytes <= 64 << 10 ? ND_CLASS_MID : ND_CLASS_LARGE;
}

static __always_inline void await_doorbell(struct nd_slot *s, u32 index, u32 tid, struct nd_task *t,
					   struct request *rq)
{
	u32 n;

	if (!t)
		return;
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
	if (cfg_mode == ND_MODE_FINE)
		s->setup_in_ns = t->setup_in_rq == (u64)rq ? t->setup_in_ns : 0;
}

static __always_inline int on_setup_out(struct request *rq, struct nvme_command *cmd)
{
	struct nd_cpu *cpu = hit(ND_HOOK_SETUP_OUT);
	struct request_queue *q = rq->q;
	u32 instance, qid, admin, opcode, nsid, index, tag = rq->tag, tid = 0, bytes = 0;
	struct nd_task *t = 0;
	struct nd_start *st;
	struct nd_ctrl *ctrl;
	struct nd_slot *s;
	u64 start = 0, now, key;

	if (!cpu || !q)
		return 0;
	admin = q->queuedata ? 0 : 1;
	qid = admin ? 0 : rq->mq_hctx->queue_num + 1;
	ctrl = ctrl_of(rq, &instance);
	if (!ctrl || !ctrl->stride || qid >= ctrl->queues || tag >= ctrl->stride ||
	    !learn_queue(q, ctrl)) {
		cpu->count[ND_UNTRACKED]++;
		return 0;
	}
	index = slot_index(ctrl->base, ctrl->stride, qid, tag);
	s = slot_at(index);
	if (!s) {
		cpu->count[ND_UNTRACKED]++;
		return 0;
	}
	if (s->state != ND_FREE)
		start = close_current(s, rq);
	if (cfg_start_hook || rq->internal_tag >= 0) {
		u32 at = start_index(rq, q, ctrl->base, ctrl->stride, qid);

		st = bpf_map_lookup_elem(&starts, &at);
		if (st) {
			if (rq->internal_tag >= 0)
				close_former(st, rq, index, &start);
			if (cfg_start_hook && st->rq == (u64)rq) {
				start = st->ns;
				st->rq = 0; /* a retry has no start of its own */
			}
		}
	}
	opcode = cmd->common.opcode;
	nsid = cmd->common.nsid;
	s->rq = (u64)rq;
	if (!wanted(instance, qid, nsid, opcode, admin)) {
		cpu->count[ND_FILTERED]++;
		s->state = ND_SKIPPED;
		return 0;
	}
	/* the low bits of an opcode are the direction: 01 to the device, 10 from it */
	if (opcode & 3)
		bytes = rq->__data_len;
	if (nsid >= ND_KEY_NSID_MASK)
		nsid = ND_KEY_NSID_MASK;
	key = ND_KEY_VALID | (u64)instance << ND_KEY_CTRL_SHIFT | (u64)nsid << ND_KEY_NSID_SHIFT |
	      opcode << ND_KEY_OPCODE_SHIFT | admin << ND_KEY_ADMIN_SHIFT;
	if (cfg_split_size)
		key |= size_class(q, cmd, admin, opcode, bytes) << ND_KEY_CLASS_SHIFT;
	s->key = key;
	s->bytes = bytes;
	s->doorbell_ns = 0;
	s->cqe_ns = 0;
	if (cfg_mode == ND_MODE_FINE) {
		s->setup_in_ns = 0;
		s->issue_ns = 0;
		s->irq_ns = 0;
		s->complete_ns = 0;
	}
	if (cfg_doorbell || cfg_mode == ND_MODE_FINE) {
		tid = (u32)bpf_get_current_pid_tgid();
		t = task_of(tid);
		await_doorbell(s, index, tid, t, rq);
	}
	s->tid = tid;
	if (cfg_commands) {
		s->cid = cmd->common.command_id;
		s->qid = qid;
		s->tag = tag;
	}
	s->state = ND_OPEN;
	now = bpf_ktime_get_ns();
	if (cfg_start_field && !start)
		start = start_field(rq, now);
	s->start_ns = start;
	s->setup_out_ns = now;
	return 0;
}

static __always_inline int on_issue(struct request *rq)
{
	struct nd_slot *s = slot_of(rq);

	if (!s)
		return 0;
	hit(ND_HOOK_ISSUE);
	if (s->state == ND_OPEN)
		s->issue_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * The task's doorbell is rung: stamp what it has set up since the last one. A slot that has been
 * completed meanwhile is left alone, and one that another task has taken over is not ours.
 */
static __always_inline int on_doorbell(u32 hook)
{
	u64 now = bpf_ktime_get_ns();
	u32 tid = (u32)bpf_get_current_pid_tgid(), n;
	struct nd_task *t = task_of(tid);

	hit(hook);
	if (!t || t->tid != tid)
		return 0;
	n = t->n;
	t->n = 0;
	for (u32 i = 0; i < ND_TASK_SLOTS; i++) {
		struct nd_slot *s;

		if (i >= n)
			break;
		s = slot_at(t->slot[i]);
		if (s && s->tid == tid && s->state == ND_OPEN && !s->doorbell_ns)
			s->doorbell_ns = now;
		else
			count(ND_LATE_DOORBELL);
	}
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

	if (!t || t->tid != tid || !t->n)
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
				     u32 ret)
{
	struct nvme_queue *nvmeq;

	if (ret) {
		hit(ND_HOOK_QUEUE_RQ);
		turned_away((u64)bd->rq);
		return 0;
	}
	if (!bd->last) {
		nvmeq = hctx->driver_data;
		if (BPF_CORE_READ(nvmeq, sq_tail) != BPF_CORE_READ(nvmeq, last_sq_tail)) {
			hit(ND_HOOK_QUEUE_RQ);
			return 0;
		}
	}
	return on_doorbell(ND_HOOK_QUEUE_RQ);
}

static __always_inline int on_irq_in(u64 nvmeq)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_cpu *cpu = hit(ND_HOOK_IRQ_IN);

	if (!cpu)
		return 0;
	cpu->irq_nvmeq = nvmeq;
	cpu->irq_ns = now;
	return 0;
}

/* Or a poll of the same queue on this CPU (a timeout) would take the stamp of an old interrupt. */
static __always_inline int on_irq_out(void)
{
	struct nd_cpu *cpu = hit(ND_HOOK_IRQ_OUT);

	if (cpu)
		cpu->irq_ns = 0;
	return 0;
}

static __always_inline int on_cqe(struct request *rq)
{
	struct nd_slot *s = slot_of(rq);
	struct nd_cpu *cpu = hit(ND_HOOK_CQE);

	if (!s || !cpu || s->state != ND_OPEN)
		return 0;
	s->cqe_ns = bpf_ktime_get_ns();
	if (cfg_mode == ND_MODE_FINE && cpu->irq_ns &&
	    cpu->irq_nvmeq == (u64)rq->mq_hctx->driver_data)
		s->irq_ns = cpu->irq_ns;
	return 0;
}

static __always_inline int on_complete(struct request *rq)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_cpu *cpu = hit(ND_HOOK_COMPLETE);
	long index = known_index(rq);
	struct nd_slot *s;

	if (!cpu)
		return 0;
	s = index < 0 ? 0 : slot_at(index);
	if (!s) {
		cpu->count[ND_UNTRACKED_DONE]++;
	} else if (s->rq != (u64)rq || s->state == ND_COMPLETED) {
		cpu->count[ND_ORPHAN_DONE]++;
	} else if (s->state == ND_SKIPPED) {
		cpu->count[ND_FILTERED_DONE]++;
		s->state = ND_FREE;
		s->rq = 0;
	} else if (cfg_end) {
		s->complete_ns = now;
		s->state = ND_COMPLETED;
	} else {
		finish(s, now, 0, 0);
	}
	return 0;
}

static __always_inline int on_end(struct request *rq)
{
	struct nd_slot *s = slot_of(rq);

	if (!s || s->state != ND_COMPLETED)
		return 0;
	hit(ND_HOOK_END);
	finish(s, s->complete_ns, bpf_ktime_get_ns(), 0);
	return 0;
}

/*
 * blk-mq takes a request back. If it was not completed, the driver has turned it away: it will be
 * set up again, with a scheduler maybe under another tag, and keeps its start. If it was, this is a
 * retry, and the completed attempt has no end.
 *
 * A scheduled request has lost its driver tag by now: its slot is found by the scheduler's.
 */
static __always_inline int on_requeue(struct request *rq)
{
	struct request_queue *q = rq->q;
	struct nd_queue *e = q ? queue_entry(q) : 0;
	struct nd_start *st;
	struct nd_slot *s;
	u32 qid, at;

	if (!e || e->q != (u64)q || !e->queues)
		return 0;
	hit(ND_HOOK_REQUEUE);
	qid = rq->mq_hctx->queue_num + e->io;
	if (qid >= e->queues)
		return 0;
	at = start_index(rq, q, e->base, e->stride, qid);
	st = bpf_map_lookup_elem(&starts, &at);
	if (!st)
		return 0;
	if (rq->internal_tag < 0)
		s = slot_at(slot_index(e->base, e->stride, qid, rq->tag & (e->stride - 1)));
	else if (st->setup_rq == (u64)rq)
		s = slot_at(st->setup_slot);
	else
		return 0;
	if (!s || s->rq != (u64)rq)
		return 0;
	if (cfg_end && s->state == ND_COMPLETED) {
		finish(s, s->complete_ns, 0, 1);
		return 0;
	}
	if (s->state == ND_OPEN) {
		s->state = ND_BACK;
		count(ND_REQUEUED);
	}
	if (cfg_start_hook && s->state == ND_BACK && s->start_ns) {
		st->rq = (u64)rq;
		st->ns = s->start_ns;
	}
	return 0;
}

#endif
