/* SPDX-License-Identifier: MIT */
/*
 * From static types (PyTypeObject) and from specifications of types (PyType_Spec) to candidates of
 * the functions in their slots. The order of the members is that of every CPython from 2.7 on
 * (Include/cpython/object.h); all are told by their distance from tp_name, as what is before
 * it differs between builds.
 */
#include "base/alloc.h"
#include "stripped/internal.h"

enum suite { TYPE, NUMBER, SEQUENCE, MAPPING, BUFFER, ASYNC, SUITES };

enum { NONE = -1, MAX_SLOT_ID = 110, MAX_SLOTS = 128 };

/* `made`: Cython's own code, that may call the author's method. */
static const struct slot {
	int id; /* Py_tp_dealloc ...; Include/typeslots.h */
	enum suite suite;
	int offset, offset2; /* Python 3 and 2 */
	const char *slot;    /* what it is called in C */
	const char *method;  /* what a Python program calls it; NULL: it cannot */
	bool from_slot;
} slots[] = {
	{52, TYPE, 24, 24, "tp_dealloc", NULL, true},
	{57, TYPE, 40, 40, "tp_getattr", "__getattribute__", false},
	{68, TYPE, 48, 48, "tp_setattr", "__setattr__", false},
	{0, TYPE, NONE, 56, "tp_compare", "__cmp__", false},
	{66, TYPE, 64, 64, "tp_repr", "__repr__", false},
	{59, TYPE, 96, 96, "tp_hash", "__hash__", false},
	{50, TYPE, 104, 104, "tp_call", "__call__", false},
	{70, TYPE, 112, 112, "tp_str", "__str__", false},
	{58, TYPE, 120, 120, "tp_getattro", "__getattribute__", true},
	{69, TYPE, 128, 128, "tp_setattro", "__setattr__", true},
	{71, TYPE, 160, 160, "tp_traverse", NULL, true},
	{51, TYPE, 168, 168, "tp_clear", NULL, true},
	{67, TYPE, 176, 176, "tp_richcompare", NULL, true},
	{62, TYPE, 192, 192, "tp_iter", "__iter__", false},
	{63, TYPE, 200, 200, "tp_iternext", "__next__", false},
	{54, TYPE, 248, 248, "tp_descr_get", "__get__", true},
	{55, TYPE, 256, 256, "tp_descr_set", "__set__", true},
	{60, TYPE, 272, 272, "tp_init", "__init__", false},
	{47, TYPE, 280, 280, "tp_alloc", NULL, true},
	{65, TYPE, 288, 288, "tp_new", "__new__", true},
	{74, TYPE, 296, 296, "tp_free", NULL, true},
	{61, TYPE, 304, 304, "tp_is_gc", NULL, true},
	{53, TYPE, 352, 352, "tp_del", "__del__", true},
	{80, TYPE, 368, NONE, "tp_finalize", "__del__", true},
	{82, TYPE, 376, NONE, "tp_vectorcall", "__new__", true},
	{7, NUMBER, 0, 0, "nb_add", "__add__", true},
	{36, NUMBER, 8, 8, "nb_subtract", "__sub__", true},
	{29, NUMBER, 16, 16, "nb_multiply", "__mul__", true},
	{0, NUMBER, NONE, 24, "nb_divide", "__div__", true},
	{34, NUMBER, 24, 32, "nb_remainder", "__mod__", true},
	{10, NUMBER, 32, 40, "nb_divmod", "__divmod__", true},
	{33, NUMBER, 40, 48, "nb_power", "__pow__", true},
	{30, NUMBER, 48, 56, "nb_negative", "__neg__", false},
	{32, NUMBER, 56, 64, "nb_positive", "__pos__", false},
	{6, NUMBER, 64, 72, "nb_absolute", "__abs__", false},
	{9, NUMBER, 72, NONE, "nb_bool", "__bool__", false},
	{0, NUMBER, NONE, 80, "nb_nonzero", "__nonzero__", false},
	{27, NUMBER, 80, 88, "nb_invert", "__invert__", false},
	{28, NUMBER, 88, 96, "nb_lshift", "__lshift__", true},
	{35, NUMBER, 96, 104, "nb_rshift", "__rshift__", true},
	{8, NUMBER, 104, 112, "nb_and", "__and__", true},
	{38, NUMBER, 112, 120, "nb_xor", "__xor__", true},
	{31, NUMBER, 120, 128, "nb_or", "__or__", true},
	{0, NUMBER, NONE, 136, "nb_coerce", "__coerce__", false},
	{26, NUMBER, 128, 144, "nb_int", "__int__", false},
	{0, NUMBER, NONE, 152, "nb_long", "__long__", false},
	{11, NUMBER, 144, 160, "nb_float", "__float__", false},
	{0, NUMBER, NONE, 168, "nb_oct", "__oct__", false},
	{0, NUMBER, NONE, 176, "nb_hex", "__hex__", false},
	{14, NUMBER, 152, 184, "nb_inplace_add", "__iadd__", false},
	{23, NUMBER, 160, 192, "nb_inplace_subtract", "__isub__", false},
	{18, NUMBER, 168, 200, "nb_inplace_multiply", "__imul__", false},
	{0, NUMBER, NONE, 208, "nb_inplace_divide", "__idiv__", false},
	{21, NUMBER, 176, 216, "nb_inplace_remainder", "__imod__", false},
	{20, NUMBER, 184, 224, "nb_inplace_power", "__ipow__", true},
	{17, NUMBER, 192, 232, "nb_inplace_lshift", "__ilshift__", false},
	{22, NUMBER, 200, 240, "nb_inplace_rshift", "__irshift__", false},
	{15, NUMBER, 208, 248, "nb_inplace_and", "__iand__", false},
	{25, NUMBER, 216, 256, "nb_inplace_xor", "__ixor__", false},
	{19, NUMBER, 224, 264, "nb_inplace_or", "__ior__", false},
	{12, NUMBER, 232, 272, "nb_floor_divide", "__floordiv__", true},
	{37, NUMBER, 240, 280, "nb_true_divide", "__truediv__", true},
	{16, NUMBER, 248, 288, "nb_inplace_floor_divide", "__ifloordiv__", false},
	{24, NUMBER, 256, 296, "nb_inplace_true_divide", "__itruediv__", false},
	{13, NUMBER, 264, 304, "nb_index", "__index__", false},
	{75, NUMBER, 272, NONE, "nb_matrix_multiply", "__matmul__", true},
	{76, NUMBER, 280, NONE, "nb_inplace_matrix_multiply", "__imatmul__", false},
	{5, MAPPING, 8, 8, "mp_subscript", "__getitem__", false},
	{3, MAPPING, 16, 16, "mp_ass_subscript", "__setitem__", true},
	{4, MAPPING, 0, 0, "mp_length", "__len__", false},
	{45, SEQUENCE, 0, 0, "sq_length", "__len__", false},
	{40, SEQUENCE, 8, 8, "sq_concat", "__add__", false},
	{46, SEQUENCE, 16, 16, "sq_repeat", "__mul__", false},
	{44, SEQUENCE, 24, 24, "sq_item", "__getitem__", true},
	{0, SEQUENCE, NONE, 32, "sq_slice", "__getslice__", false},
	{39, SEQUENCE, 40, 40, "sq_ass_item", "__setitem__", true},
	{0, SEQUENCE, NONE, 48, "sq_ass_slice", "__setslice__", false},
	{41, SEQUENCE, 56, 56, "sq_contains", "__contains__", false},
	{42, SEQUENCE, 64, 64, "sq_inplace_concat", "__iadd__", false},
	{43, SEQUENCE, 72, 72, "sq_inplace_repeat", "__imul__", false},
	{1, BUFFER, 0, NONE, "bf_getbuffer", "__getbuffer__", false},
	{2, BUFFER, 8, NONE, "bf_releasebuffer", "__releasebuffer__", false},
	{77, ASYNC, 0, NONE, "am_await", "__await__", false},
	{78, ASYNC, 8, NONE, "am_aiter", "__aiter__", false},
	{79, ASYNC, 16, NONE, "am_anext", "__anext__", false},
	{81, ASYNC, 24, NONE, "am_send", "send", true},
};

/* "partial" has Py_TPFLAGS_HAVE_VECTORCALL (3.8 and later), and tp_new says through what. */
enum { SLOT_CALL = 50, SLOT_NEW = 65, HAVE_VECTORCALL = 1 << 11 };

enum {
	SLOT_COUNT = sizeof(slots) / sizeof(*slots),
	SLOT_NEXT = 63,
	SLOT_METHODS = 64,
	SLOT_PROPERTIES = 73
};

/* Where the type has the pointer to each suite. */
static const int suite_offsets[SUITES] = {
	[NUMBER] = 72, [SEQUENCE] = 80, [MAPPING] = 88, [BUFFER] = 136, [ASYNC] = 56};

enum {
	BASIC_SIZE = 8,
	ITEM_SIZE = 16,
	FLAGS = 144,
	VECTORCALL_OFFSET = 32,
	CALL = 104,
	METHODS = 208,
	PROPERTIES = 224,
	NEW = 288,
	TYPE_END = 360
};

/* A slot that a program knows no name for goes by its own. */
static void claim_slot(struct name_candidates *candidates, const struct elf_image *image,
		       const struct owner *owner, const struct slot *slot, uint64_t function)
{
	const bool from_slot = !slot->method || (slot->from_slot && image->cython);
	const char *name = slot->method ? slot->method : slot->slot;

	if (image->python2 && slot->id == SLOT_NEXT)
		name = "next";
	candidates_add(candidates, image, owner, name, function, EVIDENCE_SLOT, from_slot);
}

static void note_maker(struct name_candidates *candidates, const struct elf_image *image,
		       const struct owner *owner, uint64_t new, uint64_t call, uint64_t flags)
{
	if (!image_is_function(image, new) || !image_is_function(image, call) ||
	    !((flags & HAVE_VECTORCALL) || maker_sets_what_is_called(image, new, call)))
		return;
	candidates->makers = alloc_room(candidates->makers, &candidates->maker_capacity,
					candidates->maker_count + 1, sizeof(*candidates->makers));
	candidates->makers[candidates->maker_count++] =
		(struct maker){owner->module, owner->class, new};
}

static bool has_plausible_slots(const struct elf_image *image, uint64_t name)
{
	int functions = 0;

	for (size_t i = 0; i < SLOT_COUNT; i++) {
		const int offset = image->python2 ? slots[i].offset2 : slots[i].offset;
		if (slots[i].suite != TYPE || offset == NONE || offset >= TYPE_END)
			continue;
		const uint64_t function = image_word(image, name + (uint64_t)offset);
		if (!image_is_function_slot(image, function))
			return false;
		functions += function != 0;
	}
	return functions || image_pointer(image, name + METHODS) ||
	       image_pointer(image, name + PROPERTIES);
}

static bool has_plausible_suites(const struct elf_image *image, uint64_t name)
{
	for (int suite = 1; suite < SUITES; suite++)
		if (!(suite == ASYNC && image->python2) &&
		    !image_is_reference(image, name + (uint64_t)suite_offsets[suite]))
			return false;
	return true;
}

/* What is before tp_name: the head of an object, then its size. */
static bool has_object_head(const struct elf_image *image, uint64_t name)
{
	return image_is_object(image, name - 16) && !image_word(image, name - 8) &&
	       image_is_reference(image, name - 16);
}

static bool type_is(const struct elf_image *image, uint64_t name)
{
	return has_object_head(image, name) && !(image_word(image, name + FLAGS) >> 32) &&
	       image_word(image, name + BASIC_SIZE) < 1 << 24 &&
	       image_word(image, name + ITEM_SIZE) < 1 << 16 && has_plausible_slots(image, name) &&
	       has_plausible_suites(image, name);
}

bool type_add_names(struct name_candidates *candidates, const struct elf_image *image,
		    uint64_t name)
{
	struct owner owner;

	if (!type_is(image, name) ||
	    !candidates_own(candidates, image_text(image, image_pointer(image, name)), &owner))
		return false;
	for (size_t i = 0; i < SLOT_COUNT; i++) {
		const struct slot *slot = &slots[i];
		const int offset = image->python2 ? slot->offset2 : slot->offset;
		const uint64_t suite =
			slot->suite == TYPE
				? name
				: image_pointer(image, name + (uint64_t)suite_offsets[slot->suite]);
		if (offset != NONE && suite)
			claim_slot(candidates, image, &owner, slot,
				   image_pointer(image, suite + (uint64_t)offset));
	}
	methods_add_names(candidates, image, image_pointer(image, name + METHODS), &owner);
	properties_add_names(candidates, image, image_pointer(image, name + PROPERTIES), &owner);
	/* "type" is called through members beyond those of every object. */
	const bool vectorcall = image_word(image, name + VECTORCALL_OFFSET) < TYPE_END;
	note_maker(candidates, image, &owner, image_pointer(image, name + NEW),
		   image_pointer(image, name + CALL),
		   vectorcall ? image_word(image, name + FLAGS) : 0);
	return true;
}

/* ---- PyType_Spec -------------------------------------------------------------------------- */

/* name; basic and item size (int); flags (int), 4 bytes of nothing; slots */
enum { SPEC_SIZES = 8, SPEC_FLAGS = 16, SPEC_SLOTS = 24 };

/* {int slot; void *function}; in 3.15 {uint16_t slot, flags (below 8); ...}, and other numbers for
 * the first four. */
static int slot_id(const struct elf_image *image, uint64_t entry)
{
	static const struct {
		int id, id_before;
	} moved[] = {{88, 1}, {89, 2}, {90, 3}, {91, 4}};
	const int id = (int)(image_word(image, entry) & 0xffff);

	for (size_t i = 0; i < sizeof(moved) / sizeof(*moved); i++)
		if (moved[i].id == id)
			return moved[i].id_before;
	return id;
}

static bool spec_is(const struct elf_image *image, uint64_t name)
{
	const uint64_t sizes = image_word(image, name + SPEC_SIZES);
	uint64_t entry = image_pointer(image, name + SPEC_SLOTS);
	int count = 0;

	if (!entry || entry == IMAGE_EXTERNAL || image_word(image, name + SPEC_FLAGS) >> 32 ||
	    (int32_t)sizes < -(1 << 20) || (int32_t)sizes > 1 << 24 || sizes >> 32 > 1 << 16)
		return false;
	for (; count < MAX_SLOTS && image_word(image, entry); count++, entry += 16)
		if (image_word(image, entry) >> 19 || slot_id(image, entry) > MAX_SLOT_ID)
			return false;
	return count && count < MAX_SLOTS;
}

static void claim_entry(struct name_candidates *candidates, const struct elf_image *image,
			const struct owner *owner, int id, uint64_t value)
{
	if (id == SLOT_METHODS)
		methods_add_names(candidates, image, value, owner);
	else if (id == SLOT_PROPERTIES)
		properties_add_names(candidates, image, value, owner);
	for (size_t i = 0; i < SLOT_COUNT; i++)
		if (slots[i].id == id)
			claim_slot(candidates, image, owner, &slots[i], value);
}

bool spec_add_names(struct name_candidates *candidates, const struct elf_image *image,
		    uint64_t name)
{
	struct owner owner;

	if (!spec_is(image, name) ||
	    !candidates_own(candidates, image_text(image, image_pointer(image, name)), &owner))
		return false;
	uint64_t entry = image_pointer(image, name + SPEC_SLOTS), new = 0, call = 0;
	for (int i = 0; i < MAX_SLOTS && image_word(image, entry) && candidates_step(candidates);
	     i++, entry += 16) {
		const int id = slot_id(image, entry);
		const uint64_t value = image_pointer(image, entry + 8);
		claim_entry(candidates, image, &owner, id, value);
		new = id == SLOT_NEW ? value : new;
		call = id == SLOT_CALL ? value : call;
	}
	note_maker(candidates, image, &owner, new, call, image_word(image, name + SPEC_FLAGS));
	return true;
}
