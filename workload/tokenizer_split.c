#define PCRE2_CODE_UNIT_WIDTH 8
#include "workload/tokenizer_split.h"

#include "common/error.h"
#include "common/mem.h"
#include "common/str.h"

#include <pcre2.h>
#include <string.h>

/* White space spelled out (Unicode's White_Space), because PCRE2's \s has U+180E besides. */
#define WS                                                                                         \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static const char expression[] = "'(?i:s|d|m|t|ll|ve|re)"
                                 "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+"
                                 "|\\p{N}{1,2}"
                                 "| ?[^" WS "\\p{L}\\p{N}]++[\\r\\n]*"
                                 "|[" WS "]*[\\r\\n]"
                                 "|[" WS "]+(?![^" WS "])"
                                 "|[" WS "]+";

struct split_pattern {
    pcre2_code *code;
    bool jit;
};

struct splitter {
    const struct split_pattern *pattern;
    pcre2_match_data *match;
    pcre2_match_context *context;
    const char *at, *valid_end, *end; /* valid UTF-8 in [at, valid_end) */
};

void split_pattern_hash(char out[static SHA256_HEX])
{
    sha256_hex(expression, sizeof expression - 1, out);
}

struct split_pattern *split_pattern_new(bool try_jit)
{
    struct split_pattern *p = mem_zalloc(1, sizeof *p);
    int code;
    PCRE2_SIZE offset;
    /* Anchored at compile time: the JIT cannot anchor at match time. */
    p->code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &offset, NULL);
    if (!p->code)
        BUG("the split expression does not compile: PCRE2 error %d at %zu", code, (size_t)offset);
    p->jit = try_jit && pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
    return p;
}

void split_pattern_free(struct split_pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    free(p);
}

struct splitter *splitter_new(const struct split_pattern *pattern)
{
    struct splitter *s = mem_zalloc(1, sizeof *s);
    s->pattern = pattern;
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    if (!s->match || !s->context)
        BUG("PCRE2 cannot allocate match data");
    /* Backtracking into white space takes steps in proportion to its length, which has no limit. */
    pcre2_set_match_limit(s->context, UINT32_MAX);
    pcre2_set_depth_limit(s->context, UINT32_MAX);
    return s;
}

void splitter_free(struct splitter *s)
{
    if (!s)
        return;
    pcre2_match_context_free(s->context);
    pcre2_match_data_free(s->match);
    free(s);
}

void splitter_begin(struct splitter *s, const char *text, size_t len)
{
    s->at = text;
    s->end = text + len;
    s->valid_end = text + str_utf8_valid(text, len);
}

/* Length of the run of invalid bytes at text, where one stands. */
static size_t invalid_run(const char *text, size_t len)
{
    size_t n = 1;
    while (n < len && !str_utf8_sequence(text + n, len - n))
        n++;
    return n;
}

static size_t match_here(struct splitter *s)
{
    PCRE2_SPTR text = (PCRE2_SPTR)s->at;
    size_t len = (size_t)(s->valid_end - s->at);
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (s->pattern->jit)
        rc = pcre2_jit_match(s->pattern->code, text, len, 0, 0, s->match, s->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(s->pattern->code, text, len, 0, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         s->match, s->context);
    if (rc < 0)
        BUG("the split expression did not match: PCRE2 error %d", rc);
    size_t n = pcre2_get_ovector_pointer(s->match)[1];
    if (n == 0)
        BUG("the split expression matched nothing");
    return n;
}

bool splitter_next(struct splitter *s, const char **chunk, size_t *len)
{
    if (s->at == s->end)
        return false;
    *chunk = s->at;
    if (s->at < s->valid_end) {
        *len = match_here(s);
        s->at += *len;
        return true;
    }
    *len = invalid_run(s->at, (size_t)(s->end - s->at));
    s->at += *len;
    s->valid_end = s->at + str_utf8_valid(s->at, (size_t)(s->end - s->at));
    return true;
}

int64_t split_invalid_bytes(const char *text, size_t len)
{
    int64_t count = 0;
    for (size_t i = str_utf8_valid(text, len); i < len; i += str_utf8_valid(text + i, len - i)) {
        size_t n = invalid_run(text + i, len - i);
        count += (int64_t)n;
        i += n;
    }
    return count;
}

size_t split_crop(const char *text, size_t len, int64_t chars)
{
    if ((uint64_t)chars >= len)
        return len;
    size_t i = 0;
    for (int64_t c = 0; c < chars && i < len; c++) {
        size_t n = str_utf8_sequence(text + i, len - i);
        i += n ? n : 1;
    }
    return i;
}
