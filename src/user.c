/* SPDX-License-Identifier: MIT */
/*
 * From root to the user who called sudo. sudo says who that is, and leaves out what leads to the
 * user's session.
 */
#include "src/user.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The number in a variable that sudo sets; 0: none, or it is root's. */
static unsigned number_of(const char *variable)
{
	const char *text = getenv(variable);
	char *end;
	const unsigned long number = text ? strtoul(text, &end, 10) : 0;
	return text && *text && !*end && number < UINT_MAX ? (unsigned)number : 0;
}

uid_t user_invoking(void)
{
	return geteuid() == 0 ? (uid_t)number_of("SUDO_UID") : geteuid();
}

struct sandbox_user user_of_parsing(void)
{
	const unsigned NOBODY = 65534;
	const unsigned user = number_of("SUDO_UID"), group = number_of("SUDO_GID");
	return user ? (struct sandbox_user){user, group ? group : NOBODY}
		    : (struct sandbox_user){NOBODY, NOBODY};
}

static void find_session(uid_t user)
{
	char folder[64], bus[96];
	struct stat stat;
	snprintf(folder, sizeof(folder), "/run/user/%u", (unsigned)user);
	if (lstat(folder, &stat) != 0 || !S_ISDIR(stat.st_mode) || stat.st_uid != user)
		return;
	snprintf(bus, sizeof(bus), "unix:path=%s/bus", folder);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	setenv("DBUS_SESSION_BUS_ADDRESS", bus, 0);
}

static bool drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	return syscall(SYS_capset, &header, none) == 0;
}

bool user_become(void)
{
	const uid_t user = (uid_t)number_of("SUDO_UID");
	if (geteuid() != 0)
		return drop_capabilities();
	if (user == 0)
		return true;
	errno = ENOENT;
	const struct passwd *entry = getpwuid(user);
	if (!entry)
		return false;
	setenv("HOME", entry->pw_dir, 1);
	setenv("USER", entry->pw_name, 1);
	setenv("LOGNAME", entry->pw_name, 1);
	find_session(user);
	return initgroups(entry->pw_name, entry->pw_gid) == 0 && setgid(entry->pw_gid) == 0 &&
	       setuid(user) == 0;
}
