/* Plays NCCL: opens the plugin and calls it with descriptions written byte by byte, so that a wrong
 * layout in the plugin shows. */
#include "tests/unit/unit.h"
#include "workload/nccl_profiler/figures.h"

#include "common/mem.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 1, COLL = 2, P2P = 4, PROXY_OP = 8, PROXY_STEP = 16, KERNEL = 64 };

struct vtable {
    const char *name;
    void *init;
    int (*start)(void *context, void **handle, void *description);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *args);
    int (*finalize)(void *context);
};
static const struct vtable *v4, *v5, *current;
static const struct nccl_profiler *profiler;
static void *context;

static _Thread_local uint64_t ticks;
static uint64_t fake_clock(void)
{
    return ticks;
}

static void open_plugin(int version)
{
    const char *bin = getenv("BIN");
    char *path = mem_printf("%s/../lib/nanochat-nccl-profiler.so", bin ? bin : "bin");
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(so);
    v4 = dlsym(so, "ncclProfiler_v4");
    v5 = dlsym(so, "ncclProfiler_v5");
    profiler = dlsym(so, "nanochat_nccl_profiler");
    CU_ASSERT_FATAL(v4 && v5 && profiler);
    CU_ASSERT_EQUAL_FATAL(profiler->abi, NCCL_PROFILE_ABI);
    profiler->reset();
    profiler->set_clock(fake_clock);
    int mask = 0, rc;
    context = NULL;
    current = version == 4 ? v4 : v5;
    if (version == 4)
        rc = ((int (*)(void **, int *, const char *, uint64_t, int, int, int, void *))v4->init)(
            &context, &mask, NULL, 7, 1, 2, 0, NULL);
    else
        rc = ((int (*)(void **, uint64_t, int *, const char *, int, int, int, void *))v5->init)(
            &context, 7, &mask, NULL, 1, 2, 0, NULL);
    CU_ASSERT_EQUAL(rc, 0);
    CU_ASSERT_EQUAL(mask, COLL | P2P | PROXY_OP | PROXY_STEP | KERNEL);
}

#define PUT(at, value) memcpy(d + (at), &(value), sizeof(value))

/* Version 4 has one byte of type: the others are filled with rubbish. */
static void *begin(uint64_t type, const char *name, uint8_t channels, void *parent, uint64_t time)
{
    _Alignas(8) unsigned char d[112];
    void *handle = NULL;
    memset(d, 0xa5, sizeof d);
    if (current == v5)
        PUT(0, type);
    else
        d[0] = (unsigned char)type;
    PUT(8, parent);
    PUT(type == COLL ? 32 : 24, name);
    if (type == KERNEL)
        PUT(32, time);
    else
        d[type == COLL ? 80 : 60] = channels;
    CU_ASSERT_EQUAL(current->start(context, &handle, d), 0);
    return handle;
}

static void kernel(void *parent, uint64_t from, uint64_t to)
{
    void *k = begin(KERNEL, NULL, 0, parent, from);
    CU_ASSERT_EQUAL(current->state(k, 22, &to), 0);
    CU_ASSERT_EQUAL(current->stop(k), 0);
}

static struct nccl_profile figures(void)
{
    struct nccl_profile f;
    profiler->read(&f);
    return f;
}

static void one_step(void)
{
    ticks = 100;
    void *call = begin(COLL, "AllReduce", 2, NULL, 0);
    ticks = 130;
    current->stop(call);
    kernel(call, 5000, 5900);
    kernel(call, 5100, 6000);
    void *send = begin(P2P, "Send", 1, NULL, 0);
    kernel(send, 10, 17); /* before the stop of its call */
    ticks = 140;
    current->stop(send);
    void *op = begin(PROXY_OP, NULL, 0, call, 0);
    void *step = begin(PROXY_STEP, NULL, 0, op, 0);
    current->state(step, 8, NULL);
    ticks = 150;
    current->state(step, 20, NULL);
    ticks = 153;
    current->state(step, 9, NULL);
    ticks = 160;
    current->stop(op); /* out of order */
    current->stop(step);
    CU_ASSERT_EQUAL(current->finalize(context), 0);
}

static void check_one_step(int version)
{
    open_plugin(version);
    one_step();
    struct nccl_profile f = figures();
    CU_ASSERT_STRING_EQUAL(f.kinds[0].name, "AllReduce");
    CU_ASSERT_EQUAL(f.kinds[0].calls, 1);
    CU_ASSERT_EQUAL(f.kinds[0].enqueue_ns, 30);
    CU_ASSERT_EQUAL(f.kinds[0].complete, 1);
    CU_ASSERT_EQUAL(f.kinds[0].kernel_ns, 1000);
    CU_ASSERT_STRING_EQUAL(f.kinds[1].name, "Send");
    CU_ASSERT_EQUAL(f.kinds[1].enqueue_ns, 10);
    CU_ASSERT_EQUAL(f.kinds[1].kernel_max_ns, 7);
    CU_ASSERT_EQUAL(f.communicators, 1);
    CU_ASSERT_EQUAL(f.proxy_ops, 1);
    CU_ASSERT_EQUAL(f.proxy_steps, 1);
    CU_ASSERT_EQUAL(f.wait_ns[NCCL_PROFILE_SEND_GPU], 10);
    CU_ASSERT_EQUAL(f.wait_ns[NCCL_PROFILE_SEND_PEER], 3);
    CU_ASSERT_EQUAL(f.wait_ns[NCCL_PROFILE_SEND_NET], 7);
    CU_ASSERT_EQUAL(f.stale + f.overwritten + f.unknown, 0);
}

static void a_step_by_version_4(void)
{
    check_one_step(4);
}

static void a_step_by_version_5(void)
{
    check_one_step(5);
}

static void what_is_missing_is_not_complete(void)
{
    open_plugin(5);
    void *call = begin(COLL, "AllGather", 2, NULL, 0);
    current->stop(call);
    kernel(call, 10, 20); /* one of two channels */
    call = begin(COLL, "AllGather", 1, NULL, 0);
    current->stop(call);
    kernel(call, 10, 0); /* no stop time */
    kernel(NULL, 10, 20);
    struct nccl_profile f = figures();
    CU_ASSERT_EQUAL(f.kinds[0].calls, 2);
    CU_ASSERT_EQUAL(f.kinds[0].complete, 0);
    CU_ASSERT_EQUAL(f.kinds[0].kernel_ns, 0);
    CU_ASSERT_EQUAL(f.stale, 0);
}

static void what_is_not_known(void)
{
    open_plugin(5);
    /* NCCL 2.28 tells these unasked: they are no loss */
    for (uint64_t type = 256; type <= 2048; type *= 2)
        CU_ASSERT_PTR_NULL(begin(type, NULL, 0, NULL, 0));
    CU_ASSERT_PTR_NULL(begin(GROUP, NULL, 0, NULL, 0));
    CU_ASSERT_EQUAL(figures().unknown, 0);
    CU_ASSERT_PTR_NULL(begin(UINT64_C(1) << 40, NULL, 0, NULL, 0));
    CU_ASSERT_EQUAL(current->stop(NULL), 0);
    CU_ASSERT_EQUAL(current->stop((void *)(uintptr_t)0xdeadbeef), 0);
    CU_ASSERT_EQUAL(current->state((void *)(uintptr_t)0xdeadbeef, 99, NULL), 0);
    CU_ASSERT_EQUAL(figures().unknown, 1);
    CU_ASSERT_EQUAL(figures().stale, 2);
}

static void a_pool_that_overflows(void)
{
    open_plugin(5);
    void *first = begin(COLL, "Broadcast", 1, NULL, 0);
    for (int i = 0; i < 2048; i++)
        begin(COLL, "Broadcast", 1, NULL, 0);
    CU_ASSERT_EQUAL(figures().overwritten, 1);
    current->stop(first);
    kernel(first, 1, 2);
    CU_ASSERT_EQUAL(figures().stale, 2);
    CU_ASSERT_EQUAL(figures().kinds[0].calls, 2049);
    CU_ASSERT_EQUAL(figures().kinds[0].complete, 0);
}

#define THREADS 4
#define ROUNDS 2000
static void *many(void *unused)
{
    for (int i = 0; i < ROUNDS; i++)
        one_step();
    return unused;
}

static void several_threads(void)
{
    pthread_t threads[THREADS];
    open_plugin(5);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, many, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    struct nccl_profile f = figures();
    const uint64_t n = THREADS * ROUNDS;
    CU_ASSERT_EQUAL(f.kinds[0].calls + f.kinds[1].calls, 2 * n);
    CU_ASSERT_EQUAL(f.kinds[0].kernel_ns + f.kinds[1].kernel_ns, 1007 * n);
    CU_ASSERT_EQUAL(f.wait_ns[NCCL_PROFILE_SEND_NET], 7 * n);
    CU_ASSERT_EQUAL(f.proxy_steps, n);
    CU_ASSERT_EQUAL(f.stale + f.overwritten, 0);
}

UNIT_MAIN({"a step by version 4", a_step_by_version_4},
          {"a step by version 5", a_step_by_version_5},
          {"what is missing is not complete", what_is_missing_is_not_complete},
          {"what is not known", what_is_not_known},
          {"a pool that overflows", a_pool_that_overflows}, {"several threads", several_threads})
