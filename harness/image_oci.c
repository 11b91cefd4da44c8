/* A root file system as an OCI archive (image-spec 1.0: oci-layout, index.json, blobs), made so
 * that equal roots give equal bytes. podman load keeps the manifest as it is, so that the digest in
 * its store is the one computed here. */
#include "harness/image.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "common/spawn.h"
#include "runtimes/client.h"
#include "runtimes/runtime.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TAR_TIMEOUT_S 600.0
#define TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define TYPE_CONFIG "application/vnd.oci.image.config.v1+json"
#define TYPE_LAYER "application/vnd.oci.image.layer.v1.tar"

int image_epoch(int64_t *out, struct error *err)
{
    const char *text = getenv("SOURCE_DATE_EPOCH");
    *out = 0;
    if (!text || !*text || (num_parse_i64(text, out) && *out >= 0))
        return 0;
    return error_set(err, NCBENCH_EXIT_USAGE, "SOURCE_DATE_EPOCH=%s: expected seconds since 1970",
                     text);
}

/* By name: an entry for the folder itself ("./") is an illegal path to apptainer. */
#define LAYOUT_NAMES "blobs index.json oci-layout"

/* GNU tar, with everything that varies pinned. names: what of dir, words with blanks between. */
static int make_tar(const char *dir, const char *names, const char *path, struct error *err)
{
    int64_t epoch;
    if (image_epoch(&epoch, err))
        return -err->code;
    auto_strv argv = STRV_INIT;
    client_words(&argv,
                 "tar --create --format=gnu --sort=name --owner=0 --group=0 --numeric-owner");
    strv_pushf(&argv, "--mtime=@%lld", (long long)epoch);
    strv_pushf(&argv, "--file=%s", path);
    strv_pushf(&argv, "--directory=%s", dir);
    client_words(&argv, names);
    auto_str errout = STR_INIT;
    int status;
    if (spawn_capture(argv.items, NULL, TAR_TIMEOUT_S, NULL, &errout, &status,
                      NCBENCH_EXIT_ENVIRONMENT, err))
        return -err->code;
    if (status)
        return error_set(err, NCBENCH_EXIT_RESULTS, "tar of %s: %s", dir, str_trim(errout.data));
    return 0;
}

struct blob {
    char sha256[SHA256_HEX];
    int64_t bytes;
};

/* Move a file into the layout, under its hash. */
static int add_blob_file(const char *layout, const char *path, struct blob *out, struct error *err)
{
    struct stat st;
    if (sha256_file(path, out->sha256, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    if (stat(path, &st))
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "%s", path);
    out->bytes = st.st_size;
    auto_free char *to = mem_printf("%s/blobs/sha256/%s", layout, out->sha256);
    if (rename(path, to))
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot rename %s to %s", path, to);
    return 0;
}

static int add_blob_json(const char *layout, const json_t *json, struct blob *out,
                         struct error *err)
{
    auto_str text = STR_INIT;
    json_write(&text, json, 0);
    sha256_hex(text.data, text.len, out->sha256);
    out->bytes = (int64_t)text.len;
    auto_free char *to = mem_printf("%s/blobs/sha256/%s", layout, out->sha256);
    return fs_write_atomic(to, text.data, text.len, NCBENCH_EXIT_RESULTS, err);
}

static json_t *descriptor(const char *type, const struct blob *blob)
{
    json_t *obj = json_object();
    auto_free char *digest = mem_printf("sha256:%s", blob->sha256);
    json_put_str(obj, "mediaType", type);
    json_put_str(obj, "digest", digest);
    json_put_int(obj, "size", blob->bytes);
    return obj;
}

/* By the program inside, whatever machine packs it; the names are Go's, as the specification asks.
 */
static int read_architecture(const struct image_root *root, const char **out, struct error *err)
{
    static const struct {
        Elf64_Half machine;
        const char *name;
    } known[] = {{EM_X86_64, "amd64"},
                 {EM_AARCH64, "arm64"},
                 {EM_RISCV, "riscv64"},
                 {EM_PPC64, "ppc64le"},
                 {EM_S390, "s390x"}};
    auto_free char *path = mem_printf("%s%s", root->dir, RUNTIME_IMAGE_NANOCHAT);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr head;
    if (fd < 0 || pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "cannot read %s", path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].machine == head.e_machine) {
            *out = known[i].name;
            return 0;
        }
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                     "nanochat is for ELF machine %d, which has no name in an OCI image here",
                     head.e_machine);
}

static json_t *make_config(const struct image_root *root, const char *architecture,
                           const struct blob *layer, int64_t epoch)
{
    char created[32];
    time_t seconds = (time_t)epoch;
    struct tm tm;
    gmtime_r(&seconds, &tm);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_t *config = json_object(), *run = json_object(), *labels = json_object();
    json_put_str(config, "created", created);
    json_put_str(config, "architecture", architecture);
    json_put_str(config, "os", "linux");
    json_put(run, "Env",
             json_pack("[s]", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    json_put(run, "Cmd", json_pack("[ss]", "/usr/local/bin/nanochat", "info"));
    json_put_str(labels, IMAGE_LABEL_SHA256, root->sha256);
    json_put_str(labels, IMAGE_LABEL_VERSION, NCBENCH_VERSION);
    json_put(run, "Labels", labels);
    json_put(config, "config", run);
    auto_free char *diff = mem_printf("sha256:%s", layer->sha256);
    json_put(config, "rootfs", json_pack("{s:s, s:[s]}", "type", "layers", "diff_ids", diff));
    return config;
}

static int write_index(const char *layout, const char *name, const struct blob *manifest,
                       struct error *err)
{
    auto_json *index = json_object();
    json_put_int(index, "schemaVersion", 2);
    json_t *one = descriptor(TYPE_MANIFEST, manifest);
    json_put(one, "annotations", json_pack("{s:s}", "org.opencontainers.image.ref.name", name));
    json_put(index, "manifests", json_pack("[o]", one));
    auto_free char *path = mem_printf("%s/index.json", layout);
    auto_str text = STR_INIT;
    json_write(&text, index, 0);
    return fs_write_atomic(path, text.data, text.len, NCBENCH_EXIT_RESULTS, err);
}

static int write_layout(const struct image_root *root, const char *name, const char *layout,
                        const char *tar, struct blob *manifest, struct error *err)
{
    static const char version[] = "{\"imageLayoutVersion\": \"1.0.0\"}";
    int64_t epoch;
    const char *architecture = NULL;
    struct blob layer, config;
    auto_free char *blobs = mem_printf("%s/blobs/sha256", layout);
    auto_free char *marker = mem_printf("%s/oci-layout", layout);
    if (image_epoch(&epoch, err) || read_architecture(root, &architecture, err) ||
        fs_mkdir_p(blobs, NCBENCH_EXIT_RESULTS, err) ||
        fs_write_atomic(marker, version, strlen(version), NCBENCH_EXIT_RESULTS, err) ||
        make_tar(root->dir, ".", tar, err) || add_blob_file(layout, tar, &layer, err))
        return -err->code;
    auto_json *config_json = make_config(root, architecture, &layer, epoch);
    if (add_blob_json(layout, config_json, &config, err))
        return -err->code;
    auto_json *json = json_object();
    json_put_int(json, "schemaVersion", 2);
    json_put_str(json, "mediaType", TYPE_MANIFEST);
    json_put(json, "config", descriptor(TYPE_CONFIG, &config));
    json_put(json, "layers", json_pack("[o]", descriptor(TYPE_LAYER, &layer)));
    if (add_blob_json(layout, json, manifest, err))
        return -err->code;
    return write_index(layout, name, manifest, err);
}

static int write_archive(const struct image_root *root, const char *name, const char *work,
                         const char *path, char **digest, struct error *err)
{
    auto_free char *layout = mem_printf("%s/oci", work);
    auto_free char *tar = mem_printf("%s/layer.tar", work);
    struct blob manifest;
    if (fs_remove_tree(layout, NCBENCH_EXIT_RESULTS, err) ||
        write_layout(root, name, layout, tar, &manifest, err) ||
        make_tar(layout, LAYOUT_NAMES, path, err))
        return -err->code;
    *digest = mem_printf("sha256:%s", manifest.sha256);
    return fs_remove_tree(layout, NCBENCH_EXIT_RESULTS, err);
}

int image_oci_write(const struct image_root *root, const char *name, const char *work,
                    const char *path, char **digest, struct error *err)
{
    mode_t before = umask(022); /* modes are part of the archive */
    int failed = write_archive(root, name, work, path, digest, err);
    umask(before);
    return failed;
}

static int write_layout_dir(const struct image_root *root, const char *name, const char *dir,
                            char **digest, struct error *err)
{
    auto_free char *aside = mem_printf("%s.tmp.%d", dir, (int)getpid());
    auto_free char *tar = mem_printf("%s.layer", aside); /* on the file system of the layout */
    auto_error struct error ignored = ERROR_INIT;
    struct blob manifest;
    if (fs_remove_tree(aside, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    if (write_layout(root, name, aside, tar, &manifest, err) ||
        fs_remove_tree(dir, NCBENCH_EXIT_RESULTS, err)) {
        fs_remove_tree(aside, NCBENCH_EXIT_RESULTS, &ignored);
        fs_remove_tree(tar, NCBENCH_EXIT_RESULTS, &ignored);
        return -err->code;
    }
    if (rename(aside, dir))
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot rename %s to %s", aside, dir);
    free(*digest);
    *digest = mem_printf("sha256:%s", manifest.sha256);
    return 0;
}

int image_oci_layout(const struct image_root *root, const char *name, const char *dir,
                     char **digest, struct error *err)
{
    auto_free char *marker = mem_printf("%s/oci-layout", dir);
    if (fs_exists(dir) && !fs_exists(marker)) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s exists and is no OCI layout", dir);
        return error_hint(err, "name a directory that does not exist yet");
    }
    mode_t before = umask(022);
    int failed = write_layout_dir(root, name, dir, digest, err);
    umask(before);
    return failed;
}
