#include "harness/plan_power.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/analysis.h"
#include "harness/session.h"
#include "harness/session_data.h"
#include "harness/stats_power.h"

#include <inttypes.h>
#include <math.h>

/* The cell of the earlier session with the same values; -1: none. */
static int same_cell(const struct study *old, const struct cell *cell)
{
    for (size_t i = 0; i < old->n_cells; i++)
        if (json_equal(old->cells[i].values, cell->values))
            return (int)i;
    return -1;
}

static void put_blocks(struct str *out, size_t n)
{
    if (n)
        str_appendf(out, "%zu", n);
    else
        str_appendf(out, "more than %d", STATS_BLOCKS_MAX);
}

static void put_arm(const struct study *now, const struct cell *cell, const struct comparison *c,
                    const char *arm, int64_t planned, struct str *out)
{
    double alpha = stats_pocock_alpha(now->n_looks);
    double margin = study_margin(now, now->primary, c->median_a, NULL, NULL);
    double sd = c->paired.sd;
    str_appendf(out, "  %s  %-16s noise ", cell->id, arm);
    verdict_put_percent(out, sd);
    str_appendf(out, " (%zu blocks); a margin of ", c->paired.n);
    verdict_put_percent(out, margin);
    str_append(out, " needs ");
    put_blocks(out, stats_tost_blocks(sd, margin, alpha, .8));
    str_append(out, " blocks for a power of 80 %, ");
    put_blocks(out, stats_tost_blocks(sd, margin, alpha, .9));
    str_appendf(out, " for 90 %%; %" PRId64 " have ", planned);
    str_appendf(out, "%.0f %%\n",
                planned < 2 ? 0 : 100 * stats_tost_power((size_t)planned, sd, 1, margin, alpha));
}

static void put_cells(const struct scenario *s, const struct study *now,
                      const struct session_data *data, int64_t planned, struct str *out)
{
    struct analysis a;
    struct analysis_options options = {.metric = s->primary, .margin = -1};
    size_t shown = 0;
    analysis_make(&data->study, &data->view.records, &options, &a);
    for (size_t i = 0; i < s->n_cells; i++) {
        int cell = same_cell(&data->study, &s->cells[i]);
        for (size_t arm = 0; cell >= 0 && arm < s->n_runtimes; arm++) {
            const char *name = now->arms[arm].name;
            int old = study_arm_index(&data->study, name);
            const struct comparison *c =
                old < 0 ? NULL : analysis_find(&a, s->primary, (size_t)cell, (size_t)old);
            if (arm == s->baseline || !c || c->paired.n < 2)
                continue;
            put_arm(now, &s->cells[i], c, name, planned, out);
            shown++;
        }
    }
    analysis_release(&a);
    if (!shown)
        str_append(out, "  it has no cell of this plan with two complete blocks\n");
}

int plan_power(const struct scenario *s, const struct plan *plan, const char *session,
               struct str *out, struct error *err)
{
    auto_free char *folder = mem_printf("%s/%s", s->output.dir, s->name);
    auto_free char *newest = session ? NULL : session_newest(folder, NULL);
    if (s->n_runtimes < 2)
        return 0;
    if (!session && !newest) {
        str_appendf(out,
                    "\nno session in %s yet whose noise could tell how many blocks the margin "
                    "needs (or give --session)\n",
                    folder);
        return 0;
    }
    struct session_data data;
    auto_error struct error failed = ERROR_INIT;
    if (session_data_load(session ? session : newest, &data, session ? err : &failed)) {
        if (!session)
            str_appendf(out, "\nthe newest session cannot be read: %s\n", failed.message);
        return session ? -err->code : 0;
    }
    struct study now;
    study_from_scenario(s, &now);
    int64_t planned = plan->blocks - s->sampling.discard_first_block;
    str_appendf(out,
                "\nby the noise of session %s, %s, if nothing differs (alpha %.4g at each of "
                "%zu look%s):\n",
                data.id, s->primary, stats_pocock_alpha(now.n_looks), now.n_looks,
                now.n_looks == 1 ? "" : "s");
    put_cells(s, &now, &data, planned, out);
    study_release(&now);
    session_data_release(&data);
    return 0;
}
