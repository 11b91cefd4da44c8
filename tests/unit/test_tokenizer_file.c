#include "workload/tokenizer.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"
#include "workload/tokenizer_train.h"

#include <pthread.h>
#include <string.h>

static const char corpus[] =
    "The river ran low that summer, and the mill at the bend of the river stood still. Nobody in "
    "the village had counted on it: the miller least of all, who'd sold his cart.\n\n"
    "In 1873 there were 212 mills on the river; in 1901, 37. What'll be left? We're not sure.\n"
    "for (int i = 0; i < 10; i++) {\n        total += counts[i];\n}\n"
    "Die M\xC3\xBChle steht still. Die M\xC3\xBChlen stehen still.\n";

static const char golden[] =
    "The miller's mills stood still in 1901;\n\n    they'll stand \xE2\x80\x94 M\xC3\xBChle \xFF "
    "(2024) \xE6\xB0\xB4\xE8\xBB\x8A";

static struct tokenizer *trained(int64_t vocab)
{
    struct bpe_trainer *trainer = bpe_trainer_new();
    bpe_trainer_add(trainer, corpus, strlen(corpus));
    struct tokenizer *t = NULL;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(bpe_trainer_finish(trainer, vocab, &t, NULL, &err), 0);
    bpe_trainer_free(trainer);
    return t;
}

/* What this corpus teaches and how the text is then written; the same as rustbpe 0.1 and tiktoken
 * give. Another result is another tokenizer: checkpoints would not fit it. */
static void golden_ids_are_pinned(void)
{
    static const int32_t expected[] = {332, 279, 264, 39,  115, 279, 115, 265, 111, 289, 277, 296,
                                       32,  326, 323, 330, 10,  262, 32,  261, 121, 319, 265, 97,
                                       288, 32,  226, 128, 148, 302, 32,  255, 306, 50,  48,  50,
                                       52,  41,  32,  230, 176, 180, 232, 187, 138};
    static const size_t n = sizeof expected / sizeof *expected;
    struct tokenizer *t = trained(360);
    struct token_buffer b = {0};
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(tokenizer_encode(t, golden, strlen(golden), &b, &err), 0);
    CU_ASSERT_EQUAL(b.count, n);
    CU_ASSERT_TRUE(b.count == n && !memcmp(b.items, expected, sizeof expected));
    CU_ASSERT_STR(tokenizer_hash(t),
                  "bbe9577e1d46ceab6600038db4fe2135769766a799f3e209a5bbbd201e919971");
    token_buffer_release(&b);
    tokenizer_free(t);
}

static void loads_what_it_saved(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *deep = mem_printf("%s/a/b", dir);
    auto_free char *path = mem_printf("%s/tokenizer.json", deep);
    struct tokenizer *t = trained(360), *u = NULL, *v = NULL;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(tokenizer_save(t, deep, &err), 0);
    CU_ASSERT_EQUAL_FATAL(tokenizer_load(deep, &u, &err), 0);
    CU_ASSERT_EQUAL_FATAL(tokenizer_load(path, &v, &err), 0);
    char hash[SHA256_HEX];
    CU_ASSERT_EQUAL(sha256_file(path, hash, 1, &err), 0);
    CU_ASSERT_STR(tokenizer_hash(t), hash);
    CU_ASSERT_STR(tokenizer_hash(u), hash);
    CU_ASSERT_STR(tokenizer_hash(v), hash);
    CU_ASSERT_EQUAL(tokenizer_vocab_size(u), 360);
    CU_ASSERT_EQUAL(
        memcmp(tokenizer_token_bytes(t), tokenizer_token_bytes(u), 360 * sizeof(int32_t)), 0);
    struct token_buffer a = {0}, b = {0};
    CU_ASSERT_EQUAL(tokenizer_encode(t, golden, strlen(golden), &a, &err), 0);
    CU_ASSERT_EQUAL(tokenizer_encode(u, golden, strlen(golden), &b, &err), 0);
    CU_ASSERT_TRUE(a.count == b.count && !memcmp(a.items, b.items, a.count * sizeof *a.items));
    token_buffer_release(&a);
    token_buffer_release(&b);
    tokenizer_free(t);
    tokenizer_free(u);
    tokenizer_free(v);
}

static void expect_load_code(const char *path, int code, const char *word)
{
    struct tokenizer *t = NULL;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(tokenizer_load(path, &t, &err), -code);
    if (!err.message || !strstr(err.message, word)) {
        CU_ASSERT_STR(err.message, word);
    }
    tokenizer_free(t);
}

/* Each field in turn: removed, of another type, of another value. */
static void refuses_changed_fields(void)
{
    static const struct {
        const char *key, *json;
    } changes[] = {
        {"format", "\"other\""},
        {"version", "2"},
        {"pattern", "{\"id\": \"gpt4-digits3\", \"sha256\": \"00\"}"},
        {"pattern", "{\"id\": \"gpt4-digits2\", \"sha256\": \"00\"}"},
        {"pattern", "\"gpt4-digits2\""},
        {"vocab_size", "361"},
        {"special_tokens", "[\"<|bos|>\"]"},
        {"special_tokens", "[1, 2, 3, 4, 5, 6, 7, 8, 9]"},
        {"merges_sha256", "\"00\""},
        {"merges", "[[104, 101]]"},
        {"merges", "[[104]]"},
        {"merges", "[[104, -1]]"},
        {"merges", "[[104, 99999999999]]"},
        {"merges", "[\"he\"]"},
    };
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/tokenizer.json", dir);
    struct tokenizer *t = trained(360);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(tokenizer_save(t, dir, &err), 0);
    tokenizer_free(t);
    auto_json *good = NULL;
    CU_ASSERT_EQUAL_FATAL(json_read_file(path, 1, &good, &err), 0);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *key = changes[i].key;
        auto_json *changed = json_deep_copy(good), *absent = json_deep_copy(good);
        json_t *value = json_loads(changes[i].json, JSON_DECODE_ANY, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(value);
        json_object_set_new(changed, key, value);
        CU_ASSERT_EQUAL(json_write_file(path, changed, 1, &err), 0);
        expect_load_code(path, NANOCHAT_EXIT_CHECKPOINT, path);
        json_object_del(absent, key);
        CU_ASSERT_EQUAL(json_write_file(path, absent, 1, &err), 0);
        expect_load_code(path, NANOCHAT_EXIT_CHECKPOINT, key);
    }
    CU_ASSERT_EQUAL(json_write_file(path, good, 1, &err), 0); /* written otherwise, still good */
    CU_ASSERT_EQUAL(tokenizer_load(path, &t, &err), 0);
    tokenizer_free(t);
}

/* Every truncation, and every byte of the merges changed to another digit. */
static void refuses_damaged_files(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/tokenizer.json", dir);
    struct tokenizer *t = trained(290);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(tokenizer_save(t, dir, &err), 0);
    tokenizer_free(t);
    auto_str good = STR_INIT;
    CU_ASSERT_EQUAL_FATAL(fs_read_file(path, &good, 1, &err), 0);
    for (size_t keep = 0; keep + 2 < good.len; keep += 7) {
        CU_ASSERT_EQUAL(fs_write_atomic(path, good.data, keep, 1, &err), 0);
        expect_load_code(path, NANOCHAT_EXIT_CHECKPOINT, path);
    }
    const char *merges = strstr(good.data, "\"merges\"");
    for (size_t i = (size_t)(merges - good.data) + 9; i < good.len; i++) {
        char saved = good.data[i];
        if (saved < '0' || saved > '9')
            continue;
        good.data[i] = saved == '9' ? '1' : (char)(saved + 1);
        CU_ASSERT_EQUAL(fs_write_atomic(path, good.data, good.len, 1, &err), 0);
        expect_load_code(path, NANOCHAT_EXIT_CHECKPOINT, "merges_sha256");
        good.data[i] = saved;
    }
    auto_free char *missing = mem_printf("%s/none", dir);
    expect_load_code(missing, NANOCHAT_EXIT_DATA, missing);
}

static void reports_unwritable(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *file = mem_printf("%s/file", dir);
    struct tokenizer *t = trained(290);
    auto_error struct error err = ERROR_INIT, first = ERROR_INIT;
    CU_ASSERT_EQUAL(fs_write_atomic(file, "x", 1, 1, &err), 0);
    CU_ASSERT_EQUAL(tokenizer_save(t, file, &first), -NANOCHAT_EXIT_WRITE);
    error_release(&first);
    tokenizer_free(t);
}

/* One tokenizer, four threads, each with its own buffer. */
struct job {
    const struct tokenizer *t;
    int failures;
};

static void *encode_often(void *arg)
{
    struct job *job = arg;
    struct token_buffer b = {0};
    for (int i = 0; i < 200; i++) {
        auto_error struct error err = ERROR_INIT;
        auto_str back = STR_INIT;
        const char *text = i % 2 ? golden : corpus;
        b.count = 0;
        tokenizer_encode(job->t, text, strlen(text), &b, &err);
        tokenizer_decode(job->t, b.items, b.count, &back, &err);
        job->failures += strcmp(back.data, text) != 0;
    }
    token_buffer_release(&b);
    return NULL;
}

static void serves_threads(void)
{
    struct tokenizer *t = trained(360);
    pthread_t threads[4];
    struct job jobs[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct job){t, 0};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, encode_often, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CU_ASSERT_EQUAL(jobs[i].failures, 0);
    }
    tokenizer_free(t);
}

UNIT_MAIN({"golden ids are pinned", golden_ids_are_pinned},
          {"loads what it saved", loads_what_it_saved},
          {"refuses changed fields", refuses_changed_fields},
          {"refuses damaged files", refuses_damaged_files},
          {"reports unwritable", reports_unwritable}, {"serves threads", serves_threads})
