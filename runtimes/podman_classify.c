/* What podman's exit codes and messages mean when the program never said hello. The codes 125, 126
 * and 127 are podman's, but programs use them too (podman#367), so the text decides first. Fixed
 * fragments are matched, never whole lines: versions, paths and ids are in them. */
#include "runtimes/podman_priv.h"

#include "common/mem.h"

#include <string.h>
#include <sys/wait.h>

#define REASON_MAX 400

/* Warnings that mean nothing for a trial; they stay in the log. */
static bool is_noise(const char *line)
{
    static const char *const fragments[] = {
        "level=warning",    "is not a shared mount",   ".conflist", "cgroups-v1", "cgroups v1",
        "Using cgroups-v1", "IGNORE_CGROUPSV1_WARNING"};
    for (size_t i = 0; i < sizeof fragments / sizeof *fragments; i++)
        if (strstr(line, fragments[i]))
            return true;
    return !*line;
}

/* The text without terminal sequences (ESC [ … letter) and without noise. */
static void clean_text(const char *text, struct str *out)
{
    auto_str plain = STR_INIT;
    for (const char *p = text; *p; p++) {
        if (p[0] == '\033' && p[1] == '[') {
            p += 2 + strspn(p + 2, "0123456789;?");
            if (!*p)
                break;
            continue;
        }
        str_append_char(&plain, *p);
    }
    char *save = NULL;
    for (char *line = strtok_r(plain.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (!is_noise(str_trim(line)))
            str_appendf(out, "%s%s", out->len ? "\n" : "", str_trim(line));
}

/* The line that tells most: podman's own "Error:", else the last one. */
static void append_reason(struct str *reason, int rc, const char *text)
{
    str_appendf(reason, "exit %d", rc);
    const char *line = strstr(text, "Error: ");
    if (!line) {
        line = strrchr(text, '\n');
        line = line ? line + 1 : text;
    }
    size_t n = strcspn(line, "\n");
    if (n > REASON_MAX)
        for (n = REASON_MAX; n > 0 && ((unsigned char)line[n] & 0xc0) == 0x80; n--)
            continue;
    if (n)
        str_appendf(reason, ": %.*s", (int)n, line);
}

static const struct rule {
    int rc;                   /* 0: any but success */
    const char *first, *then; /* fragments, `then` behind `first`; NULL: not asked */
    enum outcome outcome;
} rules[] = {
    {0, "error while loading shared libraries", NULL, OUTCOME_RUNTIME_FAILED},
    {0, "exec format error", NULL, OUTCOME_NOT_EXECUTABLE},
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
};

static bool matches(const struct rule *rule, int rc, const char *text)
{
    if (rule->rc && rule->rc != rc)
        return false;
    if (!rule->first)
        return true;
    const char *hit = strstr(text, rule->first);
    return hit && (!rule->then || strstr(hit, rule->then));
}

enum outcome podman_classify(const struct runtime_evidence *evidence, struct str *reason)
{
    enum outcome by_signal = classify_signal(evidence->wait_status, reason);
    if (by_signal != OUTCOME_COUNT)
        return by_signal;
    int rc = WEXITSTATUS(evidence->wait_status);
    auto_str text = STR_INIT;
    clean_text(evidence->stderr_tail ? evidence->stderr_tail : "", &text);
    append_reason(reason, rc, text.data);
    for (size_t i = 0; rc && i < sizeof rules / sizeof *rules; i++)
        if (matches(&rules[i], rc, text.data))
            return rules[i].outcome;
    if (rc > 128 && rc < 128 + 65) {
        str_appendf(reason, " (signal %d inside the container)", rc - 128);
        return OUTCOME_SIGNALLED;
    }
    if (!rc)
        str_append(reason, " before it said hello");
    return OUTCOME_RUNTIME_FAILED;
}
