/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is counted of each disk. */
#ifndef ND_DISKS_H
#define ND_DISKS_H

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, ND_MAX_DISKS);
	__uint(key_size, sizeof(struct nd_disk_name));
	__uint(value_size, sizeof(struct nd_disk));
} disks SEC(".maps");

/* Adds a disk to the table. */
static __noinline struct nd_disk *new_disk(struct nd_disk_name *name)
{
	struct nd_disk fresh = {};

	if (!name)
		return 0;
	bpf_map_update_elem(&disks, name, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&disks, name);
}

/* The counters of the disk of a bio; NULL: not an NVMe disk, or the table is full. */
static __always_inline struct nd_disk *disk_of(u64 bio)
{
	struct nd_disk_name name;
	struct nd_disk *disk;
	u64 at = disk_name_of(bio);

	name.word[0] = peek(at, TYPED);
	if (!is_nvme_name(name.word[0]))
		return 0;
	name.word[1] = peek(at + sizeof(u64), TYPED);
	disk = bpf_map_lookup_elem(&disks, &name);
	return disk ? disk : new_disk(&name);
}

/* A bio has its request, after this wait. Returns 0 if its disk has no counters. */
static __always_inline int count_wait(u64 bio, u64 waited)
{
	struct nd_disk *disk = disk_of(bio);

	if (!disk)
		return 0;
	disk->requests++;
	disk->sum_ns += waited;
	if (waited > ND_WAITED_NS)
		disk->waited++;
	if (waited > disk->max_ns)
		disk->max_ns = waited;
	return 1;
}

#endif
