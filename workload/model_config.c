/* Dimensions: from a depth, their checks, counts and JSON form. */
#include "workload/model.h"

#include "common/protocol.h"

#include <inttypes.h>

#define HEAD_DIM 128
#define WIDTH_PER_DEPTH 64
#define MAX_LAYERS (1 << 12)

struct model_config model_config_for_depth(int64_t depth, int64_t sequence_len, int64_t vocab_size)
{
    /* Nonsense must not overflow before model_config_check can refuse it. */
    int64_t width = (depth < MAX_LAYERS ? depth : MAX_LAYERS) * WIDTH_PER_DEPTH;
    width = width > 0 ? width : 0;
    int64_t heads = (width + HEAD_DIM - 1) / HEAD_DIM;
    heads = heads > 1 ? heads : 1;
    return (struct model_config){
        .sequence_len = sequence_len,
        .vocab_size = vocab_size,
        .n_layer = depth,
        .n_head = heads,
        .n_kv_head = heads,
        .n_embd = width,
    };
}

static int check_range(const char *what, int64_t value, int64_t max, struct error *err)
{
    if (value < 1 || value > max)
        return error_set(err, NANOCHAT_EXIT_PLAN, "%s is %" PRId64 ", expected 1 to %" PRId64, what,
                         value, max);
    return 0;
}

int model_config_check(const struct model_config *c, struct error *err)
{
    /* Bounds keep every product of dimensions within 63 bits and every leading dimension within
     * CBLAS's int. */
    if (check_range("sequence length", c->sequence_len, 1 << 24, err) ||
        check_range("vocabulary size", c->vocab_size, 1 << 24, err) ||
        check_range("number of layers", c->n_layer, MAX_LAYERS, err) ||
        check_range("number of heads", c->n_head, 1 << 12, err) ||
        check_range("number of key/value heads", c->n_kv_head, c->n_head, err) ||
        check_range("model width", c->n_embd, 1 << 20, err))
        return -err->code;
    if (c->n_embd % c->n_head) {
        error_set(err, NANOCHAT_EXIT_PLAN,
                  "width %" PRId64 " does not divide into %" PRId64 " heads", c->n_embd, c->n_head);
        return error_hint(err, "widths that are a multiple of %d work: an even depth", HEAD_DIM);
    }
    if (c->n_embd / c->n_head % 2)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "head dimension %" PRId64 " (width %" PRId64 " / %" PRId64
                         " heads) is odd; rotary embedding needs pairs",
                         c->n_embd / c->n_head, c->n_embd, c->n_head);
    if (c->n_head % c->n_kv_head)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "%" PRId64 " heads cannot share %" PRId64
                         " key/value heads; the number must divide them",
                         c->n_head, c->n_kv_head);
    return 0;
}

static int64_t layer_params(const struct model_config *c)
{
    int64_t C = c->n_embd, kv = c->n_kv_head * (C / c->n_head);
    return 2 * C * C + 2 * kv * C + 8 * C * C;
}

int64_t model_config_params(const struct model_config *c)
{
    return 2 * c->vocab_size * c->n_embd + c->n_layer * layer_params(c);
}

double model_config_flops_per_token(const struct model_config *c)
{
    double matrices = (double)(model_config_params(c) - c->vocab_size * c->n_embd);
    return 6.0 * matrices + 12.0 * (double)c->n_layer * (double)c->n_embd * (double)c->sequence_len;
}

int64_t model_config_max_collective(const struct model_config *c)
{
    int64_t matrices = c->n_layer * layer_params(c), table = c->vocab_size * c->n_embd;
    return matrices > table ? matrices : table;
}

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
    {"sequence_len", offsetof(struct model_config, sequence_len)},
    {"vocab_size", offsetof(struct model_config, vocab_size)},
    {"n_layer", offsetof(struct model_config, n_layer)},
    {"n_head", offsetof(struct model_config, n_head)},
    {"n_kv_head", offsetof(struct model_config, n_kv_head)},
    {"n_embd", offsetof(struct model_config, n_embd)},
};
#define N_FIELDS (sizeof fields / sizeof *fields)

json_t *model_config_json(const struct model_config *config)
{
    json_t *obj = json_object();
    for (size_t i = 0; i < N_FIELDS; i++)
        json_put_int(obj, fields[i].name,
                     *(const int64_t *)((const char *)config + fields[i].offset));
    return obj;
}

int model_config_from_json(const json_t *obj, struct model_config *out, struct error *err)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        int64_t *field = (int64_t *)((char *)out + fields[i].offset);
        if (!json_read_i64(obj, fields[i].name, field))
            return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                             "model configuration: \"%s\" is missing or no integer",
                             fields[i].name);
    }
    return model_config_check(out, err);
}
