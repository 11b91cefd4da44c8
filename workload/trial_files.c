#include "workload/trial_files.h"

#include "common/log.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool trial_files_shared(void)
{
    const char *files = getenv(ENV_TRIAL_FILES);
    return files && !strcmp(files, "node");
}

int trial_files_node(void)
{
    static const char *const variables[] = {ENV_GROUP_RANK, "SLURM_NODEID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i]);
        int64_t node;
        if (text && num_parse_i64(text, &node) && node >= 0 && node < INT_MAX)
            return (int)node;
    }
    return -1;
}

int events_file_open(struct events_file *f, const char *dir, int rank, struct error *err)
{
    const int node = trial_files_shared() ? trial_files_node() : -1;
    *f = (struct events_file){.shared = node >= 0};
    char name[32];
    if (f->shared)
        snprintf(name, sizeof name, EVENTS_NODE_FILE_FMT, node);
    else
        snprintf(name, sizeof name, EVENTS_FILE_FMT, rank);
    f->path = mem_printf("%s/%s", dir, name);
    f->fd =
        open(f->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (f->shared ? 0 : O_EXCL), 0644);
    if (f->fd >= 0)
        return 0;
    error_errno(err, NANOCHAT_EXIT_WRITE, errno, "cannot create %s", f->path);
    if (errno == EEXIST)
        error_hint(err, "a trial directory serves one run; is " ENV_RANK " set for each rank?");
    return -err->code;
}

void events_file_begin(const struct events_file *f, struct str *text)
{
    if (f->shared && !text->len)
        str_append_char(text, '\n'); /* another rank may have been killed in the middle of a line */
}

/* From where to write on, when `done` bytes have been taken. Between two writes others may come: a
 * shared file gets the line that was cut, with the newline before it, once more. */
static size_t resume_at(const struct events_file *f, const struct str *text, size_t done)
{
    if (!f->shared || done == text->len)
        return done;
    while (done > 0 && text->data[done - 1] != '\n')
        done--;
    return done ? done - 1 : 0;
}

void events_file_write(struct events_file *f, struct str *text)
{
    size_t done = 0;
    while (!f->write_errno && done < text->len) {
        const ssize_t n = write(f->fd, text->data + done, text->len - done);
        if (n > 0)
            done = resume_at(f, text, done + (size_t)n);
        else if (n < 0 && errno != EINTR)
            f->write_errno = errno;
    }
    if (!f->write_errno)
        f->whole += (off_t)text->len;
    else if (!f->shared && done && ftruncate(f->fd, f->whole))
        log_debug("cannot cut %s at its last whole line", f->path);
    str_clear(text);
}

int events_file_close(struct events_file *f)
{
    const int fd = f->fd;
    f->fd = -1;
    return close(fd) && errno != EINTR ? errno : 0;
}

void events_file_release(struct events_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    *f = (struct events_file){.fd = -1};
}
