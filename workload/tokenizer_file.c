/* tokenizer.json: one JSON object with
 *
 *   format            "nanochat-tokenizer"
 *   version           1
 *   pattern           {id, sha256} of the split expression that the merges were trained with
 *   vocab_size        256 + merges + 9
 *   special_tokens    the nine names, in the order of their ids
 *   merges_sha256     over the merges as pairs of little-endian int32
 *   merges            [[left, right], …]; merge i makes token 256 + i
 *
 * Everything is checked on loading: what does not fit is refused, never repaired. */
#include "common/cleanup.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/tokenizer_priv.h"

#include <inttypes.h>
#include <string.h>

#define FILE_NAME "tokenizer.json"
#define FORMAT "nanochat-tokenizer"
#define VERSION 1

static void put_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static void merges_hash(const struct merge *merges, size_t n, char out[static SHA256_HEX])
{
    auto_free unsigned char *bytes = mem_alloc(n * 8);
    for (size_t i = 0; i < n; i++) {
        put_u32(bytes + 8 * i, (uint32_t)merges[i].left);
        put_u32(bytes + 8 * i + 4, (uint32_t)merges[i].right);
    }
    sha256_hex(bytes, n * 8, out);
}

void tokenizer_serialise(const struct tokenizer *t, struct str *out)
{
    char hash[SHA256_HEX];
    size_t n = (size_t)t->n_ordinary - TOKENIZER_BYTES;
    auto_json *file = json_object();
    json_put_str(file, "format", FORMAT);
    json_put_int(file, "version", VERSION);
    json_t *pattern = json_object();
    json_put_str(pattern, "id", SPLIT_PATTERN_ID);
    split_pattern_hash(hash);
    json_put_str(pattern, "sha256", hash);
    json_put(file, "pattern", pattern);
    json_put_int(file, "vocab_size", tokenizer_vocab_size(t));
    json_t *specials = json_array();
    for (int i = 0; i < SPECIAL_COUNT; i++)
        json_array_append_new(specials, json_string(special_token_text(i)));
    json_put(file, "special_tokens", specials);
    merges_hash(t->merges, n, hash);
    json_put_str(file, "merges_sha256", hash);
    json_write(out, file, 0);
    /* The merges by hand: eight pairs a line, which the JSON writer cannot do. */
    str_truncate(out, out->len - 1);
    str_append(out, ",\n\"merges\": [");
    for (size_t i = 0; i < n; i++)
        str_appendf(out, "%s[%d,%d]",
                    i == 0  ? ""
                    : i % 8 ? ","
                            : ",\n",
                    t->merges[i].left, t->merges[i].right);
    str_append(out, "]}\n");
}

int tokenizer_save(const struct tokenizer *t, const char *dir, struct error *err)
{
    auto_str content = STR_INIT;
    tokenizer_serialise(t, &content);
    if (fs_mkdir_p(dir, NANOCHAT_EXIT_WRITE, err))
        return -err->code;
    auto_free char *path = mem_printf("%s/%s", dir, FILE_NAME);
    return fs_write_atomic(path, content.data, content.len, NANOCHAT_EXIT_WRITE, err);
}

static int bad(struct error *err, const char *path, const char *key, const char *found,
               const char *expected)
{
    return error_set(err, NANOCHAT_EXIT_CHECKPOINT, "%s: %s is %s, expected %s", path, key,
                     found ? found : "missing", expected);
}

static int check_str(const json_t *file, const char *path, const char *key, const char *expected,
                     struct error *err)
{
    const char *found = json_read_str(file, key);
    return found && !strcmp(found, expected) ? 0 : bad(err, path, key, found, expected);
}

static int check_pattern(const json_t *file, const char *path, struct error *err)
{
    char hash[SHA256_HEX];
    split_pattern_hash(hash);
    if (!check_str(file, path, "pattern.id", SPLIT_PATTERN_ID, err) &&
        !check_str(file, path, "pattern.sha256", hash, err))
        return 0;
    return error_hint(err, "the tokenizer was trained with another split pattern, so its tokens do "
                           "not fit this program: train one with `nanochat tok-train`");
}

static int check_specials(const json_t *file, const char *path, struct error *err)
{
    const json_t *list = json_at(file, "special_tokens");
    if (!json_is_array(list) || json_array_size(list) != SPECIAL_COUNT)
        return bad(err, path, "special_tokens", "no list of nine", "a list of nine names");
    for (size_t i = 0; i < SPECIAL_COUNT; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || strcmp(name, special_token_text((enum special_token)i)) != 0)
            return bad(err, path, "special_tokens", name ? name : "no string",
                       special_token_text((enum special_token)i));
    }
    return 0;
}

static bool read_merge(const json_t *pair, struct merge *out)
{
    const json_t *left = json_array_get(pair, 0), *right = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(left) || !json_is_integer(right))
        return false;
    json_int_t l = json_integer_value(left), r = json_integer_value(right);
    if (l < 0 || l > INT32_MAX || r < 0 || r > INT32_MAX)
        return false;
    *out = (struct merge){(int32_t)l, (int32_t)r};
    return true;
}

static int read_merges(const json_t *file, const char *path, struct merge **out, int32_t *n,
                       struct error *err)
{
    const json_t *list = json_at(file, "merges");
    int64_t vocab;
    if (!json_read_i64(file, "vocab_size", &vocab))
        return bad(err, path, "vocab_size", NULL, "an integer");
    if (!json_is_array(list) || json_array_size(list) > INT32_MAX / 2)
        return bad(err, path, "merges", NULL, "a list of pairs");
    size_t count = json_array_size(list);
    if (vocab != (int64_t)count + TOKENIZER_BYTES + SPECIAL_COUNT)
        return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                         "%s: vocab_size is %" PRId64 ", expected %zu merges + 256 bytes + 9", path,
                         vocab, count);
    auto_free struct merge *merges = mem_alloc(count * sizeof *merges);
    for (size_t i = 0; i < count; i++)
        if (!read_merge(json_array_get(list, i), &merges[i]))
            return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                             "%s: merge %zu is not a pair of token ids", path, i);
    char hash[SHA256_HEX];
    merges_hash(merges, count, hash);
    if (check_str(file, path, "merges_sha256", hash, err))
        return -err->code;
    *out = steal(&merges);
    *n = (int32_t)count;
    return 0;
}

static int check_file(const json_t *file, const char *path, struct error *err)
{
    int64_t version;
    if (check_str(file, path, "format", FORMAT, err))
        return -err->code;
    if (!json_read_i64(file, "version", &version) || version != VERSION)
        return error_set(err, NANOCHAT_EXIT_CHECKPOINT, "%s: version is not %d", path, VERSION);
    if (check_pattern(file, path, err) || check_specials(file, path, err))
        return -err->code;
    return 0;
}

int tokenizer_parse(const char *text, size_t len, const char *name, struct tokenizer **out,
                    struct error *err)
{
    auto_json *file = NULL;
    if (json_parse(text, len, name, NANOCHAT_EXIT_CHECKPOINT, &file, err) ||
        check_file(file, name, err))
        return -err->code;
    auto_free struct merge *merges = NULL;
    int32_t n = 0;
    if (read_merges(file, name, &merges, &n, err) ||
        tokenizer_build(merges, n, name, NANOCHAT_EXIT_CHECKPOINT, out, err))
        return -err->code;
    sha256_hex(text, len, (*out)->hash);
    return 0;
}

int tokenizer_load(const char *path, struct tokenizer **out, struct error *err)
{
    auto_free char *file_path =
        fs_is_dir(path) ? mem_printf("%s/%s", path, FILE_NAME) : mem_strdup(path);
    auto_str content = STR_INIT;
    if (fs_read_file(file_path, &content, NANOCHAT_EXIT_DATA, err))
        return error_hint(err, "train a tokenizer with `nanochat tok-train`");
    return tokenizer_parse(content.data, content.len, file_path, out, err);
}
