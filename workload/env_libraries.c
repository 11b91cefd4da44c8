/* The shared libraries that are mapped, by name, path, build id (which is in memory already) and
 * checksum, which costs a reading of each file: by one rank of a node, for CUDA's are a gigabyte.
 * The name is what was asked for (libopenblas.so.0); the path may end in another, with a version of
 * the file's own. */
#include "workload/env_priv.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "common/str.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

static size_t align4(size_t n)
{
    return (n + 3) & ~(size_t)3;
}

/* The GNU build id in a PT_NOTE segment, as hexadecimal. */
static bool find_build_id(const struct dl_phdr_info *info, struct str *out)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(info->dlpi_addr + p->p_vaddr), *end = at + p->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            const char *name = at + sizeof note;
            const char *desc = name + align4(note.n_namesz);
            if (desc + note.n_descsz > end)
                break;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(name, "GNU", 4)) {
                for (size_t b = 0; b < note.n_descsz; b++)
                    str_appendf(out, "%02x", (unsigned char)desc[b]);
                return true;
            }
            at = desc + align4(note.n_descsz);
        }
    }
    return false;
}

static int add_library(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    struct strv *lines = user;
    if (!info->dlpi_name || !strchr(info->dlpi_name, '/')) /* the program itself, the vdso */
        return 0;
    auto_free char *real = fs_realpath(info->dlpi_name);
    auto_str id = STR_INIT;
    find_build_id(info, &id);
    strv_pushf(lines, "%s\n%s\n%s", real ? real : info->dlpi_name, fs_basename(info->dlpi_name),
               id.data);
    return 0;
}

static void put_checksum(json_t *library, const char *path, const json_t *before)
{
    char digest[SHA256_HEX];
    auto_error struct error err = ERROR_INIT;
    const char *known = json_read_str(before, "path"), *sum = json_read_str(before, "sha256");
    if (known && sum && !strcmp(known, path)) /* loaded under two names */
        json_put_str(library, "sha256", sum);
    else if (sha256_file(path, digest, NANOCHAT_EXIT_BUG, &err))
        json_put_null(library, "sha256", err.message);
    else
        json_put_str(library, "sha256", digest);
}

json_t *env_libraries(const struct env_context *context)
{
    auto_strv lines = STRV_INIT;
    dl_iterate_phdr(add_library, &lines);
    strv_sort(&lines);
    json_t *list = json_array();
    for (size_t i = 0; i < lines.count; i++) {
        char *id = strrchr(lines.items[i], '\n');
        *id++ = '\0';
        char *name = strrchr(lines.items[i], '\n');
        *name++ = '\0';
        json_t *library = json_object();
        json_put_str(library, "path", lines.items[i]);
        json_put_str(library, "name", name);
        if (*id)
            json_put_str(library, "build_id", id);
        else
            json_put_null(library, "build_id", "linked without one");
        if (context->local_rank == 0)
            put_checksum(library, lines.items[i], i ? json_array_get(list, i - 1) : NULL);
        else
            json_put_null(library, "sha256", "read by local rank 0");
        json_array_append_new(list, library);
    }
    return list;
}
