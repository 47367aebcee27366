/* SPDX-License-Identifier: MIT */
/*
 * The names that the threading module gives: sys.modules["threading"]._active[ident]._name (2.7:
 * _Thread__name). Read while the target runs: no name is an answer.
 */
#include <string.h>

#include "base/cleanup.h"
#include "python/internal.h"

/* What the threading module names the main thread, and so shall one that has not imported it. */
static const char MAIN_NAME[] = "MainThread";

/* threading._active, which is one and the same dict as long as the interpreter lives. */
static remote_addr find_active(const struct python_objects *objects, remote_addr interpreter,
			       bool *without_threading)
{
	const struct python_layout *layout = objects->layout;
	const struct object_key threading = {"threading", 0}, active = {"_active", 0};
	remote_addr modules = object_word(objects, interpreter + layout->interp_modules);
	remote_addr module = object_dict_value(objects, modules, &threading);
	*without_threading = modules && !module;
	if (!module)
		return 0;
	return object_dict_value(objects, object_word(objects, module + layout->module_dict),
				 &active);
}

/* A program may have thousands of modules, and each costs a read: the way is gone once. */
static remote_addr find_thread(const struct python_runtime *runtime,
			       const struct python_objects *objects,
			       const struct python_thread *thread)
{
	struct python_active *last = runtime->last_active;
	if (last->dict && last->interpreter == thread->interpreter &&
	    (python_type_flags(objects->layout, objects->memory, last->dict) & TYPE_DICT))
		return object_dict_indexed(objects, last->dict, thread->thread_id, &last->threads);
	object_index_release(&last->threads);
	last->interpreter = thread->interpreter;
	last->dict = find_active(objects, thread->interpreter, &last->without_threading);
	return object_dict_indexed(objects, last->dict, thread->thread_id, &last->threads);
}

/* False when the Thread object says that it has another id (3.8+: _native_id). */
static bool is_thread(const struct python_objects *objects, remote_addr object,
		      const struct python_thread *thread)
{
	remote_addr native = object_attribute(objects, object, "_native_id");
	uint64_t value;
	return !native || !thread->native_thread_id || !object_integer(objects, native, &value) ||
	       value == thread->native_thread_id;
}

bool python_thread_name(const struct python_runtime *runtime, const struct memory_reader *memory,
			const struct python_thread *thread, char name[PYTHON_NAME_SIZE])
{
	const struct python_layout *layout = &runtime->layout;
	const struct python_objects objects = {layout, memory};
	remote_addr object = find_thread(runtime, &objects, thread);
	/* Nobody can have given it another one. */
	if (!object && thread->main && !runtime->last_active->dict &&
	    runtime->last_active->without_threading) {
		memcpy(name, MAIN_NAME, sizeof(MAIN_NAME));
		return true;
	}
	/* The dict is changed while it is read: what it gives may be a thread that has ended. */
	if (!object || !is_thread(&objects, object, thread))
		return false;
	remote_addr text = object_attribute(&objects, object, layout->thread_name);
	if (!text || !python_is_string(layout, memory, text))
		return false;
	_cleanup_strbuf_ struct strbuf read;
	strbuf_init(&read);
	if (!python_string_read(layout, memory, text, &read, NULL) || read.size == 0)
		return false;
	const size_t size = read.size < PYTHON_NAME_SIZE ? read.size : PYTHON_NAME_SIZE - 1;
	memcpy(name, read.text, size);
	name[size] = '\0';
	return name[0] != '\0';
}
