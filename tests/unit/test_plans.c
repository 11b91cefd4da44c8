/* Stored plans: the store, its file's text, and what becomes of files that are not ours. */
#include "kernels/plan_files.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char identity[] = "NVIDIA H200/sm90";

static struct plan_store store_of(enum plan_mode mode)
{
    struct plan_store s;
    plan_store_open(&s, identity, mode);
    return s;
}

static char *path_in(const char *folder)
{
    return mem_printf("%s/NVIDIA-H200-sm90.txt", folder);
}

static void keys(void)
{
    static const char *const good[] = {"a", "gemm 1 2 3 01", "x.y_z-1"};
    static const char *const bad[] = {"", " a", "a ", "a  b", "a=b", "a\nb", "\xc3\xa4", "a/b"};
    char longest[PLAN_KEY_MAX];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CU_ASSERT(plan_key_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT(!plan_key_valid(bad[i], strlen(bad[i])));
    memset(longest, 'a', sizeof longest);
    CU_ASSERT(plan_key_valid(longest, PLAN_KEY_MAX - 1));
    CU_ASSERT(!plan_key_valid(longest, PLAN_KEY_MAX));
}

static void modes(void)
{
    static const enum plan_mode all[] = {PLANS_AUTO, PLANS_STORED, PLANS_TIME, PLANS_FIRST};
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(plan_mode_of(plan_mode_name(all[i])), all[i]);
        struct plan_store s = store_of(all[i]);
        CU_ASSERT_STR(s.identity, "NVIDIA-H200-sm90");
        CU_ASSERT(plan_store_add(&s, "gemm 1", "v", 1));
        CU_ASSERT_EQUAL(plan_store_find(&s, "gemm 1", 1) != NULL, i < 2);
        plan_store_close(&s);
    }
    CU_ASSERT_EQUAL(plan_mode_of(NULL), PLANS_AUTO);
}

static void store(void)
{
    struct plan_store s = store_of(PLANS_AUTO);
    CU_ASSERT(plan_store_add(&s, "a", "12", 2));
    CU_ASSERT(!plan_store_add(&s, "a", "34", 2)); /* the first stays */
    CU_ASSERT(!plan_store_add(&s, "b", "", 0));
    CU_ASSERT(!plan_store_add(&s, "b", s.identity, PLAN_VALUE_MAX + 1));
    CU_ASSERT(!plan_store_add(&s, "b=", "1", 1));
    CU_ASSERT_PTR_NULL(plan_store_find(&s, "a", 3)); /* of another size: not what we wrote */
    CU_ASSERT_PTR_NULL(plan_store_find(&s, "b", 2));
    const struct plan *p = plan_store_find(&s, "a", 2);
    CU_ASSERT_FATAL(p != NULL);
    CU_ASSERT(!memcmp(p->value, "12", 2));
    CU_ASSERT_EQUAL(plan_store_taken(&s, PLAN_STORED), 0);
    plan_store_take(&s, "a", "12", 2, PLAN_STORED);
    plan_store_take(&s, "b", "x", 1, PLAN_TIMED);
    plan_store_take(&s, "c", "y", 1, PLAN_FIRST);
    CU_ASSERT_EQUAL(plan_store_taken(&s, PLAN_STORED), 1);
    CU_ASSERT_EQUAL(plan_store_taken(&s, PLAN_TIMED), 1);
    CU_ASSERT_EQUAL(plan_store_taken(&s, PLAN_FIRST), 1);
    CU_ASSERT_PTR_NULL(plan_store_find(&s, "b", 1)); /* chosen here, not stored */
    plan_store_refuse(&s, "a");
    CU_ASSERT_PTR_NULL(plan_store_find(&s, "a", 2));
    plan_store_close(&s);
}

/* Three plans as text. */
static void sample(struct str *out)
{
    struct plan_store s = store_of(PLANS_AUTO);
    unsigned char all[PLAN_VALUE_MAX];
    for (int i = 0; i < PLAN_VALUE_MAX; i++)
        all[i] = (unsigned char)(i * 37);
    plan_store_add(&s, "gemm 1 2 3", all, sizeof all);
    plan_store_take(&s, "relu2 forward 4", "\x02", 1, PLAN_TIMED);
    plan_store_take(&s, "gemm small", "\x01", 1, PLAN_FIRST); /* not kept: nobody chose it */
    plan_store_add(&s, "z", "\xff", 1);
    plan_text_write(&s, out);
    plan_store_close(&s);
}

static bool reads(const char *text, size_t length, const char **why)
{
    struct plan_store s = store_of(PLANS_AUTO);
    const bool ok = plan_text_read(&s, text, length, why);
    CU_ASSERT_EQUAL(s.count, ok ? 3 : 0);
    plan_store_close(&s);
    return ok;
}

static void text_and_back(void)
{
    auto_str text = STR_INIT, again = STR_INIT;
    const char *why = NULL;
    sample(&text);
    struct plan_store s = store_of(PLANS_AUTO);
    CU_ASSERT_FATAL(plan_text_read(&s, text.data, text.len, &why));
    CU_ASSERT_EQUAL(s.count, 3);
    const struct plan *p = plan_store_find(&s, "gemm 1 2 3", PLAN_VALUE_MAX);
    CU_ASSERT(p && p->value[1] == 37 && p->value[63] == (unsigned char)(63 * 37));
    plan_text_write(&s, &again);
    CU_ASSERT_STR(again.data, text.data);
    plan_store_close(&s);
}

/* Cut anywhere, or with any one bit turned, it holds nothing. */
static void torn_or_changed(void)
{
    auto_str text = STR_INIT;
    const char *why;
    sample(&text);
    CU_ASSERT(reads(text.data, text.len, &why));
    for (size_t n = 0; n < text.len; n++)
        CU_ASSERT(!reads(text.data, n, &why));
    for (size_t bit = 0; bit < 8 * text.len; bit++) {
        text.data[bit / 8] ^= (char)(1 << bit % 8);
        CU_ASSERT(!reads(text.data, text.len, &why));
        text.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    str_append(&text, "\n");
    CU_ASSERT(!reads(text.data, text.len, &why));
}

/* With a checksum that holds, so that what stands before it decides. */
static const char *refusal(const char *body)
{
    static const char *why;
    auto_str text = STR_INIT;
    char sum[SHA256_HEX];
    str_append(&text, body);
    sha256_hex(text.data, text.len, sum);
    str_appendf(&text, "sha256 %s\n", sum);
    struct plan_store s = store_of(PLANS_AUTO);
    why = "";
    const bool ok = plan_text_read(&s, text.data, text.len, &why);
    CU_ASSERT(ok || s.count == 0);
    plan_store_close(&s);
    return ok ? "taken" : why;
}

static void foreign(void)
{
#define HEAD "nanochat plans 1\nNVIDIA-H200-sm90\n"
    CU_ASSERT_STR(refusal(HEAD), "taken");
    CU_ASSERT_STR(refusal(HEAD "a=00\nb=ff\n"), "taken");
    CU_ASSERT_STR(refusal("nanochat plans 2\nNVIDIA-H200-sm90\n"), "no plans of this version");
    CU_ASSERT_STR(refusal(""), "no plans of this version");
    CU_ASSERT_STR(refusal("nanochat plans 1\nNVIDIA-H100-sm90\na=00\n"),
                  "of another device, driver or library");
    CU_ASSERT_STR(refusal("nanochat plans 1\n"), "of another device, driver or library");
    static const char *const lines[] = {
        "\n",      "a\n",      "a=\n",         "a=0\n",   "a=0g\n",    "a=0A\n",  "=00\n",
        " a=00\n", "a b =0\n", "a=00\na=00\n", "a=00 \n", "a=00\nb=0", "a=00\r\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        auto_free char *body = mem_printf(HEAD "%s", lines[i]);
        CU_ASSERT_STR(refusal(body), "a line is no plan");
    }
    auto_str longer = STR_INIT;
    str_append(&longer, HEAD "a=");
    for (int i = 0; i <= PLAN_VALUE_MAX; i++)
        str_append(&longer, "00");
    str_append(&longer, "\n");
    CU_ASSERT_STR(refusal(longer.data), "a line is no plan");
}

static void too_many(void)
{
    auto_str body = STR_INIT;
    str_append(&body, HEAD);
    for (int i = 0; i < PLANS_MAX; i++)
        str_appendf(&body, "k%d=00\n", i);
    CU_ASSERT_STR(refusal(body.data), "taken");
    str_append(&body, "one.more=00\n");
    CU_ASSERT_STR(refusal(body.data), "a line is no plan");
}

static void take_and_save(const char *folder, const char *key, const char *value)
{
    struct error err = ERROR_INIT;
    const char *why;
    struct plan_store s = store_of(PLANS_AUTO);
    plan_files_load(&s, folder, &why);
    plan_store_take(&s, key, value, strlen(value), PLAN_TIMED);
    CU_ASSERT_EQUAL(plan_files_save(&s, folder, &err), 0);
    error_release(&err);
    plan_store_close(&s);
}

static void expect(const char *folder, const char *key, const char *value)
{
    const char *why = "";
    struct plan_store s = store_of(PLANS_STORED);
    CU_ASSERT(plan_files_load(&s, folder, &why));
    const struct plan *p = plan_store_find(&s, key, strlen(value));
    CU_ASSERT(p && !memcmp(p->value, value, strlen(value)));
    plan_store_close(&s);
}

static void files(void)
{
    auto_free char *base = unit_tmpdir();
    auto_free char *folder = mem_printf("%s/not/there", base);
    take_and_save(folder, "a", "one");
    expect(folder, "a", "one");
    take_and_save(folder, "b", "two");
    expect(folder, "a", "one");
    expect(folder, "b", "two");
    struct strv names = STRV_INIT;
    struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(fs_list_dir(folder, &names, NANOCHAT_EXIT_DATA, &err), 0);
    CU_ASSERT_EQUAL(names.count, 2); /* the plans and their lock: nothing aside is left */
    strv_release(&names);
}

/* Ranks that own different matrices time different shapes, and end at the same moment. */
static void ranks_at_once(void)
{
    enum { N = 8 };
    auto_free char *folder = unit_tmpdir();
    pid_t ranks[N];
    for (int r = 0; r < N; r++) {
        ranks[r] = fork();
        if (ranks[r])
            continue;
        char key[16];
        for (int i = 0; i < 5; i++) {
            snprintf(key, sizeof key, "r%d.%d", r, i);
            take_and_save(folder, key, key);
        }
        _exit(0);
    }
    for (int r = 0; r < N; r++) {
        int status = 1;
        CU_ASSERT_EQUAL(waitpid(ranks[r], &status, 0), ranks[r]);
        CU_ASSERT_EQUAL(status, 0);
    }
    for (int r = 0; r < N; r++)
        for (int i = 0; i < 5; i++) {
            char key[16];
            snprintf(key, sizeof key, "r%d.%d", r, i);
            expect(folder, key, key);
        }
}

/* Two runs at once: whoever was first with a key keeps it, unless the library refused that. */
static void meanwhile(void)
{
    auto_free char *folder = unit_tmpdir();
    struct error err = ERROR_INIT;
    const char *why;
    struct plan_store s = store_of(PLANS_AUTO);
    CU_ASSERT(!plan_files_load(&s, folder, &why));
    CU_ASSERT_STR(why, "no file");
    plan_store_take(&s, "a", "mine", 4, PLAN_TIMED);
    plan_store_take(&s, "b", "mine", 4, PLAN_TIMED);
    take_and_save(folder, "a", "hers");
    CU_ASSERT_EQUAL(plan_files_save(&s, folder, &err), 0);
    expect(folder, "a", "hers");
    expect(folder, "b", "mine");
    plan_store_close(&s);

    s = store_of(PLANS_AUTO);
    CU_ASSERT(plan_files_load(&s, folder, &why));
    plan_store_refuse(&s, "a");
    plan_store_take(&s, "a", "new", 3, PLAN_TIMED);
    CU_ASSERT_EQUAL(plan_files_save(&s, folder, &err), 0);
    plan_store_close(&s);
    expect(folder, "a", "new");
    expect(folder, "b", "mine");
}

/* What is there and is no file of ours is no error, and the next run replaces it. */
static void replaces_what_is_broken(void)
{
    auto_free char *folder = unit_tmpdir();
    auto_free char *path = path_in(folder);
    const char *why;
    unit_write(path, "\0garbage", 8);
    struct plan_store s = store_of(PLANS_AUTO);
    CU_ASSERT(!plan_files_load(&s, folder, &why));
    CU_ASSERT_EQUAL(s.count, 0);
    plan_store_close(&s);
    take_and_save(folder, "a", "one");
    expect(folder, "a", "one");
    auto_free char *large = mem_zalloc(PLAN_FILE_BYTES_MAX + 1, 1);
    unit_write(path, large, PLAN_FILE_BYTES_MAX + 1);
    s = store_of(PLANS_AUTO);
    CU_ASSERT(!plan_files_load(&s, folder, &why));
    CU_ASSERT_STR(why, "too large for one");
    plan_store_close(&s);
}

/* Only auto writes, and only what was timed. */
static void keeps_nothing(void)
{
    auto_free char *folder = unit_tmpdir();
    auto_free char *path = path_in(folder);
    static const enum plan_mode others[] = {PLANS_STORED, PLANS_TIME, PLANS_FIRST};
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < 3; i++) {
        struct plan_store s = store_of(others[i]);
        plan_store_take(&s, "a", "x", 1, PLAN_TIMED);
        CU_ASSERT_EQUAL(plan_files_save(&s, folder, &err), 0);
        plan_store_close(&s);
    }
    struct plan_store s = store_of(PLANS_AUTO);
    plan_store_take(&s, "a", "x", 1, PLAN_FIRST);
    CU_ASSERT_EQUAL(plan_files_save(&s, folder, &err), 0);
    plan_store_close(&s);
    CU_ASSERT(!fs_exists(path));
}

static void digests(void)
{
    char one[SHA256_HEX], two[SHA256_HEX];
    struct plan_store a = store_of(PLANS_AUTO), b = store_of(PLANS_STORED);
    plan_store_take(&a, "x", "1", 1, PLAN_TIMED);
    plan_store_take(&a, "y", "2", 1, PLAN_FIRST);
    plan_store_add(&b, "unused", "3", 1);
    plan_store_take(&b, "y", "2", 1, PLAN_FIRST);
    plan_store_take(&b, "x", "1", 1, PLAN_STORED);
    plan_digest(&a, one);
    plan_digest(&b, two);
    CU_ASSERT_STR(one, two);
    plan_store_take(&b, "x", "4", 1, PLAN_TIMED);
    plan_digest(&b, two);
    CU_ASSERT(strcmp(one, two) != 0);
    plan_store_close(&a);
    plan_store_close(&b);
}

UNIT_MAIN({"ranks at once", ranks_at_once}, {"keys", keys}, {"modes", modes}, {"the store", store},
          {"text and back", text_and_back}, {"torn or changed", torn_or_changed},
          {"foreign text", foreign}, {"too many", too_many}, {"files", files},
          {"two runs at once", meanwhile}, {"what is broken", replaces_what_is_broken},
          {"modes that keep nothing", keeps_nothing}, {"digests", digests})
