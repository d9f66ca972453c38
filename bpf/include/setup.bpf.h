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

/* 6.2: a pointer of any type to any address, for reading (kernel/bpf/helpers.c) */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/*
 * A word of kernel memory that no typed pointer leads to. Where the kernel has bpf_rdonly_cast
 * (6.2) this is one load that can't fault; the helper costs some eighty instructions.
 */
static __always_inline u64 peek(u64 at)
{
	u64 word = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		/* any type will do that begins with a 64-bit number */
		struct timespec64 *any;

		any = bpf_rdonly_cast((void *)at, bpf_core_type_id_kernel(struct timespec64));
		return any->tv_sec;
	}
	bpf_probe_read_kernel(&word, sizeof(word), (void *)at);
	return word;
}

/*
 * Asks the driver's private part of the request which controller it is for. Every setup does: a
 * queue's address and id can come back for another controller.
 */
static __always_inline struct nd_ctrl *ctrl_of(struct request *rq, u32 *instance)
{
	u64 pdu = (u64)rq + bpf_core_type_size(struct request);
	u64 ctrl = peek(pdu + bpf_core_field_offset(struct nvme_request, ctrl));

	if (!ctrl)
		return 0;
	*instance = peek(ctrl + bpf_core_field_offset(struct nvme_ctrl, instance));
	return bpf_map_lookup_elem(&ctrls, instance);
}

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
	u32 qid;

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
	st = start_entry(rq, q, e->base, e->stride, qid);
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

/* Only what will have a doorbell may wait for one: the next one of this task may be another's. */
static __always_inline void await_doorbell(u32 index, u32 tid, struct nd_task *t)
{
	u32 n;

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
		st = start_entry(rq, q, ctrl->base, ctrl->stride, qid);
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
	/* the low bits of an opcode are the direction: 01 to the device, 10 from it. What blk-mq
	 * gives a discard is not what is transferred, but what is discarded. */
	if (opcode & 3 && (admin || opcode != 0x09))
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
		if (t && cfg_doorbell && ctrl->doorbell)
			await_doorbell(index, tid, t);
		if (t && cfg_mode == ND_MODE_FINE && t->setup_in_rq == (u64)rq)
			s->setup_in_ns = t->setup_in_ns;
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

#endif
