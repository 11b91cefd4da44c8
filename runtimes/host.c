#include "runtimes/host.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *label;
} limit_names[] = {
    {"as", "Max address space"},
    {"core", "Max core file size"},
    {"cpu", "Max cpu time"},
    {"data", "Max data size"},
    {"fsize", "Max file size"},
    {"locks", "Max file locks"},
    {"memlock", "Max locked memory"},
    {"msgqueue", "Max msgqueue size"},
    {"nice", "Max nice priority"},
    {"nofile", "Max open files"},
    {"nproc", "Max processes"},
    {"rss", "Max resident set"},
    {"rtprio", "Max realtime priority"},
    {"rttime", "Max realtime timeout"},
    {"sigpending", "Max pending signals"},
    {"stack", "Max stack size"},
};

static const char *limit_label(const char *name)
{
    for (size_t i = 0; i < sizeof limit_names / sizeof *limit_names; i++)
        if (!strcmp(limit_names[i].name, name))
            return limit_names[i].label;
    return NULL;
}

bool host_ulimit_known(const char *name)
{
    return limit_label(name) != NULL;
}

static bool parse_limit(char **cursor, int64_t *out)
{
    char *word;
    do
        word = strsep(cursor, " ");
    while (word && !*word);
    if (!word)
        return false;
    if (!strcmp(word, "unlimited")) {
        *out = HOST_UNLIMITED;
        return true;
    }
    return num_parse_i64(word, out);
}

bool host_limit(const char *label, int64_t *soft, int64_t *hard)
{
    auto_str text = STR_INIT;
    if (!fs_sys_read("/proc/self/limits", &text))
        return false;
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        size_t n = strlen(label);
        if (strncmp(line, label, n) != 0 || line[n] != ' ')
            continue;
        char *cursor = line + n;
        return parse_limit(&cursor, soft) && parse_limit(&cursor, hard);
    }
    return false;
}

bool host_ulimit(const char *name, int64_t *soft, int64_t *hard)
{
    const char *label = limit_label(name);
    return label && host_limit(label, soft, hard);
}

/* The first word behind "KEY:" in /proc/self/status. */
static char *status_word(const char *key)
{
    auto_str text = STR_INIT;
    if (!fs_sys_read("/proc/self/status", &text))
        return NULL;
    char *save = NULL;
    size_t n = strlen(key);
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (!strncmp(line, key, n) && line[n] == ':')
            return mem_strdup(str_trim(line + n + 1));
    return NULL;
}

bool host_has_cap(int cap)
{
    auto_free char *text = status_word("CapEff");
    return text && (strtoull(text, NULL, 16) >> cap & 1);
}

/* The second word of a row: real, effective, saved, file system. */
static bool status_effective(const char *key, int64_t *out)
{
    auto_free char *text = status_word(key);
    char *cursor = text;
    for (int i = 0; cursor && i < 2; i++) {
        const char *word = strsep(&cursor, "\t ");
        if (i == 1)
            return num_parse_i64(word, out);
    }
    return false;
}

int64_t host_uid(void)
{
    int64_t id;
    return status_effective("Uid", &id) ? id : geteuid();
}

int64_t host_gid(void)
{
    int64_t id;
    return status_effective("Gid", &id) ? id : getegid();
}

bool host_program_is_dynamic(const char *path)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr head;
    if (fd < 0 || pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    for (int i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(head.e_phoff + (Elf64_Off)i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment)
            return false;
        if (segment.p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* One line of /proc/self/mounts: device, mount point, type, options. */
struct mount_line {
    char *point, *type, *options;
};

static bool next_mount(char **save, char **text, struct mount_line *out)
{
    char *line = strtok_r(*text, "\n", save);
    *text = NULL;
    if (!line)
        return false;
    strsep(&line, " ");
    out->point = strsep(&line, " ");
    out->type = strsep(&line, " ");
    out->options = strsep(&line, " ");
    if (!out->options)
        *out = (struct mount_line){(char *)"", (char *)"", (char *)""};
    return true;
}

/* Where cgroup2 is mounted, and whether any v1 hierarchy with a controller is. */
static char *cgroup2_point(bool *v1)
{
    *v1 = false;
    auto_str text = STR_INIT;
    if (!fs_sys_read("/proc/self/mounts", &text))
        return NULL;
    char *save = NULL, *cursor = text.data, *point = NULL;
    struct mount_line m;
    while (next_mount(&save, &cursor, &m)) {
        if (!strcmp(m.type, "cgroup2") && !point)
            point = mem_strdup(m.point);
        /* name=… hierarchies have no controller: v2 machines may carry one for old programs. */
        if (!strcmp(m.type, "cgroup") && !strstr(m.options, "name="))
            *v1 = true;
    }
    return point;
}

enum host_cgroups host_cgroups(void)
{
    bool v1;
    auto_free char *v2 = cgroup2_point(&v1);
    if (v1)
        return v2 ? HOST_CGROUP_HYBRID : HOST_CGROUP_V1;
    return v2 ? HOST_CGROUP_V2 : HOST_CGROUP_NONE;
}

const char *host_cgroups_name(enum host_cgroups version)
{
    static const char *const names[] = {"none", "v1", "v1+v2 hybrid", "v2"};
    return names[version];
}

static bool read_controllers(const char *dir, struct str *out)
{
    auto_free char *path = mem_printf("%s/cgroup.controllers", dir);
    size_t before = out->len;
    if (!fs_sys_read(path, out))
        return false;
    while (out->len > before && strchr(" \n", out->data[out->len - 1]))
        str_truncate(out, out->len - 1);
    return true;
}

bool host_hybrid_owns_controllers(void)
{
    bool v1;
    auto_free char *v2 = cgroup2_point(&v1);
    auto_str controllers = STR_INIT;
    return v1 && v2 && read_controllers(v2, &controllers) && controllers.len > 0;
}

static bool v1_controllers(struct str *out)
{
    static const char *const known[] = {"cpu",     "cpuacct", "cpuset", "memory", "devices",
                                        "freezer", "blkio",   "pids",   "hugetlb"};
    auto_str text = STR_INIT;
    if (!fs_sys_read("/proc/self/mounts", &text))
        return false;
    char *save = NULL, *cursor = text.data;
    struct mount_line m;
    while (next_mount(&save, &cursor, &m)) {
        if (strcmp(m.type, "cgroup") != 0)
            continue;
        char *option;
        while ((option = strsep(&m.options, ",")))
            for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if (!strcmp(option, known[i]))
                    str_appendf(out, "%s%s", out->len ? " " : "", option);
    }
    return out->len > 0;
}

bool host_controllers(struct str *out)
{
    bool v1;
    auto_free char *v2 = cgroup2_point(&v1);
    int64_t uid = host_uid();
    if (v1)
        return uid == 0 && v1_controllers(out);
    if (!v2)
        return false;
    if (uid == 0)
        return read_controllers(v2, out);
    /* Rootless containers live below the user's systemd instance; without one, below our own. */
    auto_free char *slice = mem_printf("%s/user.slice/user-%lld.slice/user@%lld.service", v2,
                                       (long long)uid, (long long)uid);
    if (read_controllers(slice, out))
        return true;
    auto_str own = STR_INIT;
    if (!fs_sys_read("/proc/self/cgroup", &own))
        return false;
    const char *line = str_starts_with(own.data, "0::") ? own.data : strstr(own.data, "\n0::");
    if (!line)
        return false;
    line = strstr(line, "::") + 2;
    auto_free char *dir = mem_printf("%s%.*s", v2, (int)strcspn(line, "\n"), line);
    return read_controllers(dir, out);
}

bool host_words_contain(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; (p = strstr(p, word)); p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == '\0' || p[n] == ' '))
            return true;
    return false;
}
