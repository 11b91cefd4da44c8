#include "common/protocol.h"

#include <string.h>

static const char *const names[OUTCOME_COUNT] = {
    [OUTCOME_OK] = "ok",
    [OUTCOME_WORKLOAD_FAILED] = "workload_failed",
    [OUTCOME_NUMERIC_FAILED] = "numeric_failed",
    [OUTCOME_RUNTIME_FAILED] = "runtime_failed",
    [OUTCOME_NOT_FOUND] = "not_found",
    [OUTCOME_NOT_EXECUTABLE] = "not_executable",
    [OUTCOME_UNAVAILABLE] = "unavailable",
    [OUTCOME_TIMEOUT] = "timeout",
    [OUTCOME_OOM] = "oom",
    [OUTCOME_SIGNALLED] = "signalled",
    [OUTCOME_CANCELLED] = "cancelled",
    [OUTCOME_DISTURBED] = "disturbed",
    [OUTCOME_INVALID] = "invalid",
    [OUTCOME_HARNESS_ERROR] = "harness_error",
};

const char *outcome_name(enum outcome outcome)
{
    return outcome < OUTCOME_COUNT ? names[outcome] : "unknown";
}

enum outcome outcome_from_name(const char *name)
{
    enum outcome o = OUTCOME_OK;
    while (o < OUTCOME_COUNT && strcmp(names[o], name) != 0)
        o++;
    return o;
}
