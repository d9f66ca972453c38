/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The baseline with rows: a row for each controller, namespace and opcode, with its bytes and its
 * largest values, and separate histograms for each CPU. It caches hardware queues and never
 * invalidates them, so it is right until one is removed. It has room for a few of everything.
 */
#ifndef LEAST_ROWS_H
#define LEAST_ROWS_H

#define CPUS	8
#define KNOWN	16 /* hardware queues that a CPU caches */
#define QUEUES	8  /* of a controller */
#define ROWS	16
#define ALL_ROW 5 /* histograms of a row */

struct where {
	__u64 hctx;
	__u32 first; /* place of the queue */
	__u32 ctrl;
};

struct cpu {
	struct where submit[KNOWN], cqe[KNOWN], complete[KNOWN];
};

struct owned {
	__u64 rq;
	__u64 key;
	__u64 setup_ns;
	__u64 cqe_ns;
	__u64 batch;
	__u32 bytes;
	__u32 row;
	struct asked asked;
};

struct row {
	__u64 bytes;
	__u64 max[ALL_ROW];
	struct hist hist[ALL_ROW];
};

#define ARRAY(name, vtype, n)                                                                      \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, n);                                                            \
		__type(key, __u32);                                                                \
		__type(value, vtype);                                                              \
	} name SEC(".maps")

ARRAY(cpus, struct cpu, CPUS);
ARRAY(owned, struct owned, 4 * QUEUES * TAGS);
ARRAY(own_starts, __u64, 4 * QUEUES * TAGS);
ARRAY(rows, struct row, CPUS *ROWS);

__u64 keys[ROWS];

static __always_inline struct cpu *this_cpu(void)
{
	__u32 id = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &id);
}

static __always_inline struct where *known(struct where *all, struct request *rq)
{
	__u64 hctx = (__u64)rq->mq_hctx;

	return &all[(hctx - (__u64)all) * 0x9e3779b97f4a7c15ull >> 60];
}

static __noinline int learn(struct where *w, struct request *rq)
{
	char *own = (char *)rq + bpf_core_type_size(struct request);
	__u64 ctrl = word_at(own + bpf_core_field_offset(struct nvme_request, ctrl));
	__u32 number = word_at((void *)(ctrl + bpf_core_field_offset(struct nvme_ctrl, instance)));

	w->first = (number * QUEUES + rq->mq_hctx->queue_num) * TAGS;
	w->ctrl = number;
	w->hctx = (__u64)rq->mq_hctx;
	return 0;
}

/* The row of a key. A new key gets the next free row. */
static __noinline int row_of(__u64 key)
{
	for (int i = 0; i < ROWS; i++) {
		if (!keys[i])
			keys[i] = key;
		if (keys[i] == key)
			return i;
	}
	return ROWS;
}

static __always_inline struct owned *owned_by(struct where *all, struct request *rq, __u32 *ctrl)
{
	struct where *w = known(all, rq);
	__u32 at;

	if (w->hctx != (__u64)rq->mq_hctx)
		learn(w, rq);
	at = w->first + rq->tag;
	*ctrl = w->ctrl;
	return bpf_map_lookup_elem(&owned, &at);
}

static __always_inline __u64 *own_start(struct where *all, struct request *rq)
{
	struct where *w = known(all, rq);
	__u32 at;

	/* another driver's request, or the first one of the queue */
	if (w->hctx != (__u64)rq->mq_hctx)
		return 0;
	at = w->first + (rq->internal_tag >= 0 ? rq->internal_tag : rq->tag);
	return bpf_map_lookup_elem(&own_starts, &at);
}

/* Attributes the command to its row. A trace does not need row and bytes: three instructions. */
static __always_inline struct owned *own_setup(struct request *rq, struct nvme_command *cmd)
{
	struct cpu *cpu = this_cpu();
	struct owned *o;
	__u64 key;
	__u32 ctrl;

	if (!cpu || !rq || !cmd)
		return 0;
	o = owned_by(cpu->submit, rq, &ctrl);
	if (!o)
		return 0;
	/* opcode: byte 0; nsid: bytes 4 to 7 */
	key = 1ull << 63 | (__u64)ctrl << 40 | cmd->words[0] >> 32 << 8 | (cmd->words[0] & 0xff);
	if (o->key != key) {
		o->key = key;
		o->row = row_of(key);
	}
	o->bytes = rq->__data_len;
	o->rq = (__u64)rq;
	return o;
}

static __always_inline struct owned *own_end(struct request *rq, struct cpu *cpu)
{
	struct owned *o;
	__u32 ctrl;

	if (!cpu || !rq)
		return 0;
	o = owned_by(cpu->complete, rq, &ctrl);
	if (!o || o->rq != (__u64)rq)
		return 0;
	o->rq = 0;
	return o;
}

/* The row on this CPU. */
static __always_inline struct row *row_here(struct owned *o)
{
	__u32 at = bpf_get_smp_processor_id() * ROWS + o->row;

	return bpf_map_lookup_elem(&rows, &at);
}

static __always_inline void put_row(struct row *row, __u32 i, __u64 ns)
{
	put(&row->hist[i], ns);
	if (ns > row->max[i])
		row->max[i] = ns;
}

SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(row_one_setup, struct request *rq, struct nvme_command *cmd)
{
	struct owned *o = own_setup(rq, cmd);

	if (o)
		o->setup_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(row_one_complete, struct request *rq)
{
	__u64 now = bpf_ktime_get_ns();
	struct owned *o = own_end(rq, this_cpu());
	struct row *row;

	if (!o)
		return 0;
	row = row_here(o);
	if (!row)
		return 0;
	put_row(row, 0, now - o->setup_ns);
	row->bytes += o->bytes;
	return 0;
}

SEC("?tp_btf/block_io_start")
int BPF_PROG(row_all_start, struct request *rq)
{
	struct cpu *cpu = this_cpu();
	__u64 *start;

	if (!cpu || !rq)
		return 0;
	start = own_start(cpu->submit, rq);
	if (start)
		*start = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(row_all_setup, struct request *rq, struct nvme_command *cmd)
{
	struct owned *o = own_setup(rq, cmd);

	if (!o)
		return 0;
	o->batch = batch;
	o->setup_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_sq")
int BPF_PROG(row_all_cqe, struct request *rq)
{
	struct cpu *cpu = this_cpu();
	struct owned *o;
	__u32 ctrl;

	if (!cpu || !rq)
		return 0;
	o = owned_by(cpu->cqe, rq, &ctrl);
	if (o)
		o->cqe_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(row_all_complete, struct request *rq)
{
	__u64 now = bpf_ktime_get_ns(), bell, *start;
	struct cpu *cpu = this_cpu();
	struct owned *o = own_end(rq, cpu);
	struct row *row;

	if (!o)
		return 0;
	start = own_start(cpu->complete, rq);
	row = row_here(o);
	if (!start || !row)
		return 0;
	bell = bells[o->batch & (BATCHES - 1)];
	put_row(row, 1, o->setup_ns - *start);
	put_row(row, 2, bell - o->setup_ns);
	put_row(row, 3, o->cqe_ns - bell);
	put_row(row, 4, now - o->cqe_ns);
	put_row(row, 0, now - *start);
	row->bytes += o->bytes;
	return 0;
}

/* A trace; needs row_all_start, row_all_cqe and all_queue_*. */
SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(row_pair_setup, struct request *rq, struct nvme_command *cmd)
{
	struct owned *o = own_setup(rq, cmd);

	if (!o)
		return 0;
	ask(&o->asked, cmd);
	o->batch = batch;
	o->setup_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(row_pair_complete, struct request *rq)
{
	__u64 now = bpf_ktime_get_ns(), *start;
	struct cpu *cpu = this_cpu();
	struct owned *o = own_end(rq, cpu);
	struct record *r;

	if (!o)
		return 0;
	start = own_start(cpu->complete, rq);
	if (!start)
		return 0;
	r = answer(rq, &o->asked);
	if (!r)
		return 0;
	r->start_ns = *start;
	r->setup_ns = o->setup_ns;
	r->bell_ns = bells[o->batch & (BATCHES - 1)];
	r->cqe_ns = o->cqe_ns;
	r->complete_ns = now;
	r->key = o->key;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
