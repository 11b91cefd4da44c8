#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/events_reader.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char whole[] =
    "{\"event\":\"hello\",\"t_s\":1.0,\"pid\":7}\n"
    "{\"event\":\"phase\",\"name\":\"eval\",\"edge\":\"begin\",\"t_s\":1.0}\n"
    "{\"event\":\"phase\",\"name\":\"eval\",\"edge\":\"end\",\"t_s\":1.5}\n"
    "{\"event\":\"step\",\"step\":0,\"t_start_s\":2,\"t_end_s\":2.5,\"loss\":4.5,\"tokens\":512}\n"
    "{\"event\":\"comm\",\"step\":0,\"op\":\"all_reduce\",\"bytes\":64,\"time_us\":10}\n"
    "{\"event\":\"comm\",\"step\":0,\"op\":\"all_reduce\",\"bytes\":64,\"time_us\":30}\n"
    "{\"event\":\"comm\",\"step\":0,\"op\":\"all_reduce\",\"bytes\":128,\"time_us\":5}\n"
    "{\"event\":\"phase\",\"name\":\"eval\",\"edge\":\"begin\",\"t_s\":3.0}\n"
    "{\"event\":\"phase\",\"name\":\"eval\",\"edge\":\"end\",\"t_s\":3.25}\n"
    "{\"event\":\"step\",\"step\":1,\"t_start_s\":4,\"t_end_s\":4.25,\"loss\":null}\n"
    "{\"event\":\"config\",\"flops_per_token\":100}\n"
    "{\"event\":\"done\",\"exit_code\":0,\"t_s\":5}\n";

static void parse(const char *text, struct rank_events *e)
{
    *e = (struct rank_events){0};
    rank_events_parse(text, strlen(text), e);
}

static void reads_a_whole_file(void)
{
    struct rank_events e;
    parse(whole, &e);
    CU_ASSERT(e.hello && e.done && e.config && !e.env && !e.torn);
    CU_ASSERT_EQUAL(e.lines, 12);
    CU_ASSERT_EQUAL(e.bad_lines, 0);
    CU_ASSERT_EQUAL(e.steps.count, 2);
    CU_ASSERT_NEAR(e.steps.items[0].loss, 4.5, 0);
    CU_ASSERT(isnan(e.steps.items[1].loss));
    CU_ASSERT(isnan(e.steps.items[1].fwd_s));
    CU_ASSERT_NEAR(rank_events_phase(&e, "eval")->total_s, 0.75, 1e-12);
    CU_ASSERT_EQUAL(e.comms.count, 2);
    CU_ASSERT_EQUAL(e.comms.items[0].count, 2);
    CU_ASSERT_NEAR(e.last_t_s, 5, 0);
    rank_events_release(&e);
}

/* A rank may be killed at any byte: what is whole counts, no more and no less. */
static void any_prefix_is_read(void)
{
    size_t n = strlen(whole);
    for (size_t cut = 0; cut <= n; cut++) {
        struct rank_events e = {0};
        rank_events_parse(whole, cut, &e);
        int64_t newlines = 0;
        for (size_t i = 0; i < cut; i++)
            newlines += whole[i] == '\n';
        CU_ASSERT_EQUAL(e.lines, newlines);
        CU_ASSERT_EQUAL(e.bad_lines, 0);
        CU_ASSERT_EQUAL(e.torn, cut > 0 && whole[cut - 1] != '\n');
        CU_ASSERT_EQUAL(e.done != NULL, cut == n);
        rank_events_release(&e);
    }
}

static void bad_lines_are_counted_and_left_out(void)
{
    static const char *const bad[] = {
        "not json\n",
        "[1]\n",
        "{\"event\":3}\n",
        "{\"no\":\"event\"}\n",
        "{\"event\":\"step\"}\n",
        "{\"event\":\"step\",\"step\":1,\"t_start_s\":2,\"t_end_s\":1}\n",
        "{\"event\":\"step\",\"step\":-1,\"t_start_s\":1,\"t_end_s\":2}\n",
        "{\"event\":\"step\",\"step\":1,\"t_start_s\":null,\"t_end_s\":1}\n",
        "{\"event\":\"step\",\"step\":1,\"t_start_s\":NaN,\"t_end_s\":1}\n",
        "{\"event\":\"step\",\"step\":1,\"t_start_s\":0,\"t_end_s\":1e999}\n",
        "{\"event\":\"step\",\"step\":1,\"step\":2,\"t_start_s\":0,\"t_end_s\":1}\n",
        "{\"event\":\"phase\",\"name\":\"eval\",\"edge\":\"end\",\"t_s\":1}\n",
        "{\"event\":\"phase\",\"name\":\"eval\",\"edge\":\"middle\",\"t_s\":1}\n",
        "{\"event\":\"comm\",\"op\":\"x\",\"bytes\":-1,\"time_us\":1}\n",
        "{\"event\":\"comm\",\"op\":\"x\",\"bytes\":1,\"time_us\":-1}\n",
        "{\"event\":\"hello\",\"name\":\"\xff\"}\n",
        "\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rank_events e;
        parse(bad[i], &e);
        CU_ASSERT_EQUAL(e.bad_lines, 1);
        CU_ASSERT(!e.hello && e.steps.count == 0 && e.comms.count == 0);
        rank_events_release(&e);
    }
}

static void odd_files_are_read_as_far_as_they_make_sense(void)
{
    struct rank_events e;
    /* A newer program's event; a step number that comes again; a second done. */
    parse("{\"event\":\"quantum\",\"t_s\":1}\n"
          "{\"event\":\"step\",\"step\":1,\"t_start_s\":1,\"t_end_s\":2}\n"
          "{\"event\":\"step\",\"step\":1,\"t_start_s\":2,\"t_end_s\":3}\n"
          "{\"event\":\"done\",\"exit_code\":0}\n{\"event\":\"done\",\"exit_code\":6}\n",
          &e);
    int64_t code = -1;
    CU_ASSERT_EQUAL(e.bad_lines, 2);
    CU_ASSERT_EQUAL(e.steps.count, 1);
    CU_ASSERT(json_read_i64(e.done, "exit_code", &code) && code == 0);
    rank_events_release(&e);
    /* A phase that never ended has a beginning and no duration. */
    parse("{\"event\":\"phase\",\"name\":\"eval\",\"edge\":\"begin\",\"t_s\":3}\n", &e);
    CU_ASSERT_NEAR(rank_events_phase(&e, "eval")->begin_s, 3, 0);
    CU_ASSERT(isnan(rank_events_phase(&e, "eval")->end_s));
    CU_ASSERT_NEAR(rank_events_phase(&e, "eval")->total_s, 0, 0);
    rank_events_release(&e);
}

static void put(const char *dir, const char *name, const char *text)
{
    struct error err = ERROR_INIT;
    auto_free char *path = mem_printf("%s/%s", dir, name);
    CU_ASSERT(fs_write_atomic(path, text, strlen(text), 8, &err) == 0);
    error_release(&err);
}

static void a_directory_holds_ranks_in_order(void)
{
    auto_free char *dir = unit_tmpdir();
    struct error err = ERROR_INIT;
    struct trial_events t;
    CU_ASSERT(trial_events_load(dir, &t, &err) == 0 && t.count == 0 && !trial_events_hello(&t));
    trial_events_release(&t);
    put(dir, "events.rank00010.jsonl", "{\"event\":\"hello\"}\n");
    put(dir, "events.rank00002.jsonl", "");
    put(dir, "events.rankx.jsonl", "");
    put(dir, "events.rank00001.jsonl.tmp", "");
    put(dir, "rank00001.out", "");
    CU_ASSERT(trial_events_load(dir, &t, &err) == 0);
    CU_ASSERT_EQUAL(t.count, 2);
    CU_ASSERT_EQUAL(t.items[0].rank, 2);
    CU_ASSERT_EQUAL(t.items[1].rank, 10);
    CU_ASSERT(trial_events_hello(&t));
    trial_events_release(&t);
    error_release(&err);
}

static void ranks_share_a_file(void)
{
    auto_free char *dir = unit_tmpdir();
    struct error err = ERROR_INIT;
    struct trial_events t;
    put(dir, "events.rank00007.jsonl", "{\"event\":\"hello\"}\n");
    put(dir, "events.node00000.jsonl",
        "\n{\"event\":\"hello\",\"by_rank\":3}\n"
        "\n{\"event\":\"hello\",\"by_rank\":1}\n{\"event\":\"done\",\"by_rank\":1,\"exit_code\":0}"
        "\n"
        "\n{\"event\":\"step\",\"by_rank\":3,\"ste" /* killed in the middle of a write */
        "\n{\"event\":\"hello\",\"by_rank\":2}\n"
        "\n{\"event\":\"hello\"}\n" /* nobody's */
        "\n{\"event\":\"hello\",\"by_rank\":-4}\n"
        "\n{\"event\":\"hello\",\"by_rank\":99999999999}\n"
        "\n{\"by_rank\":2}\n"
        "\n{\"event\":\"done\",\"by_rank\":2");
    put(dir, "events.node00001.jsonl", "\n{\"event\":\"hello\",\"by_rank\":0}\n");
    put(dir, "events.nodex.jsonl", "\n{\"event\":\"hello\",\"by_rank\":8}\n");
    CU_ASSERT(trial_events_load(dir, &t, &err) == 0);
    const int ranks[] = {0, 1, 2, 3, 7};
    CU_ASSERT_EQUAL_FATAL(t.count, 5);
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(t.items[i].rank, ranks[i]);
        CU_ASSERT_EQUAL(t.items[i].hellos, 1);
    }
    CU_ASSERT(t.items[1].done != NULL && t.items[2].done == NULL && t.items[3].done == NULL);
    CU_ASSERT_EQUAL(t.items[2].bad_lines, 1);
    CU_ASSERT_EQUAL(t.files, 3);
    CU_ASSERT_EQUAL(t.nobodys_lines, 4);
    CU_ASSERT_EQUAL(t.torn_files, 1);
    trial_events_release(&t);
    error_release(&err);
}

static void the_last_step_is_found(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/e", dir);
    CU_ASSERT_EQUAL(events_last_step(path), -1);
    auto_str text = STR_INIT;
    for (int i = 0; i < 200; i++)
        str_appendf(&text, "{\"event\":\"step\",\"step\":%d,\"t_start_s\":1,\"t_end_s\":2}\n", i);
    str_append(&text, "{\"event\":\"comm\",\"step\":900}\n{\"event\":\"step\",\"ste");
    put(dir, "e", text.data);
    CU_ASSERT_EQUAL(events_last_step(path), 199);
}

UNIT_MAIN({"reads a whole file", reads_a_whole_file}, {"any prefix is read", any_prefix_is_read},
          {"bad lines are counted and left out", bad_lines_are_counted_and_left_out},
          {"odd files are read as far as they make sense",
           odd_files_are_read_as_far_as_they_make_sense},
          {"a directory holds ranks in order", a_directory_holds_ranks_in_order},
          {"ranks that share a file", ranks_share_a_file},
          {"the last step is found", the_last_step_is_found})
