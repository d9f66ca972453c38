/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel and nvme structs that we read, and only the fields that we read. CO-RE relocates every
 * access against the running kernel's BTF, so the order and the gaps here mean nothing.
 *
 * nvme_command is the wire format (NVMe base specification, "Submission Queue Entry"), the same on
 * every kernel.
 */
#ifndef ND_KERNEL_H
#define ND_KERNEL_H

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct timespec64 {
	__s64 tv_sec;
};

struct queue_limits {
	unsigned int logical_block_size;
};

struct gendisk {
	char disk_name[32];
};

struct request_queue {
	void *queuedata; /* struct nvme_ns *; NULL on the admin queue */
	int id;
	struct gendisk *disk;
	struct queue_limits limits;
};

struct blk_mq_hw_ctx {
	void *driver_data; /* struct nvme_queue * */
	unsigned int queue_num;
};

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	unsigned int cmd_flags;
	unsigned int rq_flags;
	int tag;
	int internal_tag;
	unsigned int __data_len;
	u64 start_time_ns;
};

struct blk_mq_queue_data {
	struct request *rq;
	_Bool last;
};

struct nvme_ctrl {
	int instance;
};

/* drivers/nvme/host/nvme.h: the driver's private part, behind every struct request */
struct nvme_request {
	struct nvme_ctrl *ctrl;
	u8 retries;
};

struct nvme_queue {
	u16 sq_tail;
	u16 last_sq_tail;
};

struct nvme_common_command {
	u8 opcode;
	u8 flags;
	u16 command_id;
	u32 nsid;
};

struct nvme_rw_command {
	u16 length; /* NLB, zero based */
};

struct nvme_command {
	union {
		struct nvme_common_command common;
		struct nvme_rw_command rw;
	};
};

#pragma clang attribute pop

#endif
