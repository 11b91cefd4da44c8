#include "harness/progress.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/num.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void progress_init(struct progress *p, const char *choice, const struct scenario *s)
{
    const char *term = getenv("TERM");
    bool tty = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
    *p = (struct progress){.scenario = s, .started_s = clock_mono_s()};
    p->mode = !strcmp(choice, "none")    ? PROGRESS_NONE
              : !strcmp(choice, "plain") ? PROGRESS_PLAIN
              : tty                      ? PROGRESS_LIVE
                                         : PROGRESS_PLAIN;
    const char *no_colour = getenv("NO_COLOR");
    p->colour = p->mode == PROGRESS_LIVE && !(no_colour && *no_colour);
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

static void erase(struct progress *p)
{
    if (p->open)
        fputs("\r\033[K", stderr);
    p->open = false;
}

/* What is left, at the mean of what is done; less where a cell is decided early. */
static void append_eta(const struct progress *p, struct str *out)
{
    char text[32];
    if (!p->finished || p->done >= p->total)
        return;
    double left = (double)(p->total - p->done) * p->spent_s / (double)p->finished;
    left -= clock_mono_s() - p->trial_started_s;
    str_appendf(out, ", about %s left",
                num_format_duration(text, sizeof text, left > 0 ? left : 0));
}

static void append_cell(const struct progress *p, const struct cell *cell, struct str *out)
{
    const char *key;
    json_t *value;
    (void)p;
    str_append(out, cell->id);
    json_object_foreach(cell->values, key, value)
    {
        str_appendf(out, " %s ", key);
        if (json_is_string(value))
            str_append(out, json_string_value(value));
        else
            json_write(out, value, 0);
    }
}

void progress_trial_start(struct progress *p)
{
    p->trial_started_s = clock_mono_s();
}

void progress_tick(void *user, const struct planned_trial *trial, int64_t step)
{
    struct progress *p = user;
    double now = clock_mono_s();
    if (p->mode != PROGRESS_LIVE || now - p->drawn_s < 0.2)
        return;
    auto_str line = STR_INIT;
    char text[32];
    const struct cell *cell = &p->scenario->cells[trial->cell];
    str_appendf(&line, "[%s] trial %zu/%zu  ",
                num_format_duration(text, sizeof text, now - p->started_s), p->done + 1, p->total);
    append_cell(p, cell, &line);
    str_appendf(&line, "  block %lld  %s", (long long)trial->block,
                cell->runtimes[trial->runtime].name);
    if (step >= 0)
        str_appendf(&line, "  step %lld", (long long)step);
    append_eta(p, &line);
    size_t width = (size_t)columns() - 1;
    if (line.len > width)
        str_truncate(&line, width);
    fprintf(stderr, "\r%s\033[K", line.data);
    fflush(stderr);
    p->open = true;
    p->drawn_s = now;
}

static void append_result(const struct record *r, struct str *out)
{
    double step, wall, start;
    char text[32];
    if (r->outcome == OUTCOME_OK) {
        if (record_metric(r, "step_time_s", &step))
            str_appendf(out, "step %s", num_format_duration(text, sizeof text, step));
        else if (record_metric(r, "wall_s", &wall))
            str_appendf(out, "wall %s", num_format_duration(text, sizeof text, wall));
        if (record_metric(r, "start_s", &start))
            str_appendf(out, ", start %s", num_format_duration(text, sizeof text, start));
        return;
    }
    const json_t *reasons = json_at(r->json, "reasons");
    const char *why = json_string_value(json_array_get(reasons, 0));
    str_append(out, why ? why : "");
}

void progress_trial_end(struct progress *p, const struct record *r)
{
    auto_str line = STR_INIT;
    auto_str result = STR_INIT;
    p->done++;
    p->finished++;
    p->spent_s += clock_mono_s() - p->trial_started_s;
    bool failed = r->outcome != OUTCOME_OK;
    if (p->mode == PROGRESS_NONE)
        return;
    append_result(r, &result);
    const char *on = !p->colour ? "" : failed ? "\033[31m" : "\033[32m";
    str_appendf(&line, "%3zu/%-3zu %-24s %s%s%s  %s", p->done, p->total, r->trial, on,
                outcome_name(r->outcome), p->colour ? "\033[0m" : "", result.data);
    if (p->mode == PROGRESS_PLAIN)
        append_eta(p, &line);
    erase(p);
    fprintf(stderr, "%s\n", line.data);
}

void progress_say(struct progress *p, const char *fmt, ...)
{
    va_list ap;
    if (p->mode == PROGRESS_NONE)
        return;
    va_start(ap, fmt);
    auto_free char *text = mem_vprintf(fmt, ap);
    va_end(ap);
    erase(p);
    fprintf(stderr, "%s\n", text);
}

void progress_close(struct progress *p)
{
    erase(p);
    fflush(stderr);
}
