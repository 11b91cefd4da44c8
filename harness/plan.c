#include "harness/plan.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "harness/stats_random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cell is known by its values, not by its place: adding cells does not reshuffle others. */
static uint64_t hash_cell(const struct cell *cell)
{
    auto_str text = STR_INIT;
    json_write(&text, cell->values, 0);
    uint64_t h = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (unsigned char)text.data[i]) * 0x100000001B3u;
    return h;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    struct stats_rng rng;
    stats_rng_seed(&rng, a ^ (b * 0x9E3779B97F4A7C15u));
    return stats_rng_next(&rng);
}

/* Place of each runtime in a block; order[0 .. n). */
static void order_block(const struct scenario *s, uint64_t cell, int64_t block, size_t *order)
{
    size_t n = s->n_runtimes;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    if (s->sampling.order == ORDER_ABBA && block % 2)
        for (size_t i = 0; i < n; i++)
            order[i] = n - 1 - i;
    if (s->sampling.order != ORDER_RANDOM_BLOCKS)
        return;
    struct stats_rng rng;
    stats_rng_seed(&rng, mix(mix(s->sampling.seed, cell), (uint64_t)block));
    stats_rng_shuffle(&rng, order, n);
}

void plan_trial_id(const struct scenario *s, size_t cell, int64_t block, size_t runtime,
                   int64_t attempt, char out[static PLAN_ID_MAX])
{
    char suffix[24] = "";
    if (attempt > 1)
        snprintf(suffix, sizeof suffix, ".a%" PRId64, attempt);
    snprintf(out, PLAN_ID_MAX, "%s.b%02" PRId64 ".%s%s", s->cells[cell].id, block,
             s->cells[cell].runtimes[runtime].name, suffix);
}

static void plan_block(const struct scenario *s, size_t cell, uint64_t cell_hash, int64_t block,
                       struct plan *out)
{
    auto_free size_t *order = mem_zalloc(s->n_runtimes, sizeof *order);
    order_block(s, cell_hash, block, order);
    for (size_t i = 0; i < s->n_runtimes; i++) {
        struct planned_trial *t = &out->trials[out->count];
        *t = (struct planned_trial){.seq = out->count,
                                    .cell = cell,
                                    .block = block,
                                    .position = (int)i,
                                    .runtime = order[i],
                                    .warmup_block = s->sampling.discard_first_block && !block};
        plan_trial_id(s, cell, block, order[i], 1, t->id);
        out->count++;
    }
}

enum { TRIALS_MAX = 10000000 };

int plan_make(const struct scenario *s, int64_t blocks, struct plan *out, struct error *err)
{
    *out = (struct plan){0};
    if (blocks < 0)
        blocks = s->sampling.n_looks ? s->sampling.looks[s->sampling.n_looks - 1] : 1;
    if (!blocks)
        return error_set(err, NCBENCH_EXIT_USAGE, "0 blocks, expected at least 1");
    int64_t per_block = (int64_t)(s->n_cells * s->n_runtimes);
    if (blocks >= TRIALS_MAX || (blocks + 1) * per_block > TRIALS_MAX)
        return error_set(err, NCBENCH_EXIT_SCENARIO,
                         "%" PRId64 " blocks of %zu cells and %zu runtimes are more than %d trials",
                         blocks, s->n_cells, s->n_runtimes, TRIALS_MAX);
    out->blocks = blocks + s->sampling.discard_first_block;
    out->trials = mem_zalloc((size_t)(out->blocks * per_block), sizeof *out->trials);
    auto_free uint64_t *hashes = mem_zalloc(s->n_cells + 1, sizeof *hashes);
    for (size_t c = 0; c < s->n_cells; c++)
        hashes[c] = hash_cell(&s->cells[c]);
    for (int64_t b = 0; b < out->blocks; b++)
        for (size_t c = 0; c < s->n_cells; c++)
            plan_block(s, c, hashes[c], b, out);
    return 0;
}

void plan_release(struct plan *plan)
{
    free(plan->trials);
    *plan = (struct plan){0};
}

void plan_write(const struct scenario *s, const struct plan *plan, struct str *out)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct planned_trial *t = &plan->trials[i];
        const struct cell *cell = &s->cells[t->cell];
        auto_json *line = json_object();
        json_t *argv = json_array();
        for (size_t k = 0; k < cell->argv.count; k++)
            json_array_append_new(argv, json_string(cell->argv.items[k]));
        json_put_str(line, "trial", t->id);
        json_put_int(line, "seq", (int64_t)t->seq);
        json_put_str(line, "cell", cell->id);
        json_put(line, "values", json_incref(cell->values));
        json_put_int(line, "block", t->block);
        json_put_int(line, "position", t->position);
        json_put_str(line, "runtime", cell->runtimes[t->runtime].name);
        json_put_bool(line, "baseline", t->runtime == s->baseline);
        json_put_bool(line, "warmup_block", t->warmup_block);
        json_put(line, "argv", argv);
        json_write(out, line, 0);
        str_append_char(out, '\n');
    }
}
