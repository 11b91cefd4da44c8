#include "runtimes/runtime.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"

#include <string.h>
#include <sys/stat.h>

/* Take the text up to the next unescaped colon; *rest is behind it, or NULL at the end. */
static char *take_field(const char *text, const char **rest)
{
    auto_str out = STR_INIT;
    for (; *text && *text != ':'; text++) {
        if (text[0] == '\\' && text[1] == ':')
            text++;
        str_append_char(&out, *text);
    }
    *rest = *text == ':' ? text + 1 : NULL;
    return str_steal(&out);
}

static int bad_mount(const char *text, struct error *err)
{
    error_set(err, NCBENCH_EXIT_SCENARIO, "mount \"%s\": expected SRC, SRC:DST or SRC:DST:ro",
              text);
    return error_hint(err, "write \\: for a colon that belongs to a path");
}

int mount_parse(const char *text, struct mount *out, struct error *err)
{
    const char *rest;
    auto_free char *source = take_field(text, &rest);
    auto_free char *target = rest ? take_field(rest, &rest) : mem_strdup(source);
    bool read_only = false;
    if (rest) {
        read_only = !strcmp(rest, "ro");
        if (!read_only && strcmp(rest, "rw") != 0)
            return bad_mount(text, err);
    }
    if (!*source || !*target)
        return bad_mount(text, err);
    const char *relative = *source != '/' ? source : *target != '/' ? target : NULL;
    if (relative)
        return error_set(err, NCBENCH_EXIT_SCENARIO,
                         "mount \"%s\": \"%s\" is relative, expected an absolute path", text,
                         relative);
    *out = (struct mount){steal(&source), steal(&target), read_only, false};
    return 0;
}

void mounts_add(struct mounts *m, const char *source, const char *target, bool read_only)
{
    struct mount one = {mem_strdup(source), mem_strdup(target), read_only, false};
    vec_push(m, one);
}

static void mount_release(struct mount *m)
{
    free(m->source);
    free(m->target);
}

void mounts_release(struct mounts *m)
{
    for (size_t i = 0; i < m->count; i++)
        mount_release(&m->items[i]);
    free(m->items);
    *m = (struct mounts){0};
}

/* A field of encoding/csv as podman and docker read it: quotes around it, inner quotes doubled;
 * everything else, newlines included, is taken as it is. */
static void append_field(struct str *out, const char *key, const char *value)
{
    bool quote = strpbrk(value, ",\"\r\n") != NULL;
    if (quote)
        str_append_char(out, '"');
    str_append(out, key);
    for (; *value; value++) {
        if (*value == '"')
            str_append_char(out, '"');
        str_append_char(out, *value);
    }
    if (quote)
        str_append_char(out, '"');
}

void mount_append_csv(struct str *out, const struct mount *m)
{
    str_append(out, "type=bind,");
    append_field(out, "source=", m->source);
    str_append_char(out, ',');
    append_field(out, "target=", m->target);
    if (m->read_only)
        str_append(out, ",readonly");
}

static int check_form(const struct mount *m, const char *kind, bool in_place, struct error *err)
{
    const char *relative = *m->source != '/' ? m->source : *m->target != '/' ? m->target : NULL;
    if (relative)
        return error_set(err, NCBENCH_EXIT_SCENARIO,
                         "mount %s: \"%s\" is relative, expected an absolute path", m->source,
                         relative);
    if (!in_place || !strcmp(m->source, m->target))
        return 0;
    error_set(err, NCBENCH_EXIT_SCENARIO,
              "runtime %s cannot mount %s at %s: it mounts nothing, both paths must be the same",
              kind, m->source, m->target);
    return -err->code;
}

static int check_source(const struct mount *m, struct error *err)
{
    struct stat st;
    if (stat(m->source, &st)) {
        if (m->optional)
            return 0;
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "mount source %s does not exist",
                         m->source);
    }
    if (!S_ISDIR(st.st_mode) && str_ends_with(m->target, "/"))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                         "mount source %s is a file, its target %s a directory", m->source,
                         m->target);
    return 0;
}

int mounts_check(const struct mounts *m, const char *kind, bool in_place, bool portable,
                 struct error *err)
{
    for (size_t i = 0; i < m->count; i++)
        if (check_form(&m->items[i], kind, in_place, err))
            return -err->code;
    for (size_t i = 0; !portable && i < m->count; i++)
        if (check_source(&m->items[i], err))
            return -err->code;
    return 0;
}

int mounts_check_bytes(const struct mounts *m, const char *kind, const char *characters,
                       struct error *err)
{
    for (size_t i = 0; i < m->count; i++) {
        const char *paths[] = {m->items[i].source, m->items[i].target};
        for (size_t k = 0; k < 2; k++) {
            const char *hit = strpbrk(paths[k], characters);
            if (!hit)
                continue;
            auto_str shown = STR_INIT;
            str_append_printable(&shown, hit, 1);
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s cannot mount a path containing \"%s\": %s", kind,
                             *hit == '\n' ? "\\n" : shown.data, paths[k]);
        }
    }
    return 0;
}

int mounts_check_csv(const struct mounts *m, const char *kind, struct error *err)
{
    for (size_t i = 0; i < m->count; i++)
        if (strstr(m->items[i].source, "\r\n") || strstr(m->items[i].target, "\r\n"))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s cannot mount a path containing CR LF", kind);
    return 0;
}

void mounts_drop_absent(struct mounts *m, struct strv *warnings)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->items[i].optional && !fs_exists(m->items[i].source)) {
            strv_pushf(warnings, "optional mount %s dropped: it does not exist",
                       m->items[i].source);
            mount_release(&m->items[i]);
        } else {
            m->items[kept++] = m->items[i];
        }
    }
    m->count = kept;
}
