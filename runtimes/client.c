#include "runtimes/client.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "runtimes/messages.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

bool client_given(const char *s)
{
    return s && *s;
}

static int run_in(const char *cwd, const struct strv *argv, const struct strv *env,
                  double timeout_s, struct str *out, struct str *errout, int *rc, struct error *err)
{
    static char *const none[] = {NULL};
    int status;
    *rc = -1;
    if (spawn_capture_in(cwd, argv->items, env->count ? env->items : none, timeout_s, out, errout,
                         &status, NCBENCH_EXIT_ENVIRONMENT, err))
        return -err->code;
    *rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}

int client_run(const struct strv *argv, const struct strv *env, double timeout_s, struct str *out,
               struct str *errout, int *rc, struct error *err)
{
    return run_in(NULL, argv, env, timeout_s, out, errout, rc, err);
}

int client_must(const struct strv *argv, const struct strv *env, double timeout_s, const char *what,
                struct error *err)
{
    return client_must_in(NULL, argv, env, timeout_s, what, err);
}

int client_must_in(const char *cwd, const struct strv *argv, const struct strv *env,
                   double timeout_s, const char *what, struct error *err)
{
    auto_str errout = STR_INIT;
    int rc;
    if (run_in(cwd, argv, env, timeout_s, NULL, &errout, &rc, err))
        return error_wrap(err, "%s", what);
    if (rc == 0)
        return 0;
    auto_str plain = STR_INIT; /* the last line may be the end of a colour */
    messages_clean(errout.data, &plain);
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s: %s exit %d: %s", what,
                     fs_basename(argv->items[0]), rc,
                     client_last_line(plain.len ? &plain : &errout));
}

void client_words(struct strv *argv, const char *words)
{
    auto_free char *copy = mem_strdup(words);
    char *save = NULL;
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
        strv_push(argv, w);
}

const char *client_last_line(struct str *text)
{
    char *trimmed = str_trim(text->data);
    char *newline = strrchr(trimmed, '\n');
    return newline ? newline + 1 : trimmed;
}

char *client_find(const char *name)
{
    char *path = spawn_find_program(name);
    static const char *const dirs[] = {"/usr/bin", "/usr/sbin", "/usr/local/bin",
                                       "/usr/local/sbin"};
    for (size_t i = 0; !path && !strchr(name, '/') && i < sizeof dirs / sizeof *dirs; i++) {
        auto_free char *candidate = mem_printf("%s/%s", dirs[i], name);
        path = spawn_find_program(candidate);
    }
    return path;
}

char *client_version(const char *program)
{
    auto_free char *copy = mem_strdup(program);
    char *argv[] = {copy, (char *)"--version", NULL};
    auto_str out = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    int status;
    if (spawn_capture(argv, NULL, CLIENT_QUICK_S, &out, NULL, &status, 1, &err) || status)
        return NULL;
    out.data[strcspn(out.data, "\n")] = '\0';
    const char *word = strstr(out.data, "version ");
    word = word ? word + 8 : strrchr(out.data, ' ') ? strrchr(out.data, ' ') + 1 : out.data;
    return isdigit((unsigned char)*word) ? mem_strndup(word, strcspn(word, ", ")) : NULL;
}

void client_copy_env(const char *const *names, struct strv *env)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value)
            strv_env_set(env, *names, value);
    }
}

int client_refuse_options(const struct runtime_spec *spec, const struct refused_option *refused,
                          struct error *err)
{
    for (size_t i = 0; i < spec->options.count; i++) {
        const char *option = spec->options.items[i];
        size_t n = strcspn(option, "=");
        for (const struct refused_option *r = refused; r->option; r++)
            if (strlen(r->option) == n && !strncmp(option, r->option, n))
                return error_set(err, NCBENCH_EXIT_SCENARIO,
                                 "runtime %s: option %s is not allowed: %s", spec->name, option,
                                 r->instead);
    }
    return 0;
}

bool client_listed(const char *name, bool failed, struct str *out, struct str *errout,
                   const struct error *err, struct str *what)
{
    if (failed) {
        str_appendf(what, "container %s cannot be ruled out: %s", name,
                    err->message ? err->message : client_last_line(errout));
        return true;
    }
    const char *line = str_trim(out->data);
    if (*line)
        str_appendf(what, "container %s", line);
    return *line;
}

char *client_container_name(const struct runtime_launch *launch)
{
    char hash[SHA256_HEX];
    sha256_hex(launch->trial_dir, strlen(launch->trial_dir), hash);
    auto_str name = STR_INIT;
    str_append(&name, "ncbench-");
    for (const char *p = launch->trial_id; *p; p++) {
        bool plain =
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p);
        str_append_char(&name, plain ? *p : '_');
    }
    str_appendf(&name, "-%.8s", hash);
    return str_steal(&name);
}

char *client_session_name(const char *prefix, const char *session_dir, const char *source)
{
    char hash[SHA256_HEX];
    auto_free char *key = mem_printf("%s\n%s", session_dir, source);
    sha256_hex(key, strlen(key), hash);
    return mem_printf("%s-%.12s", prefix, hash);
}

char *client_session_path(const char *session_dir, const char *kind, const char *source)
{
    char hash[SHA256_HEX];
    sha256_hex(source, strlen(source), hash);
    return mem_printf("%s/%s/%.12s", session_dir, kind, hash);
}

const char *client_source(const struct runtime_spec *spec)
{
    return client_given(spec->rootfs) ? spec->rootfs : spec->image;
}

int client_check_source(const struct runtime_spec *spec, const char *hint, struct error *err)
{
    if (client_given(spec->image) != client_given(spec->rootfs))
        return 0;
    error_set(err, NCBENCH_EXIT_SCENARIO, "runtime %s: expected either image or rootfs",
              spec->name);
    return hint ? error_hint(err, "%s", hint) : -err->code;
}

json_t *client_json(const struct strv *argv, const struct strv *env)
{
    auto_str out = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    json_t *json = NULL;
    int rc;
    if (client_run(argv, env, CLIENT_QUICK_S, &out, NULL, &rc, &ignored) || rc ||
        json_parse(out.data, out.len, argv->items[0], NCBENCH_EXIT_ENVIRONMENT, &json, &ignored))
        return NULL;
    return json;
}

void client_copy_str(json_t *obj, const char *key, const json_t *from, const char *path,
                     const char *program)
{
    const char *value = from ? json_read_str(from, path) : NULL;
    auto_free char *why = mem_printf("%s did not tell", program);
    if (client_given(value))
        json_put_str(obj, key, value);
    else
        json_put_null(obj, key, why);
}

json_t *client_image_of_store(const char *ref, const json_t *inspected, bool with_digest,
                              const char *program)
{
    const json_t *image = inspected ? json_array_get(inspected, 0) : NULL;
    json_t *out = json_object();
    auto_free char *why = mem_printf("%s did not tell", program);
    int64_t size;
    json_put_str(out, "ref", ref);
    client_copy_str(out, "id", image, "Id", program);
    if (with_digest)
        client_copy_str(out, "digest", image, "Digest", program);
    if (image && json_read_i64(image, "Size", &size))
        json_put_int(out, "size_bytes", size);
    else
        json_put_null(out, "size_bytes", why);
    return out;
}

void client_put_sha256(json_t *obj, const char *key, const char *path)
{
    char hash[SHA256_HEX];
    auto_error struct error err = ERROR_INIT;
    if (sha256_file(path, hash, NCBENCH_EXIT_RESULTS, &err))
        json_put_null(obj, key, err.message);
    else
        json_put_str(obj, key, hash);
}

void client_put_image_file(json_t *obj, const char *path)
{
    char hash[SHA256_HEX];
    auto_error struct error err = ERROR_INIT;
    struct stat st;
    json_t *out = json_object();
    json_put_str(out, "ref", path);
    if (sha256_file(path, hash, NCBENCH_EXIT_RESULTS, &err)) {
        json_put_null(out, "digest", err.message);
    } else {
        auto_free char *digest = mem_printf("sha256:%s", hash);
        json_put_str(out, "digest", digest);
    }
    if (stat(path, &st))
        json_put_null(out, "size_bytes", "it is not there");
    else
        json_put_int(out, "size_bytes", st.st_size);
    json_put(obj, "image", out);
}
