/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who caused a command: cgroups, and the submitter. The task that calls the driver may be a kernel
 * thread, which dispatches the request of another. So a table has the task that submitted each bio
 * of an NVMe disk, by the address of the bio, from block_bio_queue on. A command has the submitter
 * of its request's first bio. Where a cgroup has limits, blk-throttle looks at a bio before
 * block_bio_queue, which a kernel thread then passes if the bio had to wait.
 *
 * With --stages=full the bios of NVMe disks are followed anyway (bio.bpf.h), and this table has
 * only those of device mapper. A command has the submitter of the bio that got its request: most
 * get it in the same task, which needs no table. The start entry of the request keeps it until the
 * setup.
 *
 * Device mapper makes new bios, clones, for the disk below. Where a kernel thread submits one
 * (dm-crypt, thin pools), the original bio's submitter counts. So the table has the bios of
 * all device-mapper disks, too.
 *
 * block_bio_complete shows only the end of bios without a request. The others stay until their
 * address is used again, or the table is full: the sector must be the bio's.
 */
#ifndef ND_ORIGIN_H
#define ND_ORIGIN_H

#include "filter.bpf.h"
#include "slots.bpf.h"

/*
 * The bio in this kernel's event: arguments are (bio, ...), or before 5.11 (queue, bio, ...). Not
 * cfg_rq_second: 5.10.y got that change of the events with requests, but not this one. On 5.11 the
 * verifier rejects these programs, because its bios have bi_disk, too. In assembly: clang merges
 * the loads to one from a computed address, which the verifier of 5.10 rejects.
 */
static __always_inline u64 bio_of(void *ctx)
{
	u64 bio;

	if (bpf_core_field_exists(struct bio, bi_disk))
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(bio) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(bio) : "r"(ctx));
	return bio;
}

static __always_inline u64 disk_name_of(u64 bio)
{
	u64 disk;

	if (bpf_core_field_exists(struct bio, bi_disk)) {
		disk = peek(bio + bpf_core_field_offset(struct bio, bi_disk), ACCESS_BTF);
	} else {
		disk = peek(bio + bpf_core_field_offset(struct bio, bi_bdev), ACCESS_BTF);
		disk = peek(disk + bpf_core_field_offset(struct block_device, bd_disk), ACCESS_BTF);
	}
	return disk + bpf_core_field_offset(struct gendisk, disk_name);
}

/* Whether a name with this first word begins with `nvme`. */
static __always_inline int is_nvme_name(u64 word)
{
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
		return (u32)word == 0x656d766e;
	return word >> 32 == 0x6e766d65;
}

#define BIO_FIELD(at, field) peek((at) + bpf_core_field_offset(struct bio, field), ACCESS_BTF)

static __always_inline int is_of_nvme(u64 bio)
{
	return is_nvme_name(peek(disk_name_of(bio), ACCESS_BTF));
}

/* Whether a name with this first word begins with `dm-`. */
static __always_inline int is_mapped_name(u64 word)
{
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
		return (word & 0xffffff) == 0x2d6d64;
	return word >> 40 == 0x646d2d;
}

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ND_SUBMITTERS); /* user space adds some for each CPU */
	__uint(key_size, sizeof(u64));
	__uint(value_size, sizeof(struct nd_submitter));
} submitters SEC(".maps");

/* Whether a bio that this task submits is of the cgroup of the filter, or below it. */
static __always_inline int within_wanted(u64 cgroup)
{
	if (!targ_submitter || !targ_by_cgroup)
		return 1;
	if (cgroup && cgroup != charged_cgroup(ACCESS_BTF))
		return is_within(cgroup, targ_cgroup_id, ACCESS_BTF);
	return bpf_current_task_under_cgroup(&cgroups, 0) == 1;
}

/* Whether the entry is of this bio, as it is now, not of an earlier one with its address. */
static __always_inline int is_submission_of(struct nd_submitter *by, u64 bio)
{
	return by->sector == BIO_FIELD(bio, bi_iter.bi_sector) &&
	       by->bytes == (u32)BIO_FIELD(bio, bi_iter.bi_size);
}

/* The current task submits a bio, or without one (0) a command of its own. */
static __always_inline void by_this_task(struct nd_sender *by, u64 bio, enum nd_access access)
{
	u64 id = bpf_get_current_pid_tgid(), cgroup = 0;

	if (bio && cfg_who & ND_WHO_BIO)
		cgroup = cgroup_of_bio(bio, access);
	by->cgroup = cgroup_id_of(cgroup, access);
	name_caller(by->comm, access);
	by->tgid = id >> 32;
	by->tid = within_wanted(cgroup) ? id : ND_UNWANTED;
}

#define PF_KTHREAD_FLAG 0x00200000

static __always_inline int is_kernel_thread(enum nd_access access)
{
	return FIELD_AT(bpf_get_current_task(), struct task_struct, flags, access) &
	       PF_KTHREAD_FLAG;
}

/* As long as the kernel's types have them: 5.10 has no types of modules. */
#define HAVE_DM (bpf_core_type_exists(struct dm_target_io) && bpf_core_type_exists(struct dm_io))
/* drivers/md/dm-core.h since 5.18. Before, the numbers are others, and no clone is found. */
#define DM_TIO_MAGIC 28714
#define DM_IO_MAGIC  19577

/* Whether a bio is of an NVMe disk, or of a device-mapper disk, which may be above one. */
static __always_inline int is_followed(u64 bio)
{
	u64 name = peek(disk_name_of(bio), ACCESS_BTF);

	return is_nvme_name(name) || (HAVE_DM && is_mapped_name(name));
}

/* The bio for which device mapper made this clone; 0: it is no clone. A clone is a part of a
 * dm_target_io, with a magic number. Before other bios there may be anything. */
static __always_inline u64 original_of(u64 clone)
{
	u64 tio = clone - bpf_core_field_offset(struct dm_target_io, clone), io;

	if ((u16)peek(tio + bpf_core_field_offset(struct dm_target_io, magic), ACCESS_BTF) !=
	    DM_TIO_MAGIC)
		return 0;
	io = peek(tio + bpf_core_field_offset(struct dm_target_io, io), ACCESS_BTF);
	if ((u16)peek(io + bpf_core_field_offset(struct dm_io, magic), ACCESS_BTF) != DM_IO_MAGIC)
		return 0;
	return peek(io + bpf_core_field_offset(struct dm_io, orig_bio), ACCESS_BTF);
}

/* The submission of the original of a bio that a kernel thread submits; NULL: it has none, or that
 * was not observed. dm-crypt submits a bio of its own for the clone. */
static __always_inline struct nd_submitter *submitter_of_original(u64 bio)
{
	struct nd_submitter *by;
	u64 original, at;

	if (!HAVE_DM || !is_kernel_thread(ACCESS_BTF))
		return 0;
	original = original_of(bio);
	if (!original && bpf_core_type_exists(struct dm_crypt_io))
		original = original_of(
			peek(BIO_FIELD(bio, bi_private) +
				     bpf_core_field_offset(struct dm_crypt_io, base_bio),
			     ACCESS_BTF));
	if (!original)
		return 0;
	by = bpf_map_lookup_elem(&submitters, &original);
	at = BIO_FIELD(original, bi_iter.bi_sector);
	return by && at >= by->sector && at <= by->sector + (by->bytes >> 9) ? by : 0;
}

/* Who submits a bio: the current task, unless it is a clone. */
static __always_inline void who_submits(struct nd_sender *by, u64 bio)
{
	struct nd_submitter *original = submitter_of_original(bio);

	if (original)
		*by = original->by;
	else
		by_this_task(by, bio, ACCESS_BTF);
}

/* Notes the current task as the one that submits a bio, unless another passes on one that has its
 * entry. `early`: before block_bio_queue. */
static __always_inline int note_submission_of(u64 bio, u8 early, u32 hook)
{
	struct nd_submitter by = {}, *was;

	if (!is_followed(bio) || ignored(hook))
		return 0;
	hit(hook, ACCESS_BTF);
	was = bpf_map_lookup_elem(&submitters, &bio);
	if (was && (was->early || (early && was->rest)) && is_submission_of(was, bio)) {
		if (!early)
			was->early = 0;
		return 0;
	}
	who_submits(&by.by, bio);
	by.sector = BIO_FIELD(bio, bi_iter.bi_sector);
	by.bytes = BIO_FIELD(bio, bi_iter.bi_size);
	by.early = early;
	bpf_map_update_elem(&submitters, &bio, &by, BPF_ANY);
	return 0;
}

/* A bio is queued. This comes once in the life of a bio. */
static __always_inline int on_bio_submitted(u64 bio, u32 hook)
{
	return note_submission_of(bio, 0, hook);
}

/* blk-throttle looks at a bio: it is about to be queued, now or later. */
static __always_inline int on_bio_limited(u64 bio, u32 hook)
{
	return note_submission_of(bio, 1, hook);
}

/* The block layer has split a piece off: `bio`. The rest is its bi_private, and is submitted again
 * without block_bio_queue: blk-throttle may look at it, also in a kernel thread. */
static __always_inline int on_submitted_split(u64 bio, u32 hook)
{
	u64 rest = BIO_FIELD(bio, bi_private);
	struct nd_submitter *by = bpf_map_lookup_elem(&submitters, &rest), copy;

	if (!by || ignored(hook))
		return 0;
	hit(hook, ACCESS_BTF);
	copy = *by;
	by->sector = BIO_FIELD(rest, bi_iter.bi_sector);
	by->bytes = BIO_FIELD(rest, bi_iter.bi_size);
	by->rest = 1;
	bpf_map_update_elem(&submitters, &bio, &copy, BPF_ANY);
	return 0;
}

static __always_inline int on_submitted_done(u64 bio, u32 hook)
{
	if (!bpf_map_delete_elem(&submitters, &bio))
		hit(hook, ACCESS_BTF);
	return 0;
}

/* The submission of a request's first bio; NULL: not observed, or no bio. */
static __always_inline struct nd_submitter *submitter_of(struct request *rq, enum nd_access access)
{
	u64 bio = FIELD_AT((u64)rq, struct request, bio, access), at;
	struct nd_submitter *by;

	if (!bio)
		return 0;
	by = bpf_map_lookup_elem(&submitters, &bio);
	at = GET(access, rq, __sector);
	if (!by || at < by->sector || at > by->sector + (by->bytes >> 9))
		return 0;
	by->rest = 0; /* no other part of it comes */
	return by;
}

/* The submitter of a command that the current task sets up: of one without a bio that was submitted
 * (passthrough, a flush of the block layer, a command of the driver) the current task. */
static __always_inline void find_submitter(struct nd_sender *by, struct nd_slot *s,
					   struct request *rq, enum nd_access access)
{
	struct nd_submitter *found;

	if (cfg_waits) {
		*by = s->origin.by; /* take_submitter() */
	} else {
		found = submitter_of(rq, access);
		*by = found ? found->by : (struct nd_sender){};
	}
	if (!by->tid && (!GET(access, rq, bio) || is_passthrough(rq, access)))
		by_this_task(by, 0, access);
}

/* The submitter of a command that ends, whose bio has not ended yet. */
static __always_inline void put_submitter(struct nd_origin *o, struct request *rq,
					  enum nd_access access)
{
	struct nd_submitter *by = submitter_of(rq, access);

	__builtin_memset(o, 0, sizeof(*o));
	if (by)
		o->by = by->by;
}

/* The filters by who, if that is the submitter. The submission of a bio may have been missed. */
static __always_inline int wanted_submitter(struct nd_slot *s, struct request *rq,
					    enum nd_access access)
{
	struct nd_sender by;

	if (!by_submission())
		return WANTED;
	find_submitter(&by, s, rq, access);
	if (!by.tid)
		return UNATTRIBUTED;
	return by.tid != ND_UNWANTED && wanted_process(by.tgid, by.comm) ? WANTED : FILTERED;
}

/* Records who caused a command. `here`: the current task sets it up. */
static __always_inline void note_origin(struct nd_slot *s, struct request *rq, int here,
					enum nd_access access)
{
	struct nd_origin *o = &s->origin;

	if (!here) {
		*o = (struct nd_origin){};
		return;
	}
	o->task_cgroup = bpf_get_current_cgroup_id();
	if (cfg_who & ND_WHO_SUBMITTER)
		find_submitter(&o->by, s, rq, access);
	else
		o->by = (struct nd_sender){};
	if (o->by.tid == (u32)bpf_get_current_pid_tgid() && o->by.tid)
		o->io_cgroup = o->by.cgroup;
	else
		o->io_cgroup =
			cgroup_id_of(cfg_who & ND_WHO_BIO ? cgroup_of(rq, access) : 0, access);
}

/* Whether a command that the current task sets up is one of those that the run asks for: WANTED,
 * FILTERED or UNATTRIBUTED. */
static __always_inline int wanted_who(struct nd_slot *s, struct request *rq, enum nd_access access)
{
	if (targ_submitter)
		return wanted_submitter(s, rq, access);
	return wanted_caller() && wanted_cgroup(rq, access) ? WANTED : FILTERED;
}

#endif
