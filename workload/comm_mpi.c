/* Collectives over MPI: comm_ordered.h, carried by non-blocking messages. */
#include "workload/comm_mpi_priv.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_DATA = 1, TAG_WORD };

#define PATIENCE_S                                                                                 \
    1.0             /* with what may still be on its way: words after a loss, data before a BYE */
#define SPIN_S 2e-3 /* longer than most pieces take; who waits longer sleeps in between */
#define LONGEST_SLEEP_S 2e-4
/* Polls without news before a peer is late: one that was stopped itself hears first what was said
 * meanwhile. */
#define QUIET_POLLS 64

/* ---- errors ---------------------------------------------------------------------------------- */
static int lost_error(const struct comm *c, struct error *err)
{
    const struct mpi *m = c->priv;
    const int rank = c->lost_rank;
    char where[COMM_WHERE_MAX], why[sizeof m->why + 32];
    comm_where(c, where);
    switch (m->reason) {
    case MPI_REASON_LEFT: snprintf(why, sizeof why, "it ended early"); break;
    case MPI_REASON_BROKEN:
        snprintf(why, sizeof why, "%s", *m->why ? m->why : "another rank cannot reach it");
        break;
    default: snprintf(why, sizeof why, "it did not arrive within %.3g s", c->config.timeout_s);
    }
    if (rank == c->config.rank)
        return error_set(err, NANOCHAT_EXIT_PEER,
                         "the other ranks gave this rank (%d) up in %s: it came too late", rank,
                         where);
    return error_set(err, NANOCHAT_EXIT_PEER, "lost rank %d in %s: %s", rank, where, why);
}

/* ---- transfers ------------------------------------------------------------------------------- */
static int slot_of(int rank, int kind)
{
    return MPI_SLOTS * rank + kind;
}

/* What has ended: for each the caller's judgement. The number, or -1 and *why. */
static int poll_all(struct mpi *m, const char **why)
{
    int n = 0;
    *why = m->transport->poll(m->done, &n);
    return *why ? -1 : n;
}

/* Between polls without news: the core is for others, and who waits for long sleeps. */
static void pause_after(double idle_s)
{
    double sleep_s = idle_s / 32;
    if (idle_s < SPIN_S)
        sched_yield();
    else
        clock_sleep_s(sleep_s < LONGEST_SLEEP_S ? sleep_s : LONGEST_SLEEP_S);
}

/* ---- last words ------------------------------------------------------------------------------ */
static int listen_for_words(const struct comm *c, struct error *err)
{
    struct mpi *m = c->priv;
    const char *why = NULL;
    for (int r = 0; !why && r < c->config.world; r++)
        if (r != c->config.rank)
            why = m->transport->receive(slot_of(r, MPI_WORD_IN), r, TAG_WORD, &m->peers[r].heard,
                                        sizeof m->peers[r].heard);
    return why ? error_set(err, NANOCHAT_EXIT_DEVICE, "MPI cannot receive: %s", why) : 0;
}

/* Once: a rank has one word. What cannot be sent is sent to nobody. */
static void tell_all(struct comm *c, struct mpi_word word)
{
    struct mpi *m = c->priv;
    if (m->word.kind != MPI_WORD_NONE)
        return;
    m->word = word;
    for (int r = 0; r < c->config.world; r++)
        if (r != c->config.rank)
            m->peers[r].told = m->transport->send(slot_of(r, MPI_WORD_OUT), r, TAG_WORD, &m->word,
                                                  sizeof m->word) != NULL;
}

static bool words_exchanged(const struct comm *c)
{
    const struct mpi *m = c->priv;
    for (int r = 0; r < c->config.world; r++)
        if (r != c->config.rank && r != c->lost_rank && (!m->peers[r].told || !m->peers[r].spoke))
            return false;
    return true;
}

/* Which words have gone and come. True: somebody says that a rank is lost. */
static bool take_words(struct mpi *m, int n)
{
    bool lost = false;
    for (int i = 0; i < n; i++) {
        struct mpi_peer *p = &m->peers[m->done[i].slot / MPI_SLOTS];
        int kind = m->done[i].slot % MPI_SLOTS;
        p->told |= kind == MPI_WORD_OUT;
        p->spoke |= kind == MPI_WORD_IN;
        lost |= kind == MPI_WORD_IN && (m->done[i].why || p->heard.kind == MPI_WORD_LOST);
    }
    return lost;
}

/* Until all others have the word and have said theirs. False: one is lost, or out of time. */
static bool exchange_words(struct comm *c, struct mpi_word word, double patience_s)
{
    struct mpi *m = c->priv;
    double begin = clock_mono_s(), now = begin;
    const char *why;
    tell_all(c, word);
    while (!words_exchanged(c)) {
        int n = poll_all(m, &why);
        bool lost = n < 0 || take_words(m, n);
        if ((lost && word.kind == MPI_WORD_BYE) || now - begin > patience_s)
            return false;
        pause_after(now - begin);
        now = clock_mono_s();
    }
    return true;
}

static int lose(struct comm *c, int rank, enum mpi_reason reason, const char *why,
                struct error *err)
{
    struct mpi *m = c->priv;
    c->lost_rank = rank;
    m->reason = reason;
    snprintf(m->why, sizeof m->why, "%s", why ? why : "");
    exchange_words(c, (struct mpi_word){MPI_WORD_LOST, rank, (int32_t)reason}, PATIENCE_S);
    return lost_error(c, err);
}

static int judge_word(struct comm *c, int rank, struct error *err)
{
    struct mpi_peer *p = &((struct mpi *)c->priv)->peers[rank];
    if (p->heard.kind == MPI_WORD_LOST && p->heard.rank >= 0 && p->heard.rank < c->config.world)
        return lose(c, p->heard.rank, (enum mpi_reason)p->heard.reason, NULL, err);
    p->bye_s = clock_mono_s();
    return 0;
}

/* ---- exchange -------------------------------------------------------------------------------- */
static void mpi_plan(struct comm *c, int rank, const void *from, int64_t from_bytes, void *to,
                     int64_t to_bytes)
{
    struct mpi_peer *p = &((struct mpi *)c->priv)->peers[rank];
    p->from = from;
    p->from_bytes = (int)from_bytes;
    p->to = to;
    p->to_bytes = (int)to_bytes;
}

/* All receives, then all sends, each rank beginning with the next one. */
static int begin(struct comm *c, struct error *err)
{
    struct mpi *m = c->priv;
    const int me = c->config.rank, world = c->config.world;
    m->begun_s = clock_mono_s();
    m->open = 2 * (world - 1);
    for (int i = 1; i < 2 * world; i++) {
        int r = (me + i) % world;
        struct mpi_peer *p = &m->peers[r];
        p->in_done = p->out_done = r == me;
        if (r == me)
            continue;
        const char *why =
            i < world
                ? m->transport->receive(slot_of(r, MPI_IN), r, TAG_DATA, p->to, p->to_bytes)
                : m->transport->send(slot_of(r, MPI_OUT), r, TAG_DATA, p->from, p->from_bytes);
        if (why)
            return lose(c, r, MPI_REASON_BROKEN, why, err);
    }
    return 0;
}

static int judge_data(struct comm *c, int rank, int bytes, struct error *err)
{
    struct mpi *m = c->priv;
    char where[COMM_WHERE_MAX];
    if (bytes == m->peers[rank].to_bytes)
        return 0;
    comm_where(c, where);
    c->lost_rank = rank;
    m->reason = MPI_REASON_LEFT;
    return error_set(err, NANOCHAT_EXIT_PEER,
                     "rank %d sent %d bytes in %s, expected %d: the ranks do not make the same "
                     "calls",
                     rank, bytes, where, m->peers[rank].to_bytes);
}

static int judge(struct comm *c, struct mpi_done done, struct error *err)
{
    struct mpi *m = c->priv;
    const int rank = done.slot / MPI_SLOTS;
    if (done.why)
        return lose(c, rank, MPI_REASON_BROKEN, done.why, err);
    switch (done.slot % MPI_SLOTS) {
    case MPI_WORD_IN: return judge_word(c, rank, err);
    case MPI_IN:
        m->peers[rank].in_done = true;
        m->open--;
        return judge_data(c, rank, done.bytes, err);
    case MPI_OUT: m->peers[rank].out_done = true; m->open--;
    }
    return 0;
}

/* All are looked at before the first is judged: what is lost may be told by several at once. */
static int judge_all(struct comm *c, int n, struct error *err)
{
    struct mpi *m = c->priv;
    take_words(m, n);
    for (int i = 0; i < n; i++)
        if (judge(c, m->done[i], err))
            return -err->code;
    return 0;
}

/* The rank that is waited for: the first whose data is not here, else that does not take ours. */
static int waited_for(const struct comm *c)
{
    const struct mpi *m = c->priv;
    int r = 0;
    while (r < c->config.world && m->peers[r].in_done)
        r++;
    if (r < c->config.world)
        return r;
    for (r = 0; m->peers[r].out_done;)
        r++;
    return r;
}

/* Who has left did so after its part of its last exchange, which may be this one: its BYE may be
 * faster than its data, but not by much. */
static int check_time(struct comm *c, double now, struct error *err)
{
    struct mpi *m = c->priv;
    for (int r = 0; r < c->config.world; r++) {
        const struct mpi_peer *p = &m->peers[r];
        double since = p->bye_s > m->begun_s ? p->bye_s : m->begun_s;
        if (p->bye_s > 0 && !p->in_done && now - since > PATIENCE_S)
            return lose(c, r, MPI_REASON_LEFT, NULL, err);
    }
    if (now - m->begun_s > c->config.timeout_s)
        return lose(c, waited_for(c), MPI_REASON_LATE, NULL, err);
    return 0;
}

static int mpi_exchange(struct comm *c, struct error *err)
{
    struct mpi *m = c->priv;
    if (c->lost_rank >= 0)
        return lost_error(c, err);
    if (begin(c, err))
        return -err->code;
    const char *why;
    double news_s = m->begun_s;
    int quiet = 0;
    while (m->open) {
        int n = poll_all(m, &why);
        if (n < 0)
            return lose(c, waited_for(c), MPI_REASON_BROKEN, why, err);
        if (judge_all(c, n, err))
            return -err->code;
        double now = clock_mono_s();
        if (n > 0) {
            news_s = now;
            quiet = 0;
        } else {
            if (++quiet > QUIET_POLLS && check_time(c, now, err))
                return -err->code;
            pause_after(now - news_s);
        }
    }
    return 0;
}

/* ---- begin and end --------------------------------------------------------------------------- */
static int mpi_start(struct comm *c, const struct comm_config *config, struct error *err)
{
    const int world = config->world;
    struct mpi *m = mem_zalloc(1, sizeof *m);
    c->priv = m;
    ordered_init(&m->ordered, world);
    m->ordered.plan = mpi_plan;
    m->ordered.exchange = mpi_exchange;
    m->peers = mem_zalloc((size_t)world, sizeof *m->peers);
    m->done = mem_zalloc(MPI_SLOTS * (size_t)world, sizeof *m->done);
    m->transport = mpi_transport_open(err);
    if (!m->transport || mpi_keeper_open(&m->keeper, m->transport, config, err))
        return -err->code;
    if (listen_for_words(c, err))
        return -err->code;
    if (config->rank == 0)
        comm_make_id(c->id);
    return ordered_broadcast(c, c->id, sizeof c->id, 0, err);
}

static void mpi_describe(const struct comm *c, json_t *into)
{
    json_put_str(into, "library", ((const struct mpi *)c->priv)->transport->version());
}

/* Where there was no MPI_Finalize: what is still under way may write to it. Volatile, or a compiler
 * sees that nobody reads it and leaves it out. */
static struct mpi *volatile left_behind;

static void mpi_close(struct comm *c)
{
    struct mpi *m = c->priv;
    if (!m)
        return;
    const struct mpi_word bye = {.kind = MPI_WORD_BYE};
    bool all_leave = m->keeper && c->lost_rank < 0 && exchange_words(c, bye, c->config.timeout_s);
    if (m->keeper)
        mpi_keeper_close(m->keeper, all_leave, c->config.timeout_s);
    if (m->keeper && !all_leave) {
        left_behind = m;
        return;
    }
    ordered_release(&m->ordered);
    free(m->peers);
    free(m->done);
    free(m);
}

const struct comm_ops comm_mpi_ops = {
    .name = "mpi",
    .init = mpi_start,
    .all_reduce_sum = ordered_all_reduce,
    .all_reduce_f64 = ordered_all_reduce_f64,
    .reduce_scatter_sum = ordered_reduce_scatter,
    .all_gather = ordered_all_gather,
    .broadcast = ordered_broadcast,
    .barrier = ordered_barrier,
    .describe = mpi_describe,
    .close = mpi_close,
};
