/* No allocation inside a step: every allocating function is counted while steps run.
 *
 * The linked BLAS is counted apart. It keeps a pool of packing buffers that grows when more
 * products run at one moment than ever before, which on a busy machine may first happen in any
 * step; so it must come to rest, while our own code must be at rest from the third step on. BLIS
 * never comes to rest: it takes a little of the heap in each product. */
#include "workload/model.h"
#include "workload/optimizer.h"

#include "tests/unit/count_allocations.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void one_step(struct model *m, struct optimizer *o, const int32_t *tokens, bool grad)
{
    struct error err = ERROR_INIT;
    double loss, norm, comm_s;
    int rc = model_zero_grad(m, &err);
    for (int micro = 0; micro < 2 && grad; micro++) {
        rc |= model_forward(m, tokens, tokens + 1, 2, 64, &loss, &err);
        rc |= model_backward(m, &err);
    }
    if (grad)
        rc |= optimizer_step(o, 1.0, 0.9, &norm, &comm_s, &err);
    else
        rc |= model_eval(m, tokens, tokens + 1, 2, 64, &loss, NULL, &err);
    CU_ASSERT_EQUAL(rc, 0);
}

/* Steps with and without gradient; how often our code allocated. */
static long five_steps(struct model *m, struct optimizer *o, const int32_t *tokens)
{
    for (int i = 0; i < 5; i++)
        one_step(m, o, tokens, true);
    one_step(m, o, tokens, false);
    return atomic_exchange(&allocations, 0);
}

static void count(struct model *m, struct optimizer *o, const int32_t *tokens, bool blas_rests)
{
    atomic_store(&counting, true);
    free(malloc(100));
    CU_ASSERT_EQUAL(atomic_exchange(&allocations, 0), 1); /* the counter counts */
    for (int i = 0; i < 2; i++)
        one_step(m, o, tokens, true);
    one_step(m, o, tokens, false);
    const long first = atomic_exchange(&allocations, 0);
    long later = 0, blas = 0;
    int rounds = 0;
    do {
        atomic_store(&by_blas, 0);
        later += five_steps(m, o, tokens);
        blas = atomic_load(&by_blas);
    } while (++rounds < 20 && blas_rests && blas > 0);
    atomic_store(&counting, false);
    printf(
        "  allocations: %ld in the first two steps, %ld in %d more; by the BLAS in the last five: "
        "%ld\n",
        first, later, 5 * rounds, blas);
    CU_ASSERT_EQUAL(later, 0);
    if (later)
        printf("  the last one by %s\n", last_caller);
    CU_ASSERT_TRUE(!blas_rests || blas == 0);
}

static void steps_allocate_nothing(void)
{
    if (!COUNTING) {
        unit_skip("a sanitizer or another C library owns the allocator");
        return;
    }
    struct error err = ERROR_INIT;
    struct device *d;
    struct model *m;
    struct optimizer *o;
    struct device_config device = {.type = "cpu", .threads = 2};
    struct model_config c = model_config_for_depth(2, 64, 500);
    struct optimizer_config options = {
        .embedding_lr = 0.2, .unembedding_lr = 0.004, .matrix_lr = 0.02, .grad_clip = 1};
    static int32_t tokens[129];
    for (int i = 0; i < 129; i++)
        tokens[i] = i * 31 % 500;
    CU_ASSERT_EQUAL_FATAL(device_open(&d, &device, &err), 0);
    CU_ASSERT_EQUAL_FATAL(model_create(&m, d, &c, 2, 64, &err), 0);
    CU_ASSERT_EQUAL_FATAL(model_init_weights(m, 1, &err), 0);
    CU_ASSERT_EQUAL_FATAL(optimizer_create(&o, m, NULL, &options, &err), 0);

    struct device_info info;
    d->ops->info(d, &info);
    count(m, o, tokens, strncmp(info.gemm, "blis", 4) != 0);
    optimizer_free(o);
    model_free(m);
    device_close(d);
}

UNIT_MAIN({"steps allocate nothing", steps_allocate_nothing})
