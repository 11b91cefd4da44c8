/* Functions that must not be called, included before everything else by the compiler's command
 * line (-include). Each has a safer or locale-proof replacement in common/. */
#ifndef COMMON_BANNED_H
#define COMMON_BANNED_H

/* The headers first, so that their own declarations are not poisoned. */
#ifndef __ASSEMBLER__
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BANNED(name) banned_function_##name##_see_common_banned_h
#undef strcpy
#define strcpy(...) BANNED(strcpy) /* str_append, snprintf */
#undef strcat
#define strcat(...) BANNED(strcat) /* str_append */
#undef strncpy
#define strncpy(...) BANNED(strncpy) /* str_append_n */
#undef strncat
#define strncat(...) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf) /* snprintf, str_appendf */
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(...) BANNED(strtok) /* strsep, strtok_r */
#undef atoi
#define atoi(...) BANNED(atoi) /* num_parse_i64 */
#undef atol
#define atol(...) BANNED(atol)
#undef atof
#define atof(...) BANNED(atof) /* num_parse_f64 */
#undef strtod
#define strtod(...) BANNED(strtod) /* num_parse_f64: independent of the locale */
#undef localtime
#define localtime(...) BANNED(localtime)
#undef gmtime
#define gmtime(...) BANNED(gmtime) /* gmtime_r */
#undef ctime
#define ctime(...) BANNED(ctime)
#undef system
#define system(...) BANNED(system) /* spawn_start: no shell anywhere */
#undef popen
#define popen(...) BANNED(popen)
#undef setlocale
#define setlocale(...) BANNED(setlocale)
#endif

#endif
