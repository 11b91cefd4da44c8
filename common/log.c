#include "common/log.h"

#include "common/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *log_program = "ncbench";
static enum log_level log_threshold = LOG_WARN;

void log_init(const char *program, enum log_level level)
{
    log_program = program;
    log_threshold = level;
}

void log_set_level(enum log_level level)
{
    log_threshold = level;
}

/* One fprintf a message, so that lines of several processes do not mix. */
static void emit(enum log_level level, const char *label, const char *fmt, va_list ap)
{
    if (level > log_threshold)
        return;
    char *text = mem_vprintf(fmt, ap);
    fprintf(stderr, "%s: %s%s\n", log_program, label, text);
    free(text);
}

#define LOG_BODY(level, label)                                                                     \
    va_list ap;                                                                                    \
    va_start(ap, fmt);                                                                             \
    emit(level, label, fmt, ap);                                                                   \
    va_end(ap)

void log_warn(const char *fmt, ...)
{
    LOG_BODY(LOG_WARN, "warning: ");
}

void log_info(const char *fmt, ...)
{
    LOG_BODY(LOG_INFO, "");
}

void log_debug(const char *fmt, ...)
{
    LOG_BODY(LOG_DEBUG, "debug: ");
}
