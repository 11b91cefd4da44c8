/* What every adapter that has a client program (podman, docker, runc, enroot …) shares: finding it,
 * running it for a look, its environment, and the names of containers. */
#ifndef RUNTIMES_CLIENT_H
#define RUNTIMES_CLIENT_H

#include "runtimes/runtime.h"

#define CLIENT_QUICK_S 30.0   /* a call that only looks something up or removes a container */
#define CLIENT_IMPORT_S 1800. /* unpacking, importing */

/* NULL and "" are both "not given". */
bool client_given(const char *s);

/* Run `argv` with `env` to its end, standard input /dev/null. *rc: its exit code, or 128+n. out and
 * errout may be NULL. 4: it could not be started, or did not end within timeout_s. */
int client_run(const struct strv *argv, const struct strv *env, double timeout_s, struct str *out,
               struct str *errout, int *rc, struct error *err);
/* As client_run, for a call that must succeed: 4 with the last line of its standard error when it
 * does not. what: "importing x.sqsh". */
int client_must(const struct strv *argv, const struct strv *env, double timeout_s, const char *what,
                struct error *err);
/* The same in the directory cwd. */
int client_must_in(const char *cwd, const struct strv *argv, const struct strv *env,
                   double timeout_s, const char *what, struct error *err);
/* Append the words of a line, split at blanks. */
void client_words(struct strv *argv, const char *words);
/* The last line: programs print their warnings first. Trims text. */
const char *client_last_line(struct str *text);

/* The program on PATH or in the usual directories, where a user's PATH may not reach. Caller frees;
 * NULL if there is none. */
char *client_find(const char *name);
/* What follows "version " (or the program's name) in the first line of `PROGRAM --version`. Caller
 * frees; NULL if it cannot be told. */
char *client_version(const char *program);

/* Options that would take the trial out of the harness's hands, and what to do instead; a table
 * ends with {0}. 3 for the first of spec's options that is in it, with a value ("--name=x") or
 * without. */
struct refused_option {
    const char *option, *instead;
};
int client_refuse_options(const struct runtime_spec *spec, const struct refused_option *refused,
                          struct error *err);

/* Copy variables of this process into env; names ends with NULL. The workload never sees them. */
void client_copy_env(const char *const *names, struct strv *env);

/* What `ps` said of the container `name`: failed, or wrote nothing, or a line. False only when it
 * is certain that nothing is there: not knowing is not the same as knowing. Trims out and errout.
 */
bool client_listed(const char *name, bool failed, struct str *out, struct str *errout,
                   const struct error *err, struct str *what);

/* "ncbench-<trial>-<8 hex>": the trial's id for people, a hash of its directory so that two
 * sessions never meet. Caller frees. */
char *client_container_name(const struct runtime_launch *launch);
/* "<prefix>-<12 hex>" for what a session makes of one source (an image, a directory). */
char *client_session_name(const char *prefix, const char *session_dir, const char *source);
/* A path below the session that belongs to this kind and source: "<session>/<kind>/<12 hex>". */
char *client_session_path(const char *session_dir, const char *kind, const char *source);

/* What the spec runs from: its rootfs, else its image. */
const char *client_source(const struct runtime_spec *spec);
/* Exactly one of the two is given. 3; hint may be NULL. */
int client_check_source(const struct runtime_spec *spec, const char *hint, struct error *err);

/* The JSON that a call prints; NULL if it failed or printed something else. Caller owns it. */
json_t *client_json(const struct strv *argv, const struct strv *env);
/* Copy the text at the path of `from` (may be NULL) to key, null with "<program> did not tell"
 * where there is none. */
void client_copy_str(json_t *obj, const char *key, const json_t *from, const char *path,
                     const char *program);
/* "image" of a description by what `<program> image inspect` printed (may be NULL): ref and the
 * store's id, digest and size. with_digest: the program tells one. */
json_t *client_image_of_store(const char *ref, const json_t *inspected, bool with_digest,
                              const char *program);

/* Put the SHA-256 of a configuration file in effect into obj, null with a why if there is none. */
void client_put_sha256(json_t *obj, const char *key, const char *path);

/* "image" of a description where it is one file: path, SHA-256, size. */
void client_put_image_file(json_t *obj, const char *path);

#endif
