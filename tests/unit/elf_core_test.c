/* SPDX-License-Identifier: MIT */
/* Core files made here: whole, cut off at each byte, packed, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "elf/core_file.h"
#include "tests/unit/core_bytes.h"

static struct core_file *open_bytes(const void *bytes, size_t size)
{
	struct core_file *core;
	struct error error;
	assert_true(core_file_open(core_bytes_file(bytes, size), &core, &error));
	return core;
}

static void check_notes(const struct core_file *core)
{
	uint64_t value;
	assert_int_equal(core->thread_count, 2);
	assert_int_equal(core->threads[0].tid, CORE_BYTES_FIRST);
	assert_int_equal(core->threads[0].signal, SIGSEGV);
	assert_int_equal(core->threads[0].registers[CORE_RSP], CORE_BYTES_STACK + 256);
	assert_int_equal(core->threads[0].registers[CORE_RIP], CORE_BYTES_TEXT + 16);
	assert_int_equal(core->threads[1].tid, CORE_BYTES_SECOND);
	assert_int_equal(core->threads[1].registers[CORE_ORIG_RAX], 202);
	assert_int_equal(core->threads[1].registers[CORE_FS_BASE], CORE_BYTES_STACK + 64);
	assert_int_equal(core->signal.number, SIGSEGV);
	assert_int_equal(core->signal.code, SEGV_MAPERR);
	assert_int_equal(core->signal.address, 0x10);
	assert_int_equal(core->pid, CORE_BYTES_FIRST);
	assert_string_equal(core->name, "python3");
	assert_string_equal(core->arguments, "python3 train.py");
	assert_true(core_file_auxv(core, AT_PAGESZ, &value));
	assert_int_equal(value, 4096);
	assert_false(core_file_auxv(core, AT_RANDOM, &value));
}

static void notes_and_memory_are_read(void **state)
{
	struct core_bytes *made = core_bytes_new();
	struct core_file *core = open_bytes(made->bytes, made->size);
	uint8_t bytes[0x3000];
	(void)state;
	check_notes(core);
	assert_false(core->truncated);
	assert_int_equal(core->segment_count, CORE_BYTES_SEGMENTS);
	assert_int_equal(core->mapping_count, 2);
	const struct core_mapping *mapping = core_file_mapping(core, CORE_BYTES_RODATA + 0x1fff);
	assert_string_equal(mapping->path, core_bytes_path);
	assert_int_equal(mapping->offset, 0x4000);
	assert_int_equal(mapping->file, core_file_mapping(core, CORE_BYTES_TEXT)->file);
	assert_null(core_file_mapping(core, CORE_BYTES_RODATA + 0x2000));
	assert_int_equal(core_file_read(core, CORE_BYTES_STACK + 1, bytes, 0x1fff), 0x1fff);
	for (size_t i = 0; i < 0x1fff; i++)
		assert_int_equal(bytes[i], core_bytes_at(3, i + 1));
	/* Up to where it was written, and what was not is no zeros. */
	assert_int_equal(core_file_read(core, CORE_BYTES_STACK + 1, bytes, 0x3000), 0x1fff);
	assert_int_equal(core_file_read(core, CORE_BYTES_TEXT + 0xff0, bytes, 32), 16);
	assert_int_equal(core_file_read(core, CORE_BYTES_TEXT + 0x1000, bytes, 8), 0);
	assert_int_equal(core_file_read(core, CORE_BYTES_LOST, bytes, 8), 0);
	assert_int_equal(core_file_read(core, 0x1000, bytes, 8), 0);
	assert_int_equal(core_file_read(core, UINT64_MAX - 4, bytes, 8), 0);
	core_file_free(core);
	free(made);
}

/* Each time either nothing is said, or what was there. */
static void a_file_cut_off_gives_what_it_has(void **state)
{
	struct core_bytes *made = core_bytes_new();
	(void)state;
	for (size_t size = 0; size < made->size; size += size < 0x1000 ? 7 : 0x123) {
		struct core_file *core;
		struct error error = {0};
		uint8_t byte;
		const int fd = core_bytes_file(made->bytes, size);
		if (!core_file_open(fd, &core, &error)) {
			assert_true(size < 0x1000);
			assert_true(error.kind == ERROR_ABSENT || error.kind == ERROR_CORRUPT);
			continue;
		}
		assert_true(core->truncated);
		assert_int_equal(core->threads[0].tid, CORE_BYTES_FIRST);
		if (core_file_read(core, CORE_BYTES_TEXT + 5, &byte, 1))
			assert_int_equal(byte, core_bytes_at(0, 5));
		assert_int_equal(core_file_read(core, CORE_BYTES_STACK + 0x1fff, &byte, 1), 0);
		core_file_free(core);
	}
	free(made);
}

/* A million segments may have the same half a gigabyte. */
static void notes_of_several_segments_are_read_once(void **state)
{
	struct core_bytes *made = core_bytes_new();
	Elf64_Phdr notes, inside;
	(void)state;
	memcpy(&notes, made->bytes + sizeof(Elf64_Ehdr), sizeof(notes));
	inside = notes;
	inside.p_offset += 4;
	memcpy(made->bytes + sizeof(Elf64_Ehdr) + 2 * sizeof(notes), &notes, sizeof(notes));
	memcpy(made->bytes + sizeof(Elf64_Ehdr) + 3 * sizeof(notes), &inside, sizeof(notes));
	struct core_file *core = open_bytes(made->bytes, made->size);
	assert_int_equal(core->thread_count, 2);
	core_file_free(core);
	free(made);
}

static void what_is_no_core_file_is_refused_by_name(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		enum error_kind kind;
	} changes[] = {
		{0, 0, ERROR_CORRUPT},
		{EI_CLASS, ELFCLASS32, ERROR_UNSUPPORTED},
		{offsetof(Elf64_Ehdr, e_machine), EM_AARCH64, ERROR_UNSUPPORTED},
		{offsetof(Elf64_Ehdr, e_type), ET_DYN, ERROR_CORRUPT},
		{offsetof(Elf64_Ehdr, e_phentsize), 1, ERROR_CORRUPT},
		{offsetof(Elf64_Ehdr, e_phnum), 0, ERROR_ABSENT},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		struct core_bytes *made = core_bytes_new();
		struct core_file *core;
		struct error error = {0};
		made->bytes[changes[i].at] = changes[i].value;
		assert_false(core_file_open(core_bytes_file(made->bytes, made->size), &core,
					    &error));
		assert_int_equal(error.kind, changes[i].kind);
		free(made);
	}
}

/* ---- packed ---- */

static void *gzip(const struct core_bytes *made, size_t *size)
{
	z_stream stream = {.next_in = (Bytef *)(uintptr_t)made->bytes,
			   .avail_in = (uInt)made->size};
	assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	uint8_t *packed = malloc(2 * CORE_BYTES_SIZE);
	stream.next_out = packed;
	stream.avail_out = 2 * CORE_BYTES_SIZE;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	*size = stream.total_out;
	deflateEnd(&stream);
	return packed;
}

#ifdef HAVE_ZSTD
/* A page a block: one is 128 KB of larger files. */
static void *zstd(const struct core_bytes *made, size_t *size)
{
	ZSTD_CCtx *context = ZSTD_createCCtx();
	uint8_t *packed = malloc(2 * CORE_BYTES_SIZE);
	ZSTD_outBuffer out = {packed, 2 * CORE_BYTES_SIZE, 0};
	for (size_t at = 0; at < made->size; at += 4096) {
		const size_t left = made->size - at;
		ZSTD_inBuffer in = {made->bytes + at, left < 4096 ? left : 4096, 0};
		assert_int_equal(ZSTD_compressStream2(context, &out, &in,
						      left <= 4096 ? ZSTD_e_end : ZSTD_e_flush),
				 0);
	}
	ZSTD_freeCCtx(context);
	*size = out.pos;
	return packed;
}
#endif

static void check_packed(uint8_t *packed, size_t size)
{
	struct core_file *core = open_bytes(packed, size);
	uint8_t bytes[16];
	assert_false(core->truncated);
	check_notes(core);
	assert_int_equal(core_file_read(core, CORE_BYTES_STACK + 0x1ff0, bytes, 16), 16);
	assert_int_equal(bytes[15], core_bytes_at(3, 0x1fff));
	core_file_free(core);
	/* Cut off near its end: what comes before is there. */
	core = open_bytes(packed, size - 40);
	assert_true(core->truncated);
	core_file_free(core);
	/* A limit, and no descriptor lost. */
	bool cut = false;
	struct error error;
	int fd = core_bytes_file(packed, size);
	assert_false(core_unpack(&fd, 0x2000, &cut, &error));
	assert_int_equal(error.kind, ERROR_CORRUPT);
	close(fd);
	free(packed);
}

static void packed_files_are_unpacked(void **state)
{
	struct core_bytes *made = core_bytes_new();
	size_t size;
	(void)state;
	uint8_t *packed = gzip(made, &size);
	check_packed(packed, size);
#ifdef HAVE_ZSTD
	packed = zstd(made, &size);
	check_packed(packed, size);
#endif
	free(made);
}

static void other_packers_are_named(void **state)
{
	static const uint8_t xz[16] = {0xfd, '7', 'z', 'X', 'Z', 0};
	struct core_file *core;
	struct error error;
	(void)state;
	assert_false(core_file_open(core_bytes_file(xz, sizeof(xz)), &core, &error));
	assert_int_equal(error.kind, ERROR_SYSTEM);
	assert_non_null(strstr(error.message, "xz"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(notes_and_memory_are_read),
		cmocka_unit_test(a_file_cut_off_gives_what_it_has),
		cmocka_unit_test(notes_of_several_segments_are_read_once),
		cmocka_unit_test(what_is_no_core_file_is_refused_by_name),
		cmocka_unit_test(packed_files_are_unpacked),
		cmocka_unit_test(other_packers_are_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
