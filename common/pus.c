#include "common/pus.h"

#include "common/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64
#define PUS_MAX (1u << 20) /* a number above is a mistake, not a machine */

static void reserve(struct pus *set, size_t n_words)
{
    if (n_words <= set->n_words)
        return;
    set->words = mem_realloc(set->words, n_words, sizeof *set->words);
    memset(set->words + set->n_words, 0, (n_words - set->n_words) * sizeof *set->words);
    set->n_words = n_words;
}

void pus_add(struct pus *set, unsigned pu)
{
    reserve(set, pu / WORD_BITS + 1);
    set->words[pu / WORD_BITS] |= UINT64_C(1) << pu % WORD_BITS;
}

bool pus_has(const struct pus *set, unsigned pu)
{
    return pu / WORD_BITS < set->n_words && set->words[pu / WORD_BITS] >> pu % WORD_BITS & 1;
}

int pus_count(const struct pus *set)
{
    int count = 0;
    for (size_t i = 0; i < set->n_words; i++)
        count += __builtin_popcountll(set->words[i]);
    return count;
}

int pus_next(const struct pus *set, int after)
{
    for (size_t bit = (size_t)(after + 1); bit < set->n_words * WORD_BITS;) {
        uint64_t rest = set->words[bit / WORD_BITS] >> bit % WORD_BITS;
        if (rest)
            return (int)bit + __builtin_ctzll(rest);
        bit = (bit / WORD_BITS + 1) * WORD_BITS;
    }
    return -1;
}

int pus_last(const struct pus *set)
{
    for (size_t i = set->n_words; i-- > 0;)
        if (set->words[i])
            return (int)(i * WORD_BITS) + WORD_BITS - 1 - __builtin_clzll(set->words[i]);
    return -1;
}

static uint64_t word(const struct pus *set, size_t i)
{
    return i < set->n_words ? set->words[i] : 0;
}

bool pus_within(const struct pus *a, const struct pus *b)
{
    for (size_t i = 0; i < a->n_words; i++)
        if (a->words[i] & ~word(b, i))
            return false;
    return true;
}

bool pus_equal(const struct pus *a, const struct pus *b)
{
    return pus_within(a, b) && pus_within(b, a);
}

void pus_and(struct pus *set, const struct pus *other)
{
    for (size_t i = 0; i < set->n_words; i++)
        set->words[i] &= word(other, i);
}

void pus_or(struct pus *set, const struct pus *other)
{
    reserve(set, other->n_words);
    for (size_t i = 0; i < other->n_words; i++)
        set->words[i] |= other->words[i];
}

void pus_copy(struct pus *to, const struct pus *from)
{
    struct pus copy = {0};
    pus_or(&copy, from);
    pus_release(to);
    *to = copy;
}

void pus_release(struct pus *set)
{
    free(set->words);
    *set = (struct pus){0};
}

/* ---- text ----------------------------------------------------------------------------------- */

void pus_list(const struct pus *set, struct str *out)
{
    const char *comma = "";
    for (int first = pus_next(set, -1); first >= 0;) {
        int last = first;
        while (pus_has(set, (unsigned)last + 1))
            last++;
        str_appendf(out, last > first ? "%s%d-%d" : "%s%d", comma, first, last);
        comma = ",";
        first = pus_next(set, last);
    }
}

char *pus_text(const struct pus *set)
{
    struct str out = STR_INIT;
    pus_list(set, &out);
    if (!out.len)
        str_append(&out, "none");
    return str_steal(&out);
}

static bool parse_number(const char **p, unsigned *out)
{
    char *end;
    if (**p < '0' || **p > '9')
        return false;
    errno = 0;
    unsigned long value = strtoul(*p, &end, 10);
    if (errno || value >= PUS_MAX)
        return false;
    *p = end;
    *out = (unsigned)value;
    return true;
}

static bool parse_range(const char **p, struct pus *out)
{
    unsigned first, last;
    if (!parse_number(p, &first))
        return false;
    last = first;
    if (**p == '-') {
        (*p)++;
        if (!parse_number(p, &last) || last < first)
            return false;
    }
    for (unsigned pu = first; pu <= last; pu++)
        pus_add(out, pu);
    return true;
}

bool pus_parse(const char *text, struct pus *out)
{
    *out = (struct pus){0};
    const char *p = text;
    while (*p && *p != '\n') {
        if (!parse_range(&p, out) || (*p == ',' && (p[1] < '0' || p[1] > '9'))) {
            pus_release(out);
            return false;
        }
        p += *p == ',';
    }
    return true;
}

json_t *pus_json(const struct pus *set)
{
    json_t *array = json_array();
    for (int pu = pus_next(set, -1); pu >= 0; pu = pus_next(set, pu))
        json_array_append_new(array, json_integer(pu));
    return array;
}

/* ---- the kernel's sets ---------------------------------------------------------------------- */

int pus_usable(struct pus *out)
{
    *out = (struct pus){0};
    /* sched_getaffinity refuses a set smaller than the kernel's own, which may exceed 1024 */
    for (size_t bits = 1024; bits <= PUS_MAX; bits *= 2) {
        size_t bytes = CPU_ALLOC_SIZE(bits);
        cpu_set_t *set = CPU_ALLOC(bits);
        if (!set)
            return ENOMEM;
        int failed = sched_getaffinity(0, bytes, set) ? errno : 0;
        for (size_t i = 0; !failed && i < bits; i++)
            if (CPU_ISSET_S(i, bytes, set))
                pus_add(out, (unsigned)i);
        CPU_FREE(set);
        if (failed != EINVAL)
            return failed;
    }
    return EINVAL;
}

cpu_set_t *pus_affinity(const struct pus *set, size_t *bytes)
{
    *bytes = CPU_ALLOC_SIZE((size_t)(pus_last(set) + 1));
    if (!*bytes)
        *bytes = sizeof(unsigned long);
    cpu_set_t *out = mem_zalloc(1, *bytes);
    for (int pu = pus_next(set, -1); pu >= 0; pu = pus_next(set, pu))
        CPU_SET_S((size_t)pu, *bytes, out);
    return out;
}
