#include "runtimes/messages.h"

#include "common/cleanup.h"
#include "runtimes/adapters_priv.h"

#include <string.h>
#include <sys/wait.h>

#define REASON_MAX 400

/* Warnings that mean nothing for a trial; they stay in the log. */
static bool is_noise(const char *line)
{
    static const char *const fragments[] = {"level=warning",
                                            "is not a shared mount",
                                            ".conflist",
                                            "cgroups-v1",
                                            "cgroups v1",
                                            "Using cgroups-v1",
                                            "IGNORE_CGROUPSV1_WARNING",
                                            "Attempted to remove disk file system"};
    for (size_t i = 0; i < sizeof fragments / sizeof *fragments; i++)
        if (strstr(line, fragments[i]))
            return true;
    return !*line;
}

void messages_clean(const char *text, struct str *out)
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

static const char *telling_line(const char *text, const char *const *markers)
{
    for (; markers && *markers; markers++) {
        const char *hit = strstr(text, *markers);
        if (hit)
            return hit;
    }
    const char *last = strrchr(text, '\n');
    return last ? last + 1 : text;
}

void messages_reason(struct str *reason, int rc, const char *text, const char *const *markers)
{
    str_appendf(reason, "exit %d", rc);
    const char *line = telling_line(text, markers);
    size_t n = str_utf8_cut(line, strcspn(line, "\n"), REASON_MAX);
    if (n)
        str_appendf(reason, ": %.*s", (int)n, line);
}

static bool matches(const struct message_rule *rule, int rc, const char *text)
{
    if (rule->rc && rule->rc != rc)
        return false;
    if (!rule->first)
        return true;
    const char *hit = strstr(text, rule->first);
    return hit && (!rule->then || strstr(hit, rule->then));
}

enum outcome messages_match(const struct message_rule *rules, int rc, const char *text)
{
    for (; rc && (rules->rc || rules->first); rules++)
        if (matches(rules, rc, text))
            return rules->outcome;
    return OUTCOME_COUNT;
}

enum outcome messages_classify(const struct message_rule *rules, const char *const *markers,
                               const struct runtime_evidence *evidence, struct str *reason)
{
    enum outcome by_signal = classify_signal(evidence->wait_status, reason);
    if (by_signal != OUTCOME_COUNT)
        return by_signal;
    int rc = WEXITSTATUS(evidence->wait_status);
    auto_str text = STR_INIT;
    messages_clean(evidence->stderr_tail ? evidence->stderr_tail : "", &text);
    messages_reason(reason, rc, text.data, markers);
    enum outcome outcome = messages_match(rules, rc, text.data);
    if (outcome != OUTCOME_COUNT)
        return outcome;
    if (rc > 128 && rc < 128 + 65) {
        str_appendf(reason, " (signal %d inside the container)", rc - 128);
        return OUTCOME_SIGNALLED;
    }
    if (!rc)
        str_append(reason, " before it said hello");
    return OUTCOME_RUNTIME_FAILED;
}
