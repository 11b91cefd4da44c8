#include "workload/agree.h"

#define CODE_UNIT 1048576.0 /* above every rank number, so that code and rank share one double */

int agree(struct comm *comm, const char *doing, struct error *err)
{
    double worst = err->code ? err->code * CODE_UNIT + comm_rank(comm) : 0;
    struct error lost = ERROR_INIT;
    if (comm_all_reduce_max_f64(comm, &worst, 1, &lost)) {
        if (err->code)
            error_release(&lost); /* the own error is the cause */
        else
            error_move(err, &lost);
        return -err->code;
    }
    if (!err->code && worst > 0) {
        int code = (int)(worst / CODE_UNIT);
        error_set(err, code, "rank %d failed while %s (exit %d)", (int)(worst - code * CODE_UNIT),
                  doing, code);
    }
    return -err->code;
}
