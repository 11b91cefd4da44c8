#include "harness/blocks.h"

#include "common/mem.h"

#include <math.h>
#include <string.h>

static struct block *block_of(struct blocks *b, const struct record *r)
{
    for (size_t i = b->count; i-- > 0;) {
        struct block *k = &b->items[i];
        if (k->stratum == r->stratum && k->block == r->block && k->attempt == r->attempt)
            return k;
    }
    struct block fresh = {.stratum = r->stratum, .block = r->block, .attempt = r->attempt};
    fresh.trials = mem_zalloc(b->n_arms, sizeof *fresh.trials);
    vec_push(b, fresh);
    return &b->items[b->count - 1];
}

/* Judge one attempt: `alive` arms must all be ok. */
static void judge(const struct study *s, const bool *alive, struct block *k)
{
    struct str why = STR_INIT;
    bool disturbed = false;
    bool broken = false;
    for (size_t a = 0; a < s->n_arms; a++) {
        const struct record *r = k->trials[a];
        if (!alive[a] || (r && r->outcome == OUTCOME_OK))
            continue;
        disturbed |= r && r->outcome == OUTCOME_DISTURBED;
        broken |= !r || r->outcome != OUTCOME_DISTURBED;
        str_appendf(&why, "%s%s: %s", why.len ? ", " : "", s->arms[a].name,
                    r ? outcome_name(r->outcome) : "not run");
    }
    k->state = broken ? BLOCK_INCOMPLETE : disturbed ? BLOCK_DISTURBED : BLOCK_COMPLETE;
    k->reason = why.len ? str_steal(&why) : NULL;
    str_release(&why);
}

static bool same_block(const struct block *a, const struct block *b)
{
    return a->stratum == b->stratum && a->block == b->block;
}

/* Does attempt b stand for the block rather than a? Complete beats disturbed beats incomplete; of
 * equals the later. */
static bool stands_for(const struct block *b, const struct block *a)
{
    return b->state != a->state ? b->state < a->state : b->attempt > a->attempt;
}

static void summarise(struct blocks *b)
{
    for (size_t i = 0; i < b->count; i++) {
        bool disturbed = false;
        for (size_t j = 0; j < b->count; j++) {
            if (!same_block(&b->items[i], &b->items[j]))
                continue;
            disturbed |= b->items[j].state == BLOCK_DISTURBED;
            b->items[i].superseded |= i != j && stands_for(&b->items[j], &b->items[i]);
        }
        if (b->items[i].superseded)
            continue;
        b->total++;
        b->disturbed += disturbed;
        b->complete += b->items[i].state == BLOCK_COMPLETE;
        b->incomplete += b->items[i].state == BLOCK_INCOMPLETE;
    }
}

static int in_order(const void *a, const void *b)
{
    const struct block *x = a;
    const struct block *y = b;
    if (x->stratum != y->stratum)
        return x->stratum < y->stratum ? -1 : 1;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return (x->attempt > y->attempt) - (x->attempt < y->attempt);
}

void blocks_make(const struct study *s, const struct records *r, size_t cell, struct blocks *out)
{
    *out = (struct blocks){.n_arms = s->n_arms};
    bool *alive = mem_zalloc(s->n_arms, sizeof *alive);
    for (size_t i = 0; i < r->count; i++) {
        const struct record *t = &r->items[i];
        int arm = study_arm_index(s, t->runtime);
        if (t->warmup_block || arm < 0 || strcmp(t->cell, s->cells[cell].id) != 0)
            continue;
        block_of(out, t)->trials[arm] = t; /* of a trial recorded twice the last counts */
        alive[arm] |= t->outcome == OUTCOME_OK || t->outcome == OUTCOME_DISTURBED;
    }
    for (size_t i = 0; i < out->count; i++)
        judge(s, alive, &out->items[i]);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, in_order);
    summarise(out);
    free(alive);
}

void blocks_release(struct blocks *b)
{
    for (size_t i = 0; i < b->count; i++) {
        free(b->items[i].trials);
        free(b->items[i].reason);
    }
    free(b->items);
    *b = (struct blocks){0};
}

bool block_value(const struct record *trial, const char *metric, double *out)
{
    if (!trial || (trial->outcome != OUTCOME_OK && trial->outcome != OUTCOME_DISTURBED))
        return false;
    struct record as_ok = *trial; /* a disturbed trial has numbers; only who may use them differs */
    as_ok.outcome = OUTCOME_OK;
    double value;
    if (!record_metric(&as_ok, metric, &value) || !isfinite(value) || !(value > 0))
        return false;
    *out = value;
    return true;
}

static void push(struct pairs *p, double a, double b, const struct block *k)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->a = mem_realloc(p->a, p->cap, sizeof *p->a);
        p->b = mem_realloc(p->b, p->cap, sizeof *p->b);
        p->block = mem_realloc(p->block, p->cap, sizeof *p->block);
        p->stratum = mem_realloc(p->stratum, p->cap, sizeof *p->stratum);
    }
    p->a[p->count] = a;
    p->b[p->count] = b;
    p->stratum[p->count] = k->stratum;
    p->block[p->count++] = k->block;
}

void pairs_make(const struct blocks *b, size_t arm_a, size_t arm_b, const char *metric, bool all,
                struct pairs *out)
{
    *out = (struct pairs){0};
    for (size_t i = 0; i < b->count; i++) {
        const struct block *k = &b->items[i];
        bool counts = k->state == BLOCK_COMPLETE && !k->superseded;
        if (!counts && !(all && k->state == BLOCK_DISTURBED))
            continue;
        double x;
        double y;
        if (block_value(k->trials[arm_a], metric, &x) && block_value(k->trials[arm_b], metric, &y))
            push(out, x, y, k);
        else
            out->missing++;
    }
}

void pairs_release(struct pairs *p)
{
    free(p->a);
    free(p->b);
    free(p->block);
    free(p->stratum);
    *p = (struct pairs){0};
}
