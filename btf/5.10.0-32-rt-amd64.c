/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The types of the modules nvme_core and nvme, as far as nvme-deep reads them, of a kernel without
 * module BTF. Made by btf/make.sh from the debug package; not to be edited.
 *
 * release 5.10.0-32-rt-amd64
 * package linux-image-5.10.0-32-rt-amd64-dbg 5.10.223-1
 * build-id nvme_core 77a56369be07ab6dbef197717cef96d4c819f66a
 * build-id nvme 128cd6dd854ff59ab2019198dec554ebfe4519eb
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
	u8 _pad1[104];
	/* struct request_queue */ void *admin_q;
	u8 _pad2[24];
	s32 instance;
	u8 _pad3[4];
	/* struct blk_mq_tag_set */ void *tagset;
	/* struct blk_mq_tag_set */ void *admin_tagset;
	u8 _pad4[960];
	/* struct device */ void *device;
	u8 _pad5[248];
	struct list_head subsys_entry;
	u8 _pad6[1712];
};
AT(nvme_ctrl, state, 4, 4);
AT(nvme_ctrl, admin_q, 112, 8);
AT(nvme_ctrl, instance, 144, 4);
AT(nvme_ctrl, tagset, 152, 8);
AT(nvme_ctrl, admin_tagset, 160, 8);
AT(nvme_ctrl, device, 1128, 8);
AT(nvme_ctrl, subsys_entry, 1384, 16);
SIZE(nvme_ctrl, 3112);

struct nvme_subsystem {
	u8 _pad0[912];
	struct list_head entry;
	u8 _pad1[40];
	struct list_head ctrls;
	u8 _pad2[384];
};
AT(nvme_subsystem, entry, 912, 16);
AT(nvme_subsystem, ctrls, 968, 16);
SIZE(nvme_subsystem, 1368);

struct nvme_queue {
	u8 _pad0[56];
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
	u8 _pad5[64];
};
AT(nvme_queue, sq_cmds, 56, 8);
AT(nvme_queue, cqes, 112, 8);
AT(nvme_queue, q_depth, 144, 4);
AT(nvme_queue, sq_tail, 150, 2);
AT(nvme_queue, last_sq_tail, 152, 2);
AT(nvme_queue, cq_head, 154, 2);
AT(nvme_queue, qid, 156, 2);
AT(nvme_queue, cq_phase, 158, 1);
AT(nvme_queue, sqes, 159, 1);
AT(nvme_queue, flags, 160, 8);
AT(nvme_queue, dbbuf_sq_ei, 184, 8);
SIZE(nvme_queue, 256);

struct nvme_dev {
	/* struct nvme_queue */ void *queues;
	u8 _pad0[800];
	struct nvme_ctrl ctrl;
	u8 _pad1[104];
};
AT(nvme_dev, queues, 0, 8);
AT(nvme_dev, ctrl, 808, 3112);
SIZE(nvme_dev, 4024);

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
