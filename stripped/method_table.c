/* SPDX-License-Identifier: MIT */
/*
 * From arrays of methods and properties (PyMethodDef, PyGetSetDef), and from the module definitions
 * that own some of them (PyModuleDef), to candidates. CPython Include/methodobject.h,
 * descrobject.h, moduleobject.h.
 */
#include "stripped/internal.h"

enum {
	METHOD_SIZE = 32,     /* name, function, flags, doc */
	PROPERTY_SIZE = 40,   /* name, get, set, doc, closure */
	METHOD_FLAGS = 0x3ff, /* METH_VARARGS (1) to METH_METHOD (0x200) */
	SLOT_MODULE_EXEC = 2, /* Py_mod_exec */
	SLOT_MODULE_EXEC_3_15 = 85,
	SLOT_MODULE_CREATE = 1, /* Py_mod_create */
	SLOT_MODULE_CREATE_3_15 = 84,
};

static const char *name_at(const struct elf_image *image, uint64_t place)
{
	const uint64_t pointer = image_pointer(image, place);

	return pointer ? image_text(image, pointer) : NULL;
}

bool method_is(const struct elf_image *image, uint64_t place)
{
	const char *name = name_at(image, place);
	const uint64_t flags = image_word(image, place + 16);

	return name && flags && flags <= METHOD_FLAGS && is_identifier(name, false) &&
	       image_is_function(image, image_pointer(image, place + 8)) &&
	       image_is_reference(image, place + 24);
}

bool property_is(const struct elf_image *image, uint64_t place)
{
	const char *name = name_at(image, place);
	const uint64_t get = image_pointer(image, place + 8);
	const uint64_t set = image_pointer(image, place + 16);

	return name && (get || set) && is_identifier(name, false) &&
	       get == image_word(image, place + 8) && set == image_word(image, place + 16) &&
	       image_is_function_slot(image, get) && image_is_function_slot(image, set) &&
	       image_is_reference(image, place + 24);
}

void methods_add_names(struct name_candidates *candidates, const struct elf_image *image,
		       uint64_t array, const struct owner *owner)
{
	for (int i = 0; i < MAX_ENTRIES && candidates_step(candidates); i++, array += METHOD_SIZE) {
		const char *name = name_at(image, array);
		if (!name)
			break;
		candidates_add(candidates, image, owner, name, image_pointer(image, array + 8),
			       EVIDENCE_METHOD, false);
	}
}

void properties_add_names(struct name_candidates *candidates, const struct elf_image *image,
			  uint64_t array, const struct owner *owner)
{
	for (int i = 0; i < MAX_ENTRIES && candidates_step(candidates);
	     i++, array += PROPERTY_SIZE) {
		const char *name = name_at(image, array);
		if (!name)
			break;
		candidates_add(candidates, image, owner, name, image_pointer(image, array + 8),
			       EVIDENCE_PROPERTY, false);
		candidates_add(candidates, image, owner, name, image_pointer(image, array + 16),
			       EVIDENCE_PROPERTY, true);
	}
}

/* ---- PyModuleDef -------------------------------------------------------------------------- */

/*
 * Members by their distance from m_name. Before it: reference count, type and, with all builds,
 * m_init, m_index and m_copy, none of which is set before the module is imported.
 */
enum {
	MODULE_TYPE = -32,
	MODULE_INIT = -24,
	MODULE_INDEX = -16,
	MODULE_COPY = -8,
	MODULE_DOC = 8,
	MODULE_SIZE = 16,
	MODULE_METHODS = 24,
	MODULE_SLOTS = 32,
	MODULE_TRAVERSE = 40,
	MODULE_FREE = 56,
};

static bool module_is(const struct elf_image *image, uint64_t name)
{
	const int64_t size = (int64_t)image_word(image, name + MODULE_SIZE);

	for (int member = MODULE_TYPE; member <= MODULE_COPY; member += 8)
		if (image_word(image, name + (uint64_t)(int64_t)member))
			return false;
	for (uint64_t member = MODULE_TRAVERSE; member <= MODULE_FREE; member += 8)
		if (!image_is_function_slot(image, image_word(image, name + member)))
			return false;
	return image_is_object(image, name + (uint64_t)(int64_t)MODULE_TYPE) && size >= -1 &&
	       size < 1 << 24 && !image_is_function(image, image_word(image, name + MODULE_DOC)) &&
	       image_is_reference(image, name + MODULE_DOC) &&
	       image_is_reference(image, name + MODULE_METHODS) &&
	       image_is_reference(image, name + MODULE_SLOTS) &&
	       (image_word(image, name + MODULE_METHODS) || image_word(image, name + MODULE_SLOTS));
}

static void claim_module_slots(struct name_candidates *candidates, const struct elf_image *image,
			       uint64_t slots, const struct owner *owner)
{
	for (int i = 0; slots && i < MAX_ENTRIES && candidates_step(candidates); i++, slots += 16) {
		const uint16_t id = (uint16_t)image_word(image, slots);
		const uint64_t function = image_pointer(image, slots + 8);
		if (!id)
			break;
		if (id == SLOT_MODULE_EXEC || id == SLOT_MODULE_EXEC_3_15)
			candidates_add(candidates, image, owner, "exec", function,
				       EVIDENCE_MODULE_SLOT, false);
		if (id == SLOT_MODULE_CREATE || id == SLOT_MODULE_CREATE_3_15)
			candidates_add(candidates, image, owner, "create", function,
				       EVIDENCE_MODULE_SLOT, false);
	}
}

bool module_add_names(struct name_candidates *candidates, const struct elf_image *image,
		      uint64_t name)
{
	const char *text = name_at(image, name);

	if (!text || !module_is(image, name) || !is_identifier(text, true))
		return false;
	const struct owner owner = {.module = intern_text(candidates->texts, text)};
	candidates->module = owner.module;
	methods_add_names(candidates, image, image_pointer(image, name + MODULE_METHODS), &owner);
	claim_module_slots(candidates, image, image_pointer(image, name + MODULE_SLOTS), &owner);
	return true;
}
