/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel and nvme structs that the programs read, with only the fields that they read. CO-RE
 * relocates every access against the running kernel's BTF, so order and gaps have no meaning.
 *
 * nvme_command is the wire format (NVMe base specification, "Submission Queue Entry"). It is the
 * same on every kernel.
 */
#ifndef ND_KERNEL_H
#define ND_KERNEL_H

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

/* Declared before the pragma, so that it is not relocated (see below). */
struct nvme_command;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Reads a field. `typed`: the verifier has the type of the struct (arguments of tp_btf, fentry). If
 * not, the address is a number to it (raw tracepoints, kprobes), and the read needs a helper. */
#define GET(typed, p, field) ((typed) ? (p)->field : BPF_CORE_READ(p, field))

/* The same for structs that are not relocated. */
#define WIRE(typed, p, field) ((typed) ? (p)->field : BPF_PROBE_READ(p, field))

struct cgroup_subsys_state;

/* include/linux/cgroup-defs.h: of a task, by controller; without one, that of an ancestor. */
struct css_set {
	struct cgroup_subsys_state *subsys[1];
};

/* Without CONFIG_BLK_CGROUP there is no such number. */
enum cgroup_subsys_id {
	io_cgrp_id,
};

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

enum mq_rq_state {
	MQ_RQ_IDLE,
	MQ_RQ_IN_FLIGHT,
	MQ_RQ_COMPLETE,
};

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
	struct nvme_command *cmd;
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

enum req_flag_bits {
	__REQ_INTEGRITY,
};

/* Only BPF helpers that some kernels lack: bpf_loop (5.17). */
enum bpf_func_id___loop {
	BPF_FUNC_loop___loop = 181,
};

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

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
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
struct nvme_common_command {
	u8 opcode;
	u8 flags;
	u16 command_id;
	u32 nsid;
	u32 cdw2[2];
	u64 metadata;
	u64 dptr[2];
	u32 cdw10;
	u32 cdw11;
	u32 cdw12;
	u32 cdw13;
	u32 cdw14;
	u32 cdw15;
};

struct nvme_rw_command {
	u8 head[48];
	u16 length; /* NLB, zero based */
	u8 tail[14];
};

struct nvme_command {
	union {
		struct nvme_common_command common;
		struct nvme_rw_command rw;
	};
};

_Static_assert(sizeof(struct nvme_command) == 64, "an SQE");

#endif
