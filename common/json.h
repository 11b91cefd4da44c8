/* JSON on jansson: strict RFC 8259, missing values as null with a reason, numbers exact and
 * independent of the locale.
 *
 * Setters take the object first and steal or copy their value; none of them fails (jansson's
 * failures here are out of memory or a bug). Readers take dotted paths ("train.step_time_s.median")
 * and never touch *out when the value is absent, null or of another type. */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include "common/error.h"
#include "common/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define auto_json __attribute__((cleanup(json_cleanup_))) json_t
void json_cleanup_(json_t **j);

void json_put(json_t *obj, const char *key, json_t *value); /* steals value; key must be new */
void json_put_str(json_t *obj, const char *key,
                  const char *value);       /* NULL: null. Invalid UTF-8 is replaced */
json_t *json_strings(const struct strv *v); /* a list of them, invalid UTF-8 replaced */
void json_put_int(json_t *obj, const char *key, int64_t value);
void json_put_bool(json_t *obj, const char *key, bool value);
/* A finite number; NaN and infinity become null (say why with json_put_null instead). */
void json_put_f64(json_t *obj, const char *key, double value);
/* null, and the reason as "<key>_why". */
void json_put_null(json_t *obj, const char *key, const char *why);

const json_t *json_at(const json_t *obj, const char *path);           /* NULL if absent; borrowed */
bool json_read_f64(const json_t *obj, const char *path, double *out); /* integers too */
bool json_read_i64(const json_t *obj, const char *path, int64_t *out);
bool json_read_bool(const json_t *obj, const char *path, bool *out);
const char *json_read_str(const json_t *obj, const char *path); /* borrowed, or NULL */

/* Serialise: doubles in the shortest form that reads back exactly, keys in insertion order.
 * indent 0: one line without a newline. */
void json_write(struct str *out, const json_t *value, int indent);

/* Parse one document (duplicate keys, NUL and trailing text refused). `name` is for messages,
 * `code` the exit code of the error. */
int json_parse(const char *text, size_t len, const char *name, int code, json_t **out,
               struct error *err);
int json_read_file(const char *path, int code, json_t **out, struct error *err);
/* Pretty-printed, atomically replaced, fsynced. */
int json_write_file(const char *path, const json_t *value, int code, struct error *err);
/* Append `value` and a newline to an O_APPEND descriptor with a single write(2). */
int json_append_line(int fd, const char *path, const json_t *value, int code, struct error *err);

#endif
