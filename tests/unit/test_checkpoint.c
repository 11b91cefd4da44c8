#include "common/cleanup.h"
#include "common/clock.h"
#include "common/mem.h"
#include "kernels/kernels.h"
#include "tests/unit/unit.h"
#include "workload/checkpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A tiny training state with one rank. */
struct fixture {
    struct device *device;
    struct comm *comm;
    struct model *model;
    struct optimizer *optimizer;
    char *dir;
};

static void fill(struct fixture *f, float start)
{
    for (size_t i = 0; i < model_n_params(f->model); i++) {
        const struct param *p = model_param(f->model, i);
        for (int64_t k = 0; k < p->rows * p->cols; k++)
            p->weight[k] = start + (float)k * 0.125F + (float)i;
    }
    for (size_t i = 0; i < optimizer_n_tensors(f->optimizer); i++) {
        const struct optimizer_tensor t = optimizer_tensor(f->optimizer, i);
        for (int64_t k = 0; k < t.n; k++)
            t.data[k] = -start - (float)k - (float)i;
    }
}

static struct fixture set_up(void)
{
    struct error err = ERROR_INIT;
    struct fixture f = {.dir = unit_tmpdir()};
    const struct device_config device = {.type = "cpu", .threads = 1};
    const struct comm_config comm = {.world = 1, .local_world = 1};
    struct model_config config = model_config_for_depth(1, 16, 64);
    const struct optimizer_config optimizer = {
        .embedding_lr = 0.2, .unembedding_lr = 0.004, .matrix_lr = 0.02};
    if (device_open(&f.device, &device, &err) || comm_open(&f.comm, &comm, &err) ||
        model_create(&f.model, f.device, &config, 1, 16, &err) ||
        optimizer_create(&f.optimizer, f.model, f.comm, &optimizer, &err))
        BUG("fixture: %s", err.message);
    fill(&f, 1);
    return f;
}

static void tear_down(struct fixture *f)
{
    optimizer_free(f->optimizer);
    model_free(f->model);
    comm_close(f->comm);
    device_close(f->device);
    free(f->dir);
}

static int save(struct fixture *f, int64_t step, struct error *err)
{
    struct checkpoint_meta meta = {.step = step,
                                   .config = *model_get_config(f->model),
                                   .world = 1,
                                   .loader = json_pack("{s:i}", "window", 5),
                                   .loop = json_pack("{s:f}", "smooth_loss", 0.1),
                                   .user = json_pack("{s:s}", "run", "dummy")};
    int64_t bytes = 0;
    double write_s = 0;
    optimizer_set_step(f->optimizer, step);
    checkpoint_save(f->dir, f->model, f->optimizer, f->comm, &meta, &bytes, &write_s, err);
    checkpoint_meta_release(&meta);
    return -err->code;
}

static void must_save(struct fixture *f, int64_t step)
{
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(save(f, step, &err), 0);
    CU_ASSERT_STR(err.message, NULL);
}

/* Everything that a resume reads. */
static int load(struct fixture *f, int64_t step, struct error *err)
{
    auto_free char *path = NULL;
    struct checkpoint_meta meta = {0};
    if (!checkpoint_find(f->dir, step, &path, err) && !checkpoint_check_files(path, true, err) &&
        !checkpoint_read_meta(path, &meta, err) &&
        !checkpoint_check_meta(&meta, model_get_config(f->model), "", 1, err) &&
        !checkpoint_load_model(path, f->model, err))
        checkpoint_load_optimizer(path, f->optimizer, f->comm, err);
    checkpoint_meta_release(&meta);
    return -err->code;
}

static bool holds(struct fixture *f, float start)
{
    const struct param *p = model_param(f->model, model_n_params(f->model) - 1);
    const struct optimizer_tensor t = optimizer_tensor(f->optimizer, 0);
    return p->weight[0] == start + (float)(model_n_params(f->model) - 1) && t.data[0] == -start;
}

static void round_trip(void)
{
    struct fixture f = set_up();
    auto_error struct error err = ERROR_INIT;
    must_save(&f, 10);
    fill(&f, 7);
    CU_ASSERT_TRUE(holds(&f, 7));
    CU_ASSERT_EQUAL(load(&f, -1, &err), 0);
    CU_ASSERT_TRUE(holds(&f, 1));
    CU_ASSERT_EQUAL(optimizer_get_step(f.optimizer), 10);
    tear_down(&f);
}

static void newest_and_named(void)
{
    struct fixture f = set_up();
    must_save(&f, 2);
    fill(&f, 5);
    must_save(&f, 1000000); /* seven digits */
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(load(&f, 2, &err), 0);
    CU_ASSERT_TRUE(holds(&f, 1));
    CU_ASSERT_EQUAL(load(&f, -1, &err), 0);
    CU_ASSERT_TRUE(holds(&f, 5));
    CU_ASSERT_EQUAL(load(&f, 3, &err), -7);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "no checkpoint of step 3"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "(there are: 2, 1000000)")
                               ?: strstr(err.message, "1000000, 2"));
    tear_down(&f);
}

static void same_step_again(void)
{
    struct fixture f = set_up();
    must_save(&f, 4);
    fill(&f, 9);
    auto_free char *leftover = mem_printf("%s/.step_000003.partial", f.dir);
    mkdir(leftover, 0755); /* of a killed run */
    must_save(&f, 4);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(load(&f, 4, &err), 0);
    CU_ASSERT_TRUE(holds(&f, 9));
    auto_strv names = STRV_INIT;
    fs_list_dir(f.dir, &names, 1, &err);
    CU_ASSERT_EQUAL(names.count, 1); /* neither the old one nor a partial one is left */
    tear_down(&f);
}

static const char *const files[] = {"model.safetensors", "optim_rank00000.safetensors", "meta.json",
                                    "manifest.json"};

/* Save, let `damage` spoil one file at an offset, expect a refusal that leaves the model alone. */
static void damaged(struct fixture *f, const char *file, off_t offset,
                    void (*damage)(const char *path, off_t offset))
{
    auto_free char *path = mem_printf("%s/step_000001/%s", f->dir, file);
    auto_str before = STR_INIT;
    auto_error struct error err = ERROR_INIT, refused = ERROR_INIT;
    if (fs_read_file(path, &before, 1, &err))
        BUG("%s", err.message);
    if (offset < 0)
        offset += (off_t)before.len;
    damage(path, offset);
    CU_ASSERT_EQUAL(load(f, 1, &refused), -7);
    if (refused.code != 7)
        fprintf(stderr, "%s damaged at %lld was taken\n", file, (long long)offset);
    if (fs_write_atomic(path, before.data, before.len, 1, &err))
        BUG("%s", err.message);
}

static void truncate_at(const char *path, off_t offset)
{
    if (truncate(path, offset))
        BUG("truncate %s", path);
}

static void flip_at(const char *path, off_t offset)
{
    auto_close int fd = open(path, O_RDWR);
    unsigned char byte;
    if (pread(fd, &byte, 1, offset) != 1)
        BUG("pread %s", path);
    byte ^= 0x01;
    if (pwrite(fd, &byte, 1, offset) != 1)
        BUG("pwrite %s", path);
}

static void remove_file(const char *path, off_t offset)
{
    (void)offset;
    unlink(path);
}

static void truncated_anywhere(void)
{
    struct fixture f = set_up();
    must_save(&f, 1);
    static const off_t offsets[] = {0, 1, 7, 8, 9, 100, -100, -4, -1};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++) {
            if (!strcmp(files[i], "manifest.json") && offsets[k] == -1)
                continue; /* without its last newline it says the same */
            damaged(&f, files[i], offsets[k], truncate_at);
        }
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(load(&f, 1, &err), 0); /* the damage was all that was wrong */
    tear_down(&f);
}

static void flipped_anywhere(void)
{
    struct fixture f = set_up();
    must_save(&f, 1);
    static const off_t offsets[] = {0, 3, 8, 9, 20, 100, 1000, -1000, -5, -2};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++)
            if (strcmp(files[i], "meta.json") != 0 || (offsets[k] > -500 && offsets[k] < 500))
                damaged(&f, files[i], offsets[k], flip_at);
    struct stat st;
    auto_free char *manifest = mem_printf("%s/step_000001/manifest.json", f.dir);
    CU_ASSERT_EQUAL(stat(manifest, &st), 0);
    for (off_t at = 0; at + 1 < st.st_size; at++) /* every byte but the last newline */
        damaged(&f, "manifest.json", at, flip_at);
    tear_down(&f);
}

static void missing_files(void)
{
    struct fixture f = set_up();
    must_save(&f, 1);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        damaged(&f, files[i], 0, remove_file);
    /* Without the optimizer's file the rest is still good for a reset. */
    auto_free char *optim = mem_printf("%s/step_000001/optim_rank00000.safetensors", f.dir);
    auto_free char *path = mem_printf("%s/step_000001", f.dir);
    unlink(optim);
    auto_error struct error err = ERROR_INIT, refused = ERROR_INIT;
    CU_ASSERT_EQUAL(checkpoint_check_files(path, false, &err), 0);
    CU_ASSERT_EQUAL(checkpoint_check_files(path, true, &refused), -7);
    CU_ASSERT_PTR_NOT_NULL(strstr(refused.message, "optim_rank00000.safetensors"));
    CU_ASSERT_PTR_NOT_NULL(strstr(refused.hint, "--reset-optimizer"));
    tear_down(&f);
}

static void expect_mismatch(const struct checkpoint_meta *meta, const struct model_config *config,
                            const char *hash, int world, const char *message)
{
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(checkpoint_check_meta(meta, config, hash, world, &err), -7);
    CU_ASSERT_STR(err.message, message);
}

static void names_what_differs(void)
{
    struct checkpoint_meta meta = {.config = model_config_for_depth(2, 64, 256), .world = 4};
    snprintf(meta.tokenizer_hash, sizeof meta.tokenizer_hash, "%064d", 7);
    auto_error struct error err = ERROR_INIT;
    struct model_config same = meta.config, deeper = model_config_for_depth(4, 64, 256);
    CU_ASSERT_EQUAL(checkpoint_check_meta(&meta, &same, meta.tokenizer_hash, 4, &err), 0);
    CU_ASSERT_EQUAL(checkpoint_check_meta(&meta, &same, meta.tokenizer_hash, -1, &err), 0);
    expect_mismatch(&meta, &same, meta.tokenizer_hash, 2,
                    "the checkpoint was made for another run: it has world (number of ranks) 4, "
                    "expected 2");
    expect_mismatch(&meta, &deeper, meta.tokenizer_hash, 4,
                    "the checkpoint was made for another run: it has n_layer 2, expected 4; n_head "
                    "1, expected 2; n_kv_head 1, expected 2; n_embd 128, expected 256");
    expect_mismatch(&meta, &same, "", 4,
                    "the checkpoint was made for another run: it has tokenizer 0000000000000000, "
                    "expected none");
    same.sequence_len = 65;
    expect_mismatch(&meta, &same, meta.tokenizer_hash, 4,
                    "the checkpoint was made for another run: it has sequence_len 64, expected 65");
}

/* kill -9 at any moment of a save leaves the old checkpoint or the new one, whole. */
static void killed_while_saving(void)
{
    struct fixture f = set_up();
    must_save(&f, 1);
    for (int i = 0; i < 12; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct error err = ERROR_INIT;
            for (int64_t step = 2; !err.code; step = step % 3 + 1)
                save(&f, step, &err);
            _exit(1);
        }
        clock_sleep_s(0.003 + 0.0021 * i);
        kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        CU_ASSERT_TRUE(WIFSIGNALED(status));
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(load(&f, -1, &err), 0);
        CU_ASSERT_STR(err.message, NULL);
    }
    must_save(&f, 9); /* and takes the leftovers away */
    auto_strv names = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    fs_list_dir(f.dir, &names, 1, &err);
    for (size_t i = 0; i < names.count; i++)
        CU_ASSERT_TRUE(str_starts_with(names.items[i], "step_"));
    tear_down(&f);
}

static void cannot_write(void)
{
    struct fixture f = set_up();
    auto_error struct error err = ERROR_INIT;
    auto_free char *file = mem_printf("%s/file", f.dir);
    CU_ASSERT_EQUAL(fs_write_atomic(file, "x", 1, 1, &err), 0);
    free(f.dir);
    f.dir = mem_printf("%s/below", file); /* a directory below a file cannot be */
    CU_ASSERT_EQUAL(save(&f, 1, &err), -10);
    tear_down(&f);
}

UNIT_MAIN({"round trip", round_trip}, {"newest and named", newest_and_named},
          {"the same step again", same_step_again}, {"truncated anywhere", truncated_anywhere},
          {"flipped anywhere", flipped_anywhere}, {"missing files", missing_files},
          {"names what differs", names_what_differs}, {"killed while saving", killed_while_saving},
          {"cannot write", cannot_write})
