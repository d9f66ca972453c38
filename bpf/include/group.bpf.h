/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Groups (--by). A group has a number, which its row keys have instead of controller, namespace and
 * opcode. The first groups take free numbers. The commands of later ones are in the rows of
 * ND_GROUP_OTHER, and are counted by group as candidates: user space gives the busiest the numbers
 * of idle groups (src/session/groups).
 */
#ifndef ND_GROUP_H
#define ND_GROUP_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ND_MAX_GROUPS);
	__uint(key_size, sizeof(struct nd_group));
	__uint(value_size, sizeof(struct nd_group_row));
} groups SEC(".maps");

FREE_MAP(free_groups);

/* Commands of groups without a number. The busiest stay. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ND_MAX_CANDIDATES); /* user space adds some for each CPU */
	__uint(key_size, sizeof(struct nd_group));
	__uint(value_size, sizeof(u64));
} candidates SEC(".maps");

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

/* The I/O priority of a request's first bio; 0: none. */
static __always_inline u16 priority_of(struct request *rq, int typed)
{
	u64 bio = FIELD_AT((u64)rq, struct request, bio, typed);

	return bio ? FIELD_AT(bio, struct bio, bi_ioprio, typed) : 0;
}

static __always_inline u8 size_of_group(u32 bytes)
{
	u32 exponent = 0;

	if (!bytes)
		return cfg_by_size[0];
	bytes--;
	for (u32 step = 16; step; step >>= 1) {
		if (bytes >> step) {
			bytes >>= step;
			exponent += step;
		}
	}
	return cfg_by_size[(1 + exponent + bytes) & 63];
}

/* Process, thread and cgroup: of the submitter, if the run observes it, else of the current task.
 * `comm`: the name of the submitter. */
static __always_inline void add_who(struct nd_group *g, struct nd_slot *s, struct request *rq,
				    u64 comm[2], int here, int typed)
{
	struct nd_sender by = {};

	if (!here) {
		g->unknown = 1;
		return;
	}
	if (cfg_who & ND_WHO_SUBMITTER) {
		find_submitter(&by, s, rq, typed);
		if (!by.tid) {
			g->unknown = 1;
			return;
		}
		comm[0] = by.comm[0];
		comm[1] = by.comm[1];
	} else {
		by.tgid = bpf_get_current_pid_tgid() >> 32;
		if (cfg_by & ND_BY_COMM)
			name_caller(by.comm, typed);
		if (cfg_by & ND_BY_CGROUP)
			by.cgroup =
				cgroup_id_of(cfg_by & ND_BY_BIO ? cgroup_of(rq, typed) : 0, typed);
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
					int typed)
{
	struct nd_group g = {};
	struct nd_group_row *row;
	u64 number, comm[2] = {};

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
	if (cfg_by & ND_BY_PRIORITY)
		g.priority = priority_of(rq, typed);
	if (cfg_by & ND_BY_CPU) {
		g.unseen = !here;
		g.cpu = here ? bpf_get_smp_processor_id() : 0;
	}
	if (cfg_by & ND_BY_WHO)
		add_who(&g, s, rq, comm, here, typed);
	row = bpf_map_lookup_elem(&groups, &g);
	here = here && !(cfg_who & ND_WHO_SUBMITTER);
	number = row ? row->number : group_slow(&g, here, comm[0], comm[1]);
	return ND_KEY_VALID | number << ND_KEY_NSID_SHIFT;
}

#endif
