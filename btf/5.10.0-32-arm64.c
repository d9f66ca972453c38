/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The types of the modules nvme_core and nvme, as far as nvme-deep reads them, of a kernel without
 * module BTF. Made by btf/make.sh from the debug package; not to be edited.
 *
 * release 5.10.0-32-arm64
 * package linux-image-5.10.0-32-arm64-dbg 5.10.223-1
 * build-id nvme_core 356dbe5c2450f853a5d2901e7a406643b484a7c0
 * build-id nvme 5c90690aaeae5f439cd37a7d2728c0d43c9c59ba
 */
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT32_TYPE__ s32;

#define AT(tag, field, offset, size)                                                               \
	_Static_assert(__builtin_offsetof(struct tag, field) == (offset) &&                        \
			       sizeof(((struct tag *)0)->field) == (size),                         \
		       #tag "." #field)
#define SIZE(tag, size) _Static_assert(sizeof(struct tag) == (size), #tag)

union nvme_result {
	u16 u16;
	u32 u32;
	u64 u64;
};

enum nvme_ctrl_state {
	NVME_CTRL_NEW = 0,
	NVME_CTRL_LIVE = 1,
	NVME_CTRL_RESETTING = 2,
	NVME_CTRL_CONNECTING = 3,
	NVME_CTRL_DELETING = 4,
	NVME_CTRL_DELETING_NOIO = 5,
	NVME_CTRL_DEAD = 6,
};

struct list_head {
	/* struct list_head */ void *next;
	/* struct list_head */ void *prev;
};

struct nvme_request {
	/* struct nvme_command */ void *cmd;
	union nvme_result result;
	u8 genctr;
	u8 retries;
	u8 flags;
	u8 _pad0[1];
	u16 status;
	u8 _pad1[2];
	/* struct nvme_ctrl */ void *ctrl;
};
AT(nvme_request, cmd, 0, 8);
AT(nvme_request, result, 8, 8);
AT(nvme_request, genctr, 16, 1);
AT(nvme_request, retries, 17, 1);
AT(nvme_request, flags, 18, 1);
AT(nvme_request, status, 20, 2);
AT(nvme_request, ctrl, 24, 8);
SIZE(nvme_request, 32);

struct nvme_ctrl {
	u8 _pad0[4];
	enum nvme_ctrl_state state;
	u8 _pad1[48];
	/* struct request_queue */ void *admin_q;
	u8 _pad2[24];
	s32 instance;
	u8 _pad3[4];
	/* struct blk_mq_tag_set */ void *tagset;
	/* struct blk_mq_tag_set */ void *admin_tagset;
	u8 _pad4[824];
	/* struct device */ void *device;
	u8 _pad5[208];
	struct list_head subsys_entry;
	u8 _pad6[1656];
};
AT(nvme_ctrl, state, 4, 4);
AT(nvme_ctrl, admin_q, 56, 8);
AT(nvme_ctrl, instance, 88, 4);
AT(nvme_ctrl, tagset, 96, 8);
AT(nvme_ctrl, admin_tagset, 104, 8);
AT(nvme_ctrl, device, 936, 8);
AT(nvme_ctrl, subsys_entry, 1152, 16);
SIZE(nvme_ctrl, 2824);

struct nvme_subsystem {
	u8 _pad0[784];
	struct list_head entry;
	u8 _pad1[32];
	struct list_head ctrls;
	u8 _pad2[336];
};
AT(nvme_subsystem, entry, 784, 16);
AT(nvme_subsystem, ctrls, 832, 16);
SIZE(nvme_subsystem, 1184);

struct nvme_queue {
	u8 _pad0[16];
	void *sq_cmds;
	u8 _pad1[48];
	/* struct nvme_completion */ void *cqes;
	u8 _pad2[24];
	u32 q_depth;
	u8 _pad3[2];
	u16 sq_tail;
	u16 last_sq_tail;
	u16 cq_head;
	u16 qid;
	u8 cq_phase;
	u8 sqes;
	u64 flags;
	u8 _pad4[16];
	/* __le32 */ void *dbbuf_sq_ei;
	u8 _pad5[40];
};
AT(nvme_queue, sq_cmds, 16, 8);
AT(nvme_queue, cqes, 72, 8);
AT(nvme_queue, q_depth, 104, 4);
AT(nvme_queue, sq_tail, 110, 2);
AT(nvme_queue, last_sq_tail, 112, 2);
AT(nvme_queue, cq_head, 114, 2);
AT(nvme_queue, qid, 116, 2);
AT(nvme_queue, cq_phase, 118, 1);
AT(nvme_queue, sqes, 119, 1);
AT(nvme_queue, flags, 120, 8);
AT(nvme_queue, dbbuf_sq_ei, 144, 8);
SIZE(nvme_queue, 192);

struct nvme_dev {
	/* struct nvme_queue */ void *queues;
	u8 _pad0[776];
	struct nvme_ctrl ctrl;
	u8 _pad1[104];
};
AT(nvme_dev, queues, 0, 8);
AT(nvme_dev, ctrl, 784, 2824);
SIZE(nvme_dev, 3712);

/* A type that nothing uses has no BTF. */
void nvme_deep_types(struct nvme_request *request, struct nvme_ctrl *ctrl,
		     struct nvme_subsystem *subsystem, struct nvme_queue *queue,
		     struct nvme_dev *dev)
{
	(void)request;
	(void)ctrl;
	(void)subsystem;
	(void)queue;
	(void)dev;
}
