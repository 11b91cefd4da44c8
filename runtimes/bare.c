/* No runtime at all: the baseline. The argument vector and the environment pass as they are. */
#include "runtimes/adapters_priv.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static const char *const keys[] = {"mounts", NULL};

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    return mounts_check(mounts, spec->kind, true, portable, err);
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    (void)err;
    strv_extend(argv, launch->argv);
    strv_extend(env, launch->env);
    return 0;
}

enum outcome classify_signal(int wait_status, struct str *reason)
{
    if (!WIFSIGNALED(wait_status))
        return OUTCOME_COUNT;
    int sig = WTERMSIG(wait_status);
    str_appendf(reason, "ended by signal %d (%s)%s before it said hello", sig, strsignal(sig),
                WCOREDUMP(wait_status) ? ", core dumped" : "");
    return OUTCOME_SIGNALLED;
}

enum outcome classify_direct(const struct runtime_evidence *evidence, struct str *reason)
{
    enum outcome by_signal = classify_signal(evidence->wait_status, reason);
    if (by_signal != OUTCOME_COUNT)
        return by_signal;
    /* A program that cannot be executed never gets here: the harness has the errno of exec. So a
     * shell's codes are all that is left, from a prefix command or a wrapper script. */
    int rc = WEXITSTATUS(evidence->wait_status);
    str_appendf(reason, "exit %d before it said hello", rc);
    switch (rc) {
    case 126: return OUTCOME_NOT_EXECUTABLE;
    case 127: return OUTCOME_NOT_FOUND;
    default: return OUTCOME_RUNTIME_FAILED;
    }
}

const struct runtime_ops runtime_bare = {
    .name = "bare",
    .summary = "no runtime: the program itself on the host",
    .keys = keys,
    .check = check,
    .argv = make_argv,
    .classify = classify_direct,
};
