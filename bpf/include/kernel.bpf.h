/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The structs of the kernel that the programs read, with only the fields that they read: CO-RE
 * relocates every access. nvme_command is the wire format, the same on every kernel. */
#pragma once

/* An ordinary program (tests) has its own helpers. */
#ifdef __bpf__
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#endif

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define MAP(name, kind, key, value, n)                                                             \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_##kind);                                                 \
		__uint(max_entries, n);                                                            \
		__uint(key_size, sizeof(key));                                                     \
		__uint(value_size, sizeof(value));                                                 \
	} name SEC(".maps")

#define RING(name, bytes)                                                                          \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                                                \
		__uint(max_entries, bytes);                                                        \
	} name SEC(".maps")

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* How a program reads what its pointers lead to. The verifier knows the types of the arguments of
 * tp_btf, fentry and fexit programs; for the others each read needs a helper. */
enum nd_access { ACCESS_PROBE_READ, ACCESS_BTF };

#define GET(access, p, field) ((access) == ACCESS_BTF ? (p)->field : BPF_CORE_READ(p, field))

/* The same for structs that are not relocated. */
#define WIRE(access, p, field) ((access) == ACCESS_BTF ? (p)->field : BPF_PROBE_READ(p, field))

/* Without CONFIG_BLK_CGROUP there is no such number. */
enum cgroup_subsys_id { io_cgrp_id };

struct task_struct {
	char comm[16];
	unsigned int flags;
	struct css_set *cgroups;
};

struct queue_limits {
	unsigned int logical_block_size;
};

struct kobject {
	const char *name;
	struct kobject *parent;
};

struct gendisk {
	char disk_name[32];
	struct kobject queue_kobj; /* 6.2 and later */
};

struct blk_mq_tag_set {
	void *driver_data;
};

struct device {
	struct kobject kobj;
};

struct request_queue {
	void *queuedata; /* struct nvme_ns *; NULL on the admin queue */
	int id;
	struct gendisk *disk; /* 5.14 and later */
	struct blk_mq_tag_set *tag_set;
	struct kobject kobj; /* before 6.2 */
	struct queue_limits limits;
	int mq_freeze_depth;
};

struct blk_mq_hw_ctx {
	void *driver_data; /* struct nvme_queue * */
	unsigned int queue_num;
};

/* refcount_t or atomic_t; 0: the request is free. */
struct request_ref {
	int counter;
};

enum mq_rq_state { MQ_RQ_IDLE, MQ_RQ_IN_FLIGHT, MQ_RQ_COMPLETE };

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	unsigned int cmd_flags;
	unsigned int rq_flags;
	int tag;
	int internal_tag;
	unsigned int __data_len;
	u64 __sector;
	void *bio;
	struct gendisk *rq_disk; /* before 5.17 */
	unsigned int timeout;
	unsigned long deadline; /* in jiffies; set when the request is issued */
	u64 start_time_ns;
	enum mq_rq_state state;
	struct request_ref ref;
};

struct blk_mq_queue_data {
	struct request *rq;
	_Bool last;
};

struct nvme_ctrl {
	int instance;
	void *tagset;
	void *admin_tagset;
	struct device *device;
};

/* drivers/nvme/host/nvme.h: the driver's private part, after every struct request. */
union nvme_result {
	u64 u64;
};

struct nvme_request {
	void *cmd; /* struct nvme_command * */
	struct nvme_ctrl *ctrl;
	union nvme_result result;
	u8 genctr; /* 5.14 and later; not read before */
	u8 retries;
	u8 flags;
	u16 status;
};

/* include/linux/kernel_stat.h, per CPU. */
struct kernel_stat {
	unsigned long irqs_sum;
};

enum req_flag_bits { __REQ_INTEGRITY };

struct nvme_queue {
	u32 q_depth;
	u16 sq_tail;
	u16 last_sq_tail;
	u32 *dbbuf_sq_ei; /* shadow doorbell: the event index. Not on every file of --btf */
};

struct block_device {
	struct gendisk *bd_disk;
};

/* include/linux/cgroup-defs.h, include/linux/kernfs.h, block/blk-cgroup.h */
struct kernfs_node {
	u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

/* Of a task, by controller; without one, of an ancestor. */
struct css_set {
	struct cgroup_subsys_state *subsys[1];
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bvec_iter {
	u64 bi_sector;
	unsigned int bi_size;
};

struct bio {
	struct gendisk *bi_disk;      /* before 5.12 */
	struct block_device *bi_bdev; /* 5.12 and later */
	struct bvec_iter bi_iter;
	struct bio *bi_next;
	unsigned short bi_flags;
	void *bi_private;
	struct blkcg_gq *bi_blkg; /* with CONFIG_BLK_CGROUP */
	unsigned short bi_ioprio;
};

/* drivers/md/dm-core.h, drivers/md/dm-crypt.c: types of the modules dm_mod and dm_crypt. */
struct dm_io {
	unsigned short magic;
	struct bio *orig_bio;
};

struct dm_target_io {
	unsigned short magic;
	struct dm_io *io;
	struct bio clone;
};

struct dm_crypt_io {
	struct bio *base_bio;
};

/* block/blk-mq.h */
struct blk_mq_alloc_data {
	unsigned int flags;
};

/* arch/x86/include/asm/current.h, 6.2 to 6.14, per CPU. */
struct pcpu_hot {
	int preempt_count;
};

#pragma clang attribute pop

/* The wire format needs no relocation. Kernels without BTF of the driver could not relocate it. */
struct nvme_command {
	union {
		struct {
			u8 opcode;
			u8 flags;
			u16 command_id;
			u32 nsid;
			u64 not_read[4];
			u32 cdw10[6]; /* CDW10 to CDW15 */
		};
		struct {
			u64 before_length[6];
			u16 length; /* NLB, zero based */
		};
		u64 words[8];
	};
};

_Static_assert(sizeof(struct nvme_command) == 64, "an SQE");

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#ifdef ND_NO_KFUNC
/* This build is for kernels whose types come from a file: libbpf finds no functions there. */
#define HAVE_RDONLY_CAST	     0
#define bpf_rdonly_cast(obj, btf_id) ((void *)(obj))
#else
/* 6.2: casts any address to a pointer of any type, for reading (kernel/bpf/helpers.c). */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;
#define HAVE_RDONLY_CAST bpf_ksym_exists(bpf_rdonly_cast)
#endif

/* Ids in the kernel's BTF, for bpf_rdonly_cast(): src/machine/reduced.rs adds this enum to the BTF
 * for libbpf, in which types have other ids. */
enum nd_type_id {
	ND_TYPE_ID_REQUEST = 1,
	ND_TYPE_ID_TIMESPEC64,
};
#define TYPE_ID(name) bpf_core_enum_value(enum nd_type_id, ND_TYPE_ID_##name)

/* Reads a word of kernel memory. With bpf_rdonly_cast (6.2) this is one load that cannot fault; the
 * helper costs some eighty instructions, and lockdown=confidentiality forbids it. */
static __always_inline u64 peek(u64 at)
{
	if (HAVE_RDONLY_CAST) {
		/* Any type that begins with a 64-bit number is suitable. */
		return *(u64 *)bpf_rdonly_cast((void *)at, TYPE_ID(TIMESPEC64));
	} else {
		u64 word = 0;

		bpf_probe_read_kernel(&word, sizeof(word), (void *)at);
		/* Clang would join this load with the other one: five instructions more there. */
		asm volatile("" : "+r"(word));
		return word;
	}
}

/* A field of the struct at an address, up to 64 bits. */
#define FIELD_AT(at, type, field) peek((at) + bpf_core_field_offset(type, field))

/* Drops verifier trust: slower loads. Otherwise the verifier searches all types four times for each
 * pointer read through a trusted one (btf_nested_type_is_trusted()): ten million instructions. */
static __always_inline struct request *drop_trust(struct request *rq)
{
	if (HAVE_RDONLY_CAST)
		return bpf_rdonly_cast(rq, TYPE_ID(REQUEST));
	return rq;
}

/* Whether a name with this first word begins with `nvme`. */
static __always_inline int is_nvme_name(u64 word)
{
	return (u32)word == 0x656d766e;
}

/* bpf_get_current_comm() copies byte by byte: 150 instructions. */
static __always_inline void name_caller(u64 comm[2])
{
	u64 at;

	if (HAVE_RDONLY_CAST) {
		at = bpf_get_current_task() + bpf_core_field_offset(struct task_struct, comm);
		comm[0] = peek(at);
		comm[1] = peek(at + sizeof(u64));
	} else {
		bpf_get_current_comm(comm, 2 * sizeof(u64));
	}
}

#ifdef ND_NO_KFUNC
#define interrupts()	 0
#define soft_interrupt() -1
#else
extern const struct kernel_stat kstat __ksym __weak;

/* Number of interrupts on this CPU; 0 if BTF does not describe the counter. */
static __always_inline u64 interrupts(void)
{
	struct kernel_stat *stat;

	if (!&kstat || !bpf_core_field_exists(struct kernel_stat, irqs_sum))
		return 0;
	stat = bpf_this_cpu_ptr(&kstat);
	return stat->irqs_sum;
}

extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

/* SOFTIRQ_OFFSET of include/linux/preempt.h, the same on every kernel so far. */
#define ND_SOFTIRQ (1 << 8)

/* Whether this CPU is in a soft interrupt; -1: not known (BTF has the count on x86 after 5.10). */
static __always_inline int soft_interrupt(void)
{
	struct pcpu_hot *hot;

	if (&__preempt_count)
		return !!(*(int *)bpf_this_cpu_ptr(&__preempt_count) & ND_SOFTIRQ);
	if (!&pcpu_hot)
		return -1;
	hot = bpf_this_cpu_ptr(&pcpu_hot);
	return !!(hot->preempt_count & ND_SOFTIRQ);
}
#endif

/* The driver's private part of a request: struct nvme_request on every transport. */
static __always_inline u64 pdu_of(struct request *rq)
{
	return (u64)rq + bpf_core_type_size(struct request);
}

static __always_inline u64 entry_of(struct request *rq)
{
	return FIELD_AT(pdu_of(rq), struct nvme_request, cmd);
}

/* As on the wire. */
static __always_inline u32 command_id_of(struct request *rq)
{
	return peek(entry_of(rq)) >> 16 & 0xffff;
}

/* Up to 16 bits at offset `at` of nvme_request: from `word`, read at `from`, if it has them. */
static __always_inline u64 part_of(u64 pdu, u64 at, u64 from, u64 word)
{
	if (at >= from && at < from + 7)
		return word >> (at - from) * 8;
	return peek(pdu + at);
}
