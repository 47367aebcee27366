/* SPDX-License-Identifier: MIT */
/*
 * From a stripped module to its separate debug file, and from that to the file that several debug
 * files share (dwz). What a file names is looked up in the root that it is in, and nowhere else
 * (files/foreign_file.h); by the build ID, which names no path, in our own /usr/lib/debug as well,
 * and in a folder that is given for that. A file counts only when its build ID, or the checksum
 * that the module has of it, agrees.
 */
#include <elfutils/libdwelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "symbolize/internal.h"

static const char debug_directory[] = "/usr/lib/debug";
static const struct foreign_root our_root = {.fd = FOREIGN_OUR_ROOT};

void debug_files_init(struct debug_files *files)
{
	*files = (struct debug_files){.debug = {.fd = -1}, .alternate = {.fd = -1}};
}

static void close_file(struct debug_file *file)
{
	elf_end(file->elf);
	if (file->fd >= 0)
		close(file->fd);
	*file = (struct debug_file){.fd = -1};
}

void debug_files_release(struct debug_files *files)
{
	if (files->alternate_dwarf)
		dwarf_end(files->alternate_dwarf);
	close_file(&files->alternate);
	close_file(&files->debug);
	free(files->image);
	debug_files_init(files);
}

static uint32_t checksum(int fd)
{
	unsigned char buffer[65536];
	uLong value = crc32(0, NULL, 0);
	off_t offset = 0;
	ssize_t size;

	while ((size = pread(fd, buffer, sizeof(buffer), offset)) > 0) {
		value = crc32(value, buffer, (uInt)size);
		offset += size;
	}
	return (uint32_t)value;
}

/* What a file must be to be believed. */
struct expected {
	const void *id;
	ssize_t id_size; /* <= 0: not known */
	bool has_checksum;
	uint32_t checksum;
};

static bool is_expected(const struct debug_file *file, const struct expected *expected)
{
	const void *id;
	const ssize_t size = dwelf_elf_gnu_build_id(file->elf, &id);

	if (expected->id_size > 0 && size > 0)
		return size == expected->id_size && memcmp(id, expected->id, (size_t)size) == 0;
	return expected->has_checksum && checksum(file->fd) == expected->checksum;
}

static bool take_file(struct debug_file *file, int fd, const struct expected *expected)
{
	/* Not mapped: a file that is truncated meanwhile would kill us with SIGBUS. */
	file->fd = fd;
	if (file->fd >= 0)
		file->elf = elf_begin(file->fd, ELF_C_READ, NULL);
	if (file->elf && elf_kind(file->elf) == ELF_K_ELF && is_expected(file, expected))
		return true;
	close_file(file);
	return false;
}

static struct foreign_root root_of(const struct symbolize_module *module)
{
	return (struct foreign_root){
		.fd = module->root_fd, .user = module->root_user, .far = module->root_far};
}

static bool open_file(struct debug_file *file, struct foreign_root root, const char *path,
		      const struct expected *expected)
{
	return take_file(file, foreign_file_open(root, path), expected);
}

/* *ours: it was not in that root, but in our own. */
static bool find_by_build_id(struct debug_file *file, struct foreign_root root,
			     const struct symbolize_module *module, const struct expected *expected,
			     bool *ours)
{
	const struct foreign_root *symbols = module->symbols;
	struct build_id id = {.size = 0};
	char path[PATH_MAX];

	if ((size_t)expected->id_size > sizeof(id.bytes))
		return false;
	id.size = (uint8_t)expected->id_size;
	memcpy(id.bytes, expected->id, id.size);
	if (symbols && elf_debug_path("", &id, path, sizeof(path)) &&
	    open_file(file, *symbols, path, expected))
		return true;
	if (module->find_debug &&
	    take_file(file, module->find_debug(module->context, &id), expected))
		return true;
	if (!elf_debug_path(debug_directory, &id, path, sizeof(path)))
		return false;
	if (open_file(file, root, path, expected))
		return true;
	*ours = open_file(file, our_root, path, expected);
	return *ours;
}

static bool find_by_link(struct debug_file *file, const struct symbolize_module *module, Elf *elf,
			 struct expected *expected)
{
	const char *slash = strrchr(module->path, '/');
	const int size = slash ? (int)(slash - module->path) : 0;
	const char *name = dwelf_elf_gnu_debuglink(elf, &expected->checksum);

	if (!name || !*name || strchr(name, '/') || !slash || module->path[0] != '/')
		return false;
	expected->has_checksum = true;
	if (module->symbols && open_file(file, *module->symbols, name, expected))
		return true;
	for (int i = 0; i < 3; i++) {
		static const char *const before[] = {"", "", debug_directory};
		static const char *const between[] = {"/", "/.debug/", "/"};
		char path[PATH_MAX];
		if (snprintf(path, sizeof(path), "%s%.*s%s%s", before[i], size, module->path,
			     between[i], name) < (int)sizeof(path) &&
		    open_file(file, root_of(module), path, expected))
			return true;
	}
	return false;
}

/* The ID in the file goes before what the caller knows. */
static struct expected expected_of(const struct symbolize_module *module, Elf *elf)
{
	struct expected expected = {.id = module->build_id.bytes, .id_size = module->build_id.size};
	const void *id;
	const ssize_t size = dwelf_elf_gnu_build_id(elf, &id);

	if (size > 0) {
		expected.id = id;
		expected.id_size = size;
	}
	return expected;
}

bool debug_files_find(struct debug_files *files, const struct symbolize_module *module, Elf *elf)
{
	struct expected expected = expected_of(module, elf);

	return find_by_build_id(&files->debug, root_of(module), module, &expected, &files->ours) ||
	       find_by_link(&files->debug, module, elf, &expected);
}

bool debug_files_take(struct debug_files *files, int fd, const struct symbolize_module *module,
		      Elf *elf)
{
	const struct expected expected = expected_of(module, elf);

	return take_file(&files->debug, fd, &expected);
}

bool debug_files_stand_in(struct debug_files *files, int fd, const struct symbolize_module *module)
{
	const struct expected expected = {.id = module->build_id.bytes,
					  .id_size = module->build_id.size};

	if (fd >= 0)
		return take_file(&files->debug, fd, &expected);
	return find_by_build_id(&files->debug, root_of(module), module, &expected, &files->ours);
}

/* ---- the alternate file ------------------------------------------------------------------- */

/*
 * An ELF file with one empty .debug_frame, the least that libdw takes for DWARF, and with strings
 * (none) behind it. References into it fail, which is what is wanted when the real one is not
 * there.
 */
struct image {
	Elf64_Ehdr header;
	Elf64_Shdr sections[4];
	char names[40];
	uint64_t content;
	char strings[];
};

static const struct image empty_image = {
	.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		   .e_type = ET_DYN,
		   .e_machine = EM_X86_64,
		   .e_version = EV_CURRENT,
		   .e_shoff = offsetof(struct image, sections),
		   .e_ehsize = sizeof(Elf64_Ehdr),
		   .e_shentsize = sizeof(Elf64_Shdr),
		   .e_shnum = 4,
		   .e_shstrndx = 1},
	.sections = {[1] = {.sh_name = 25,
			    .sh_type = SHT_STRTAB,
			    .sh_size = sizeof(empty_image.names),
			    .sh_addralign = 1,
			    .sh_offset = offsetof(struct image, names)},
		     [2] = {.sh_name = 1,
			    .sh_type = SHT_PROGBITS,
			    .sh_size = 8,
			    .sh_addralign = 8,
			    .sh_offset = offsetof(struct image, content)},
		     [3] = {.sh_name = 14,
			    .sh_type = SHT_PROGBITS,
			    .sh_addralign = 1,
			    .sh_offset = offsetof(struct image, strings)}},
	.names = "\0.debug_frame\0.debug_str\0.shstrtab",
};

/* Where there is no alternate file, or one of strings alone, which libdw does not take. */
static void set_image(struct debug_files *files, Dwarf *dwarf, const struct elf_bytes *strings)
{
	struct image *image = alloc_zeroed(1, sizeof(*image) + strings->size);

	*image = empty_image;
	image->sections[3].sh_size = strings->size;
	if (strings->size)
		memcpy(image->strings, strings->data, strings->size);
	close_file(&files->alternate);
	files->image = image;
	files->alternate.elf = elf_memory((char *)image, sizeof(*image) + strings->size);
	files->alternate_dwarf = files->alternate.elf
					 ? dwarf_begin_elf(files->alternate.elf, DWARF_C_READ, NULL)
					 : NULL;
	if (files->alternate_dwarf)
		dwarf_setalt(dwarf, files->alternate_dwarf);
}

/* The name is absolute, or relative to the debug file; Debian's are in .dwz/. */
static bool find_alternate(struct debug_file *file, struct foreign_root root,
			   const struct symbolize_module *module, const char *name,
			   const struct expected *expected)
{
	const char *last = strrchr(name, '/');
	char path[PATH_MAX];
	bool ours;

	if (find_by_build_id(file, root, module, expected, &ours))
		return true;
	if (name[0] == '/' && open_file(file, root, name, expected))
		return true;
	snprintf(path, sizeof(path), "%s/.dwz/%s", debug_directory, last ? last + 1 : name);
	if (open_file(file, root, path, expected))
		return true;
	snprintf(path, sizeof(path), "%s/.dwz/x86_64-linux-gnu/%s", debug_directory,
		 last ? last + 1 : name);
	return open_file(file, root, path, expected);
}

bool debug_files_set_alternate(struct debug_files *files, const struct symbolize_module *module,
			       Dwarf *dwarf)
{
	struct expected expected = {.id = NULL};
	const char *name;

	expected.id_size = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &expected.id);
	const bool found =
		expected.id_size > 0 &&
		find_alternate(&files->alternate, files->ours ? our_root : root_of(module), module,
			       name, &expected);
	if (found)
		files->alternate_dwarf = dwarf_begin_elf(files->alternate.elf, DWARF_C_READ, NULL);
	if (files->alternate_dwarf) {
		dwarf_setalt(dwarf, files->alternate_dwarf);
		return true;
	}
	struct elf_bytes strings = {0};
	const bool usable =
		found && elf_section_bytes(files->alternate.elf, ".debug_str", &strings);
	set_image(files, dwarf, &strings);
	return usable || expected.id_size <= 0;
}
