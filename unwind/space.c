/* SPDX-License-Identifier: MIT */
/*
 * The target as libunwind sees it: registers and stack from the copy under way, unwind tables from
 * our own copies of the sections (the very bytes that cfi.c has judged), and nothing else. Never
 * writes. Facts about libunwind are of 1.6.2.
 */
#include "unwind/internal.h"

#include <string.h>

/* Exported by libunwind's libraries, declared by no installed header: src/dwarf/
 * Gfind_proc_info-lsb.c. Parses the FDE that a table of (start, FDE) pairs gives for ip. */
int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *di,
				       unw_proc_info_t *pi, int need_unwind_info, void *argument);

/*
 * The address of a table of one entry in the target, which is not there: whatever the PC is, the
 * FDE is at the table's base. So the search is ours and libunwind's parser is used.
 */
#define ONE_ENTRY_TABLE 0xfffff00000000000

static const uint64_t one_entry = 0x80000000; /* int32_t start = INT32_MIN, FDE = base + 0 */

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info, int need,
			  void *argument)
{
	const struct unwinder *const unwinder = argument;
	unw_dyn_info_t table = {
		.start_ip = ip,
		.end_ip = ip + 1,
		.format = UNW_INFO_FORMAT_REMOTE_TABLE,
		.u.rti.segbase = unwinder->building_fde,
		.u.rti.table_len = 1,
		.u.rti.table_data = ONE_ENTRY_TABLE,
	};
	return _Ux86_64_dwarf_search_unwind_table(space, ip, &table, info, need, argument);
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *argument)
{
	(void)space, (void)info, (void)argument; /* that memory is libunwind's own */
}

static int get_dyn_info_list_addr(unw_addr_space_t space, unw_word_t *list, void *argument)
{
	(void)space, (void)list, (void)argument;
	return -UNW_ENOINFO;
}

static bool read_section(const struct cfi_section *section, remote_addr address, uint64_t *value)
{
	const uint64_t before = section->start - address;
	if (address - section->start < section->size) {
		/* The padding allows a whole word at the last byte. */
		section_need(section, address - section->start, sizeof(*value));
		memcpy(value, section->bytes + (address - section->start), sizeof(*value));
		return true;
	}
	if (before >= sizeof(*value))
		return false;
	section_need(section, 0, sizeof(*value));
	*value = 0; /* an aligned word that begins before the section */
	memcpy((char *)value + before, section->bytes, sizeof(*value) - before);
	return true;
}

/* The same with the verdict's patches, byte by byte: there are nearly never any. */
static void apply_patches(const struct cfi_section *section, const struct cfi_verdict *verdict,
			  remote_addr address, uint64_t *value)
{
	uint8_t *const bytes = (uint8_t *)value;
	for (size_t i = 0; i < verdict->patch_count; i++) {
		const struct cfi_patch *const patch = &verdict->patches[i];
		for (size_t n = 0; n < sizeof(*value); n++) {
			const uint64_t at = address + n - section->start;
			if (at >= patch->start && at < patch->end)
				bytes[n] = at == patch->start ? patch->first : 0;
		}
	}
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
		      void *argument)
{
	struct unwinder *const unwinder = argument;
	(void)space;
	if (write)
		return -UNW_EINVAL;
	if (unwinder->building) {
		/* Elsewhere lies the personality routine's pointer, which nobody uses. */
		if (read_section(unwinder->building, address, value))
			apply_patches(unwinder->building, unwinder->building_verdict, address,
				      value);
		else
			*value = address == ONE_ENTRY_TABLE ? one_entry : 0;
		return 0;
	}
	if (unwinder->section && read_section(unwinder->section, address, value))
		return 0;
	if (memory_read_u64(unwinder->request.memory, address, value, NULL)) {
		if (address > unwinder->highest_read)
			unwinder->highest_read = address;
		return 0;
	}
	unwinder->missing_memory = true;
	unwinder->unread++;
	return -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write,
		      void *argument)
{
	struct unwinder *const unwinder = argument;
	(void)space;
	if (write || number < 0 || number >= REGISTER_COUNT)
		return -UNW_EBADREG;
	if (!(unwinder->registers.known >> number & 1)) {
		unwinder->unknown_register = number;
		return -UNW_EBADREG;
	}
	*value = unwinder->registers.value[number];
	return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write,
			void *argument)
{
	(void)space, (void)number, (void)value, (void)write, (void)argument;
	return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *argument)
{
	(void)space, (void)cursor, (void)argument;
	return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t address, char *name, size_t size,
			 unw_word_t *offset, void *argument)
{
	(void)space, (void)address, (void)name, (void)size, (void)offset, (void)argument;
	return -UNW_ENOINFO;
}

unw_addr_space_t space_new(void)
{
	unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = get_dyn_info_list_addr,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = access_fpreg,
		.resume = resume,
		.get_proc_name = get_proc_name,
	};
	return unw_create_addr_space(&accessors, 0);
}
