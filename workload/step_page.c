#include "workload/step_page.h"

#include "common/num.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void *map_page(int fd, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

void step_page_create(struct step_page *page, int count)
{
    size_t bytes = (size_t)count * sizeof *page->steps;
    page->count = count;
    page->steps = NULL;
    page->fd = memfd_create("nanochat-steps", 0); /* not close-on-exec: the ranks need it */
    if (page->fd < 0)
        return;
    if (ftruncate(page->fd, (off_t)bytes) || !(page->steps = map_page(page->fd, bytes))) {
        close(page->fd);
        page->fd = -1;
        return;
    }
    for (int i = 0; i < count; i++)
        atomic_store(&page->steps[i], STEP_NONE);
}

void step_page_release(struct step_page *page)
{
    if (page->steps)
        munmap((void *)page->steps, (size_t)page->count * sizeof *page->steps);
    if (page->fd >= 0)
        close(page->fd);
    page->steps = NULL;
    page->fd = -1;
}

_Atomic int64_t *step_page_cell(int local_rank)
{
    const char *text = getenv(ENV_STEP_FD);
    int64_t fd;
    struct stat st;
    if (!text || !num_parse_i64(text, &fd) || fd < 3 || fd > INT_MAX || fstat((int)fd, &st) ||
        !S_ISREG(st.st_mode) || st.st_size < (off_t)((local_rank + 1) * (int)sizeof(int64_t)))
        return NULL;
    _Atomic int64_t *steps = map_page((int)fd, (size_t)st.st_size);
    return steps ? steps + local_rank : NULL;
}
