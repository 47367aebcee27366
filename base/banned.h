/* SPDX-License-Identifier: MIT */
/*
 * Functions that no file may call; the Makefile includes this first. What to call instead: struct
 * strbuf or snprintf() for text, strtol() and its like for numbers, waitpid() for a child of ours,
 * the _r variants for time.
 */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define BANNED(function) sorry_##function##_is_a_banned_function

#undef strcpy
#define strcpy(...) BANNED(strcpy)
#undef strcat
#define strcat(...) BANNED(strcat)
#undef strncpy
#define strncpy(...) BANNED(strncpy)
#undef strncat
#define strncat(...) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(...) BANNED(strtok)
#undef atoi
#define atoi(...) BANNED(atoi)
#undef atol
#define atol(...) BANNED(atol)
#undef atof
#define atof(...) BANNED(atof)
#undef wait
#define wait(...) BANNED(wait)
#undef asctime
#define asctime(...) BANNED(asctime)
#undef ctime
#define ctime(...) BANNED(ctime)
#undef gmtime
#define gmtime(...) BANNED(gmtime)
#undef localtime
#define localtime(...) BANNED(localtime)
#undef alloca
#define alloca(...) BANNED(alloca)

#endif
