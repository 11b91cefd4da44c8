#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/record.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A record with constant steps behind a slow start of `slow` steps. */
static void add(struct str *out, const char *runtime, int block, int own, double step_s,
                double loss, const char *outcome)
{
    str_appendf(out,
                "{\"schema\":\"trial/1.0\",\"trial\":\"c00.b%02d.%s\",\"cell\":{\"id\":\"c00\"},"
                "\"block\":%d,\"runtime\":\"%s\",\"baseline\":%s,\"outcome\":\"%s\","
                "\"reasons\":[],\"ranks\":2,\"phases_s\":{\"start\":0.5},\"train\":{\"steps\":8,"
                "\"warmup_steps\":%d,\"warmup_own\":%d,\"tokens_per_step\":100,"
                "\"flops_per_token\":10,\"peak_flops_per_rank\":10000,\"loss_last\":%g,"
                "\"loss_rel_tol\":0.01,\"step_max_s\":[",
                block, runtime, block, runtime, strcmp(runtime, "bare") ? "false" : "true", outcome,
                own, own, loss);
    for (int i = 0; i < 8; i++)
        str_appendf(out, "%s%g", i ? "," : "", i < 3 ? step_s * 4 : step_s);
    str_append(out, "],\"step_skew_s\":[0,0,0,0,0,0,0,0.5]}}\n");
}

static void parse(const struct str *text, struct records *r)
{
    struct error err = ERROR_INIT;
    CU_ASSERT(records_parse(text->data, text->len, "t.jsonl", r, &err) == 0);
    CU_ASSERT_STR(err.message, NULL);
    error_release(&err);
}

static void a_block_shares_its_warmup(void)
{
    auto_str text = STR_INIT;
    add(&text, "bare", 1, 2, 1.0, 4, "ok");
    add(&text, "podman", 1, 5, 2.0, 4, "ok");
    add(&text, "bare", 2, 2, 1.0, 4, "ok");
    add(&text, "podman", 2, 2, 2.0, 4, "timeout");
    struct records r;
    parse(&text, &r);
    int64_t w;
    double v;
    CU_ASSERT(json_read_i64(r.items[0].json, "train.warmup_steps", &w) && w == 5);
    CU_ASSERT(json_read_i64(r.items[0].json, "train.warmup_own", &w) && w == 2);
    CU_ASSERT(json_read_i64(r.items[2].json, "train.warmup_steps", &w) && w == 2);
    CU_ASSERT(record_metric(&r.items[0], "step_time_s", &v));
    CU_ASSERT_NEAR(v, 1.0, 0);
    CU_ASSERT(record_metric(&r.items[0], "tokens_per_s", &v));
    CU_ASSERT_NEAR(v, 100, 0);
    CU_ASSERT(record_metric(&r.items[0], "mfu", &v));
    CU_ASSERT_NEAR(v, 10.0 * 100 / (2 * 10000), 1e-15);
    CU_ASSERT(record_metric(&r.items[0], "phases_s.steady", &v));
    CU_ASSERT_NEAR(v, 3, 0);
    CU_ASSERT(record_metric(&r.items[0], "phases_s.warmup", &v));
    CU_ASSERT_NEAR(v, 4 + 4 + 1 + 1, 0);
    CU_ASSERT(record_metric(&r.items[0], "train.rank_skew_s.max", &v));
    CU_ASSERT_NEAR(v, 0.5, 0);
    CU_ASSERT(!record_metric(&r.items[3], "step_time_s", &v)); /* not ok: never a number */
    records_derive(&r, 0);
    CU_ASSERT(json_read_i64(r.items[0].json, "train.warmup_steps", &w) && w == 5);
    records_release(&r);
}

static void no_steady_steps_is_null_with_a_reason(void)
{
    auto_str text = STR_INIT;
    add(&text, "bare", 1, 8, 1.0, 4, "ok");
    add(&text, "podman", 1, 50, 1.0, 4, "ok");
    struct records r;
    parse(&text, &r);
    double v;
    CU_ASSERT(!record_metric(&r.items[0], "step_time_s", &v));
    CU_ASSERT(!record_metric(&r.items[0], "mfu", &v));
    CU_ASSERT_STR(json_read_str(r.items[0].json, "train.step_time_s.median_why"), "no samples");
    CU_ASSERT(json_is_null(json_at(r.items[0].json, "train.step_time_s.median")));
    records_release(&r);
}

static void another_loss_is_invalid(void)
{
    auto_str text = STR_INIT;
    add(&text, "podman", 1, 2, 1.0, 4.2, "ok"); /* before its baseline: order does not matter */
    add(&text, "bare", 1, 2, 1.0, 4.0, "ok");
    add(&text, "bare", 2, 2, 1.0, 4.0, "ok");
    add(&text, "podman", 2, 2, 1.0, 4.03, "ok");
    struct records r;
    parse(&text, &r);
    CU_ASSERT_EQUAL(r.items[0].outcome, OUTCOME_INVALID);
    CU_ASSERT_STR(json_read_str(r.items[0].json, "outcome"), "invalid");
    CU_ASSERT_EQUAL(json_array_size(json_at(r.items[0].json, "reasons")), 1);
    CU_ASSERT_EQUAL(r.items[1].outcome, OUTCOME_OK);
    CU_ASSERT_EQUAL(r.items[3].outcome, OUTCOME_OK);
    bool ok = false;
    CU_ASSERT(json_read_bool(r.items[3].json, "train.loss_match.ok", &ok) && ok);
    records_derive(&r, 0);
    CU_ASSERT_EQUAL(json_array_size(json_at(r.items[0].json, "reasons")), 1);
    records_release(&r);
}

static void a_torn_line_is_left_out(void)
{
    auto_str text = STR_INIT;
    add(&text, "bare", 1, 2, 1.0, 4, "ok");
    size_t first = text.len;
    add(&text, "podman", 1, 2, 1.0, 4, "ok");
    for (size_t cut = first; cut < text.len; cut++) {
        struct records r;
        struct error err = ERROR_INIT;
        CU_ASSERT(records_parse(text.data, cut, "t", &r, &err) == 0);
        CU_ASSERT_EQUAL(r.count, 1);
        CU_ASSERT_EQUAL(r.torn, cut > first);
        CU_ASSERT_EQUAL(r.good_bytes, (int64_t)first);
        records_release(&r);
        error_release(&err);
    }
}

static void a_bad_line_is_named(void)
{
    static const char *const bad[] = {
        "{}\n",
        "nonsense\n",
        "{\"schema\":\"trial/2.0\"}\n",
        "{\"schema\":\"trial/1.0\",\"trial\":\"x\",\"cell\":{\"id\":\"c00\"},\"block\":0,"
        "\"runtime\":\"bare\",\"outcome\":\"fine\"}\n",
        "{\"schema\":\"trial/1.0\",\"trial\":\"x\",\"cell\":{\"id\":\"c00\"},"
        "\"runtime\":\"bare\",\"outcome\":\"ok\"}\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        auto_str text = STR_INIT;
        add(&text, "bare", 1, 2, 1.0, 4, "ok");
        str_append(&text, bad[i]);
        struct records r;
        struct error err = ERROR_INIT;
        CU_ASSERT(records_parse(text.data, text.len, "t.jsonl", &r, &err) < 0);
        CU_ASSERT_EQUAL(err.code, 8);
        CU_ASSERT(err.message && strstr(err.message, "t.jsonl:2"));
        error_release(&err);
    }
}

static void appending_to_a_full_disk_is_an_error(void)
{
    struct error err = ERROR_INIT;
    auto_close int fd = open("/dev/full", O_WRONLY | O_APPEND | O_CLOEXEC);
    auto_json *json = json_object();
    if (fd < 0) {
        unit_skip("no /dev/full");
        return;
    }
    CU_ASSERT(record_append(fd, "results/trials.jsonl", json, &err) == -8);
    CU_ASSERT_STR(err.message, "cannot write results/trials.jsonl: No space left on device");
    error_release(&err);
}

static void appended_records_read_back(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/trials.jsonl", dir);
    auto_str text = STR_INIT;
    add(&text, "bare", 1, 2, 1.0, 4, "ok");
    struct records r, back;
    struct error err = ERROR_INIT;
    parse(&text, &r);
    auto_close int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    CU_ASSERT(record_append(fd, path, r.items[0].json, &err) == 0);
    CU_ASSERT(record_append(fd, path, r.items[0].json, &err) == 0);
    CU_ASSERT(records_load(path, &back, &err) == 0);
    CU_ASSERT_EQUAL(back.count, 2);
    CU_ASSERT(json_equal(back.items[1].json, r.items[0].json));
    records_release(&r);
    records_release(&back);
    error_release(&err);
}

static void the_detector_waits_for_steady_steps(void)
{
    double x[60];
    for (int i = 0; i < 60; i++)
        x[i] = 1.0;
    CU_ASSERT_EQUAL(warmup_detect(x, 60), 1);
    for (int i = 0; i < 12; i++)
        x[i] = 2.0 - i * 0.08; /* a ramp of twelve steps */
    int64_t w = warmup_detect(x, 60);
    CU_ASSERT(w >= 7 && w <= 12);
    for (int i = 0; i < 60; i++)
        x[i] = 1.0 + 0.02 * i; /* never steady */
    CU_ASSERT_EQUAL(warmup_detect(x, 60), -1);
    CU_ASSERT_EQUAL(warmup_detect(x, 0), -1);
    CU_ASSERT_EQUAL(warmup_detect(x, 20), -1);
}

static void directions(void)
{
    CU_ASSERT_EQUAL(metric_direction("step_time_s"), 1);
    CU_ASSERT_EQUAL(metric_direction("tokens_per_s"), -1);
    CU_ASSERT_EQUAL(metric_direction("mfu"), -1);
    CU_ASSERT_EQUAL(metric_direction("phases_s.comm_init"), 1);
    CU_ASSERT_EQUAL(metric_direction("train.mfu"), -1);
    CU_ASSERT_EQUAL(metric_direction("comm.busbw_gb_s"), -1);
}

UNIT_MAIN({"a block shares its warm-up", a_block_shares_its_warmup},
          {"no steady steps is null with a reason", no_steady_steps_is_null_with_a_reason},
          {"another loss is invalid", another_loss_is_invalid},
          {"a torn line is left out", a_torn_line_is_left_out},
          {"a bad line is named", a_bad_line_is_named},
          {"appending to a full disk is an error", appending_to_a_full_disk_is_an_error},
          {"appended records read back", appended_records_read_back},
          {"the detector waits for steady steps", the_detector_waits_for_steady_steps},
          {"directions", directions})
