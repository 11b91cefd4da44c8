/* Plots through gnuplot: ncbench writes NAME.dat and NAME.gp (variables, then the templates of
 * plots/, which the program carries in itself) and runs gnuplot on them.
 *
 * Without gnuplot the two files are still written and a note says so. */
#ifndef HARNESS_PLOT_H
#define HARNESS_PLOT_H

#include "harness/analysis.h"
#include "harness/session_data.h"

#include <stdbool.h>

enum plot_kind { PLOT_RATIO, PLOT_STEPS, PLOT_PHASES, PLOT_SCALING, PLOT_ECDF, PLOT_KIND_COUNT };
const char *plot_kind_name(enum plot_kind kind);

/* The text of NAME.dat and of the variables in NAME.gp. False: nothing to draw; *why says it. */
bool plot_data(const struct session_data *s, const struct analysis *a, enum plot_kind kind,
               struct str *dat, struct str *gp, const char **why);

struct plot_request {
    const char *dir;             /* created if absent */
    bool kinds[PLOT_KIND_COUNT]; /* which */
    bool svg, png;
};
/* written: paths of the files; notes: what could not be drawn and why. Exit 8 when a file cannot be
 * written; a picture that gnuplot does not draw is a note. */
int plot_write(const struct session_data *s, const struct analysis *a,
               const struct plot_request *request, struct strv *written, struct strv *notes,
               struct error *err);

/* ---- for the data of each kind ----------------------------------------------------------------
 */
void plot_gp_text(struct str *gp, const char *variable, const char *value);
void plot_gp_number(struct str *gp, const char *variable, double value);
void plot_gp_texts(struct str *gp, const char *variable, const struct strv *values);
/* Labels of tics: gnuplot takes those for formats, so '%' is doubled. */
void plot_gp_labels(struct str *gp, const char *variable, const struct strv *values);
void plot_gp_numbers(struct str *gp, const char *variable, const double *values, size_t n);
void plot_put(struct str *dat, double value); /* a column; '?' for a missing one */
void plot_end_index(struct str *dat, bool empty, size_t columns);
/* "#0072B2" of an arm: the baseline is blue, the control grey. */
const char *plot_color(const struct study *s, size_t arm);

bool plot_data_ratio(const struct session_data *s, const struct analysis *a, struct str *dat,
                     struct str *gp, const char **why);
bool plot_data_steps(const struct session_data *s, const struct analysis *a, struct str *dat,
                     struct str *gp, const char **why);
bool plot_data_phases(const struct session_data *s, const struct analysis *a, struct str *dat,
                      struct str *gp, const char **why);
bool plot_data_scaling(const struct session_data *s, const struct analysis *a, struct str *dat,
                       struct str *gp, const char **why);
bool plot_data_ecdf(const struct session_data *s, const struct analysis *a, struct str *dat,
                    struct str *gp, const char **why);

/* A template as text: "common" or the name of a kind; NULL if there is none. */
const char *plot_template(const char *name);

#endif
