#include "common/error.h"

#include "common/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_message(struct error *err, int code, char *message)
{
    if (code <= 0)
        BUG("an error needs a code > 0, not %d", code);
    if (err->code) { /* the first error is the cause */
        free(message);
        return -err->code;
    }
    err->code = code;
    err->message = message;
    return -code;
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *message = mem_vprintf(fmt, ap);
    va_end(ap);
    return set_message(err, code, message);
}

int error_errno(struct error *err, int code, int errnum, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *what = mem_vprintf(fmt, ap);
    va_end(ap);
    char buf[128];
    char *message = mem_printf("%s: %s", what, strerror_r(errnum, buf, sizeof buf));
    free(what);
    return set_message(err, code, message);
}

int error_wrap(struct error *err, const char *fmt, ...)
{
    if (!err->code)
        BUG("error_wrap of an error that is not set");
    va_list ap;
    va_start(ap, fmt);
    char *context = mem_vprintf(fmt, ap);
    va_end(ap);
    char *message = mem_printf("%s: %s", context, err->message);
    free(context);
    free(err->message);
    err->message = message;
    return -err->code;
}

int error_hint(struct error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *hint = mem_vprintf(fmt, ap);
    va_end(ap);
    free(err->hint);
    err->hint = hint;
    return -err->code;
}

void error_print(const struct error *err, const char *program)
{
    if (!err->code)
        return;
    fprintf(stderr, "%s: error: %s\n", program, err->message);
    if (err->hint)
        fprintf(stderr, "%s: hint: %s\n", program, err->hint);
}

void error_move(struct error *dst, struct error *src)
{
    error_release(dst);
    *dst = *src;
    *src = (struct error)ERROR_INIT;
}

void error_release(struct error *err)
{
    free(err->message);
    free(err->hint);
    *err = (struct error)ERROR_INIT;
}

void bug_(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "BUG: %s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    abort();
}
