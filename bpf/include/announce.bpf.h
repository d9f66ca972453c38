/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
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
#ifndef ND_ANNOUNCE_H
#define ND_ANNOUNCE_H

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
#define OF_QUEUE(nvmeq, field, typed)                                                              \
	peek((nvmeq) + bpf_core_field_offset(struct nvme_queue, field), typed)

/* The address of the event index of a queue; 0: the queue has no shadow doorbell. */
static __always_inline u64 event_index_of(u64 nvmeq, int typed)
{
	return SHADOW ? OF_QUEUE(nvmeq, dbbuf_sq_ei, typed) : 0;
}

/* Records the queue of a batch at its first set-up. A batch of several queues has none. */
static __always_inline void note_batch(struct nd_task *t, u64 nvmeq, int typed)
{
	u64 index;

	if (is_waiting(t)) {
		if (t->nvmeq != nvmeq)
			t->nvmeq = 0;
		return;
	}
	t->nvmeq = nvmeq;
	index = event_index_of(nvmeq, typed);
	if (!index)
		return;
	t->announced_tail = OF_QUEUE(nvmeq, last_sq_tail, typed);
	t->event_index = peek(index, typed);
}

/* How the driver announced the `n` commands of this batch; ND_BESIDE_*. Not known if other commands
 * were announced since the batch began: the driver's decision may have been about these. */
static __always_inline u8 announcement_of(struct nd_task *t, u32 n, int typed)
{
	u64 nvmeq = t->nvmeq, index;
	u32 old = t->announced_tail, depth;
	u16 last;

	if (!nvmeq || !SHADOW)
		return 0;
	index = event_index_of(nvmeq, typed);
	if (!index)
		return ND_BESIDE_RUNG;
	last = OF_QUEUE(nvmeq, last_sq_tail, typed);
	depth = OF_QUEUE(nvmeq, q_depth, typed);
	if (entries_between(old, last, depth) != n)
		return 0;
	return announced_how(old, n, depth, t->event_index, (u16)peek(index, typed));
}

#endif
