/* srun's own messages, for every runtime that runs in a Slurm step. */
#include "runtimes/messages.h"

#include "common/cleanup.h"

#include <sys/wait.h>

/* srun returns the errno of execve as exit code, and 255 for its command line. */
static const struct message_rule rules[] = {
    {2, "execve()", "No such file", OUTCOME_NOT_FOUND},
    {13, "execve()", "ermission denied", OUTCOME_NOT_EXECUTABLE},
    {8, "execve()", "xec format error", OUTCOME_NOT_EXECUTABLE},
    {255, "unrecognized option", NULL, OUTCOME_UNAVAILABLE},
    {255, "invalid option", NULL, OUTCOME_UNAVAILABLE},
    {0, "Unable to allocate resources", NULL, OUTCOME_UNAVAILABLE},
    {0, "Unable to create step", NULL, OUTCOME_UNAVAILABLE},
    {0, "Requested node configuration is not available", NULL, OUTCOME_UNAVAILABLE},
    {0, "Invalid partition name specified", NULL, OUTCOME_UNAVAILABLE},
    {0, "Invalid node name specified", NULL, OUTCOME_UNAVAILABLE},
    {0, "Incompatible plugin version", NULL, OUTCOME_UNAVAILABLE},
    {0, NULL, NULL, OUTCOME_COUNT},
};

enum outcome runtime_classify_srun(const struct runtime_evidence *evidence, struct str *reason)
{
    static const char *const markers[] = {"execve()", "unrecognized option", "invalid option",
                                          "srun: error: ", NULL};
    if (!WIFEXITED(evidence->wait_status))
        return OUTCOME_COUNT;
    int rc = WEXITSTATUS(evidence->wait_status);
    auto_str text = STR_INIT;
    messages_clean(evidence->stderr_tail ? evidence->stderr_tail : "", &text);
    enum outcome outcome = messages_match(rules, rc, text.data);
    if (outcome != OUTCOME_COUNT)
        messages_reason(reason, rc, text.data, markers);
    return outcome;
}
