// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A QEMU plugin that counts the instructions that a guest executes between two marks of the load
 * generator (mark.h): in user space as one number, in the kernel by translated block. At each end
 * mark it writes to the file that was given as out=FILE:
 *
 *   run USER KERNEL
 *   ADDRESS FIRST OTHERS   for each block of the kernel that executed at least LEAST instructions:
 *                          those on the first CPU, and those on the others
 *
 * The counters have no lock: they are right only if one thread executes all of the guest's CPUs
 * (-accel tcg,thread=single). A block that is left by an exception counts in full.
 */
#include "qemu_plugin.h"

/* Blocks with fewer instructions are not written; most have fewer. */
#define LEAST	    100
#define TABLE_BITS  21
#define TABLE_SLOTS (1u << TABLE_BITS)

/* QEMU may translate an address more than once, to blocks of different length. */
struct block {
	uint64_t address;
	uint64_t size;
	uint64_t runs[2]; /* on the first CPU, on the others */
};

/*
 * Open addressing. Blocks never move, because translated code points to them, and are never freed:
 * a boot and fifty tools need a few hundred thousand.
 */
static struct block *table;
static size_t used;
static uint64_t user_count;
static FILE *out;

static struct block *block_of(uint64_t address, uint64_t size)
{
	size_t slot = ((address ^ size << 48) * 0x9e3779b97f4a7c15) >> (64 - TABLE_BITS);
	struct block *block = &table[slot];

	while (block->address && (block->address != address || block->size != size)) {
		slot = (slot + 1) % TABLE_SLOTS;
		block = &table[slot];
	}
	if (!block->address) {
		if (++used > TABLE_SLOTS / 4 * 3) {
			fprintf(stderr, "plugin: more blocks than the table has room for\n");
			exit(1);
		}
		block->address = address;
		block->size = size;
	}
	return block;
}

static void on_begin(unsigned int cpu, void *data)
{
	user_count = 0;
	for (size_t slot = 0; slot < TABLE_SLOTS; slot++)
		table[slot].runs[0] = table[slot].runs[1] = 0;
}

static void on_end(unsigned int cpu, void *data)
{
	uint64_t kernel_count = 0;

	for (struct block *block = table; block < table + TABLE_SLOTS; block++)
		kernel_count += block->size * (block->runs[0] + block->runs[1]);
	fprintf(out, "run %" PRIu64 " %" PRIu64 "\n", user_count, kernel_count);
	for (struct block *block = table; block < table + TABLE_SLOTS; block++) {
		if (block->size * (block->runs[0] + block->runs[1]) >= LEAST)
			fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->address,
				block->size * block->runs[0], block->size * block->runs[1]);
	}
	fflush(out);
}

static void on_block(unsigned int cpu, void *data)
{
	struct block *block = data;

	block->runs[cpu != 0]++;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t size = qemu_plugin_tb_n_insns(tb);
	uint64_t address = qemu_plugin_tb_vaddr(tb);

	/* the kernel uses the upper half of the addresses */
	if (address >> 63) {
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS,
						     block_of(address, size));
		return;
	}
	for (size_t i = 0; i < size; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		at_mark(insn, MARK_BEGIN, on_begin);
		at_mark(insn, MARK_END, on_end);
	}
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &user_count, size);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			       char **argv)
{
	out = output_of("plugin", argc, argv);
	table = calloc(TABLE_SLOTS, sizeof(*table));
	if (!out || !table)
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
