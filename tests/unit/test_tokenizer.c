#include "workload/tokenizer.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"
#include "workload/tokenizer_split.h"
#include "workload/tokenizer_train.h"

#include <string.h>

static uint64_t rng_state = 1;

static uint32_t rng(uint32_t below)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rng_state >> 33) % below);
}

static struct tokenizer *train(const char *const *docs, size_t n, int64_t vocab,
                               struct bpe_stats *stats)
{
    struct bpe_trainer *trainer = bpe_trainer_new();
    for (size_t i = 0; i < n; i++)
        bpe_trainer_add(trainer, docs[i], strlen(docs[i]));
    auto_error struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    CU_ASSERT_EQUAL(bpe_trainer_finish(trainer, vocab, &t, stats, &err), 0);
    CU_ASSERT_STR(err.message, NULL);
    bpe_trainer_free(trainer);
    return t;
}

/* ---- splitting ----------------------------------------------------------------------------- */

static char *split(const char *text, size_t len, bool jit)
{
    struct split_pattern *pattern = split_pattern_new(jit);
    struct splitter *s = splitter_new(pattern);
    auto_str out = STR_INIT;
    splitter_begin(s, text, len);
    const char *chunk;
    size_t n;
    while (splitter_next(s, &chunk, &n)) {
        if (out.len)
            str_append_char(&out, '|');
        str_append_n(&out, chunk, n);
    }
    splitter_free(s);
    split_pattern_free(pattern);
    return str_steal(&out);
}

static void splits(void)
{
    static const char *const table[][2] = {
        {"", ""},
        {"Hello world", "Hello| world"},
        /* contractions, either case; the long s U+017F is an s */
        {"I'm you're WE'LL it's Don'T", "I|'m| you|'re| WE|'LL| it|'s| Don|'T"},
        {"they'd've 'x '", "they|'d|'ve| '|x| '"},
        {"a'\xC5\xBF", "a|'\xC5\xBF"},
        /* digits in groups of at most two, other numbers too */
        {"2024 123 7", "20|24| |12|3| |7"},
        {"a1b22c333", "a|1|b|22|c|33|3"},
        {"\xC2\xBD\xC2\xB2\xE2\x85\xA7", "\xC2\xBD\xC2\xB2|\xE2\x85\xA7"},
        /* one non-letter in front of letters */
        {"\tabc (def) _x", "\tabc| (|def|)| _|x"},
        {"\xC2\xA0nbsp", "\xC2\xA0nbsp"},
        {"na\xC3\xAFve caf\xC3\xA9", "na\xC3\xAFve| caf\xC3\xA9"},
        {"e\xCC\x81x", "e|\xCC\x81x"},
        /* punctuation takes newlines with it */
        {"hi!!!\n\nyo ...\r\nx", "hi|!!!\n\n|yo| ...\r\n|x"},
        /* white space */
        {"a\n\nb", "a|\n\n|b"},
        {"a \n b", "a| \n| b"},
        {"a\r\n\r\n  b", "a|\r\n\r\n| | b"},
        {"a  b   ", "a| | b|   "},
        {"a   1", "a|  | |1"},
        {"a\xE2\x80\xA8"
         "b",
         "a|\xE2\x80\xA8"
         "b"},
        {"\xE1\xA0\x8E \xE1\xA0\x8E", "\xE1\xA0\x8E| \xE1\xA0\x8E"}, /* U+180E is no space */
        {"\xC2\x85\xE3\x80\x80.", "\xC2\x85|\xE3\x80\x80|."},        /* both are */
        /* other scripts */
        {"\xE6\x95\xB0\xE5\xAD\xA6"
         "12\xE3\x80\x82",
         "\xE6\x95\xB0\xE5\xAD\xA6|12|\xE3\x80\x82"},
        {"\xF0\x9F\x91\x8D\xF0\x9F\x91\x8D ok", "\xF0\x9F\x91\x8D\xF0\x9F\x91\x8D| ok"},
        /* invalid bytes are chunks, what is beside them stands alone */
        {"a\xFF\xFE b", "a|\xFF\xFE| b"},
        {"a \xFF"
         "b",
         "a| |\xFF|b"},
        {"\xC0\x80", "\xC0\x80"},
        {"x\xED\xA0\x80y", "x|\xED\xA0\x80|y"},
        {"ok\xE6\x95", "ok|\xE6\x95"},
        {"\x92\xC3\xA9", "\x92|\xC3\xA9"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        for (int jit = 0; jit < 2; jit++) {
            auto_free char *found = split(table[i][0], strlen(table[i][0]), jit);
            CU_ASSERT_STR(found, table[i][1]);
        }
    }
}

static void counts_invalid_bytes(void)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } table[] = {{"", 0},
                 {"plain \xC3\xA9", 0},
                 {"\xFF", 1},
                 {"a\xC0\x80z\xED\xA0\x80", 5},
                 {"tail \xF0\x9F\x91", 3},
                 {"\x92 and \x93", 2}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        CU_ASSERT_EQUAL(split_invalid_bytes(table[i].text, strlen(table[i].text)), table[i].bytes);
}

static void crops_by_characters(void)
{
    const char *text = "a\xC3\xA9\xFF\xE6\x95\xB0z"; /* 5 characters, 8 bytes */
    static const size_t bytes[] = {0, 1, 3, 4, 7, 8, 8};
    for (int64_t chars = 0; chars < 7; chars++)
        CU_ASSERT_EQUAL(split_crop(text, strlen(text), chars), bytes[chars]);
}

/* A chunk without end: 4 MiB of one kind, where backtracking or recursion would show. */
static void split_long_runs(bool jit)
{
    size_t n = 4 << 20;
    static const char kinds[] = " a\n.1\xFF\t";
    struct split_pattern *pattern = split_pattern_new(jit);
    struct splitter *s = splitter_new(pattern);
    auto_free char *text = mem_alloc(n);
    for (size_t k = 0; k + 1 < sizeof kinds; k++) {
        memset(text, kinds[k], n);
        text[n - 1] = 'x';
        size_t total = 0, len, chunks = 0;
        const char *chunk;
        splitter_begin(s, text, n);
        while (splitter_next(s, &chunk, &len)) {
            CU_ASSERT_EQUAL((size_t)(chunk - text), total);
            total += len;
            if (++chunks > n)
                break;
        }
        CU_ASSERT_EQUAL(total, n);
    }
    splitter_free(s);
    split_pattern_free(pattern);
}

static void splits_long_runs(void)
{
    split_long_runs(true);
    split_long_runs(false);
}

/* ---- training ------------------------------------------------------------------------------ */

static void expect_tokens(const struct tokenizer *t, int32_t first, const char *const *texts)
{
    for (int32_t i = 0; texts[i]; i++) {
        int32_t id = first + i;
        auto_str out = STR_INIT;
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(tokenizer_decode(t, &id, 1, &out, &err), 0);
        CU_ASSERT_STR(out.data, texts[i]);
    }
}

/* By hand: aa 4; then ab and (aa)a tie at 2, ab has the smaller ids; then (aa)(ab) 2; then all
 * pairs occur once: ac (97, 99), d(aaab) (100, 258), (aaab)(daaab) (258, 260), the rest. */
static void trains_as_by_hand(void)
{
    static const char *const corpus[] = {"aaabdaaabac"};
    static const char *const learnt[] = {"aa",    "ab",        "aaab",        "ac",
                                         "daaab", "aaabdaaab", "aaabdaaabac", NULL};
    struct bpe_stats stats;
    struct tokenizer *t = train(corpus, 1, 256 + 9 + 3, &stats);
    CU_ASSERT_EQUAL(stats.merges, 3);
    CU_ASSERT_FALSE(stats.stopped_early);
    CU_ASSERT_EQUAL(tokenizer_vocab_size(t), 268);
    tokenizer_free(t);
    t = train(corpus, 1, 1000, &stats);
    CU_ASSERT_EQUAL(stats.merges, 7);
    CU_ASSERT_TRUE(stats.stopped_early);
    CU_ASSERT_EQUAL(stats.chunks, 1);
    CU_ASSERT_EQUAL(tokenizer_vocab_size(t), 256 + 7 + 9);
    expect_tokens(t, 256, learnt);
    tokenizer_free(t);
}

/* Counts are weighted: "ab" once and " ab" twice make ab 3; then (32, x), (32, ab = 256) and (x, y)
 * tie at 2. */
static void weighs_chunks(void)
{
    static const char *const corpus[] = {"ab ab ab xy xy", ""};
    static const char *const learnt[] = {"ab", " x", " ab", " xy", NULL};
    struct bpe_stats stats;
    struct tokenizer *t = train(corpus, 2, 1000, &stats);
    expect_tokens(t, 256, learnt);
    CU_ASSERT_EQUAL(stats.chunks, 5);
    CU_ASSERT_EQUAL(stats.distinct_chunks, 3);
    tokenizer_free(t);
}

static void refuses_what_cannot_be_trained(void)
{
    static const struct {
        const char *text;
        int64_t vocab;
        int code;
    } table[] = {{"", 1000, NANOCHAT_EXIT_DATA},        {"x", 1000, NANOCHAT_EXIT_DATA},
                 {"1 2", 1000, NANOCHAT_EXIT_DATA},     {"abc", 200, NANOCHAT_EXIT_PLAN},
                 {"abc", 265, NANOCHAT_EXIT_PLAN},      {"abc", -1, NANOCHAT_EXIT_PLAN},
                 {"abc", 1LL << 40, NANOCHAT_EXIT_PLAN}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bpe_trainer *trainer = bpe_trainer_new();
        bpe_trainer_add(trainer, table[i].text, strlen(table[i].text));
        auto_error struct error err = ERROR_INIT;
        struct tokenizer *t = NULL;
        CU_ASSERT_EQUAL(bpe_trainer_finish(trainer, table[i].vocab, &t, NULL, &err),
                        -table[i].code);
        if (table[i].code == NANOCHAT_EXIT_DATA)
            CU_ASSERT_STR(err.message, "no byte pairs to merge");
        bpe_trainer_free(trainer);
    }
}

/* The slow truth: recount everything before every merge. Words are runs of a…d. */
struct slow {
    int32_t words[64][40];
    size_t len[64];
    int64_t count[64];
    size_t n;
};

static bool slow_best(const struct slow *s, int32_t best[2])
{
    int64_t most = 0;
    for (size_t w = 0; w < s->n; w++) {
        for (size_t i = 0; i + 1 < s->len[w]; i++) {
            int32_t l = s->words[w][i], r = s->words[w][i + 1];
            int64_t count = 0;
            for (size_t v = 0; v < s->n; v++)
                for (size_t j = 0; j + 1 < s->len[v]; j++)
                    if (s->words[v][j] == l && s->words[v][j + 1] == r)
                        count += s->count[v];
            bool before = l < best[0] || (l == best[0] && r < best[1]);
            if (count > most || (count == most && before)) {
                most = count;
                best[0] = l;
                best[1] = r;
            }
        }
    }
    return most > 0;
}

static void slow_merge(struct slow *s, const int32_t pair[2], int32_t id)
{
    for (size_t w = 0; w < s->n; w++) {
        int32_t out[40];
        size_t n = 0;
        for (size_t i = 0; i < s->len[w]; n++) {
            bool joins =
                i + 1 < s->len[w] && s->words[w][i] == pair[0] && s->words[w][i + 1] == pair[1];
            out[n] = joins ? id : s->words[w][i];
            i += joins ? 2 : 1;
        }
        memcpy(s->words[w], out, sizeof out);
        s->len[w] = n;
    }
}

static void random_corpus(struct slow *s, struct str *text)
{
    s->n = 1 + rng(40);
    for (size_t w = 0; w < s->n; w++) {
        s->len[w] = 1 + rng(rng(4) ? 8 : 38);
        s->count[w] = 1 + rng(5);
        uint32_t letters = 1 + rng(4);
        char word[41];
        for (size_t i = 0; i < s->len[w]; i++)
            word[i] = (char)(s->words[w][i] = 'a' + (int32_t)rng(letters));
        for (int64_t k = 0; k < s->count[w]; k++) {
            str_append_n(text, word, s->len[w]);
            str_append(text, "\n"); /* a chunk of one byte: no pair */
        }
    }
}

static void agrees_with_the_slow_trainer(void)
{
    rng_state = 7;
    for (int round = 0; round < 60; round++) {
        static struct slow s;
        auto_str text = STR_INIT;
        random_corpus(&s, &text);
        struct bpe_trainer *trainer = bpe_trainer_new();
        bpe_trainer_add(trainer, text.data, text.len);
        struct tokenizer *t = NULL;
        auto_error struct error err = ERROR_INIT;
        int rc = bpe_trainer_finish(trainer, 256 + 9 + 60, &t, NULL, &err);
        bpe_trainer_free(trainer);
        for (int32_t id = 256; id < 256 + 60; id++) {
            int32_t best[2] = {0, 0};
            if (!slow_best(&s, best)) {
                CU_ASSERT_EQUAL(t ? tokenizer_vocab_size(t) : 265, id + 9);
                break;
            }
            slow_merge(&s, best, id);
            auto_str expected = STR_INIT, found = STR_INIT;
            CU_ASSERT_EQUAL(tokenizer_decode(t, best, 2, &expected, &err), 0);
            CU_ASSERT_EQUAL(tokenizer_decode(t, &id, 1, &found, &err), 0);
            CU_ASSERT_STR(found.data, expected.data);
        }
        CU_ASSERT_TRUE(rc == 0 || rc == -NANOCHAT_EXIT_DATA);
        tokenizer_free(t);
    }
}

/* ---- encoding ------------------------------------------------------------------------------ */

static const char *const prose[] = {
    "The river ran low that summer, and the mill at the bend of the river stood still. ",
    "Nobody in the village had counted on it: the miller least of all, who'd sold his cart.\n\n",
    "In 1873 there were 212 mills on the river; in 1901, 37. What'll be left? We're not sure.\n",
    "for (int i = 0; i < 10; i++) {\n        total += counts[i];\n}\n",
    "Die M\xC3\xBChle steht still \xE2\x80\x94 \xE6\xB0\xB4\xE8\xBB\x8A\xE3\x81\xAF\xE6\xAD\xA2"
    "\xE3\x81\xBE\xE3\x81\xA3\xE3\x81\x9F\xE3\x80\x82 ",
    "\xFF\xC0\x80 the miller's miller milled the mill's millet \xED\xA0\x80",
};
#define PROSE (sizeof prose / sizeof *prose)

static void round_trip(const struct tokenizer *t, struct token_buffer *b, const char *text,
                       size_t len)
{
    auto_error struct error err = ERROR_INIT;
    auto_str out = STR_INIT;
    b->count = 0;
    CU_ASSERT_EQUAL_FATAL(tokenizer_encode(t, text, len, b, &err), 0);
    CU_ASSERT_EQUAL_FATAL(tokenizer_decode(t, b->items, b->count, &out, &err), 0);
    if (out.len != len || memcmp(out.data, text, len) != 0)
        CU_FAIL("decode(encode(x)) differs from x");
}

static void round_trips_all_short_strings(void)
{
    struct tokenizer *t = train(prose, PROSE, 500, NULL);
    struct token_buffer b = {0};
    round_trip(t, &b, "", 0);
    for (int i = 0; i < 65536; i++) {
        char text[2] = {(char)(i >> 8), (char)i};
        if (i < 256)
            round_trip(t, &b, text + 1, 1);
        round_trip(t, &b, text, 2);
    }
    token_buffer_release(&b);
    tokenizer_free(t);
}

static void round_trips_random_bytes(void)
{
    struct tokenizer *t = train(prose, PROSE, 500, NULL);
    struct token_buffer b = {0};
    static char text[3000];
    rng_state = 3;
    for (int round = 0; round < 300; round++) {
        size_t len = 1 + rng(sizeof text);
        uint32_t kind = rng(4); /* any byte; few kinds of bytes; letters; parts of the prose */
        for (size_t i = 0; i < len; i++)
            text[i] = kind == 0   ? (char)rng(256)
                      : kind == 1 ? "\xE6\x95\xB0 \n\xFF\x80"[rng(7)]
                                  : (char)('a' + rng(3));
        if (kind == 3) /* cut anywhere, so also within a sequence */
            for (size_t i = 0; i + 40 < len; i += 40)
                memcpy(text + i, prose[4] + rng(20), 1 + rng(30));
        round_trip(t, &b, text, len);
    }
    token_buffer_release(&b);
    tokenizer_free(t);
}

/* The slow truth of encoding one chunk: among neighbours whose bytes together are a token, join the
 * lowest, leftmost first. */
static int32_t slow_rank(char *const *names, int32_t n, const char *bytes, size_t len)
{
    for (int32_t id = 0; id < n; id++)
        if (strlen(names[id]) == len && !memcmp(names[id], bytes, len))
            return id;
    return -1;
}

static size_t slow_encode(char *const *names, int32_t n, const char *bytes, size_t len,
                          int32_t *tokens)
{
    size_t cuts[400], parts = len;
    for (size_t i = 0; i <= len; i++)
        cuts[i] = i;
    if (slow_rank(names, n, bytes, len) >= 0)
        parts = 1, cuts[1] = len;
    for (;;) {
        size_t best = parts;
        int32_t lowest = INT32_MAX;
        for (size_t i = 0; i + 2 <= parts; i++) {
            int32_t rank = slow_rank(names, n, bytes + cuts[i], cuts[i + 2] - cuts[i]);
            if (rank >= 0 && rank < lowest)
                lowest = rank, best = i;
        }
        if (best == parts)
            break;
        memmove(cuts + best + 1, cuts + best + 2, (parts - best - 1) * sizeof *cuts);
        parts--;
    }
    for (size_t i = 0; i < parts; i++)
        tokens[i] = slow_rank(names, n, bytes + cuts[i], cuts[i + 1] - cuts[i]);
    return parts;
}

static void encodes_as_the_slow_encoder(void)
{
    static const char *const corpus[] = {"abab", "\naba\nbaab\nabbab\nbbbb\naaaaa\ncab\nabcabc"};
    struct tokenizer *t = train(corpus, 2, 256 + 9 + 30, NULL);
    int32_t n = (int32_t)tokenizer_vocab_size(t) - 9;
    char *names[300];
    auto_error struct error err = ERROR_INIT;
    for (int32_t id = 0; id < n; id++) {
        auto_str s = STR_INIT;
        CU_ASSERT_EQUAL(tokenizer_decode(t, &id, 1, &s, &err), 0);
        names[id] = str_steal(&s);
    }
    struct token_buffer b = {0};
    rng_state = 11;
    for (int round = 0; round < 400; round++) {
        char text[200];
        int32_t tokens[200];
        size_t len = 1 + rng(round % 2 ? 12 : 199); /* short and, above 64 bytes, long chunks */
        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + rng(3));
        b.count = 0;
        CU_ASSERT_EQUAL(tokenizer_encode(t, text, len, &b, &err), 0);
        size_t count = slow_encode(names, n, text, len, tokens);
        CU_ASSERT_EQUAL(b.count, count);
        CU_ASSERT_TRUE(b.count == count && !memcmp(b.items, tokens, count * sizeof *tokens));
    }
    for (int32_t id = 0; id < n; id++)
        free(names[id]);
    token_buffer_release(&b);
    tokenizer_free(t);
}

static void encodes_a_chunk_of_a_mebibyte(void)
{
    struct tokenizer *t = train(prose, PROSE, 500, NULL);
    struct token_buffer b = {0};
    size_t n = 1 << 20;
    auto_free char *text = mem_alloc(n);
    memset(text, 'l', n);
    round_trip(t, &b, text, n);
    CU_ASSERT_EQUAL(b.count, n / 2); /* "ll" is a token, "lll" is none */
    token_buffer_release(&b);
    tokenizer_free(t);
}

static void knows_specials(void)
{
    static const char *const names[] = {"<|bos|>",           "<|user_start|>",
                                        "<|user_end|>",      "<|assistant_start|>",
                                        "<|assistant_end|>", "<|python_start|>",
                                        "<|python_end|>",    "<|output_start|>",
                                        "<|output_end|>",    NULL};
    struct tokenizer *t = train(prose, PROSE, 400, NULL);
    const int32_t *bytes = tokenizer_token_bytes(t);
    CU_ASSERT_EQUAL(tokenizer_vocab_size(t), 400);
    CU_ASSERT_EQUAL(tokenizer_special(t, SPECIAL_BOS), 391);
    CU_ASSERT_EQUAL(tokenizer_special(t, SPECIAL_OUTPUT_END), 399);
    expect_tokens(t, 391, names);
    for (int32_t id = 0; id < 400; id++) {
        auto_str out = STR_INIT;
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(tokenizer_decode(t, &id, 1, &out, &err), 0);
        CU_ASSERT_EQUAL((size_t)bytes[id], id < 391 ? out.len : 0); /* raw: 1 for a lone 0xFF */
    }
    /* Names in a text are text. */
    struct token_buffer b = {0};
    round_trip(t, &b, "<|bos|>", 7);
    for (size_t i = 0; i < b.count; i++)
        CU_ASSERT_TRUE(b.items[i] < 391);
    int32_t outside[] = {-1, 400, INT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        auto_str out = STR_INIT;
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(tokenizer_decode(t, &outside[i], 1, &out, &err), -NANOCHAT_EXIT_DATA);
    }
    token_buffer_release(&b);
    tokenizer_free(t);
}

UNIT_MAIN({"splits", splits}, {"counts invalid bytes", counts_invalid_bytes},
          {"crops by characters", crops_by_characters}, {"splits long runs", splits_long_runs},
          {"trains as by hand", trains_as_by_hand}, {"weighs chunks", weighs_chunks},
          {"refuses what cannot be trained", refuses_what_cannot_be_trained},
          {"agrees with the slow trainer", agrees_with_the_slow_trainer},
          {"round trips all short strings", round_trips_all_short_strings},
          {"round trips random bytes", round_trips_random_bytes},
          {"encodes as the slow encoder", encodes_as_the_slow_encoder},
          {"encodes a chunk of a mebibyte", encodes_a_chunk_of_a_mebibyte},
          {"knows specials", knows_specials})
