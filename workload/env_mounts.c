/* On which mount each path of the run lies. */
#include "workload/env_priv.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

/* The kernel writes blanks, tabs, newlines and backslashes as \ooo. In place. */
static char *unescape(char *s)
{
    char *out = s;
    for (const char *p = s; *p; out++) {
        if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
            p[3] >= '0' && p[3] <= '7') {
            *out = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
            p += 4;
        } else {
            *out = *p++;
        }
    }
    *out = '\0';
    return s;
}

/* "36 35 98:0 /root /point rw,noatime shared:1 - ext3 /dev/sda rw,data=x" */
static void parse_line(struct env_mounts_table *t, char *line)
{
    char *fields[6], *save = NULL;
    for (int i = 0; i < 6; i++)
        if (!(fields[i] = strtok_r(i ? NULL : line, " ", &save)))
            return;
    char *word;
    while ((word = strtok_r(NULL, " ", &save)) && strcmp(word, "-") != 0)
        continue;
    char *type = strtok_r(NULL, " ", &save);
    char *source = strtok_r(NULL, " ", &save);
    char *super = strtok_r(NULL, " ", &save);
    if (!type || !source)
        return;
    struct env_mount m = {.root = mem_strdup(unescape(fields[3])),
                          .point = mem_strdup(unescape(fields[4])),
                          .options = mem_strdup(fields[5]),
                          .fs_type = mem_strdup(type),
                          .super_options = mem_strdup(super ? super : "")};
    vec_push(t, m);
}

void env_mounts_read(struct env_mounts_table *out)
{
    auto_str text = STR_INIT;
    *out = (struct env_mounts_table){0};
    if (!fs_sys_read("/proc/self/mountinfo", &text))
        return;
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        parse_line(out, line);
}

void env_mounts_release(struct env_mounts_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct env_mount *m = &t->items[i];
        free(m->root);
        free(m->point);
        free(m->options);
        free(m->fs_type);
        free(m->super_options);
    }
    free(t->items);
    *t = (struct env_mounts_table){0};
}

bool env_is_below(const char *path, const char *directory)
{
    size_t n = strlen(directory);
    if (n == 1)
        return path[0] == '/';
    return !strncmp(path, directory, n) && (path[n] == '/' || !path[n]);
}

/* The deepest mount above the path; of several on one point the last one is on top. */
static const struct env_mount *find_mount(const struct env_mounts_table *t, const char *path)
{
    const struct env_mount *best = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const struct env_mount *m = &t->items[i];
        if (env_is_below(path, m->point) && (!best || strlen(m->point) >= strlen(best->point)))
            best = m;
    }
    return best;
}

/* The path, or the nearest directory above it that is there already. */
static char *resolve_existing(const char *path)
{
    auto_free char *at = mem_strdup(path);
    for (;;) {
        char *real = fs_realpath(at);
        if (real)
            return real;
        char *up = fs_dirname(at);
        bool top = !strcmp(up, at);
        free(at);
        at = up;
        if (top)
            return mem_strdup("/");
    }
}

static void put_mount(json_t *group, const char *what, const char *path,
                      const struct env_mounts_table *t)
{
    json_t *obj = json_object();
    auto_free char *real = resolve_existing(path);
    const struct env_mount *m = find_mount(t, real);
    json_put_str(obj, "path", path);
    if (m) {
        json_put_str(obj, "mount_point", m->point);
        json_put_str(obj, "fs_type", m->fs_type);
        json_put_str(obj, "options", m->options);
        json_put_str(obj, "root", m->root);
    } else {
        static const char why[] = "not in /proc/self/mountinfo";
        json_put_null(obj, "mount_point", why);
        json_put_null(obj, "fs_type", why);
        json_put_null(obj, "options", why);
        json_put_null(obj, "root", why);
    }
    json_put(group, what, obj);
}

void env_mounts(json_t *group, const struct env_context *context)
{
    struct env_mounts_table t;
    env_mounts_read(&t);
    auto_free char *exe = fs_realpath("/proc/self/exe");
    put_mount(group, "executable", exe ? exe : "/", &t);
    const char *tmp = getenv("TMPDIR");
    put_mount(group, "tmp", tmp && *tmp ? tmp : "/tmp", &t);
    const char *what;
    json_t *path;
    json_object_foreach((json_t *)context->paths, what, path)
    {
        if (!json_object_get(group, what))
            put_mount(group, what, json_string_value(path), &t);
    }
    env_mounts_release(&t);
}
