/* Our images in podman's store. */
#include "harness/image.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "common/spawn.h"

#include <string.h>
#include <sys/wait.h>

#define LOAD_TIMEOUT_S 600.0

/* Run podman with these words; out may be NULL. *rc is its exit code. */
static int podman(struct strv *words, struct str *out, struct str *errout, int *rc,
                  struct error *err)
{
    auto_strv argv = STRV_INIT;
    int status;
    strv_push(&argv, "podman");
    strv_extend(&argv, words);
    if (spawn_capture(argv.items, NULL, LOAD_TIMEOUT_S, out, errout, &status,
                      NCBENCH_EXIT_ENVIRONMENT, err)) {
        return error_hint(err, "tools/install-deps run, or apt-get install podman; `ncbench image "
                               "build --dir DIR` needs no podman");
    }
    *rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}

static void push(struct strv *v, const char *const *words)
{
    for (; *words; words++)
        strv_push(v, *words);
}
#define WORDS(v, ...) push(v, (const char *const[]){__VA_ARGS__, NULL})

static const char *last_line(struct str *text)
{
    char *trimmed = str_trim(text->data);
    char *newline = strrchr(trimmed, '\n');
    return newline ? newline + 1 : trimmed;
}

/* podman image inspect; NULL in *out if there is no such image. */
static int inspect(const char *name, json_t **out, struct error *err)
{
    auto_strv words = STRV_INIT;
    auto_str text = STR_INIT, errout = STR_INIT;
    int rc;
    *out = NULL;
    WORDS(&words, "image", "inspect", "--", name);
    if (podman(&words, &text, &errout, &rc, err))
        return -err->code;
    if (rc && (strstr(errout.data, "image not known") || strstr(errout.data, "no such image")))
        return 0;
    if (rc)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "podman image inspect %s: %s", name,
                         last_line(&errout));
    auto_json *list = NULL;
    if (json_parse(text.data, text.len, "podman image inspect", NCBENCH_EXIT_ENVIRONMENT, &list,
                   err))
        return -err->code;
    *out = json_incref(json_array_get(list, 0));
    return 0;
}

/* An image that lost its name to the new one. One that another name or a container holds stays: by
 * its id podman would remove it together with its last name. */
static void remove_unnamed(const char *id)
{
    auto_json *image = NULL;
    auto_error struct error unknown = ERROR_INIT;
    if (inspect(id, &image, &unknown) || !image || json_array_size(json_at(image, "RepoTags")))
        return;
    auto_strv words = STRV_INIT;
    auto_str errout = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    int rc;
    WORDS(&words, "image", "rm", "--", id);
    podman(&words, NULL, &errout, &rc, &ignored);
}

int image_store_load(const char *archive, const char *name, const char *digest, struct error *err)
{
    auto_json *before = NULL, *after = NULL;
    auto_strv words = STRV_INIT;
    auto_str errout = STR_INIT;
    int rc;
    if (inspect(name, &before, err))
        return -err->code;
    WORDS(&words, "load", "--quiet", "--input", archive);
    if (podman(&words, NULL, &errout, &rc, err))
        return -err->code;
    if (rc)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "podman load %s: %s", archive,
                         last_line(&errout));
    if (inspect(name, &after, err))
        return -err->code;
    const char *got = after ? json_read_str(after, "Digest") : NULL;
    if (!got || strcmp(got, digest) != 0)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                         "image %s: podman stored it with digest %s, expected %s", name,
                         got ? got : "(none)", digest);
    const char *old = before ? json_read_str(before, "Id") : NULL;
    const char *new = json_read_str(after, "Id");
    if (old && new &&strcmp(old, new) != 0)
        remove_unnamed(old);
    return 0;
}

static void add_image(json_t *list, const json_t *from)
{
    json_t *obj = json_object();
    const json_t *names = json_at(from, "Names");
    const json_t *labels = json_at(from, "Labels"); /* dots are in the key, so no json_read_str */
    const char *first = json_string_value(json_array_get(names, 0));
    int64_t size = 0;
    json_read_i64(from, "Size", &size);
    json_put_str(obj, "name", first);
    json_put_str(obj, "id", json_read_str(from, "Id"));
    json_put_str(obj, "digest", json_read_str(from, "Digest"));
    json_put_int(obj, "size_bytes", size);
    json_put_str(obj, "nanochat_sha256",
                 json_string_value(json_object_get(labels, IMAGE_LABEL_SHA256)));
    json_array_append_new(list, obj);
}

int image_store_list(json_t **out, struct error *err)
{
    auto_strv words = STRV_INIT;
    auto_str text = STR_INIT, errout = STR_INIT;
    int rc;
    WORDS(&words, "image", "list", "--format=json", "--filter=label=" IMAGE_LABEL_SHA256);
    if (podman(&words, &text, &errout, &rc, err))
        return -err->code;
    if (rc)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "podman image list: %s",
                         last_line(&errout));
    auto_json *images = NULL;
    if (json_parse(text.data, text.len, "podman image list", NCBENCH_EXIT_ENVIRONMENT, &images,
                   err))
        return -err->code;
    *out = json_array();
    size_t i;
    json_t *image;
    json_array_foreach(images, i, image) add_image(*out, image);
    return 0;
}

int image_store_remove(const char *name, struct error *err)
{
    auto_json *image = NULL;
    if (inspect(name, &image, err))
        return -err->code;
    if (!image)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "image \"%s\" not found locally", name);
    const json_t *labels = json_at(image, "Labels");
    if (!json_object_get(labels, IMAGE_LABEL_SHA256)) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "image \"%s\" was not made by ncbench", name);
        return error_hint(err, "podman image rm %s", name);
    }
    auto_strv words = STRV_INIT;
    auto_str errout = STR_INIT;
    int rc;
    WORDS(&words, "image", "rm", "--", name);
    if (podman(&words, NULL, &errout, &rc, err))
        return -err->code;
    if (rc)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "image \"%s\": %s", name,
                         last_line(&errout));
    return 0;
}
