// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A QEMU plugin that counts, between two marks of the guest (mark.h), the stores of the kernel to
 * cache lines that another CPU wrote last: on a real machine each of them waits for that CPU's
 * cache. At each end mark it writes to the file that was given as out=FILE:
 *
 *   run STORES SHARED
 *   ADDRESS SHARED        for each block of the kernel with such stores
 *   line ADDRESS SHARED   for each line with such stores
 *
 * The counters have no lock: they are right only if one thread executes all of the guest's CPUs
 * (-accel tcg,thread=single). A line is 64 bytes of a virtual address; the kernel maps the same
 * memory at most twice, and BPF maps are used at one address.
 */
#include "qemu_plugin.h"

/* A block of code, or a line. */
struct entry {
	uint64_t key;
	uint64_t shared;     /* such stores of the block, or to the line */
	unsigned int writer; /* of the line, the last one: CPU + 1 */
};

/* Open addressing. Entries never move, because translated code points to them. */
struct table {
	const char *what;
	unsigned int bits;
	size_t used;
	struct entry *at;
};

static struct table lines = {.what = "lines", .bits = 23}; /* 512 MiB of lines */
static struct table blocks = {.what = "blocks", .bits = 21};
static uint64_t stores, shared;
static int counting;
static FILE *out;

static size_t size_of(const struct table *table)
{
	return (size_t)1 << table->bits;
}

static struct entry *entry_of(struct table *table, uint64_t key)
{
	size_t slot = (key * 0x9e3779b97f4a7c15) >> (64 - table->bits);

	while (table->at[slot].key && table->at[slot].key != key)
		slot = (slot + 1) & (size_of(table) - 1);
	if (!table->at[slot].key) {
		if (++table->used > size_of(table) / 4 * 3) {
			fprintf(stderr, "lines: more %s than the table has room for\n",
				table->what);
			exit(1);
		}
		table->at[slot].key = key;
	}
	return &table->at[slot];
}

static void on_store(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct entry *block = data, *line;

	/* QEMU 7.2 passes on loads, too. */
	if (!counting || !(address >> 63) || !qemu_plugin_mem_is_store(info))
		return;
	stores++;
	line = entry_of(&lines, address >> 6);
	if (line->writer && line->writer != cpu + 1) {
		shared++;
		block->shared++;
		line->shared++;
	}
	line->writer = cpu + 1;
}

static void on_begin(unsigned int cpu, void *data)
{
	stores = shared = 0;
	for (size_t slot = 0; slot < size_of(&blocks); slot++)
		blocks.at[slot].shared = 0;
	memset(lines.at, 0, sizeof(*lines.at) * size_of(&lines));
	lines.used = 0;
	counting = 1;
}

static void on_end(unsigned int cpu, void *data)
{
	counting = 0;
	fprintf(out, "run %" PRIu64 " %" PRIu64 "\n", stores, shared);
	for (size_t slot = 0; slot < size_of(&blocks); slot++)
		if (blocks.at[slot].shared)
			fprintf(out, "%" PRIx64 " %" PRIu64 "\n", blocks.at[slot].key,
				blocks.at[slot].shared);
	for (size_t slot = 0; slot < size_of(&lines); slot++)
		if (lines.at[slot].shared)
			fprintf(out, "line %" PRIx64 " %" PRIu64 "\n", lines.at[slot].key << 6,
				lines.at[slot].shared);
	fflush(out);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t size = qemu_plugin_tb_n_insns(tb);
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	struct entry *block = address >> 63 ? entry_of(&blocks, address) : NULL;

	for (size_t i = 0; i < size; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (block) {
			qemu_plugin_register_vcpu_mem_cb(insn, on_store, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_W, block);
			continue;
		}
		at_mark(insn, MARK_LINES_BEGIN, on_begin);
		at_mark(insn, MARK_LINES_END, on_end);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			       char **argv)
{
	out = output_of("lines", argc, argv);
	lines.at = calloc(size_of(&lines), sizeof(*lines.at));
	blocks.at = calloc(size_of(&blocks), sizeof(*blocks.at));
	if (!out || !lines.at || !blocks.at)
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
