/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Groups of commands (--by): their keys, and their numbers. */
#ifndef ND_GROUP_ABI_H
#define ND_GROUP_ABI_H

/* What the commands of a group have in common. Fields that the run does not group by are zero. */
struct nd_group {
	__u64 cgroup; /* id */
	__u64 comm[2];
	__u32 tgid;
	__u32 nsid;
	__u16 cpu;
	__u16 qid;
	__u16 priority;
	__u8 ctrl;
	__u8 admin;
	__u8 opcode;
	__u8 size;    /* cfg_by_size */
	__u8 unseen;  /* the set-up was not observed: the CPU is not known */
	__u8 unknown; /* process, thread and cgroup are not known */
};

/* The value of a group. */
struct nd_group_row {
	__u64 comm[2]; /* the thread of its first command; zero: not observed */
	__u32 number;
	__u32 _pad;
};

/* The setting `by`. */
enum nd_by {
	ND_BY_PROCESS = 1 << 0,
	ND_BY_COMM = 1 << 1,
	ND_BY_CGROUP = 1 << 2,
	ND_BY_CPU = 1 << 3,
	ND_BY_QUEUE = 1 << 4,
	ND_BY_SIZE = 1 << 5,
	ND_BY_PRIORITY = 1 << 6,
	ND_BY_DISK = 1 << 7,
	ND_BY_OPCODE = 1 << 8,
	ND_BY_BIO = 1 << 9, /* with ND_BY_CGROUP: that of the bio, if it has one */
	ND_BY_WHO = ND_BY_PROCESS | ND_BY_COMM | ND_BY_CGROUP,
};

enum nd_group_limit {
	ND_GROUP_OTHER = 0, /* the number of all groups without a row */
	ND_MAX_GROUPS = 256,
	ND_MAX_CANDIDATES = 4096,
};

_Static_assert(sizeof(struct nd_group) == 48, "no padding");
_Static_assert(sizeof(struct nd_group_row) == 24, "no padding");

#endif
