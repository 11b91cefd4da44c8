#include "harness/output.h"

#include "common/fs.h"
#include "common/protocol.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A device or a pipe cannot be replaced by renaming a file over it. */
static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static int write_stream(FILE *f, const char *name, const struct str *text, bool close,
                        struct error *err)
{
    bool failed = fwrite(text->data, 1, text->len, f) != text->len || fflush(f) != 0;
    int why = errno;
    if (close && fclose(f) != 0 && !failed) { /* /dev/full says so only here */
        failed = true;
        why = errno;
    }
    return failed ? error_errno(err, NCBENCH_EXIT_RESULTS, why, "cannot write %s", name) : 0;
}

int output_write(const char *path, const struct str *text, struct error *err)
{
    if (!path || !strcmp(path, "-"))
        return write_stream(stdout, "standard output", text, false, err);
    if (!is_special(path))
        return fs_write_atomic(path, text->data, text->len, NCBENCH_EXIT_RESULTS, err);
    FILE *f = fopen(path, "w");
    if (!f)
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot write %s", path);
    return write_stream(f, path, text, true, err);
}
