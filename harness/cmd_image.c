/* ncbench image build|import|list|rm */
#include "harness/image.h"
#include "harness/verbs.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "common/spawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct image_options {
    char *name, *dir, *archive, *layout, *squashfs, *sif, *nanochat, *runtime, *output;
    bool no_cuda, cold, json;
};

const struct option_spec image_options[] = {
    {"name", 'n', OPT_STRING, offsetof(struct image_options, name), IMAGE_DEFAULT_NAME, 0, 0, "REF",
     "reference of the image in podman's store"},
    {"dir", 'd', OPT_STRING, offsetof(struct image_options, dir), NULL, 0, 0, "DIR",
     "write the root file system into DIR, for rootfs: DIR; without --name nothing goes into "
     "podman's store"},
    {"archive", 'o', OPT_STRING, offsetof(struct image_options, archive), NULL, 0, 0, "FILE",
     "write the image as an OCI archive; without --name nothing goes into podman's store"},
    {"layout", 0, OPT_STRING, offsetof(struct image_options, layout), NULL, 0, 0, "DIR",
     "write the image as an OCI layout directory; without --name nothing goes into podman's store"},
    {"squashfs", 's', OPT_STRING, offsetof(struct image_options, squashfs), NULL, 0, 0, "FILE",
     "write the root file system as a squashfs, for enroot, pyxis, apptainer and charliecloud; "
     "/bin/sh is put in as well, which enroot needs; without --name nothing goes into podman's "
     "store"},
    {"sif", 0, OPT_STRING, offsetof(struct image_options, sif), NULL, 0, 0, "FILE",
     "write the root file system as a SIF, by apptainer or singularity; without --name "
     "nothing goes into podman's store"},
    {"nanochat", 0, OPT_STRING, offsetof(struct image_options, nanochat), NULL, 0, 0, "PATH",
     "the program to put in; default: the one beside ncbench, else the one on PATH"},
    {"no-cuda", 0, OPT_BOOL, offsetof(struct image_options, no_cuda), NULL, 0, 0, NULL,
     "leave the CUDA back end and its libraries, a gigabyte and more, out: for trials on CPUs"},
    {"runtime", 'r', OPT_STRING, offsetof(struct image_options, runtime), NULL, 0, 0, "KIND",
     "import: the runtime that gets the image"},
    {"output", 0, OPT_STRING, offsetof(struct image_options, output), NULL, 0, 0, "FILE",
     "import: the file to make, for enroot and apptainer, which have no store; FILE.source tells "
     "its "
     "origin"},
    {"cold", 0, OPT_BOOL, offsetof(struct image_options, cold), NULL, 0, 0, NULL,
     "import: remove first what the runtime has of it, an archive's image by its --name; replace a "
     "file"},
    {"json", 0, OPT_BOOL, offsetof(struct image_options, json), NULL, 0, 0, NULL,
     "print the result as JSON"},
    {0}};

/* The nanochat to use: absolute, owned by the caller. */
static int find_nanochat(const struct image_options *o, char **out, struct error *err)
{
    if (o->nanochat) {
        *out = fs_realpath(o->nanochat);
        if (*out)
            return 0;
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s does not exist", o->nanochat);
    }
    auto_free char *self = fs_realpath("/proc/self/exe");
    auto_free char *dir = self ? fs_dirname(self) : NULL;
    auto_free char *beside = dir ? mem_printf("%s/nanochat", dir) : NULL;
    *out = beside && fs_exists(beside) ? steal(&beside) : spawn_find_program("nanochat");
    if (*out)
        return 0;
    error_set(err, NCBENCH_EXIT_ENVIRONMENT, "nanochat is neither beside ncbench nor on PATH");
    return error_hint(err, "build it with make, or give --nanochat PATH");
}

/* Where the time of a build went. */
struct build_times {
    double files_s, archive_s, squashfs_s, sif_s, store_s;
};

struct build {
    const struct image_options *options;
    char *nanochat; /* owned */
    char *work;     /* owned, removed */
    bool to_store;
    struct image_root root;
    char *digest; /* owned; NULL for a directory, a squashfs or a SIF alone */
    char squashfs_sha256[SHA256_HEX];
    struct image_sif sif;
    struct build_times times;
};

static int make_work(struct build *b, struct error *err)
{
    const char *tmp = getenv("TMPDIR");
    b->work = mem_printf("%s/ncbench-image-XXXXXX", tmp && *tmp ? tmp : "/var/tmp");
    if (mkdtemp(b->work))
        return 0;
    error_set(err, NCBENCH_EXIT_RESULTS, "cannot make a directory %s", b->work);
    free(steal(&b->work));
    return -err->code;
}

static int build_files(struct build *b, struct error *err)
{
    double start = clock_mono_s();
    auto_free char *dir = mem_printf("%s/root", b->work);
    int failed =
        b->options->dir
            ? image_root_replace(b->nanochat, !b->options->no_cuda, b->options->dir, &b->root, err)
            : image_root_build(b->nanochat, !b->options->no_cuda, dir, &b->root, err);
    if (!failed && b->options->squashfs)
        failed = image_root_add_shell(&b->root, err);
    b->times.files_s = clock_mono_s() - start;
    return failed;
}

static int build_squashfs(struct build *b, struct error *err)
{
    double start = clock_mono_s();
    if (!b->options->squashfs)
        return 0;
    int failed = image_squashfs(&b->root, b->options->squashfs, b->squashfs_sha256, err);
    b->times.squashfs_s = clock_mono_s() - start;
    return failed;
}

/* The last one, as it adds to the root and takes away again. */
static int build_sif(struct build *b, struct error *err)
{
    double start = clock_mono_s();
    if (!b->options->sif)
        return 0;
    int failed = image_sif(&b->root, b->work, b->options->sif, &b->sif, err);
    b->times.sif_s = clock_mono_s() - start;
    return failed;
}

static int build_archive(struct build *b, struct error *err)
{
    double start = clock_mono_s();
    auto_free char *inside = mem_printf("%s/image.tar", b->work);
    const char *archive = b->options->archive ? b->options->archive : inside;
    if (b->options->layout &&
        image_oci_layout(&b->root, b->options->name, b->options->layout, &b->digest, err))
        return -err->code;
    if (!b->to_store && !b->options->archive) {
        b->times.archive_s = clock_mono_s() - start;
        return 0;
    }
    free(steal(&b->digest));
    if (image_oci_write(&b->root, b->options->name, b->work, archive, &b->digest, err))
        return -err->code;
    b->times.archive_s = clock_mono_s() - start;
    if (!b->to_store)
        return 0;
    start = clock_mono_s();
    if (image_store_load(archive, b->options->name, b->digest, err))
        return -err->code;
    b->times.store_s = clock_mono_s() - start;
    return 0;
}

static void print_build_json(const struct build *b, struct str *out)
{
    auto_json *obj = json_object();
    if (b->to_store)
        json_put_str(obj, "name", b->options->name);
    else
        json_put_null(obj, "name", "not put into podman's store");
    if (b->digest)
        json_put_str(obj, "digest", b->digest);
    else
        json_put_null(obj, "digest", "a directory, a squashfs and a SIF have none");
    if (b->options->dir)
        json_put_str(obj, "dir", b->options->dir);
    if (b->options->archive)
        json_put_str(obj, "archive", b->options->archive);
    if (b->options->layout)
        json_put_str(obj, "layout", b->options->layout);
    if (b->options->squashfs) {
        json_put_str(obj, "squashfs", b->options->squashfs);
        json_put_str(obj, "squashfs_sha256", b->squashfs_sha256);
        json_put_f64(obj, "squashfs_s", b->times.squashfs_s);
    }
    if (b->options->sif) {
        json_put_str(obj, "sif", b->options->sif);
        json_put_str(obj, "sif_sha256", b->sif.sha256);
        json_put_str(obj, "sif_builder", b->sif.builder);
        json_put_f64(obj, "sif_s", b->times.sif_s);
    }
    json_put_str(obj, "nanochat", b->nanochat);
    json_put_str(obj, "nanochat_sha256", b->root.sha256);
    if (*b->root.cuda_sha256)
        json_put_str(obj, "cuda_sha256", b->root.cuda_sha256);
    else
        json_put_null(obj, "cuda_sha256",
                      b->options->no_cuda ? "left out by --no-cuda"
                                          : "no CUDA back end beside nanochat");
    json_put_int(obj, "libraries", (int64_t)b->root.libraries);
    json_put_int(obj, "bytes", b->root.bytes);
    json_put_f64(obj, "files_s", b->times.files_s);
    json_put_f64(obj, "archive_s", b->times.archive_s);
    json_put_f64(obj, "store_s", b->times.store_s);
    json_write(out, obj, 2);
    str_append_char(out, '\n');
}

static void print_build_text(const struct build *b, struct str *out)
{
    char size[32], files[32], archive[32], squashfs[32], sif[32], store[32];
    if (b->to_store)
        str_appendf(out, "image      %s\n", b->options->name);
    if (b->options->archive)
        str_appendf(out, "archive    %s\n", b->options->archive);
    if (b->options->layout)
        str_appendf(out, "layout     %s\n", b->options->layout);
    if (b->options->squashfs)
        str_appendf(out, "squashfs   %s, sha256 %.12s\n", b->options->squashfs, b->squashfs_sha256);
    if (b->options->sif)
        str_appendf(out, "sif        %s, sha256 %.12s, by %s\n", b->options->sif, b->sif.sha256,
                    b->sif.builder);
    if (b->options->dir)
        str_appendf(out, "directory  %s\n", b->options->dir);
    if (b->digest)
        str_appendf(out, "digest     %s\n", b->digest);
    str_appendf(out, "nanochat   %s, sha256 %.12s\n", b->nanochat, b->root.sha256);
    if (*b->root.cuda_sha256)
        str_appendf(out, "cuda       %s, sha256 %.12s\n", IMAGE_CUDA, b->root.cuda_sha256);
    str_appendf(out, "contents   %zu libraries, %s\n", b->root.libraries,
                num_format_size(size, sizeof size, (double)b->root.bytes));
    str_appendf(out, "time       files %s",
                num_format_duration(files, sizeof files, b->times.files_s));
    if (b->digest)
        str_appendf(out, ", archive %s",
                    num_format_duration(archive, sizeof archive, b->times.archive_s));
    if (b->options->squashfs)
        str_appendf(out, ", squashfs %s",
                    num_format_duration(squashfs, sizeof squashfs, b->times.squashfs_s));
    if (b->options->sif)
        str_appendf(out, ", sif %s", num_format_duration(sif, sizeof sif, b->times.sif_s));
    if (b->to_store)
        str_appendf(out, ", podman load %s",
                    num_format_duration(store, sizeof store, b->times.store_s));
    str_append_char(out, '\n');
}

static int write_stdout(const struct str *text, struct error *err)
{
    if (fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0)
        return 0;
    return error_set(err, NCBENCH_EXIT_RESULTS, "cannot write standard output");
}

static int do_build(const struct image_options *o, bool named, struct error *err)
{
    struct build b = {
        .options = o,
        .to_store = named || (!o->dir && !o->archive && !o->layout && !o->squashfs && !o->sif)};
    auto_str out = STR_INIT;
    int failed = find_nanochat(o, &b.nanochat, err) || make_work(&b, err) || build_files(&b, err) ||
                 build_archive(&b, err) || build_squashfs(&b, err) || build_sif(&b, err);
    auto_error struct error ignored = ERROR_INIT;
    if (b.work && fs_remove_tree(b.work, NCBENCH_EXIT_RESULTS, &ignored))
        log_warn("%s", ignored.message);
    if (!failed) {
        (o->json ? print_build_json : print_build_text)(&b, &out);
        failed = write_stdout(&out, err);
    }
    image_root_release(&b.root);
    free(b.nanochat);
    free(b.work);
    free(b.digest);
    return failed ? -err->code : 0;
}

/* The store may have the archive's image under another name than the one that was given. */
static bool cold_unknown(const struct image_options *o, const struct image_imported *i)
{
    return o->cold && i->archive && !i->target && !i->removed;
}

static const char *import_state(const struct image_options *o, const struct image_imported *i)
{
    if (i->present)
        return "present";
    return o->cold ? "cold" : "warm";
}

static void print_import_json(const struct image_options *o, const struct image_imported *i,
                              struct str *out)
{
    auto_json *obj = json_object();
    json_put_str(obj, "runtime", o->runtime);
    json_put_str(obj, "source", i->source);
    json_put_str(obj, "from", i->archive ? "archive" : "registry");
    if (cold_unknown(o, i))
        json_put_null(obj, "state", "nothing was there to remove by the name that --name gives");
    else
        json_put_str(obj, "state", import_state(o, i));
    if (i->target)
        json_put_str(obj, "file", i->target);
    else
        json_put_null(obj, "file", "it went into the runtime's store");
    if (i->bytes >= 0)
        json_put_int(obj, "bytes", i->bytes);
    else
        json_put_null(obj, "bytes", "the store's matter");
    json_put_f64(obj, "lock_wait_s", i->lock_wait_s);
    if (i->present)
        json_put_null(obj, "import_s", "the file was there");
    else
        json_put_f64(obj, "import_s", i->import_s);
    json_write(out, obj, 2);
    str_append_char(out, '\n');
}

static void print_import_text(const struct image_options *o, const struct image_imported *i,
                              struct str *out)
{
    char took[32], waited[32];
    const char *into = i->target ? i->target : "its store";
    if (i->present)
        str_appendf(out, "%s: %s is there; nothing was imported\n", o->runtime, into);
    else
        str_appendf(out, "%s: %s import of %s into %s in %s\n", o->runtime,
                    cold_unknown(o, i) ? "perhaps cold" : import_state(o, i), i->source, into,
                    num_format_duration(took, sizeof took, i->import_s));
    if (cold_unknown(o, i))
        str_appendf(out, "nothing was there to remove by the name %s\n", o->name);
    if (i->lock_wait_s >= 0.1)
        str_appendf(out, "waited %s for another job's import\n",
                    num_format_duration(waited, sizeof waited, i->lock_wait_s));
}

static int do_import(const struct image_options *o, bool named, const struct strv *words,
                     struct error *err)
{
    if (words->count != 2)
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "image import: expected one OCI archive or registry reference");
    if (!o->runtime)
        return error_set(err, NCBENCH_EXIT_USAGE, "image import: --runtime KIND is missing");
    const struct image_import_request request = {.kind = o->runtime,
                                                 .source = words->items[1],
                                                 .output = o->output,
                                                 .name = named ? o->name : NULL,
                                                 .cold = o->cold};
    struct image_imported imported = {0};
    auto_str out = STR_INIT;
    int failed = image_import(&request, &imported, err);
    if (!failed) {
        (o->json ? print_import_json : print_import_text)(o, &imported, &out);
        failed = write_stdout(&out, err);
    }
    image_imported_release(&imported);
    return failed ? -err->code : 0;
}

static int do_list(const struct image_options *o, struct error *err)
{
    auto_json *list = NULL;
    auto_str out = STR_INIT;
    if (image_store_list(&list, err))
        return -err->code;
    if (o->json) {
        json_write(&out, list, 2);
        str_append_char(&out, '\n');
        return write_stdout(&out, err);
    }
    size_t i;
    json_t *image;
    str_appendf(&out, "%-40s %-19s %10s  %s\n", "NAME", "DIGEST", "SIZE", "NANOCHAT");
    json_array_foreach(list, i, image)
    {
        const char *name = json_read_str(image, "name");
        const char *digest = json_read_str(image, "digest");
        const char *sha256 = json_read_str(image, "nanochat_sha256");
        int64_t bytes = 0;
        char size[32];
        json_read_i64(image, "size_bytes", &bytes);
        str_appendf(&out, "%-40s %-19.19s %10s  %.12s\n", name ? name : "(unnamed)",
                    digest ? digest : "", num_format_size(size, sizeof size, (double)bytes),
                    sha256 ? sha256 : "");
    }
    return write_stdout(&out, err);
}

static int do_remove(const struct strv *names, struct error *err)
{
    if (names->count < 2)
        return error_set(err, NCBENCH_EXIT_USAGE, "image rm: expected the names of images");
    for (size_t i = 1; i < names->count; i++)
        if (image_store_remove(names->items[i], err))
            return -err->code;
    return 0;
}

/* What each takes of image_options. */
static const struct {
    const char *verb, *options[10];
} takes[] = {
    {"build",
     {"name", "dir", "archive", "layout", "squashfs", "sif", "nanochat", "no-cuda", "json", NULL}},
    {"import", {"name", "runtime", "output", "cold", "json", NULL}},
    {"list", {"json", NULL}},
    {"rm", {NULL}},
};

static bool is_one_of(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

/* An option without an effect would be taken for one that had it. */
static int refuse_others(const char *what, int argc, char **argv, struct error *err)
{
    const char *const *own = NULL;
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++)
        if (!strcmp(takes[i].verb, what))
            own = takes[i].options;
    for (const struct option_spec *o = image_options; own && o->name; o++)
        if (options_given(image_options, argc, argv, o->name) && !is_one_of(own, o->name))
            return error_set(err, NCBENCH_EXIT_USAGE, "image %s: --%s is not for it", what,
                             o->name);
    return 0;
}

static int dispatch(const struct image_options *o, bool named, const struct strv *words,
                    struct error *err)
{
    const char *what = words->count ? words->items[0] : "";
    bool build = !strcmp(what, "build"), list = !strcmp(what, "list");
    if ((build || list) && words->count > 1)
        return error_set(err, NCBENCH_EXIT_USAGE, "image %s: unexpected operand \"%s\"", what,
                         words->items[1]);
    if (build)
        return do_build(o, named, err);
    if (list)
        return do_list(o, err);
    if (!strcmp(what, "import"))
        return do_import(o, named, words, err);
    if (!strcmp(what, "rm"))
        return do_remove(words, err);
    return error_set(err, NCBENCH_EXIT_USAGE, "image \"%s\": expected build, import, list or rm",
                     what);
}

int cmd_image(int argc, char **argv)
{
    struct image_options o;
    auto_strv words = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    options_defaults(image_options, &o);
    bool named = options_given(image_options, argc, argv, "name");
    if (!options_parse(image_options, &o, argc, argv, &words, &err) &&
        !refuse_others(words.count ? words.items[0] : "", argc, argv, &err))
        dispatch(&o, named, &words, &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(image_options, &o);
    return err.code;
}
