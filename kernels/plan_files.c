#include "kernels/plan_files.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TRIES 200 /* a merge takes milliseconds */
#define LOCK_PAUSE_S 0.05
#define MAGIC "nanochat plans 1"
#define SUM "sha256 "

/* ---- reading -------------------------------------------------------------------------------- */

struct line {
    const char *at;
    size_t length;
};

/* Takes the next line; one without its newline is torn. */
static bool next_line(struct line *out, const char **at, const char *end)
{
    const char *newline = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
    if (!newline)
        return false;
    *out = (struct line){*at, (size_t)(newline - *at)};
    *at = newline + 1;
    return true;
}

static bool line_is(const struct line *l, const char *text)
{
    return l->length == strlen(text) && !memcmp(l->at, text, l->length);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(unsigned char *out, size_t *size, const char *text, size_t length)
{
    if (length < 2 || length % 2 || length / 2 > PLAN_VALUE_MAX)
        return false;
    for (size_t i = 0; i < length; i += 2) {
        const int high = digit(text[i]), low = digit(text[i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i / 2] = (unsigned char)(high << 4 | low);
    }
    *size = length / 2;
    return true;
}

static bool read_plan(struct plan_store *s, const struct line *l)
{
    const char *equals = memchr(l->at, '=', l->length);
    if (!equals)
        return false;
    const size_t key_length = (size_t)(equals - l->at);
    char key[PLAN_KEY_MAX];
    unsigned char value[PLAN_VALUE_MAX];
    size_t size;
    if (!plan_key_valid(l->at, key_length) ||
        !read_hex(value, &size, equals + 1, l->length - key_length - 1))
        return false;
    memcpy(key, l->at, key_length);
    key[key_length] = '\0';
    return plan_store_add(s, key, value, size);
}

/* Does the text end with the checksum of what stands before it? *body: up to there. */
static bool sum_holds(const char *text, size_t length, size_t *body)
{
    const size_t tail = strlen(SUM) + SHA256_HEX - 1 + 1;
    if (length < tail || text[length - 1] != '\n')
        return false;
    *body = length - tail;
    char sum[SHA256_HEX];
    sha256_hex(text, *body, sum);
    const char *last = text + *body;
    return !memcmp(last, SUM, strlen(SUM)) && !memcmp(last + strlen(SUM), sum, SHA256_HEX - 1);
}

bool plan_text_read(struct plan_store *s, const char *text, size_t length, const char **why)
{
    const char *at = text;
    struct line line;
    size_t body;
    if (!next_line(&line, &at, text + length) || !line_is(&line, MAGIC)) {
        *why = "no plans of this version";
        return false;
    }
    if (!sum_holds(text, length, &body)) {
        *why = "torn or changed";
        return false;
    }
    const char *end = text + body;
    if (!next_line(&line, &at, end) || !line_is(&line, s->identity)) {
        *why = "of another device, driver or library";
        return false;
    }
    while (at < end) {
        if (next_line(&line, &at, end) && read_plan(s, &line))
            continue;
        s->count = 0;
        *why = "a line is no plan";
        return false;
    }
    return true;
}

static bool read_file(struct plan_store *s, const char *path, const char **why)
{
    struct stat st;
    auto_str text = STR_INIT;
    struct error ignored = ERROR_INIT;
    if (stat(path, &st) || !S_ISREG(st.st_mode)) {
        *why = "no file";
        return false;
    }
    if (st.st_size > PLAN_FILE_BYTES_MAX) {
        *why = "too large for one";
        return false;
    }
    const bool read = !fs_read_file(path, &text, NANOCHAT_EXIT_DATA, &ignored);
    error_release(&ignored);
    *why = "cannot be read";
    return read && plan_text_read(s, text.data, text.len, why);
}

static char *path_of(const struct plan_store *s, const char *folder)
{
    return mem_printf("%s/%s.txt", folder, s->identity);
}

bool plan_files_load(struct plan_store *s, const char *folder, const char **why)
{
    *why = "not wanted";
    if (s->mode != PLANS_AUTO && s->mode != PLANS_STORED)
        return false;
    auto_free char *path = path_of(s, folder);
    return read_file(s, path, why);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void write_plan(struct str *out, const struct plan *p)
{
    str_appendf(out, "%s=", p->key);
    for (size_t i = 0; i < p->size; i++)
        str_appendf(out, "%02x", p->value[i]);
    str_append_char(out, '\n');
}

static bool worth_keeping(const struct plan *p)
{
    return p->origin == PLAN_TIMED || (p->origin == PLAN_STORED && !p->refused);
}

void plan_text_write(const struct plan_store *s, struct str *out)
{
    char sum[SHA256_HEX];
    str_appendf(out, MAGIC "\n%s\n", s->identity);
    for (size_t i = 0; i < s->count && i < PLANS_MAX; i++)
        if (worth_keeping(&s->plans[i]))
            write_plan(out, &s->plans[i]);
    sha256_hex(out->data, out->len, sum);
    str_appendf(out, SUM "%s\n", sum);
}

void plan_digest(const struct plan_store *s, char *hex)
{
    auto_strv lines = STRV_INIT;
    for (size_t i = 0; i < s->count; i++) {
        auto_str line = STR_INIT;
        if (!s->plans[i].taken)
            continue;
        write_plan(&line, &s->plans[i]);
        strv_push(&lines, line.data);
    }
    strv_sort(&lines);
    auto_str all = STR_INIT;
    for (size_t i = 0; i < lines.count; i++)
        str_append(&all, lines.items[i]);
    sha256_hex(all.data, all.len, hex);
}

/* Ours into what the file has by now. */
static void merge(struct plan_store *file, const struct plan_store *own)
{
    for (size_t i = 0; i < own->count; i++) {
        const struct plan *p = &own->plans[i];
        if (!worth_keeping(p))
            continue;
        if (p->refused) /* and timed since */
            plan_store_take(file, p->key, p->value, p->size, PLAN_TIMED);
        else
            plan_store_add(file, p->key, p->value, p->size);
    }
}

/* Ranks of one node, and nodes that share the folder, merge one after the other: the kernel's lock
 * of a file that stays. */
static int take_lock(const char *path, struct error *err)
{
    auto_free char *lock = mem_printf("%s.lock", path);
    const int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
        if (!flock(fd, LOCK_EX | LOCK_NB))
            return fd;
        if (errno != EWOULDBLOCK && errno != EINTR)
            break;
        clock_sleep_s(LOCK_PAUSE_S);
    }
    error_errno(err, NANOCHAT_EXIT_WRITE, errno, "cannot lock %s", lock);
    if (fd >= 0)
        close(fd);
    return -err->code;
}

int plan_files_save(const struct plan_store *s, const char *folder, struct error *err)
{
    const char *why;
    if (s->mode != PLANS_AUTO || plan_store_taken(s, PLAN_TIMED) == 0)
        return 0;
    if (fs_mkdir_p(folder, NANOCHAT_EXIT_WRITE, err))
        return -err->code;
    struct plan_store file;
    plan_store_open(&file, s->identity, PLANS_AUTO);
    auto_free char *path = path_of(s, folder);
    auto_str text = STR_INIT;
    auto_close int lock = take_lock(path, err);
    if (lock < 0) {
        plan_store_close(&file);
        return -err->code;
    }
    read_file(&file, path, &why);
    merge(&file, s);
    plan_text_write(&file, &text);
    plan_store_close(&file);
    return fs_write_atomic(path, text.data, text.len, NANOCHAT_EXIT_WRITE, err);
}
