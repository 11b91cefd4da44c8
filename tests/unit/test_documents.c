/* Documents of a text: paragraphs, dictionaries, splits, files that are none. */
#include "workload/data.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>

static void write_gzip(const char *path, const char *text, size_t len)
{
    gzFile gz = gzopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(gz);
    CU_ASSERT_EQUAL(gzwrite(gz, text, (unsigned)len), (int)len);
    CU_ASSERT_EQUAL(gzclose(gz), Z_OK);
}

/* The documents of a split, joined by '|'. */
static char *documents_of(const char *path, enum split split, int64_t val_every, int64_t val_files,
                          struct data_summary *summary)
{
    auto_error struct error err = ERROR_INIT;
    struct documents *d = NULL;
    auto_str out = STR_INIT;
    if (documents_open(&d, path, split, val_every, val_files, &err))
        return mem_printf("error %d: %s", err.code, err.message);
    const char *doc;
    size_t len;
    int rc;
    while (!(rc = documents_next(d, &doc, &len, &err)) && doc) {
        if (out.len)
            str_append_char(&out, '|');
        str_append_n(&out, doc, len);
    }
    if (summary)
        documents_summary(d, summary);
    documents_close(d);
    return rc ? mem_printf("error %d: %s", err.code, err.message) : str_steal(&out);
}

static void expect_documents(const char *path, enum split split, const char *expected)
{
    auto_free char *found = documents_of(path, split, 0, 0, NULL);
    CU_ASSERT_STR(found, expected);
}

static void splits_paragraphs(void)
{
    static const char *const table[][2] = {
        {"", ""},
        {"one", "one"},
        {"one\ntwo\n\nthree\n", "one\ntwo|three"},
        {"\n\n \t\r\n  a\nb\n \n\n\nc", "  a\nb|c"},
        {"\r\na\r\n\r\nb\r\n", "a\r|b\r"},
        {"a\n<|endoftext|> x\n\nb\n", "a\n<|endoftext|> x|b"},
        {"a\n\nb\n<|endoftext|>\nc\n", "a\n\nb|c"},
        {"<|endoftext|>\r\na\n<|endoftext|>\n \n<|endoftext|>\nb\n<|endoftext|>", "a|b"},
    };
    auto_free char *dir = unit_tmpdir();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        auto_free char *plain = unit_file(dir, "plain", table[i][0]);
        auto_free char *zipped = mem_printf("%s/zipped.gz", dir);
        write_gzip(zipped, table[i][0], strlen(table[i][0]));
        expect_documents(plain, SPLIT_TRAIN, table[i][1]);
        expect_documents(zipped, SPLIT_TRAIN, table[i][1]);
    }
}

static void counts_what_it_sees(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = unit_file(dir, "a.txt",
                                     "<|endoftext|>\nab\xFF\n<|endoftext|>\n\n \t\n<|endoftext|>\n"
                                     "<|endoftext|>\n\xC3\xA9\xED\xA0\x80\n");
    struct data_summary s;
    auto_free char *docs = documents_of(path, SPLIT_TRAIN, 0, 0, &s);
    CU_ASSERT_STR(docs, "ab\xFF|\xC3\xA9\xED\xA0\x80");
    CU_ASSERT_EQUAL(s.documents, 2);
    CU_ASSERT_EQUAL(s.empty_documents, 3);
    CU_ASSERT_EQUAL(s.invalid_bytes, 4);
    CU_ASSERT_EQUAL(s.bytes, 8);
}

/* Paragraphs of every length around the sizes of reads and buffers, a sequence cut by each. */
static void reads_across_buffers(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/big", dir);
    auto_str text = STR_INIT;
    size_t n = 0;
    for (size_t size = 1; text.len < 3 << 20; n++, size = size * 5 % 300007 + 1) {
        str_appendf(&text, "%zu:", n);
        for (size_t i = 0; i < size; i++)
            str_append(&text, i % 50 == 49 ? "\n" : "\xC3\xA9");
        str_append(&text, ".\n\n");
    }
    unit_write(path, text.data, text.len);
    auto_error struct error err = ERROR_INIT;
    struct documents *d = NULL;
    CU_ASSERT_EQUAL_FATAL(documents_open(&d, path, SPLIT_TRAIN, 1 << 30, 0, &err), 0);
    const char *doc;
    size_t len, count = 0, at = 0;
    while (!documents_next(d, &doc, &len, &err) && doc) {
        CU_ASSERT_TRUE(at + len <= text.len && !memcmp(text.data + at, doc, len));
        at += len + 2;
        count++;
    }
    CU_ASSERT_EQUAL(count, n);
    CU_ASSERT_EQUAL(at, text.len);
    struct data_summary s;
    documents_summary(d, &s);
    CU_ASSERT_EQUAL(s.invalid_bytes, 0);
    documents_close(d);
}

/* Offsets: info 0+5, aa 5+4, bb 9+4, gap, cc 15+4. A = 0, B = 1 … */
static void reads_dictd(void)
{
    auto_free char *dir = unit_tmpdir();
    static const char text[] = "INFO\naaa\nbbb\n..ccc\n";
    static const char index[] = "00-database-info\tA\tF\n00-x-short\tA\tF\ncc\tP\tE\naa\tF\tE\n"
                                "aa again\tF\tE\tAa\nbb\tJ\tE\n";
    auto_free char *plain = unit_file(dir, "w.dict", text);
    auto_free char *zipped = mem_printf("%s/z.dict.dz", dir);
    write_gzip(zipped, text, strlen(text));
    auto_free char *i1 = unit_file(dir, "w.index", index);
    auto_free char *i2 = unit_file(dir, "z.index", index);
    expect_documents(plain, SPLIT_TRAIN, "aaa|bbb|ccc");
    expect_documents(zipped, SPLIT_TRAIN, "aaa|bbb|ccc");
    auto_free char *val = documents_of(plain, SPLIT_VAL, 2, 0, NULL);
    CU_ASSERT_STR(val, "bbb");
    /* In a directory the indexes are no shards: w trains, z is validation. */
    expect_documents(dir, SPLIT_VAL, "aaa|bbb|ccc");
    static const char *const broken[] = {
        "aa\tF\n", "aa\n", "aa\t\tE\n", "aa\tF\t-\n", "aa\tZZZZZZZZZZZZ\tE\n", "aa\tF\tzzzz\n"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        auto_free char *bad = unit_file(dir, "w.index", broken[i]);
        auto_free char *found = documents_of(plain, SPLIT_TRAIN, 0, 0, NULL);
        CU_ASSERT_EQUAL(strncmp(found, "error 5", 7), 0);
    }
}

static void keeps_validation_apart(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = unit_file(dir, "x.txt", "a\n\nb\n\nc\n\nd\n\ne\n\nf\n\ng\n");
    auto_free char *train = documents_of(path, SPLIT_TRAIN, 3, 0, NULL);
    auto_free char *val = documents_of(path, SPLIT_VAL, 3, 0, NULL);
    CU_ASSERT_STR(train, "a|b|d|e|g");
    CU_ASSERT_STR(val, "c|f");
    expect_documents(dir, SPLIT_TRAIN,
                     "error 5: train split is empty: 1 shard found, the last is "
                     "kept for validation");
    auto_free char *y = unit_file(dir, "y.txt", "h\n\ni\n");
    auto_free char *z = unit_file(dir, "z.txt", "j\n");
    auto_free char *tmp = unit_file(dir, "zz.txt.tmp", "no\n");
    auto_free char *hidden = unit_file(dir, ".zzz", "no\n");
    expect_documents(dir, SPLIT_TRAIN, "a|b|c|d|e|f|g|h|i");
    expect_documents(dir, SPLIT_VAL, "j");
    auto_free char *two = documents_of(dir, SPLIT_VAL, 0, 2, NULL);
    CU_ASSERT_STR(two, "h|i|j");
    auto_free char *three = documents_of(dir, SPLIT_TRAIN, 0, 3, NULL);
    CU_ASSERT_STR(three, "error 5: train split is empty: 3 shards found, the last 3 are kept for "
                         "validation");
}

static void refuses_bad_files(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *parquet = unit_file(dir, "a.parquet", "PAR1xxxxPAR1");
    auto_free char *zstd = unit_file(dir, "a.zst", "\x28\xB5\x2F\xFDzzz");
    auto_free char *cut = mem_printf("%s/cut.gz", dir);
    auto_str text = STR_INIT, packed = STR_INIT;
    for (int i = 0; i < 20000; i++)
        str_appendf(&text, "line %d\n\n", i * 7919);
    write_gzip(cut, text.data, text.len);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(fs_read_file(cut, &packed, 1, &err), 0);
    auto_free char *missing = mem_printf("%s/none", dir);
    const char *const paths[] = {parquet, zstd, missing};
    for (size_t i = 0; i < 3; i++) {
        auto_free char *found = documents_of(paths[i], SPLIT_TRAIN, 0, 0, NULL);
        CU_ASSERT_EQUAL(strncmp(found, "error 5", 7), 0);
    }
    for (size_t keep = packed.len - 1; keep > 100; keep = keep > 9000 ? keep - 7001 : keep / 2) {
        unit_write(cut, packed.data, keep);
        auto_free char *found = documents_of(cut, SPLIT_TRAIN, 0, 0, NULL);
        CU_ASSERT_EQUAL(strncmp(found, "error 5", 7), 0);
    }
}

UNIT_MAIN({"splits paragraphs", splits_paragraphs}, {"counts what it sees", counts_what_it_sees},
          {"reads across buffers", reads_across_buffers}, {"reads dictd", reads_dictd},
          {"keeps validation apart", keeps_validation_apart},
          {"refuses bad files", refuses_bad_files})
