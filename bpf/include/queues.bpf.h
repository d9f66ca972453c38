/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The controller of a request, and the cache of queues. */
#ifndef ND_QUEUES_H
#define ND_QUEUES_H

/* Returns 12 for the name `nvme12`, and -1 for another kind of name. */
static __always_inline int number_in(u64 name)
{
	char text[16] = {};
	int number = 0;

	if (bpf_probe_read_kernel_str(text, sizeof(text), (void *)name) < 6)
		return -1;
	if (text[0] != 'n' || text[1] != 'v' || text[2] != 'm' || text[3] != 'e')
		return -1;
	for (int i = 4; i < 8; i++) {
		if (!text[i])
			break;
		if (text[i] < '0' || text[i] > '9')
			return -1;
		number = number * 10 + text[i] - '0';
	}
	return number;
}

/*
 * The controller of a queue, without the driver's types. In sysfs, a disk's queue is below the
 * disk, and the disk is below its controller. The admin queue has no disk, but its tag set has the
 * same owner as that of the I/O queues. Admin commands are followed only after an I/O queue has
 * been observed.
 */
static __noinline int instance_by_name(struct request_queue *q)
{
	struct blk_mq_tag_set *set = BPF_CORE_READ(q, tag_set);
	u64 owner = (u64)BPF_CORE_READ(set, driver_data);
	struct kobject *disk;
	u32 *known, instance;
	int number;

	if (!owner)
		return -1;
	if (!BPF_CORE_READ(q, queuedata)) {
		known = bpf_map_lookup_elem(&owners, &owner);
		return known ? *known : -1;
	}
	if (bpf_core_field_exists(q->kobj))
		disk = BPF_CORE_READ(q, kobj.parent);
	else
		disk = BPF_CORE_READ(q, disk, queue_kobj.parent);
	number = number_in((u64)BPF_CORE_READ(disk, parent, name));
	if (number >= 0) {
		instance = number;
		known = bpf_map_lookup_elem(&owners, &owner);
		if (!known || *known != instance)
			bpf_map_update_elem(&owners, &owner, &instance, BPF_ANY);
	}
	return number;
}

/* The controller of a request, from the driver's private part. A set-up whose queue is not cached
 * always reads it: the address and id of a queue can be reused for another controller. */
static __always_inline struct nd_ctrl *ctrl_of(struct request *rq, struct request_queue *q,
					       u32 *instance, u64 *address, int typed)
{
	int number;
	u64 ctrl;

	if (!typed && cfg_by_name) {
		number = instance_by_name(q);
		if (number < 0)
			return 0;
		*instance = number;
		*address = 0;
		return bpf_map_lookup_elem(&ctrls, instance);
	}
	ctrl = peek(pdu_of(rq) + bpf_core_field_offset(struct nvme_request, ctrl), typed);
	if (!ctrl)
		return 0;
	*address = ctrl;
	*instance = peek(ctrl + bpf_core_field_offset(struct nvme_ctrl, instance), typed);
	return bpf_map_lookup_elem(&ctrls, instance);
}

/* Whether types that do not come from the kernel itself fit it. The controller that they lead to
 * must own the queue's tags, and its device must have the number that was read. */
static __noinline int fits(struct request_queue *q, u64 ctrl, u32 instance)
{
	u64 set = (u64)BPF_CORE_READ(q, tag_set);
	struct device *device;

	if (!set || (set != peek(ctrl + bpf_core_field_offset(struct nvme_ctrl, tagset), 0) &&
		     set != peek(ctrl + bpf_core_field_offset(struct nvme_ctrl, admin_tagset), 0)))
		return 0;
	device = (void *)peek(ctrl + bpf_core_field_offset(struct nvme_ctrl, device), 0);
	return number_in((u64)BPF_CORE_READ(device, kobj.name)) == (int)instance;
}

/*
 * Whether a queue leads to I/O queues of the controller. Queues of namespaces do. Of the two queues
 * without a namespace, only that by which fabrics controllers connect their I/O queues
 * (ctrl->connect_q) does: it has the tag set of the I/O queues.
 */
static __always_inline u32 is_io(struct request_queue *q, u64 ctrl, int typed)
{
	u64 tags;

	if (GET(typed, q, queuedata))
		return 1;
	if (!ctrl)
		return 0; /* no driver types */
	tags = (u64)GET(typed, q, tag_set);
	return tags == peek(ctrl + bpf_core_field_offset(struct nvme_ctrl, tagset), typed);
}

/* Results of learn_queue(). 0: the queue cannot be followed, because its id is beyond the table or
 * it contradicts the types. */
#define QUEUE_WAS_KNOWN	  1
#define QUEUE_WAS_ANOTHER 2

static __always_inline int learn_queue(struct request_queue *q, struct nd_ctrl *ctrl, u64 address,
				       u32 instance, u32 io, int typed)
{
	struct nd_queue *e = queue_entry(q, typed);

	if (!e)
		return 0;
	if (e->q == (u64)q && e->base == ctrl->base && e->stride == ctrl->stride &&
	    e->queues == ctrl->queues && e->io == io)
		return QUEUE_WAS_KNOWN;
	if (!typed && cfg_check_fit && !fits(q, address, instance)) {
		count(ND_MISFIT);
		return 0;
	}
	forget_places();
	if (e->q == (u64)q && e->io == io) {
		e->former_base = e->base;
		e->former_stride = e->stride;
		e->former_queues = e->queues;
	} else {
		e->former_queues = 0;
	}
	e->q = 0; /* never a pointer with another queue's numbers */
	e->base = ctrl->base;
	e->stride = ctrl->stride;
	e->queues = ctrl->queues;
	e->io = io;
	e->q = (u64)q;
	return QUEUE_WAS_ANOTHER;
}

static __always_inline int is_nvme_disk(struct request *rq, struct request_queue *q, int typed)
{
	char name[4] = {};
	struct gendisk *d;

	if (bpf_core_field_exists(q->disk))
		d = GET(typed, q, disk);
	else
		d = GET(typed, rq, rq_disk);
	if (!d)
		return 0;
	if (!typed) {
		bpf_core_read(name, sizeof(name), &d->disk_name);
		return name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'e';
	}
	return d->disk_name[0] == 'n' && d->disk_name[1] == 'v' && d->disk_name[2] == 'm' &&
	       d->disk_name[3] == 'e';
}

#endif
