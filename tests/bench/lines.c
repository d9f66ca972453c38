// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A QEMU plugin that counts, between two marks of the guest (mark.h), the stores of the kernel to
 * cache lines that another CPU wrote last: on a real machine each of them waits for that CPU's
 * cache. At each end mark it writes to the file that was given as out=FILE:
 *
 *   run STORES SHARED
 *   ADDRESS SHARED     for each block of the kernel with such stores
 *   line ADDRESS SHARED   for each line with at least LEAST of them
 *
 * The counters have no lock: they are right only if one thread executes all of the guest's CPUs
 * (-accel tcg,thread=single). A line is 64 bytes of a virtual address; the kernel maps the same
 * memory at most twice, and BPF maps are used at one address. Interface as in plugin.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark.h"

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_W = 2 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*callback)(qemu_plugin_id_t,
							    struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*callback)(unsigned int, void *),
					    enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      void (*callback)(unsigned int, qemu_plugin_meminfo_t,
						       uint64_t, void *),
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw,
				      void *data);
_Bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 1;

#define LEAST	   20
#define MARK_SIZE  8
#define LINE_BITS  23 /* 512 MiB of lines */
#define BLOCK_BITS 21

/* Open addressing, as in plugin.c. The entries never move. */
struct line {
	uint64_t number;
	unsigned int writer; /* CPU + 1 */
	unsigned int shared;
};
struct block {
	uint64_t address;
	uint64_t shared;
};

static struct line *lines;
static struct block *blocks;
static size_t lines_used, blocks_used;
static uint64_t stores, shared;
static int counting;
static FILE *out;

static void full(const char *what)
{
	fprintf(stderr, "lines: more %s than the table has room for\n", what);
	exit(1);
}

static size_t slot_of(uint64_t key, unsigned int bits)
{
	return (key * 0x9e3779b97f4a7c15) >> (64 - bits);
}

static struct line *line_of(uint64_t number)
{
	size_t slot = slot_of(number, LINE_BITS);

	while (lines[slot].number && lines[slot].number != number)
		slot = (slot + 1) & ((1u << LINE_BITS) - 1);
	if (!lines[slot].number) {
		if (++lines_used > (1u << LINE_BITS) / 4 * 3)
			full("lines");
		lines[slot].number = number;
	}
	return &lines[slot];
}

static struct block *block_of(uint64_t address)
{
	size_t slot = slot_of(address, BLOCK_BITS);

	while (blocks[slot].address && blocks[slot].address != address)
		slot = (slot + 1) & ((1u << BLOCK_BITS) - 1);
	if (!blocks[slot].address) {
		if (++blocks_used > (1u << BLOCK_BITS) / 4 * 3)
			full("blocks");
		blocks[slot].address = address;
	}
	return &blocks[slot];
}

static void on_store(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct block *block = data;
	struct line *line;

	/* QEMU 7.2 passes on loads, too. */
	if (!counting || !(address >> 63) || !qemu_plugin_mem_is_store(info))
		return;
	stores++;
	line = line_of(address >> 6);
	if (line->writer && line->writer != cpu + 1) {
		shared++;
		line->shared++;
		block->shared++;
	}
	line->writer = cpu + 1;
}

static void on_begin(unsigned int cpu, void *data)
{
	stores = shared = 0;
	for (size_t slot = 0; slot < 1u << BLOCK_BITS; slot++)
		blocks[slot].shared = 0;
	memset(lines, 0, sizeof(*lines) << LINE_BITS);
	lines_used = 0;
	counting = 1;
}

static void on_end(unsigned int cpu, void *data)
{
	counting = 0;
	fprintf(out, "run %" PRIu64 " %" PRIu64 "\n", stores, shared);
	for (size_t slot = 0; slot < 1u << BLOCK_BITS; slot++)
		if (blocks[slot].shared)
			fprintf(out, "%" PRIx64 " %" PRIu64 "\n", blocks[slot].address,
				blocks[slot].shared);
	for (size_t slot = 0; slot < 1u << LINE_BITS; slot++)
		if (lines[slot].shared >= LEAST)
			fprintf(out, "line %" PRIx64 " %u\n", lines[slot].number << 6,
				lines[slot].shared);
	fflush(out);
}

static uint32_t mark_of(const struct qemu_plugin_insn *insn)
{
	const char *bytes = qemu_plugin_insn_data(insn);
	uint32_t number;

	if (qemu_plugin_insn_size(insn) != MARK_SIZE || memcmp(bytes, MARK_OPCODE, 4))
		return 0;
	memcpy(&number, bytes + 4, sizeof(number));
	return number;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t size = qemu_plugin_tb_n_insns(tb);
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	int kernel = address >> 63;
	struct block *block = kernel ? block_of(address) : 0;

	for (size_t i = 0; i < size; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (kernel)
			qemu_plugin_register_vcpu_mem_cb(insn, on_store, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_W, block);
		else if (mark_of(insn) == MARK_LINES_BEGIN)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_begin,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		else if (mark_of(insn) == MARK_LINES_END)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_end, QEMU_PLUGIN_CB_NO_REGS,
							       NULL);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			       char **argv)
{
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "lines: where to? out=FILE\n");
		return 1;
	}
	out = fopen(argv[0] + 4, "w");
	lines = calloc(1u << LINE_BITS, sizeof(*lines));
	blocks = calloc(1u << BLOCK_BITS, sizeof(*blocks));
	if (!out || !lines || !blocks) {
		perror("lines");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
