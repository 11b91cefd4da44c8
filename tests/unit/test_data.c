/* The loader: windows of the token stream, ranks, resuming, sources and their refusals. */
#include "workload/data.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"
#include "workload/data_packed.h"
#include "workload/tokenizer_train.h"

#include <string.h>
#include <unistd.h>

/* A tokenizer of single bytes but for one merge. */
static struct tokenizer *small_tokenizer(void)
{
    struct bpe_trainer *trainer = bpe_trainer_new();
    bpe_trainer_add(trainer, "th", 2);
    struct tokenizer *t = NULL;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(bpe_trainer_finish(trainer, 266, &t, NULL, &err), 0);
    bpe_trainer_free(trainer);
    return t;
}

struct fixture {
    char *dir, *text, *packed;
    struct tokenizer *tokenizer;
};

/* Five documents and a packed file of 4,200 tokens. */
static struct fixture fixture_new(void)
{
    struct fixture f = {.dir = unit_tmpdir(), .tokenizer = small_tokenizer()};
    f.text =
        unit_file(f.dir, "t.txt", "the first\n\nsecond one\n\n3rd\n\nfourth, the last\n\nval\n");
    f.packed = mem_printf("%s/p.bin", f.dir);
    int32_t tokens[4200];
    for (int32_t i = 0; i < 4200; i++)
        tokens[i] = i;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(packed_write(f.packed, tokens, 4200, 5000, &err), 0);
    return f;
}

static void fixture_release(struct fixture *f)
{
    tokenizer_free(f->tokenizer);
    free(f->dir);
    free(f->text);
    free(f->packed);
}

static struct data_config config_of(const struct fixture *f, const char *source)
{
    return (struct data_config){
        .source = source,
        .path = !strcmp(source, "text")     ? f->text
                : !strcmp(source, "packed") ? f->packed
                                            : NULL,
        .B = 2,
        .T = 3,
        .world = 1,
        .seed = 42,
        .val_every = 5,
        .vocab_size = 5000,
        .tokenizer = f->tokenizer,
    };
}

static const char *const source_names[] = {"text", "packed", "synthetic"};

static struct loader *open_loader(const struct data_config *c)
{
    auto_error struct error err = ERROR_INIT;
    struct loader *l = NULL;
    CU_ASSERT_EQUAL(loader_open(&l, c, &err), 0);
    CU_ASSERT_STR(err.message, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(l);
    return l;
}

/* The next window, put together again from inputs and targets; B*T is 6. */
#define WINDOW 7
static void next_window(struct loader *l, int32_t window[WINDOW])
{
    int32_t inputs[6], targets[6];
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(loader_next(l, inputs, targets, &err), 0);
    CU_ASSERT_EQUAL(memcmp(inputs + 1, targets, 5 * sizeof *inputs), 0);
    memcpy(window, inputs, sizeof inputs);
    window[6] = targets[5];
}

/* The stream of a text split by definition: BOS, document, BOS, document … */
static void expected_stream(const struct fixture *f, const char *const *docs, size_t n_docs,
                            struct token_buffer *out)
{
    auto_error struct error err = ERROR_INIT;
    for (size_t i = 0; i < n_docs; i++) {
        vec_push(out, tokenizer_special(f->tokenizer, SPECIAL_BOS));
        CU_ASSERT_EQUAL(tokenizer_encode(f->tokenizer, docs[i], strlen(docs[i]), out, &err), 0);
    }
}

static void windows_follow_the_rule(void)
{
    static const char *const train[] = {"the first", "second one", "3rd", "fourth, the last"};
    static const char *const val[] = {"val"};
    struct fixture f = fixture_new();
    for (int split = SPLIT_TRAIN; split <= SPLIT_VAL; split++) {
        struct token_buffer stream = {0};
        expected_stream(&f, split ? val : train, split ? 1 : 4, &stream);
        struct data_config c = config_of(&f, "text");
        c.split = (enum split)split;
        c.prefetch_tokens = 30;
        struct loader *l = open_loader(&c);
        for (size_t w = 0; w < 40; w++) {
            int32_t window[WINDOW];
            next_window(l, window);
            for (size_t i = 0; i < WINDOW; i++)
                CU_ASSERT_EQUAL(window[i], stream.items[(w * WINDOW + i) % stream.count]);
            CU_ASSERT_EQUAL((size_t)loader_epoch(l), w * WINDOW / stream.count);
        }
        struct data_summary s;
        loader_summary(l, &s);
        CU_ASSERT_EQUAL(s.documents, split ? 1 : 4);
        loader_close(l);
        token_buffer_release(&stream);
    }
    fixture_release(&f);
}

/* Whatever the world size and prefetching: rank r's micro-batch m is window m * world + r, so ranks
 * together see what one rank sees, and all of them the same number. */
static void ranks_share_the_stream(void)
{
    static const int worlds[] = {2, 3, 4};
    static const int64_t prefetch[] = {0, 1, 40};
    struct fixture f = fixture_new();
    for (size_t s = 0; s < 3; s++) {
        struct data_config c = config_of(&f, source_names[s]);
        struct loader *one = open_loader(&c);
        static int32_t all[240][WINDOW];
        for (size_t w = 0; w < 240; w++)
            next_window(one, all[w]);
        loader_close(one);
        for (size_t k = 0; k < 3; k++) {
            c.world = worlds[k];
            c.prefetch_tokens = prefetch[k];
            for (c.rank = 0; c.rank < c.world; c.rank++) {
                struct loader *l = open_loader(&c);
                for (int m = 0; m < 240 / c.world; m++) {
                    int32_t window[WINDOW];
                    next_window(l, window);
                    CU_ASSERT_EQUAL(memcmp(window, all[m * c.world + c.rank], sizeof window), 0);
                }
                loader_close(l);
            }
            c.rank = 0;
        }
        c.world = 1;
        c.prefetch_tokens = 0;
    }
    fixture_release(&f);
}

/* A file of B*T*world + 104 tokens: its tail is not dropped, it is the head of the window that the
 * next epoch fills; every rank passes into an epoch at the same micro-batch but for the ranks whose
 * window begins behind the border; windows begun in an epoch are ceil(end/W) - ceil(start/W). */
static void no_tail_is_dropped(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/p", dir);
    auto_error struct error err = ERROR_INIT;
    for (int world = 1; world <= 4; world *= 2) {
        int32_t tokens[6 * 4 + 104];
        int32_t n = 6 * world + 104;
        for (int32_t i = 0; i < n; i++)
            tokens[i] = i;
        CU_ASSERT_EQUAL_FATAL(packed_write(path, tokens, (size_t)n, 200, &err), 0);
        struct data_config c = {.source = "packed", .path = path, .B = 2, .T = 3, .world = world};
        int64_t begun[3] = {0};
        for (c.rank = 0; c.rank < world; c.rank++) {
            struct loader *l = open_loader(&c);
            for (int64_t m = 0; m < 60 / world; m++) {
                int32_t window[WINDOW];
                next_window(l, window);
                int64_t first = (m * world + c.rank) * WINDOW;
                for (int i = 0; i < WINDOW; i++)
                    CU_ASSERT_EQUAL(window[i], (first + i) % n);
                CU_ASSERT_EQUAL(loader_epoch(l), first / n);
                if (first / n < 3)
                    begun[first / n]++;
            }
            loader_close(l);
        }
        for (int64_t e = 0; e < 2; e++) /* of epoch 2 the run saw only a part */
            CU_ASSERT_EQUAL(begun[e],
                            ((e + 1) * n + WINDOW - 1) / WINDOW - (e * n + WINDOW - 1) / WINDOW);
    }
}

static void packed_blocks_are_split(void)
{
    struct fixture f = fixture_new();
    struct data_config c = config_of(&f, "packed");
    c.val_every = 2; /* blocks 0, 2, 4 (short: 104 tokens) train, 1 and 3 validate */
    c.prefetch_tokens = 1;
    for (int split = SPLIT_TRAIN; split <= SPLIT_VAL; split++) {
        c.split = (enum split)split;
        struct loader *l = open_loader(&c);
        int32_t n = split ? 2048 : 2048 + 104;
        for (int32_t w = 0; w < 700; w++) {
            int32_t window[WINDOW];
            next_window(l, window);
            for (int32_t i = 0; i < WINDOW; i++) {
                int32_t at = (w * WINDOW + i) % n;
                CU_ASSERT_EQUAL(window[i], at / 1024 * 2048 + at % 1024 + split * 1024);
            }
        }
        loader_close(l);
    }
    fixture_release(&f);
}

static void packed_directory_is_one_stream(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_error struct error err = ERROR_INIT;
    int32_t tokens[60];
    for (int32_t i = 0; i < 60; i++)
        tokens[i] = i + 70000;
    static const size_t cuts[] = {0, 5, 5, 23, 40, 60}; /* one file is empty; the last validates */
    for (size_t i = 0; i + 1 < sizeof cuts / sizeof *cuts; i++) {
        auto_free char *path = mem_printf("%s/%zu.bin", dir, i);
        CU_ASSERT_EQUAL_FATAL(packed_write(path, tokens + cuts[i], cuts[i + 1] - cuts[i],
                                           i % 2 ? 100000 : 70100, &err),
                              0);
    }
    struct data_config c = {.source = "packed", .path = dir, .B = 1, .T = 6, .world = 1};
    struct loader *l = open_loader(&c);
    for (int32_t w = 0; w < 30; w++) {
        int32_t window[WINDOW];
        next_window(l, window);
        for (int32_t i = 0; i < WINDOW; i++)
            CU_ASSERT_EQUAL(window[i], 70000 + (w * WINDOW + i) % 40);
    }
    loader_close(l);
    fs_remove_tree(dir, 1, &err);
}

static void resumes_exactly(void)
{
    struct fixture f = fixture_new();
    for (size_t s = 0; s < 3; s++) {
        for (int world = 1; world <= 2; world++) {
            struct data_config c = config_of(&f, source_names[s]);
            c.world = world;
            c.prefetch_tokens = 20;
            for (int stop = 0; stop < 30; stop++) {
                struct loader *a = open_loader(&c), *b;
                int32_t expected[WINDOW], found[WINDOW];
                for (int m = 0; m < stop; m++)
                    next_window(a, expected);
                auto_json *state = loader_state(a);
                int64_t epoch = loader_epoch(a);
                c.rank = world - 1; /* any rank continues from any rank's state */
                b = open_loader(&c);
                next_window(b, found);
                auto_error struct error err = ERROR_INIT;
                CU_ASSERT_EQUAL(loader_restore(b, state, &err), 0);
                CU_ASSERT_STR(err.message, NULL);
                CU_ASSERT_TRUE(loader_epoch(b) >= epoch);
                auto_json *again = loader_state(b);
                CU_ASSERT_TRUE(json_equal(state, again));
                struct loader *twin = open_loader(&c);
                for (int m = 0; m < stop; m++)
                    next_window(twin, expected);
                for (int m = 0; m < 12; m++) {
                    next_window(twin, expected);
                    next_window(b, found);
                    CU_ASSERT_EQUAL(memcmp(expected, found, sizeof found), 0);
                    CU_ASSERT_EQUAL(loader_epoch(b), loader_epoch(twin));
                }
                c.rank = 0;
                loader_close(a);
                loader_close(b);
                loader_close(twin);
            }
        }
    }
    fixture_release(&f);
}

static void expect_refused(const struct data_config *c, const json_t *state, const char *word)
{
    struct loader *l = open_loader(c);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(loader_restore(l, state, &err), -NANOCHAT_EXIT_CHECKPOINT);
    CU_ASSERT_PTR_NOT_NULL_FATAL(err.message);
    if (!strstr(err.message, word)) {
        CU_ASSERT_STR(err.message, word);
    }
    loader_close(l);
}

static void refuses_another_runs_state(void)
{
    struct fixture f = fixture_new();
    struct data_config c = config_of(&f, "text");
    struct loader *l = open_loader(&c);
    auto_json *state = loader_state(l);
    loader_close(l);
    struct data_config d = c;
    d.world = 2;
    expect_refused(&d, state, "world 1, this run has 2");
    d = c;
    d.T = 4;
    expect_refused(&d, state, "T 3, this run has 4");
    d = c;
    d.split = SPLIT_VAL;
    expect_refused(&d, state, "split");
    d = c;
    d.val_every = 4;
    expect_refused(&d, state, "val_every");
    d = config_of(&f, "synthetic");
    expect_refused(&d, state, "source");
    auto_json *empty = json_object();
    expect_refused(&c, empty, "malformed");
    /* the same file with other content */
    auto_free char *other = unit_file(f.dir, "t.txt", "the First\n\nx\n\nx\n\nx\n\nval\n");
    expect_refused(&c, state, "bytes");
    /* another tokenizer */
    struct bpe_trainer *trainer = bpe_trainer_new();
    bpe_trainer_add(trainer, "fi", 2);
    struct tokenizer *t = NULL;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(bpe_trainer_finish(trainer, 266, &t, NULL, &err), 0);
    bpe_trainer_free(trainer);
    l = open_loader(&c);
    auto_json *state2 = loader_state(l);
    loader_close(l);
    d = c;
    d.tokenizer = t;
    expect_refused(&d, state2, "tokenizer_sha256");
    tokenizer_free(t);
    /* a place that does not exist */
    json_object_set_new(json_object_get(state2, "cursor"), "document", json_integer(99));
    expect_refused(&c, state2, "does not exist");
    fixture_release(&f);
}

/* What is prefetched needs the files no more; what is not says so when they are gone. */
static void prefetches(void)
{
    struct fixture f = fixture_new();
    struct data_config c = config_of(&f, "packed");
    c.prefetch_tokens = 20; /* rounded up to 4 micro-batches of 6 */
    struct loader *l = open_loader(&c);
    CU_ASSERT_EQUAL(truncate(f.packed, 40), 0);
    for (int32_t w = 0; w < 4; w++) {
        int32_t window[WINDOW];
        next_window(l, window);
        CU_ASSERT_EQUAL(window[0], w * WINDOW);
    }
    int32_t inputs[6], targets[6];
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(loader_next(l, inputs, targets, &err), -NANOCHAT_EXIT_DATA);
    loader_close(l);
    fixture_release(&f);
}

/* Between steps the loader reads on, so that within one it need not; the stream stays the same. */
static void reads_on_between_steps(void)
{
    struct fixture f = fixture_new();
    struct data_config c = config_of(&f, "packed");
    c.prefetch_tokens = 20; /* 4 micro-batches of 6 */
    struct loader *l = open_loader(&c);
    auto_error struct error err = ERROR_INIT;
    int32_t window[WINDOW];
    for (int32_t w = 0; w < 3; w++)
        next_window(l, window);
    CU_ASSERT_EQUAL(loader_prepare(l, 3, &err), 0); /* one is left: three more are cut */
    CU_ASSERT_EQUAL(truncate(f.packed, 40), 0);
    CU_ASSERT_EQUAL(loader_prepare(l, 4, &err), 0); /* enough are left: nothing is read */
    for (int32_t w = 3; w < 7; w++) {
        next_window(l, window);
        CU_ASSERT_EQUAL(window[0], w * WINDOW);
    }
    CU_ASSERT_EQUAL(loader_prepare(l, 1, &err), -NANOCHAT_EXIT_DATA);
    loader_close(l);
    fixture_release(&f);
}

/* Empty documents leave no BOS behind. */
static void one_bos_a_document(void)
{
    struct fixture f = fixture_new();
    auto_free char *path = unit_file(f.dir, "gaps",
                                     "<|endoftext|>\na\n<|endoftext|>\n<|endoftext|>\n \n"
                                     "<|endoftext|>\nb\n<|endoftext|>\n\n");
    struct data_config c = config_of(&f, "text");
    c.path = path;
    c.prefetch_tokens = 1;
    struct loader *l = open_loader(&c);
    int32_t bos = tokenizer_special(f.tokenizer, SPECIAL_BOS);
    int32_t expected[4] = {bos, 'a', bos, 'b'}, window[WINDOW];
    next_window(l, window);
    for (int i = 0; i < WINDOW; i++)
        CU_ASSERT_EQUAL(window[i], expected[i % 4]);
    struct data_summary s;
    loader_summary(l, &s);
    CU_ASSERT_EQUAL(s.documents, 2);
    CU_ASSERT_EQUAL(s.empty_documents, 3);
    loader_close(l);
    fixture_release(&f);
}

static void expect_message(struct data_config c, int code, const char *message)
{
    auto_error struct error err = ERROR_INIT;
    struct loader *l = NULL;
    CU_ASSERT_EQUAL(loader_open(&l, &c, &err), -code);
    CU_ASSERT_STR(err.message, message);
    loader_close(l);
}

/* Too few shards, for either source of files. */
static void refuses_empty_splits(void)
{
    struct fixture f = fixture_new();
    for (size_t s = 0; s < 2; s++) {
        auto_free char *dir = unit_tmpdir();
        struct data_config c = config_of(&f, source_names[s]);
        auto_free char *none = mem_printf("train split is empty: no shard found in %s", dir);
        auto_free char *no_val = mem_printf("validation split is empty: no shard found in %s", dir);
        auto_free char *shard = mem_printf("%s/shard", dir);
        auto_free char *tmp = mem_printf("%s/shard2.tmp", dir);
        auto_error struct error err = ERROR_INIT;
        const char *original = c.path;
        c.path = dir;
        expect_message(c, NANOCHAT_EXIT_DATA, none);
        CU_ASSERT_EQUAL(fs_copy_file(original, tmp, 0644, 1, &err), 0);
        expect_message(c, NANOCHAT_EXIT_DATA, none);
        c.split = SPLIT_VAL;
        expect_message(c, NANOCHAT_EXIT_DATA, no_val);
        CU_ASSERT_EQUAL(fs_copy_file(original, shard, 0644, 1, &err), 0);
        loader_close(open_loader(&c));
        c.split = SPLIT_TRAIN;
        expect_message(c, NANOCHAT_EXIT_DATA,
                       "train split is empty: 1 shard found, the last is kept for validation");
    }
    fixture_release(&f);
}

static void expect_code(struct data_config c, int code)
{
    auto_error struct error err = ERROR_INIT;
    struct loader *l = NULL;
    CU_ASSERT_EQUAL(loader_open(&l, &c, &err), -code);
    CU_ASSERT_PTR_NOT_NULL(err.message);
    loader_close(l);
}

static void refuses_plans(void)
{
    struct fixture f = fixture_new();
    for (size_t s = 0; s < 3; s++) {
        struct data_config base = config_of(&f, source_names[s]);
        struct data_config c = base;
        c.B = 0;
        expect_code(c, NANOCHAT_EXIT_PLAN);
        c = base, c.T = -1;
        expect_code(c, NANOCHAT_EXIT_PLAN);
        c = base, c.B = c.T = 1 << 20;
        expect_code(c, NANOCHAT_EXIT_PLAN);
        c = base, c.rank = 1;
        expect_code(c, NANOCHAT_EXIT_PLAN);
        c = base, c.world = 0;
        expect_code(c, NANOCHAT_EXIT_PLAN);
        c = base, c.val_every = 1;
        expect_code(c, NANOCHAT_EXIT_PLAN);
        c = base, c.source = "nonesuch";
        expect_code(c, NANOCHAT_EXIT_PLAN);
        c = base, c.source = NULL;
        expect_code(c, NANOCHAT_EXIT_PLAN);
    }
    struct data_config c = config_of(&f, "synthetic");
    c.vocab_size = 1;
    expect_code(c, NANOCHAT_EXIT_PLAN);
    c = config_of(&f, "packed");
    c.vocab_size = 4999;
    expect_code(c, NANOCHAT_EXIT_PLAN);
    c = config_of(&f, "packed"), c.split = SPLIT_VAL, c.val_every = 100; /* no block left for it */
    expect_code(c, NANOCHAT_EXIT_DATA);
    c = config_of(&f, "text"), c.split = SPLIT_VAL, c.val_every = 100;
    expect_code(c, NANOCHAT_EXIT_DATA);
    c = config_of(&f, "text"), c.path = f.packed;
    c.path = "/nonexistent";
    expect_code(c, NANOCHAT_EXIT_DATA);
    c = config_of(&f, "text"), c.tokenizer = NULL;
    expect_code(c, NANOCHAT_EXIT_PLAN);
    /* blank text, no text */
    auto_free char *blank = unit_file(f.dir, "blank", " \n\t\n\n");
    c = config_of(&f, "text"), c.path = blank;
    expect_code(c, NANOCHAT_EXIT_DATA);
    fixture_release(&f);
}

static void refuses_damaged_packed_files(void)
{
    struct fixture f = fixture_new();
    auto_str good = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(fs_read_file(f.packed, &good, 1, &err), 0);
    struct data_config c = config_of(&f, "packed");
    static const size_t keep[] = {0, 1, 31, 32, 33, 4000};
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        unit_write(f.packed, good.data, keep[i]);
        expect_code(c, NANOCHAT_EXIT_DATA);
    }
    /* magic, version, width, vocabulary, count, a token outside the vocabulary (byte 33: 5000 <
       0xFF00) */
    static const size_t flips[] = {0, 8, 12, 20, 24, 33};
    for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) {
        char saved = good.data[flips[i]];
        good.data[flips[i]] = (char)0xFF;
        unit_write(f.packed, good.data, good.len);
        expect_code(c, NANOCHAT_EXIT_DATA);
        good.data[flips[i]] = saved;
    }
    int32_t outside = 10;
    CU_ASSERT_EQUAL(packed_write(f.packed, &outside, 1, 10, &err), -NANOCHAT_EXIT_DATA);
    fixture_release(&f);
}

/* Zipf: token k has probability 1/(k+1)/H. Splits and seeds give other streams. */
static void synthetic_is_zipf(void)
{
    enum { N = 200000, V = 50 };
    static int32_t inputs[2][N], targets[N];
    struct data_config c = {.source = "synthetic",
                            .B = 1,
                            .T = N,
                            .world = 1,
                            .seed = 3,
                            .vocab_size = V,
                            .prefetch_tokens = 1};
    auto_error struct error err = ERROR_INIT;
    double harmonic = 0, counts[V] = {0};
    struct loader *l = open_loader(&c);
    CU_ASSERT_EQUAL_FATAL(loader_next(l, inputs[0], targets, &err), 0);
    loader_close(l);
    for (int k = 0; k < V; k++)
        harmonic += 1.0 / (k + 1);
    for (int i = 0; i < N; i++) {
        CU_ASSERT_FATAL(inputs[0][i] >= 0 && inputs[0][i] < V);
        counts[inputs[0][i]]++;
    }
    for (int k = 0; k < V; k++) /* 5 standard deviations */
        CU_ASSERT_NEAR(counts[k] / N, 1 / (k + 1.0) / harmonic, 5 * 0.5 / 447.0);
    for (int other = 0; other < 2; other++) {
        struct data_config d = c;
        d.split = other ? SPLIT_VAL : SPLIT_TRAIN;
        d.seed += !other;
        l = open_loader(&d);
        CU_ASSERT_EQUAL_FATAL(loader_next(l, inputs[1], targets, &err), 0);
        loader_close(l);
        int same = 0;
        for (int i = 0; i < N; i++)
            same += inputs[0][i] == inputs[1][i];
        CU_ASSERT_TRUE(same < N / 5); /* independent: sum of squared probabilities, 8 % */
    }
}

/* The first tokens of seed 42, pinned: results may be compared between versions. */
static void synthetic_is_pinned(void)
{
    static const int32_t expected[WINDOW] = {544, 864, 12, 77, 20, 323, 0};
    struct data_config c = {
        .source = "synthetic", .B = 2, .T = 3, .world = 1, .seed = 42, .vocab_size = 4096};
    struct loader *l = open_loader(&c);
    int32_t window[WINDOW];
    next_window(l, window);
    for (int i = 0; i < WINDOW; i++)
        CU_ASSERT_EQUAL(window[i], expected[i]);
    loader_close(l);
}

static void describes_itself(void)
{
    struct fixture f = fixture_new();
    for (size_t s = 0; s < 3; s++) {
        struct data_config c = config_of(&f, source_names[s]);
        struct loader *l = open_loader(&c);
        c.split = SPLIT_VAL;
        struct loader *v = open_loader(&c);
        auto_json *a = loader_describe(l), *b = loader_describe(v);
        CU_ASSERT_STR(json_read_str(a, "source"), source_names[s]);
        if (s == 2) {
            int64_t seed = 0;
            CU_ASSERT_TRUE(json_read_i64(a, "seed", &seed) && seed == 42);
            CU_ASSERT_TRUE(json_equal(a, b));
        } else {
            CU_ASSERT_STR(json_read_str(a, "path"), c.path);
            CU_ASSERT_STR(json_read_str(a, "content_sha256"), json_read_str(b, "content_sha256"));
            CU_ASSERT_EQUAL(strlen(json_read_str(a, "content_sha256")), 64);
        }
        loader_close(l);
        loader_close(v);
    }
    fixture_release(&f);
}

UNIT_MAIN({"windows follow the rule", windows_follow_the_rule},
          {"ranks share the stream", ranks_share_the_stream},
          {"no tail is dropped", no_tail_is_dropped},
          {"packed blocks are split", packed_blocks_are_split},
          {"packed directory is one stream", packed_directory_is_one_stream},
          {"resumes exactly", resumes_exactly},
          {"refuses another run's state", refuses_another_runs_state}, {"prefetches", prefetches},
          {"reads on between steps", reads_on_between_steps},
          {"one BOS a document", one_bos_a_document},
          {"refuses empty splits", refuses_empty_splits}, {"refuses plans", refuses_plans},
          {"refuses damaged packed files", refuses_damaged_packed_files},
          {"synthetic is zipf", synthetic_is_zipf}, {"synthetic is pinned", synthetic_is_pinned},
          {"describes itself", describes_itself})
