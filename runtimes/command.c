/* Any other runtime, by the command that comes before the workload's:
 *
 *     prefix: [bwrap, --bind, /, /, --dev, /dev, --proc, /proc, --, "{argv}"]
 *
 * An element that is exactly "{argv}" is replaced by the workload's argument vector; without one it
 * goes at the end. {trial_id} and {trial_dir} are replaced inside every element. No shell. */
#include "common/mem.h"
#include "runtimes/adapters_priv.h"

#include "common/cleanup.h"
#include "common/spawn.h"

#include <string.h>
#include <sys/wait.h>

#define PLACE_ARGV "{argv}"

static const char *const keys[] = {"prefix", "mounts", NULL};
static const char *const places[] = {PLACE_ARGV, "{trial_id}", "{trial_dir}"};

/* An unknown {word} is most likely a misspelt place; a brace of another kind is left alone. */
static int check_places(const char *element, struct error *err)
{
    for (const char *p = strchr(element, '{'); p; p = strchr(p + 1, '{')) {
        size_t n = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_");
        if (!n || p[n + 1] != '}')
            continue;
        auto_free char *word = mem_strndup(p, n + 2);
        bool whole = !strcmp(element, PLACE_ARGV);
        if (!strcmp(word, PLACE_ARGV) && !whole)
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "prefix element \"%s\": {argv} must be an element of its own",
                             element);
        if (strcmp(word, places[0]) != 0 && strcmp(word, places[1]) != 0 &&
            strcmp(word, places[2]) != 0)
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "prefix element \"%s\": unknown place %s, expected {argv}, {trial_id} "
                             "or {trial_dir}",
                             element, word);
    }
    return 0;
}

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (!spec->prefix.count)
        return error_set(err, NCBENCH_EXIT_SCENARIO, "runtime %s: kind command needs a prefix",
                         spec->name);
    size_t places_of_argv = 0;
    for (size_t i = 0; i < spec->prefix.count; i++) {
        if (check_places(spec->prefix.items[i], err))
            return error_wrap(err, "runtime %s", spec->name);
        places_of_argv += !strcmp(spec->prefix.items[i], PLACE_ARGV);
    }
    if (places_of_argv > 1)
        return error_set(err, NCBENCH_EXIT_SCENARIO,
                         "runtime %s: prefix holds {argv} %zu times, expected at most once",
                         spec->name, places_of_argv);
    if (mounts_check(mounts, spec->kind, true, portable, err))
        return -err->code;
    if (portable || !strcmp(spec->prefix.items[0], PLACE_ARGV))
        return 0;
    auto_free char *program = spawn_find_program(spec->prefix.items[0]);
    if (program)
        return 0;
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: program \"%s\" not found on PATH",
                     spec->name, spec->prefix.items[0]);
}

static void append_element(struct strv *argv, const char *element,
                           const struct runtime_launch *launch)
{
    const struct {
        const char *place, *value;
    } subst[] = {{"{trial_id}", launch->trial_id}, {"{trial_dir}", launch->trial_dir}};
    auto_str out = STR_INIT;
    for (const char *p = element; *p;) {
        size_t hit = 0;
        for (size_t i = 0; i < sizeof subst / sizeof *subst && !hit; i++) {
            if (!str_starts_with(p, subst[i].place))
                continue;
            str_append(&out, subst[i].value);
            hit = strlen(subst[i].place);
        }
        if (!hit)
            str_append_char(&out, *p);
        p += hit ? hit : 1;
    }
    strv_push(argv, out.data);
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    (void)err;
    bool placed = false;
    const struct strv *prefix = &launch->spec->prefix;
    for (size_t i = 0; i < prefix->count; i++) {
        if (!strcmp(prefix->items[i], PLACE_ARGV)) {
            strv_extend(argv, launch->argv);
            placed = true;
        } else {
            append_element(argv, prefix->items[i], launch);
        }
    }
    if (!placed)
        strv_extend(argv, launch->argv);
    strv_extend(env, launch->env);
    return 0;
}

/* What the tools behind a prefix say when the program itself could not be executed; their exit
 * codes (1, 2, 13, 255 …) mean nothing by themselves. */
static const struct {
    const char *marker, *text;
    enum outcome outcome;
} sayings[] = {
    {"exec", "No such file or directory", OUTCOME_NOT_FOUND},
    {"exec", "no such file or directory", OUTCOME_NOT_FOUND},
    {"exec", "not found", OUTCOME_NOT_FOUND},
    {"exec", "Permission denied", OUTCOME_NOT_EXECUTABLE},
    {"exec", "permission denied", OUTCOME_NOT_EXECUTABLE},
};

static enum outcome classify(const struct runtime_evidence *evidence, struct str *reason)
{
    const char *text = evidence->stderr_tail ? evidence->stderr_tail : "";
    int rc = WIFEXITED(evidence->wait_status) ? WEXITSTATUS(evidence->wait_status) : 0;
    for (size_t i = 0; rc && i < sizeof sayings / sizeof *sayings; i++) {
        const char *marker = strstr(text, sayings[i].marker);
        size_t line = marker ? strcspn(marker, "\n") : 0;
        const char *hit = marker ? strstr(marker, sayings[i].text) : NULL;
        if (!hit || hit > marker + line)
            continue;
        str_appendf(reason, "exit %d: %.*s", rc, (int)line, marker);
        return sayings[i].outcome;
    }
    return classify_direct(evidence, reason);
}

static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    (void)session_dir;
    json_t *prefix = json_array();
    for (size_t i = 0; i < spec->prefix.count; i++)
        json_array_append_new(prefix, json_string(spec->prefix.items[i]));
    json_put(obj, "prefix", prefix);
}

const struct runtime_ops runtime_command = {
    .name = "command",
    .summary = "any other runtime, as a command that goes before the workload's",
    .keys = keys,
    .check = check,
    .argv = make_argv,
    .classify = classify,
    .describe = describe,
};
