/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Filling a slot: row, size and request of a command. */
#ifndef ND_COMMAND_H
#define ND_COMMAND_H

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

#include "group.bpf.h"

/* Records a command's request. `here`: the current task submits it; the caller sets the stack. */
static __always_inline void note_submission(struct nd_submission *a, struct request *rq,
					    struct nvme_command *cmd, u32 nsid, u32 bytes, int here,
					    int typed)
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
	/* Same test as the kernel's trace event: blk_integrity_rq(). */
	a->metadata = !!(GET(typed, rq, cmd_flags) & integrity);
	a->nsid = nsid;
	a->bytes = bytes;
	a->known = ND_KNOWN_BYTES;
	if (here) {
		note_submitter(a);
		name_caller((u64 *)a->comm, typed);
	} else {
		a->stack = ND_STACK_UNSEEN;
		a->tgid = 0;
		a->tid = 0;
		a->cpu = 0;
		__builtin_memset(a->comm, 0, sizeof(a->comm));
	}
}

static __always_inline int wanted_lba(struct nvme_command *cmd, u32 admin, u32 opcode, int typed)
{
	u64 slba;

	if (!says_blocks(admin, opcode))
		return 0;
	slba = WIRE(typed, cmd, common.cdw10) | (u64)WIRE(typed, cmd, common.cdw11) << 32;
	return wanted_blocks(slba, WIRE(typed, cmd, common.cdw12));
}

/* Assigns a slot to a command and clears the times that the run uses. The caller sets start_ns,
 * setup_out_ns, the tid and the state. `here`: the current task is the submitter. */
static __always_inline int fill_slot(struct nd_slot *s, struct request *rq,
				     struct nvme_command *cmd, struct nd_where *w, int here,
				     int typed)
{
	u32 opcode = WIRE(typed, cmd, common.opcode), nsid = WIRE(typed, cmd, common.nsid);
	u32 qid = w->qid, admin = !qid, mode = cfg_mode, bytes = 0;
	int found;
	u64 key;

	s->rq = (u64)rq;
	s->cid = WIRE(typed, cmd, common.command_id);
	if (!wanted((w->key >> ND_KEY_CTRL_SHIFT) & (ND_MAX_CTRLS - 1), qid, nsid, opcode, admin) ||
	    (targ_by_lba && !wanted_lba(cmd, admin, opcode, typed)))
		return FILTERED;
	if (targ_any) {
		found = here ? wanted_who(s, rq, typed) : by_submission() ? UNATTRIBUTED : WANTED;
		if (found != WANTED)
			return found;
	}
	/* The low bits of an opcode are the direction: 01 to the device, 10 from it. For a discard,
	 * the length in blk-mq is the discarded size, not the transferred size. */
	if (opcode & 3 && (opcode != 0x09 || admin))
		bytes = GET(typed, rq, __data_len);
	key = w->key | key_of_command(nsid, opcode);
	if (cfg_trace == ND_TRACE_FLIGHT)
		key |= size_class(rq, cmd, admin, opcode, bytes, typed) << ND_KEY_CLASS_SHIFT;
	if (cfg_by)
		key = key_of_group(s, rq, w, nsid, opcode, bytes, here, typed);
	keep_key(s, key);
	s->bytes = bytes;
	clear_times(s, mode);
	if (cfg_context) {
		s->beside = 0;
		s->outcome.beside = 0;
	}
	s->qid = qid;
	if (cfg_trace)
		note_submission(&s->submission, rq, cmd, nsid, bytes, here, typed);
	if (cfg_who & ND_WHO_ORIGIN) {
		s->submission.known |= ND_KNOWN_ORIGIN;
		note_origin(s, rq, here, typed);
	}
	return WANTED;
}

#endif
