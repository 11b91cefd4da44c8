/* Error rates of the whole machinery, by simulation (harness/selftest.h). */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/selftest.h"
#include "harness/selftest_sim.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARGIN 0.01
#define AR1 0.8
#define WITHIN_SD 0.001 /* of the steps of a trial: small beside the noise between trials */
#define MOST_FALSE 0.055
#define LEAST_POWER 0.99
#define COVERAGE_OFF 0.010000001 /* one point, and what rounding adds */
#define ENOUGH_SESSIONS 20000

/* clang-format off */
const struct selftest_row selftest_rows[] = {
    /* no difference: whatever is claimed is false */
    {.005, 0, 1, false}, {.005, 0, 2, false}, {.005, 0, 3, false},
    {.010, 0, 1, false}, {.010, 0, 2, false}, {.010, 0, 3, false},
    {.030, 0, 1, false}, {.030, 0, 2, false}, {.030, 0, 3, false},
    /* slower by just the margin: "equivalent" is false */
    {.005, MARGIN, 1, false}, {.005, MARGIN, 2, false}, {.005, MARGIN, 3, false},
    {.010, MARGIN, 1, false}, {.010, MARGIN, 2, false}, {.010, MARGIN, 3, false},
    /* power */
    {.005, .02, 1, false}, {.005, .02, 2, false}, {.005, .02, 3, false},
    {.005, .03, 1, false}, {.005, .03, 2, false}, {.005, .03, 3, false},
    /* intervals at a fixed number of blocks: 6, 12, 24 */
    {.010, .005, 1, true}, {.010, .005, 2, true}, {.010, .005, 3, true},
};
/* clang-format on */
const size_t selftest_row_count = sizeof selftest_rows / sizeof *selftest_rows;

/* ---- one row ------------------------------------------------------------------------------------
 */
/* The difference of neighbours in an AR(1) series of sd s has sd s sqrt(2 (1 - rho)). */
static char *script_of(const struct selftest_row *row, double effect)
{
    return mem_printf("{\"step_time_s\": 0.1, \"steps\": 10, \"within_sd\": %.17g, \"noise_sd\": "
                      "%.17g, \"ar1\": %.17g, \"block_sd\": 0.02, \"drift_per_trial\": 0.0001, "
                      "\"effect\": %.17g}",
                      WITHIN_SD, row->noise / sqrt(2 * (1 - AR1)), AR1, effect);
}

static int open_row(const struct selftest_row *row, struct simulation *out, struct error *err)
{
    static const char *const looks[] = {"[6]", "[6, 12]", "[6, 12, 24]"};
    auto_free char *bare = script_of(row, 0);
    auto_free char *arm = script_of(row, row->effect);
    const struct simulation_setup setup = {.name = "selftest row",
                                           .bare = bare,
                                           .arm = arm,
                                           .looks = looks[row->looks - 1],
                                           .stop = row->never ? "never" : "decided"};
    return simulation_open(&setup, out, err);
}

/* Sessions first, first + step, … below `sessions`. */
static int run_part(const struct selftest_row *row, uint64_t seed, int64_t first, int64_t step,
                    int64_t sessions, struct selftest_tally *out, struct error *err)
{
    struct simulation s;
    *out = (struct selftest_tally){0};
    if (open_row(row, &s, err))
        return -err->code;
    int rc = 0;
    for (int64_t i = first; i < sessions; i += step) {
        struct simulated got;
        if ((rc = simulation_session(&s, seed + (uint64_t)i, &got, err)) != 0)
            break;
        const struct interval *ci = &got.paired.ci;
        out->sessions++;
        out->verdicts[got.verdict]++;
        out->blocks += got.blocks;
        out->covered += ci->lo <= 1 + row->effect && 1 + row->effect <= ci->hi;
        out->sd_nano += llround(got.paired.sd * 1e9);
    }
    simulation_close(&s);
    return rc;
}

static void add(struct selftest_tally *sum, const struct selftest_tally *part)
{
    sum->sessions += part->sessions;
    sum->blocks += part->blocks;
    sum->covered += part->covered;
    sum->sd_nano += part->sd_nano;
    for (size_t v = 0; v < VERDICT_COUNT; v++)
        sum->verdicts[v] += part->verdicts[v];
}

/* ---- parts side by side ------------------------------------------------------------------------
 */
struct worker {
    pid_t pid;
    int from; /* its tally comes here */
};

static int start_worker(const struct selftest_row *row, uint64_t seed, int64_t first, int64_t step,
                        int64_t sessions, struct worker *w, struct error *err)
{
    int ends[2];
    if (pipe(ends))
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "cannot make a pipe");
    w->from = ends[0];
    w->pid = fork();
    if (w->pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "cannot start a process");
    }
    if (w->pid > 0) {
        close(ends[1]);
        return 0;
    }
    struct selftest_tally part;
    auto_error struct error failed = ERROR_INIT;
    close(ends[0]);
    int rc = run_part(row, seed, first, step, sessions, &part, &failed);
    bool told = rc == 0 && write(ends[1], &part, sizeof part) == (ssize_t)sizeof part;
    _exit(told ? 0 : NCBENCH_EXIT_BUG);
}

static bool end_worker(struct worker *w, struct selftest_tally *sum)
{
    struct selftest_tally part;
    int status = 0;
    bool told = read(w->from, &part, sizeof part) == (ssize_t)sizeof part;
    close(w->from);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (told && status == 0)
        add(sum, &part);
    return told && status == 0;
}

int selftest_row_run(const struct selftest_row *row, uint64_t seed, int64_t sessions, int jobs,
                     struct selftest_tally *out, struct error *err)
{
    if (jobs < 2)
        return run_part(row, seed, 0, 1, sessions, out, err);
    auto_free struct worker *workers = mem_zalloc((size_t)jobs, sizeof *workers);
    int started = 0;
    *out = (struct selftest_tally){0};
    while (started < jobs &&
           start_worker(row, seed, started, jobs, sessions, &workers[started], err) == 0)
        started++;
    for (int i = 0; i < started; i++)
        if (!end_worker(&workers[i], out) && !err->code)
            error_set(err, NCBENCH_EXIT_BUG, "a process of the selftest died");
    return err->code ? -err->code : 0;
}

/* ---- what came out, and what must -------------------------------------------------------------
 */
static double share_of(int64_t part, const struct selftest_tally *t)
{
    return t->sessions ? (double)part / (double)t->sessions : NAN;
}

double selftest_share(const struct selftest_tally *t, enum verdict_kind v)
{
    return share_of(t->verdicts[v], t);
}

double selftest_share_slower(const struct selftest_tally *t)
{
    return share_of(t->verdicts[VERDICT_SLOWER] + t->verdicts[VERDICT_SLOWER_UNCERTAIN], t);
}

double selftest_share_different(const struct selftest_tally *t)
{
    return selftest_share_slower(t) +
           share_of(t->verdicts[VERDICT_FASTER] + t->verdicts[VERDICT_FASTER_UNCERTAIN], t);
}

double selftest_coverage(const struct selftest_tally *t)
{
    return share_of(t->covered, t);
}

double selftest_nominal(const struct selftest_row *row)
{
    return 1 - 2 * stats_pocock_alpha((size_t)row->looks);
}

/* Three standard errors where there are too few sessions to hold a rule to the letter. */
static double allowance(double rate, const struct selftest_tally *t)
{
    return t->sessions >= ENOUGH_SESSIONS ? 0 : 3 * sqrt(rate * (1 - rate) / (double)t->sessions);
}

const char *selftest_row_rule(const struct selftest_row *row, const struct selftest_tally *t,
                              bool *holds)
{
    double nominal = selftest_nominal(row);
    *holds = true;
    if (row->never) {
        *holds = fabs(selftest_coverage(t) - nominal) <= COVERAGE_OFF + allowance(nominal, t);
        return "covers within 1 point";
    }
    if (row->effect == 0) {
        *holds = selftest_share_different(t) <= MOST_FALSE + allowance(MOST_FALSE, t);
        return "different at most 5.5 %";
    }
    if (row->effect == MARGIN) {
        *holds = selftest_share(t, VERDICT_EQUIVALENT) <= MOST_FALSE + allowance(MOST_FALSE, t);
        return "equivalent at most 5.5 %";
    }
    if (row->effect >= .03 && row->noise <= .005) {
        *holds = selftest_share_slower(t) >= LEAST_POWER - allowance(LEAST_POWER, t);
        return "slower at least 99 %";
    }
    return NULL;
}
