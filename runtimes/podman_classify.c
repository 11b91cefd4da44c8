/* What podman's exit codes and messages mean when the program never said hello. The codes 125, 126
 * and 127 are podman's, but programs use them too (podman#367), so the text decides first. Fixed
 * fragments are matched, never whole lines: versions, paths and ids are in them. */
#include "runtimes/podman_priv.h"

#include "runtimes/messages.h"

static const struct message_rule rules[] = {
    {0, "error while loading shared libraries", NULL, OUTCOME_RUNTIME_FAILED},
    {0, "xec format error", NULL, OUTCOME_NOT_EXECUTABLE},
    {0, "failed to exec pid1", "No such file", OUTCOME_NOT_FOUND}, /* catatonit, with --init */
    {0, "failed to exec pid1", "ermission denied", OUTCOME_NOT_EXECUTABLE},
    {0, "[FATAL tini", "No such file", OUTCOME_NOT_FOUND},
    {0, "[FATAL tini", "ermission denied", OUTCOME_NOT_EXECUTABLE},
    {125, "image not known", NULL, OUTCOME_UNAVAILABLE},
    {125, "no such image", NULL, OUTCOME_UNAVAILABLE},
    {125, "unknown flag", NULL, OUTCOME_UNAVAILABLE},
    {125, "unknown shorthand flag", NULL, OUTCOME_UNAVAILABLE},
    {125, "statfs ", "no such file", OUTCOME_UNAVAILABLE},
    {125, "stat ", "no such file", OUTCOME_UNAVAILABLE},
    {126, "setrlimit", NULL, OUTCOME_RUNTIME_FAILED},
    {126, "rlimit type", NULL, OUTCOME_RUNTIME_FAILED},
    {126, "CDI", NULL, OUTCOME_RUNTIME_FAILED},
    {126, "exec: ", "permission denied", OUTCOME_NOT_EXECUTABLE},
    {126, "open executable", "ermission denied", OUTCOME_NOT_EXECUTABLE}, /* crun */
    {126, "Error: ", NULL, OUTCOME_RUNTIME_FAILED},
    {126, NULL, NULL, OUTCOME_NOT_EXECUTABLE},
    {127, "exec: ", "no such file", OUTCOME_NOT_FOUND},
    {127, "exec: ", "not found", OUTCOME_NOT_FOUND},
    {127, "executable file", "not found", OUTCOME_NOT_FOUND}, /* crun */
    {127, "Error: ", NULL, OUTCOME_RUNTIME_FAILED},
    {127, NULL, NULL, OUTCOME_NOT_FOUND},
    {0, NULL, NULL, OUTCOME_COUNT},
};

enum outcome podman_classify(const struct runtime_evidence *evidence, struct str *reason)
{
    static const char *const markers[] = {"Error: ", NULL};
    return messages_classify(rules, markers, evidence, reason);
}
