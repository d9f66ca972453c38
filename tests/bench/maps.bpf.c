// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Prints the memory of each BPF map: its name, the first address and the one behind the last.
 * `bpftool iter pin` makes a file of it.
 */
#include <linux/bpf.h>
#include <linux/types.h>

/* Not libbpf's headers: `make test-cost` does not need their package. */
#define SEC(name) __attribute__((section(name), used))

#define FROM_KERNEL __attribute__((preserve_access_index))

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} FROM_KERNEL;

struct bpf_map {
	enum bpf_map_type map_type;
	__u32 max_entries;
	char name[16];
} FROM_KERNEL;

struct bpf_iter__bpf_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
} FROM_KERNEL;

struct bpf_array {
	__u32 elem_size;
	char value[0];
} FROM_KERNEL;

struct bucket {
	int raw_lock;
} FROM_KERNEL;

struct bpf_htab {
	struct bucket *buckets;
	void *elems;
	__u32 n_buckets;
	__u32 elem_size;
} FROM_KERNEL;

struct bpf_queue_stack {
	__u32 size;
	char elements[0];
} FROM_KERNEL;

struct bpf_ringbuf {
	__u64 mask;
	char data[0];
} FROM_KERNEL;

struct bpf_ringbuf_map {
	struct bpf_ringbuf *rb;
} FROM_KERNEL;

static long (*bpf_probe_read_kernel)(void *to, __u32 size, const void *from) = (void *)113;
static long (*bpf_seq_printf)(struct seq_file *to, const char *format, __u32 size, const void *data,
			      __u32 data_size) = (void *)126;

/* A field of the kernel, its offset, and the size of a type. */
#define READ(field)                                                                                \
	({                                                                                         \
		typeof(field) value_ = 0;                                                          \
		bpf_probe_read_kernel(&value_, sizeof(value_), &(field));                          \
		(__u64) value_;                                                                    \
	})
#define OFFSET(type, field) ((__u64) & ((type *)0)->field)
#define SIZE(type)	    __builtin_preserve_type_info(*(type *)0, 1)

static void print(struct bpf_iter__bpf_map *ctx, __u64 from, __u64 bytes)
{
	static const char format[] = "%s %llx %llx\n";
	struct bpf_map *map = ctx->map;
	__u64 values[3] = {0, from, from + bytes};

	if (!map)
		return;
	values[0] = (__u64)map->name;
	bpf_seq_printf(ctx->meta->seq, format, sizeof(format), values, sizeof(values));
}

SEC("iter/bpf_map")
int maps(struct bpf_iter__bpf_map *ctx)
{
	struct bpf_map *map = ctx->map;
	struct bpf_array *array = (void *)map;
	struct bpf_htab *hash = (void *)map;
	struct bpf_queue_stack *queue = (void *)map;
	struct bpf_ringbuf_map *ring = (void *)map;
	__u64 at = (__u64)map, n;

	if (!map)
		return 0;
	/* a number, no pointer: the verifier does not limit what is added to it */
	asm volatile("%0 = le64 %0" : "+r"(at));
	n = map->max_entries;
	switch (map->map_type) {
	case BPF_MAP_TYPE_ARRAY:
	case BPF_MAP_TYPE_ARRAY_OF_MAPS:
		print(ctx, at, OFFSET(struct bpf_array, value) + n * READ(array->elem_size));
		break;
	case BPF_MAP_TYPE_HASH:
		print(ctx, at, SIZE(struct bpf_htab));
		print(ctx, READ(hash->buckets), READ(hash->n_buckets) * SIZE(struct bucket));
		print(ctx, READ(hash->elems), n * READ(hash->elem_size));
		break;
	case BPF_MAP_TYPE_QUEUE:
	case BPF_MAP_TYPE_STACK:
		print(ctx, at,
		      OFFSET(struct bpf_queue_stack, elements) + READ(queue->size) * sizeof(__u32));
		break;
	case BPF_MAP_TYPE_RINGBUF:
		at = READ(ring->rb);
		print(ctx, at,
		      OFFSET(struct bpf_ringbuf, data) +
			      2 * (READ(((struct bpf_ringbuf *)at)->mask) + 1));
		break;
	default:
		break;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
