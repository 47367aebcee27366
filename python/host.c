/* SPDX-License-Identifier: MIT */
/*
 * An interpreter that is linked into a program (libpython3.11.a) shares its module with functions
 * that are not its own: which is whose is told by the names of symbols alone. Where a file has
 * none, all that is in it is taken for the interpreter's.
 */
#include <elf.h>

#include "base/sorted.h"
#include "python/internal.h"

/* An executable or library of that name has nothing else inside. */
static bool is_interpreters_own(const struct module *module)
{
	return strstr(module->name, "python") != NULL;
}

void python_host_locate(struct python_runtime *runtime)
{
	/* The last two: CPython Python/thread_pthread.h; up to 3.9 Modules/_threadmodule.c. */
	static const char *const starts[] = {"Py", "_Py", "pythread_wrapper", "t_bootstrap"};
	enum { MOST = 1 << 16 };
	if (is_interpreters_own(runtime->module))
		return;
	runtime->api_count = module_find_functions(
		runtime->module, starts, sizeof(starts) / sizeof(*starts), MOST, &runtime->api);
}

bool python_runtime_owns(const struct python_runtime *runtime, remote_addr pc)
{
	return module_contains(runtime->module, PF_X, pc - runtime->module->load_bias, 1);
}

bool python_runtime_has_host(const struct python_runtime *runtime)
{
	return runtime->api_count > 0;
}

bool python_runtime_is_api(const struct python_runtime *runtime, remote_addr pc)
{
	const uint64_t vaddr = pc - runtime->module->load_bias;
	const size_t until = upper_bound(runtime->api, runtime->api_count, sizeof(*runtime->api),
					 offsetof(struct module_place, vaddr), vaddr);
	return until > 0 && vaddr - runtime->api[until - 1].vaddr < runtime->api[until - 1].size;
}

bool python_runtime_calls_api(const struct python_runtime *runtime, remote_addr return_address)
{
	enum { CALL = 0xe8, SIZE = 5 }; /* call rel32 */
	uint8_t bytes[SIZE];
	int32_t distance;
	if (!python_runtime_owns(runtime, return_address - SIZE) ||
	    !module_read(runtime->module, return_address - SIZE - runtime->module->load_bias, bytes,
			 SIZE, NULL) ||
	    bytes[0] != CALL)
		return false;
	memcpy(&distance, bytes + 1, sizeof(distance));
	return python_runtime_is_api(runtime, return_address + (uint64_t)(int64_t)distance);
}
