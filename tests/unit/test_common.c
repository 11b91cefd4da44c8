/* Strings, errors, files, JSON, clock and spawning. */
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "common/spawn.h"
#include "common/str.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>

static void errors_keep_the_cause(void)
{
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(error_set(&err, 7, "first %d", 1), -7);
    CU_ASSERT_EQUAL(error_set(&err, 3, "second"), -7);
    CU_ASSERT_EQUAL(error_wrap(&err, "context"), -7);
    CU_ASSERT_STR(err.message, "context: first 1");
    error_hint(&err, "try %s", "this");
    CU_ASSERT_STR(err.hint, "try this");
    struct error other = ERROR_INIT;
    error_move(&other, &err);
    CU_ASSERT_EQUAL(err.code, 0);
    CU_ASSERT_EQUAL(other.code, 7);
    error_release(&other);
}

static void strings_grow(void)
{
    auto_str s = STR_INIT;
    CU_ASSERT_STR(s.data, "");
    for (int i = 0; i < 1000; i++)
        str_appendf(&s, "%d,", i % 10);
    CU_ASSERT_EQUAL(s.len, 2000);
    str_truncate(&s, 4);
    CU_ASSERT_STR(s.data, "0,1,");
    str_append_n(&s, "a\0b", 3);
    CU_ASSERT_EQUAL(s.len, 7);
    char *taken = str_steal(&s);
    CU_ASSERT_STR(s.data, "");
    free(taken);
}

static void environment_vectors(void)
{
    auto_strv env = STRV_INIT;
    strv_env_set(&env, "A", "1");
    strv_env_set(&env, "AB", "2");
    strv_env_set(&env, "A", "");
    CU_ASSERT_EQUAL(env.count, 2);
    CU_ASSERT_STR(strv_env_get(&env, "A"), "");
    CU_ASSERT_STR(strv_env_get(&env, "AB"), "2");
    CU_ASSERT_PTR_NULL(strv_env_get(&env, "B"));
    CU_ASSERT_PTR_NULL(env.items[env.count]);
}

static void nearest_words(void)
{
    static const char *const words[] = {"bare", "podman", "command"};
    CU_ASSERT_STR(str_nearest("podmann", words, 3), "podman");
    CU_ASSERT_STR(str_nearest("bar", words, 3), "bare");
    CU_ASSERT_PTR_NULL(str_nearest("kubernetes", words, 3));
}

static void utf8_is_cut_between_characters(void)
{
    const char text[] = "a\xc3\xbc\xe2\x82\xac"; /* aü€ */
    static const size_t cut[] = {0, 1, 1, 3, 3, 3, 6, 6};
    for (size_t max = 0; max < sizeof cut / sizeof *cut; max++)
        CU_ASSERT_EQUAL(str_utf8_cut(text, 6, max), cut[max]);
}

static void utf8(void)
{
    static const struct {
        const char *bytes;
        size_t len, valid;
    } rows[] = {{"abc", 3, 3},          {"\xF0\x9F\x99\x8B", 4, 4}, {"\xC0\x80", 2, 0},
                {"\xED\xA0\x80", 3, 0}, {"a\xE2\x82", 3, 1},        {"\xF4\x90\x80\x80", 4, 0},
                {"\xFF", 1, 0},         {"\xC3\xA4z", 3, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CU_ASSERT_EQUAL(str_utf8_valid(rows[i].bytes, rows[i].len), rows[i].valid);
    auto_str s = STR_INIT;
    str_append_printable(&s, "a\xFF\x01\n", 4);
    CU_ASSERT_STR(s.data, "a\xEF\xBF\xBD\\x01\n");
}

static void files_are_replaced_whole(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/a/b/file", dir);
    auto_free char *parent = fs_dirname(path);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(fs_mkdir_p(parent, 8, &err), 0);
    CU_ASSERT_EQUAL(fs_write_atomic(path, "one", 3, 8, &err), 0);
    CU_ASSERT_EQUAL(fs_write_atomic(path, "two!", 4, 8, &err), 0);
    auto_str text = STR_INIT;
    CU_ASSERT_EQUAL(fs_read_file(path, &text, 8, &err), 0);
    CU_ASSERT_STR(text.data, "two!");
    auto_strv names = STRV_INIT;
    CU_ASSERT_EQUAL(fs_list_dir(parent, &names, 8, &err), 0);
    CU_ASSERT_EQUAL(names.count, 1); /* nothing left aside */
    CU_ASSERT_EQUAL(fs_remove_tree(dir, 8, &err), 0);
    CU_ASSERT_FALSE(fs_exists(dir));
    CU_ASSERT_EQUAL(fs_remove_tree(dir, 8, &err), 0);
}

static void full_disks_are_errors(void)
{
    auto_error struct error err = ERROR_INIT;
    auto_close int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CU_ASSERT_EQUAL(fs_write_all(fd, "/dev/full", "x", 1, 8, &err), -8);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "No space left on device"));
}

static void sha256(void)
{
    char hex[SHA256_HEX];
    sha256_hex("abc", 3, hex); /* FIPS 180-2, appendix B.1 */
    CU_ASSERT_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void system_files_below_a_root(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/number", dir);
    auto_error struct error err = ERROR_INIT;
    fs_write_atomic(path, "17\n", 3, 8, &err);
    setenv(ENV_FSROOT, dir, 1);
    int64_t v = 0;
    CU_ASSERT_TRUE(fs_sys_read_i64("/number", &v));
    CU_ASSERT_EQUAL(v, 17);
    CU_ASSERT_FALSE(fs_sys_read_i64("/absent", &v));
    unsetenv(ENV_FSROOT);
}

static void json_is_strict(void)
{
    auto_json *obj = json_object();
    json_put_f64(obj, "tenth", 0.1);
    json_put_f64(obj, "whole", 2);
    json_put_f64(obj, "nan", NAN);
    json_put_null(obj, "mfu", "peak unknown");
    json_put_str(obj, "bytes", "a\xFF\n\"");
    auto_str text = STR_INIT;
    json_write(&text, obj, 0);
    CU_ASSERT_STR(text.data, "{\"tenth\":0.1,\"whole\":2.0,\"nan\":null,\"mfu\":null,"
                             "\"mfu_why\":\"peak unknown\",\"bytes\":\"a\xEF\xBF\xBD\\n\\\"\"}");
    auto_error struct error err = ERROR_INIT;
    auto_json *back = NULL;
    CU_ASSERT_EQUAL(json_parse(text.data, text.len, "text", 8, &back, &err), 0);
    CU_ASSERT_TRUE(json_equal(obj, back));
    static const char *const bad[] = {"{\"a\":1,\"a\":2}", "{\"a\":NaN}", "{\"a\":1} x", "",
                                      "{'a':1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = ERROR_INIT;
        json_t *none = NULL;
        CU_ASSERT_EQUAL(json_parse(bad[i], strlen(bad[i]), "bad", 8, &none, &e), -8);
        error_release(&e);
    }
}

static void json_paths(void)
{
    auto_error struct error err = ERROR_INIT;
    auto_json *obj = NULL;
    const char *text = "{\"a\": {\"b\": {\"c\": 3, \"s\": \"x\"}}, \"n\": null}";
    CU_ASSERT_EQUAL(json_parse(text, strlen(text), "t", 8, &obj, &err), 0);
    double f = -1;
    CU_ASSERT_TRUE(json_read_f64(obj, "a.b.c", &f));
    CU_ASSERT_EQUAL(f, 3);
    CU_ASSERT_STR(json_read_str(obj, "a.b.s"), "x");
    CU_ASSERT_FALSE(json_read_f64(obj, "n", &f));
    CU_ASSERT_FALSE(json_read_f64(obj, "a.x.c", &f));
}

static void outcomes_have_names(void)
{
    for (enum outcome o = OUTCOME_OK; o < OUTCOME_COUNT; o++)
        CU_ASSERT_EQUAL(outcome_from_name(outcome_name(o)), o);
    CU_ASSERT_EQUAL(outcome_from_name("nonsense"), OUTCOME_COUNT);
}

static void clocks_agree(void)
{
    double start = clock_process_start_s(), now = clock_mono_s();
    CU_ASSERT_TRUE(start > 0 && start <= now + 0.02);
    CU_ASSERT_TRUE(now - start < 3600);
}

static void spawning_reports_the_failed_step(void)
{
    char *absent[] = {"/nonexistent/program", NULL};
    char *blocked[] = {"/etc/passwd", NULL};
    char *fine[] = {"true", NULL};
    auto_error struct error err = ERROR_INIT;
    struct spawn s = {.argv = absent};
    CU_ASSERT_EQUAL(spawn_start(&s, 4, &err), -4);
    CU_ASSERT_EQUAL(s.failed_step, SPAWN_EXEC);
    CU_ASSERT_EQUAL(s.failed_errno, ENOENT);
    error_release(&err);
    s = (struct spawn){.argv = blocked};
    CU_ASSERT_EQUAL(spawn_start(&s, 4, &err), -4);
    CU_ASSERT_EQUAL(s.failed_errno, EACCES);
    error_release(&err);
    s = (struct spawn){.argv = fine, .cwd = "/nonexistent"};
    CU_ASSERT_EQUAL(spawn_start(&s, 4, &err), -4);
    CU_ASSERT_EQUAL(s.failed_step, SPAWN_CHDIR);
    error_release(&err);
}

static void capturing(void)
{
    char *argv[] = {"sh", "-c", "echo out; echo err >&2; cat; exit 3", NULL};
    auto_str out = STR_INIT, errout = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    int status = 0;
    CU_ASSERT_EQUAL(spawn_capture(argv, NULL, 10, &out, &errout, &status, 4, &err), 0);
    CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    CU_ASSERT_STR(out.data, "out\n");
    CU_ASSERT_STR(errout.data, "err\n");
}

static void capturing_has_a_deadline(void)
{
    /* the shell is gone at once, but its child keeps the stream open: both must end */
    char *argv[] = {"sh", "-c", "sleep 60 & exec sleep 60", NULL};
    auto_error struct error err = ERROR_INIT;
    int status = 0;
    double t0 = clock_mono_s();
    CU_ASSERT_EQUAL(spawn_capture(argv, NULL, 0.3, NULL, NULL, &status, 4, &err), -4);
    CU_ASSERT_TRUE(clock_mono_s() - t0 < 60); /* what they would have taken */
}

static void capturing_is_interrupted(void)
{
    char *argv[] = {"sh", "-c", "exec sleep 60", NULL};
    auto_error struct error err = ERROR_INIT;
    sigset_t set, before;
    int status = 0, sig = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before);
    spawn_interrupted_by(&set);
    raise(SIGTERM);
    CU_ASSERT_EQUAL(spawn_capture(argv, NULL, 60, NULL, NULL, &status, 4, &err), -4);
    CU_ASSERT(err.message && strstr(err.message, "was interrupted"));
    spawn_interrupted_by(NULL);
    CU_ASSERT_EQUAL(sigwait(&set, &sig), 0); /* it was left to the caller */
    sigprocmask(SIG_SETMASK, &before, NULL);
}

UNIT_MAIN({"errors keep the cause", errors_keep_the_cause},
          {"capturing is interrupted", capturing_is_interrupted}, {"strings grow", strings_grow},
          {"environment vectors", environment_vectors}, {"nearest words", nearest_words},
          {"UTF-8", utf8}, {"UTF-8 is cut between characters", utf8_is_cut_between_characters},
          {"files are replaced whole", files_are_replaced_whole},
          {"full disks are errors", full_disks_are_errors}, {"SHA-256", sha256},
          {"system files below a root", system_files_below_a_root},
          {"JSON is strict", json_is_strict}, {"JSON paths", json_paths},
          {"outcomes have names", outcomes_have_names}, {"clocks agree", clocks_agree},
          {"spawning reports the failed step", spawning_reports_the_failed_step},
          {"capturing", capturing}, {"capturing has a deadline", capturing_has_a_deadline})
