/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Filling a slot: row, size and request of a command. */
#pragma once

#include "emit.bpf.h"
#include "origin.bpf.h"

/* Groups (--by) have numbers, and their row keys have these in place of the namespace. Commands of
 * groups without one are in the rows of ND_GROUP_OTHER, and counted as candidates: user space gives
 * the busiest the numbers of idle groups (src/session/groups). */
MAP(groups, HASH, struct nd_group, struct nd_group_row, ND_MAX_GROUPS);
FREE_MAP(free_groups);

MAP(candidates, LRU_HASH, struct nd_group, u64,
    ND_MAX_CANDIDATES); /* user space adds some for each CPU */

static __noinline u32 group_slow(struct nd_group *g, int here, u64 comm_low, u64 comm_high)
{
	struct nd_group_row row = {}, *found;
	u64 one = 1, *commands;

	if (bpf_map_pop_elem(&free_groups, &row.number)) {
		commands = bpf_map_lookup_elem(&candidates, g);
		if (commands)
			__sync_fetch_and_add(commands, 1);
		else
			bpf_map_update_elem(&candidates, g, &one, BPF_NOEXIST);
		return ND_GROUP_OTHER;
	}
	row.comm[0] = comm_low;
	row.comm[1] = comm_high;
	if (here)
		bpf_get_current_comm(row.comm, sizeof(row.comm));
	if (bpf_map_update_elem(&groups, g, &row, BPF_NOEXIST) == 0)
		return row.number;
	/* Another CPU was first. */
	bpf_map_push_elem(&free_groups, &row.number, BPF_ANY);
	found = bpf_map_lookup_elem(&groups, g);
	return found ? found->number : ND_GROUP_OTHER;
}

static __always_inline u8 size_of_group(u32 bytes)
{
	/* Eight buckets per power of two. */
	u64 doublings = bytes ? 1 + hist_index((u64)(bytes - 1) << 3) / 8 : 0;

	return cfg_by_size[doublings & 63];
}

/* Process, thread and cgroup: of the submitter (`comm`: its name), else of the current task. */
static __always_inline void add_who(struct nd_group *g, struct nd_slot *s, struct request *rq,
				    u64 comm[2], int here, enum nd_access access)
{
	struct nd_sender by = {};

	if (!here) {
		g->unknown = 1;
		return;
	}
	if (cfg_who & ND_WHO_SUBMITTER) {
		find_submitter(&by, s, rq, access);
		if (!by.tid) {
			g->unknown = 1;
			return;
		}
		comm[0] = by.comm[0];
		comm[1] = by.comm[1];
	} else {
		by.tgid = bpf_get_current_pid_tgid() >> 32;
		if (cfg_by & ND_BY_COMM)
			name_caller(by.comm);
		if (cfg_by & ND_BY_CGROUP)
			by.cgroup = cgroup_id_of(cfg_by & ND_BY_BIO ? cgroup_of(rq) : 0);
	}
	if (cfg_by & ND_BY_PROCESS)
		g->tgid = by.tgid;
	if (cfg_by & ND_BY_COMM) {
		g->comm[0] = by.comm[0];
		g->comm[1] = by.comm[1];
	}
	if (cfg_by & ND_BY_CGROUP)
		g->cgroup = by.cgroup;
}

/* The row key of a command: its group's number, where others have the namespace. */
static __always_inline u64 key_of_group(struct nd_slot *s, struct request *rq, struct nd_where *w,
					u32 nsid, u32 opcode, u32 bytes, int here,
					enum nd_access access)
{
	struct nd_group g = {};
	struct nd_group_row *row;
	u64 number, comm[2] = {}, bio;

	if (cfg_by & (ND_BY_QUEUE | ND_BY_DISK))
		g.ctrl = w->key >> ND_KEY_CTRL_SHIFT;
	if (cfg_by & ND_BY_QUEUE)
		g.qid = w->qid;
	if (cfg_by & ND_BY_DISK)
		g.nsid = nsid;
	if (cfg_by & ND_BY_OPCODE) {
		g.admin = !w->qid;
		g.opcode = opcode;
	}
	if (cfg_by & ND_BY_SIZE)
		g.size = size_of_group(bytes);
	if (cfg_by & ND_BY_PRIORITY) {
		bio = FIELD_AT((u64)rq, struct request, bio);
		g.priority = bio ? FIELD_AT(bio, struct bio, bi_ioprio) : 0;
	}
	if (cfg_by & ND_BY_CPU) {
		g.unseen = !here;
		g.cpu = here ? bpf_get_smp_processor_id() : 0;
	}
	if (cfg_by & ND_BY_WHO)
		add_who(&g, s, rq, comm, here, access);
	row = bpf_map_lookup_elem(&groups, &g);
	here = here && !(cfg_who & ND_WHO_SUBMITTER);
	number = row ? row->number : group_slow(&g, here, comm[0], comm[1]);
	return ND_KEY_VALID | number << ND_KEY_NSID_SHIFT;
}

static __always_inline u32 size_class(struct request *rq, struct nvme_command *cmd, u32 admin,
				      u32 opcode, u32 bytes, enum nd_access access)
{
	struct request_queue *q;

	if (says_blocks(admin, opcode)) {
		q = GET(access, rq, q);
		bytes = (WIRE(access, cmd, length) + 1) * GET(access, q, limits.logical_block_size);
	}
	return class_of(bytes);
}

/* Records a command's request. `here`: the current task submits it; the caller sets the stack. */
static __always_inline void note_submission(struct nd_submission *a, struct request *rq,
					    struct nvme_command *cmd, u32 nsid, u32 bytes, int here,
					    enum nd_access access)
{
	u64 integrity = 1ull << bpf_core_enum_value(enum req_flag_bits, __REQ_INTEGRITY);

	if (access == ACCESS_BTF) {
		a->cdw[0] = cmd->cdw10[0];
		a->cdw[1] = cmd->cdw10[1];
		a->cdw[2] = cmd->cdw10[2];
		a->cdw[3] = cmd->cdw10[3];
		a->cdw[4] = cmd->cdw10[4];
		a->cdw[5] = cmd->cdw10[5];
	} else {
		bpf_probe_read_kernel(a->cdw, sizeof(a->cdw), cmd->cdw10);
	}
	a->flags = WIRE(access, cmd, flags);
	/* Same test as the kernel's trace event: blk_integrity_rq(). */
	a->metadata = !!(GET(access, rq, cmd_flags) & integrity);
	a->nsid = nsid;
	a->bytes = bytes;
	a->known = ND_KNOWN_BYTES;
	if (here) {
		note_submitter(a);
		name_caller((u64 *)a->comm);
	} else {
		a->stack = ND_STACK_UNSEEN;
		a->tgid = 0;
		a->tid = 0;
		a->cpu = 0;
		__builtin_memset(a->comm, 0, sizeof(a->comm));
	}
}

static __always_inline int wanted_lba(struct nvme_command *cmd, u32 admin, u32 opcode,
				      enum nd_access access)
{
	u64 slba;

	if (!says_blocks(admin, opcode))
		return 0;
	slba = WIRE(access, cmd, cdw10[0]) | (u64)WIRE(access, cmd, cdw10[1]) << 32;
	return wanted_blocks(slba, WIRE(access, cmd, cdw10[2]));
}

/* Assigns a slot to a command and clears the times that the run uses. The caller sets start_ns,
 * setup_out_ns, the tid and the state. `here`: the current task is the submitter. */
static __always_inline int fill_slot(struct nd_slot *s, struct request *rq,
				     struct nvme_command *cmd, struct nd_where *w, int here,
				     enum nd_access access)
{
	u32 opcode = WIRE(access, cmd, opcode), nsid = WIRE(access, cmd, nsid);
	u32 qid = w->qid, admin = !qid, mode = cfg_mode, bytes = 0;
	int found;
	u64 key;

	s->rq = (u64)rq;
	s->cid = WIRE(access, cmd, command_id);
	if (!wanted(qid, nsid, opcode, admin) ||
	    (targ_by_lba && !wanted_lba(cmd, admin, opcode, access)))
		return FILTERED;
	if (targ_any) {
		found = here ? wanted_who(s, rq, access) : by_submission() ? UNATTRIBUTED : WANTED;
		if (found != WANTED)
			return found;
	}
	/* The low bits of an opcode are the direction: 01 to the device, 10 from it. For a discard,
	 * the length in blk-mq is the discarded size, not the transferred size. */
	if (opcode & 3 && (opcode != 0x09 || admin))
		bytes = GET(access, rq, __data_len);
	key = w->key | key_of_command(nsid, opcode);
	if (cfg_trace == ND_TRACE_FLIGHT)
		key |= size_class(rq, cmd, admin, opcode, bytes, access) << ND_KEY_CLASS_SHIFT;
	if (cfg_by)
		key = key_of_group(s, rq, w, nsid, opcode, bytes, here, access);
	keep_key(s, key);
	s->bytes = bytes;
	clear_times(s, mode);
	if (cfg_context) {
		s->beside = 0;
		s->outcome.beside = 0;
	}
	s->qid = qid;
	if (cfg_trace)
		note_submission(&s->submission, rq, cmd, nsid, bytes, here, access);
	if (cfg_who & ND_WHO_ORIGIN) {
		s->submission.known |= ND_KNOWN_ORIGIN;
		note_origin(s, rq, here, access);
	}
	return WANTED;
}
