#include "workload/safetensors.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"

#include <string.h>

static void put_u64(char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (char)(v >> (8 * i));
}

/* Open header + data from memory; returns the error text ("" on success). */
static char *try_open(const char *header, size_t data_len, struct st_file **out)
{
    size_t n = strlen(header);
    auto_free char *buf = mem_zalloc(1, 8 + n + data_len + 1);
    put_u64(buf, n);
    memcpy(buf + 8, header, n);
    auto_error struct error err = ERROR_INIT;
    struct st_file *f = NULL;
    int rc = st_open_memory(buf, 8 + n + data_len, "buf", &f, NANOCHAT_EXIT_CHECKPOINT, &err);
    CU_ASSERT_EQUAL(rc, rc ? -NANOCHAT_EXIT_CHECKPOINT : 0);
    if (out && !rc)
        *out = f;
    else
        st_close(f);
    return mem_strdup(rc ? err.message : "");
}

static void refuses_what_is_wrong(void)
{
    static const struct {
        const char *header;
        size_t data;
        const char *fragment;
    } cases[] = {
        {"[]", 0, "no JSON object"},
        {"{\"a\": 1", 0, "not valid JSON"},
        {"{\"a\": 1}", 0, "dtype"},
        {"{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "F99"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
         "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "shape needs 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, "behind the last"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, "duplicate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_free char *message = try_open(cases[i].header, cases[i].data, NULL);
        if (!strstr(message, cases[i].fragment))
            printf("%s: \"%s\" lacks \"%s\"\n", cases[i].header, message, cases[i].fragment);
        CU_ASSERT_PTR_NOT_NULL(strstr(message, cases[i].fragment));
    }
}

static void accepts_scalars_and_empty_tensors(void)
{
    struct st_file *f = NULL;
    auto_free char *message =
        try_open("{\"e\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[4,4]},"
                 "\"s\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]}}   ",
                 4, &f);
    CU_ASSERT_STR(message, "");
    CU_ASSERT_EQUAL_FATAL(st_count(f), 2);
    CU_ASSERT_STR(st_at(f, 0)->name, "s");
    CU_ASSERT_EQUAL(st_find(f, "s")->n, 1);
    CU_ASSERT_EQUAL(st_find(f, "e")->n, 0);
    CU_ASSERT_PTR_NULL(st_find(f, "x"));
    st_close(f);
}

static void round_trip(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/a.safetensors", dir);
    float a[6] = {1, 2, 3, 4, 5, 6};
    int32_t b[2] = {-7, 8};
    struct st_tensor out[] = {
        {.name = "z.first", .dtype = "F32", .ndim = 2, .shape = {2, 3}, .data = a, .bytes = 24},
        {.name = "a.second", .dtype = "I32", .ndim = 1, .shape = {2}, .data = b, .bytes = 8},
    };
    auto_json *meta = json_object();
    json_put_str(meta, "format", "pt");
    auto_error struct error err = ERROR_INIT;
    int64_t bytes = 0;
    CU_ASSERT_EQUAL_FATAL(st_write(path, out, 2, meta, NULL, NANOCHAT_EXIT_WRITE, &bytes, &err), 0);
    struct st_file *f = NULL;
    CU_ASSERT_EQUAL_FATAL(st_open(path, &f, NANOCHAT_EXIT_CHECKPOINT, &err), 0);
    CU_ASSERT_STR(st_at(f, 0)->name, "z.first");
    CU_ASSERT_EQUAL((uintptr_t)st_at(f, 0)->data % 64, 0);
    CU_ASSERT_EQUAL(memcmp(st_find(f, "z.first")->data, a, 24), 0);
    CU_ASSERT_EQUAL(memcmp(st_find(f, "a.second")->data, b, 8), 0);
    CU_ASSERT_EQUAL(st_find(f, "z.first")->shape[1], 3);
    CU_ASSERT_STR(json_read_str(st_metadata(f), "format"), "pt");
    st_close(f);

    /* Every truncation is refused, never read beyond. */
    auto_str text = STR_INIT;
    CU_ASSERT_EQUAL(fs_read_file(path, &text, 5, &err), 0);
    CU_ASSERT_EQUAL((int64_t)text.len, bytes);
    for (size_t n = 0; n < text.len; n++) {
        auto_error struct error why = ERROR_INIT;
        auto_free char *copy = mem_alloc(n ? n : 1);
        memcpy(copy, text.data, n);
        f = NULL;
        CU_ASSERT_EQUAL(st_open_memory(copy, n, "cut", &f, 7, &why), -7);
        st_close(f);
    }
}

static void open_errors_name_the_file(void)
{
    auto_error struct error err = ERROR_INIT;
    struct st_file *f = NULL;
    CU_ASSERT_EQUAL(st_open("/nonexistent/x", &f, 7, &err), -7);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "/nonexistent/x"));
    auto_error struct error full = ERROR_INIT;
    float a[1024] = {0};
    struct st_tensor t = {
        .name = "a", .dtype = "F32", .ndim = 1, .shape = {1024}, .data = a, .bytes = sizeof a};
    CU_ASSERT_EQUAL(st_write("/dev/full", &t, 1, NULL, NULL, NANOCHAT_EXIT_WRITE, NULL, &full),
                    -10);
}

UNIT_MAIN({"refuses what is wrong", refuses_what_is_wrong},
          {"accepts scalars and empty tensors", accepts_scalars_and_empty_tensors},
          {"round trip", round_trip}, {"open errors name the file", open_errors_name_the_file})
