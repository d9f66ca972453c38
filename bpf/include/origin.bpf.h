/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who caused a command. The task that calls the driver may be a kernel thread, so a table has the
 * task that submitted each bio, by its address, and a command has the submitter of its first bio.
 * Where a cgroup has limits, blk-throttle looks at a bio before block_bio_queue, which a kernel
 * thread passes if the bio had to wait. With --stages=full the bios of NVMe disks are followed
 * anyway (bio.bpf.h), and this table has only bios of device mapper and md. If a kernel thread
 * submits a clone of device mapper's (dm-crypt, thin pools), the submitter of the original counts.
 * block_bio_complete shows only the end of bios without a request. The others stay until their
 * address is used again, or the table is full: the sector must be the bio's. */
#pragma once

#include "filter.bpf.h"
#include "slots.bpf.h"

/* The bio in this kernel's event: (bio, ...), or before 5.11 (queue, bio, ...). Not cfg_rq_second:
 * 5.10.y got that change of other events. In assembly: clang merges the loads to one from a
 * computed address, which the verifier of 5.10 rejects. */
static __always_inline u64 bio_of(void *ctx)
{
	u64 bio;

	if (bpf_core_field_exists(struct bio, bi_disk))
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(bio) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(bio) : "r"(ctx));
	FORGET(bio);
	return bio;
}

static __always_inline u64 disk_name_of(u64 bio)
{
	u64 disk;

	if (bpf_core_field_exists(struct bio, bi_disk)) {
		disk = FIELD_AT(bio, struct bio, bi_disk);
	} else {
		disk = FIELD_AT(bio, struct bio, bi_bdev);
		disk = FIELD_AT(disk, struct block_device, bd_disk);
	}
	return disk + bpf_core_field_offset(struct gendisk, disk_name);
}

#define BIO_FIELD(at, field) FIELD_AT(at, struct bio, field)

static __always_inline int is_of_nvme(u64 bio)
{
	return is_nvme_name(peek(disk_name_of(bio)));
}

/* Whether a name with this first word is of device mapper (`dm-0`) or md (`md0`, `md_home`). */
static __always_inline int is_upper_name(u64 word)
{
	u32 letters = __builtin_bswap64(word) >> 40;
	u8 third = letters;

	return letters == 0x646d2d ||
	       (letters >> 8 == 0x6d64 && (third == '_' || (third >= '0' && third <= '9')));
}

MAP(submitters, LRU_HASH, u64, struct nd_submitter,
    ND_SUBMITTERS); /* user space adds some for each CPU */

static __always_inline int within_wanted(u64 cgroup)
{
	if (!targ_submitter || !targ_by_cgroup)
		return 1;
	if (cgroup && cgroup != charged_cgroup())
		return is_within(cgroup, targ_cgroup_id);
	return bpf_current_task_under_cgroup(&cgroups, 0) == 1;
}

static __always_inline int has_place(u64 bio, u64 sector, u32 bytes)
{
	return sector == BIO_FIELD(bio, bi_iter.bi_sector) &&
	       bytes == (u32)BIO_FIELD(bio, bi_iter.bi_size);
}

static __always_inline int begins_in(u64 at, u64 sector, u32 bytes)
{
	return at >= sector && at <= sector + (bytes >> 9);
}

/* The current task submits a bio, or without one (0) a command of its own. */
static __always_inline void by_this_task(struct nd_sender *by, u64 bio)
{
	u64 id = bpf_get_current_pid_tgid(), cgroup = 0;

	if (bio && cfg_who & ND_WHO_BIO)
		cgroup = cgroup_of_bio(bio);
	by->cgroup = cgroup_id_of(cgroup);
	name_caller(by->comm);
	by->tgid = id >> 32;
	by->tid = within_wanted(cgroup) ? id : ND_UNWANTED;
}

#define PF_KTHREAD_FLAG 0x00200000

static __always_inline int is_kernel_thread(void)
{
	return FIELD_AT(bpf_get_current_task(), struct task_struct, flags) & PF_KTHREAD_FLAG;
}

/* As long as the kernel's types have them: 5.10 has no types of modules. */
#define HAVE_DM (bpf_core_type_exists(struct dm_target_io) && bpf_core_type_exists(struct dm_io))
/* drivers/md/dm-core.h since 5.18. Before, the numbers are others, and no clone is found. */
#define DM_TIO_MAGIC 28714
#define DM_IO_MAGIC  19577

/* The bios of device mapper and md are timed. */
#define TIMES_UPPER (cfg_context && cfg_waits)

/* A bit of bi_flags (5.4 and later): another bio owns the data. */
#define BIO_IS_CLONE (1 << 1)

/* The bio for which device mapper made this one, if it is part of a dm_target_io; else 0. */
static __always_inline u64 original_of(u64 clone)
{
	u64 tio = clone - bpf_core_field_offset(struct dm_target_io, clone), io;

	if ((u16)FIELD_AT(tio, struct dm_target_io, magic) != DM_TIO_MAGIC)
		return 0;
	io = FIELD_AT(tio, struct dm_target_io, io);
	if ((u16)FIELD_AT(io, struct dm_io, magic) != DM_IO_MAGIC)
		return 0;
	return FIELD_AT(io, struct dm_io, orig_bio);
}

/* The bio of a device-mapper disk for which a kernel thread submits this one; 0: none. dm-crypt
 * submits a bio of its own for the clone. The memory before other bios may hold an old clone. */
static __always_inline u64 bio_above(u64 bio)
{
	u64 original = 0;

	if (!HAVE_DM || !is_kernel_thread())
		return 0;
	if ((u16)BIO_FIELD(bio, bi_flags) & BIO_IS_CLONE)
		original = original_of(bio);
	if (!original && bpf_core_type_exists(struct dm_crypt_io))
		original = original_of(
			FIELD_AT(BIO_FIELD(bio, bi_private), struct dm_crypt_io, base_bio));
	return original;
}

/* Who submits a bio: the current task; if device mapper made it, the original's submitter. */
static __always_inline void who_submits(struct nd_sender *by, u64 bio)
{
	u64 above = bio_above(bio);
	struct nd_submitter *found;

	if (!above) {
		by_this_task(by, bio);
		return;
	}
	*by = (struct nd_sender){};
	found = bpf_map_lookup_elem(&submitters, &above);
	if (found && begins_in(BIO_FIELD(above, bi_iter.bi_sector), found->sector, found->bytes))
		*by = found->by;
}

/* Notes who submits a bio, unless it has its entry. `early`: before block_bio_queue. */
static __always_inline int note_submission_of(u64 bio, u8 early, u32 hook)
{
	struct nd_submitter by = {}, *was;
	u64 name = peek(disk_name_of(bio));

	if (!is_nvme_name(name) && !((HAVE_DM || TIMES_UPPER) && is_upper_name(name)))
		return 0;
	hit(hook, ACCESS_BTF);
	was = bpf_map_lookup_elem(&submitters, &bio);
	if (was && (was->early || (early && was->rest)) &&
	    has_place(bio, was->sector, was->bytes)) {
		if (!early)
			was->early = 0;
		return 0;
	}
	who_submits(&by.by, bio);
	by.sector = BIO_FIELD(bio, bi_iter.bi_sector);
	by.bytes = BIO_FIELD(bio, bi_iter.bi_size);
	by.early = early;
	if (TIMES_UPPER)
		by.since_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&submitters, &bio, &by, BPF_ANY);
	return 0;
}

/* The block layer has split a piece off: `bio`. The rest is its bi_private, and is submitted again
 * without block_bio_queue: blk-throttle may look at it, also in a kernel thread. */
static __always_inline int on_submitted_split(u64 bio, u32 hook)
{
	u64 rest = BIO_FIELD(bio, bi_private);
	struct nd_submitter *by = bpf_map_lookup_elem(&submitters, &rest), copy;

	if (!by)
		return 0;
	hit(hook, ACCESS_BTF);
	copy = *by;
	copy.since_ns = 0;
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

static __always_inline struct nd_submitter *submitter_of(struct request *rq, enum nd_access access)
{
	u64 bio = FIELD_AT((u64)rq, struct request, bio);
	struct nd_submitter *by;

	if (!bio)
		return 0;
	by = bpf_map_lookup_elem(&submitters, &bio);
	if (!by || !begins_in(GET(access, rq, __sector), by->sector, by->bytes))
		return 0;
	by->rest = 0; /* no other part of it comes */
	return by;
}

/* The submitter of a command; without a bio (passthrough, flush, driver's own) the current task. */
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
		by_this_task(by, 0);
}

/* Of a command that ends, whose bio has not ended yet. */
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
		o->io_cgroup = cgroup_id_of(cfg_who & ND_WHO_BIO ? cgroup_of(rq) : 0);
}

/* WANTED, FILTERED or UNATTRIBUTED, for a command that the current task sets up. */
static __always_inline int wanted_who(struct nd_slot *s, struct request *rq, enum nd_access access)
{
	if (targ_submitter)
		return wanted_submitter(s, rq, access);
	return wanted_caller() && wanted_cgroup(rq) ? WANTED : FILTERED;
}
