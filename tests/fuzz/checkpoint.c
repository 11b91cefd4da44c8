/* Fuzz target: what a checkpoint's files may hold. The first byte chooses the reader: the header of
 * a safetensors file, or meta.json. */
#include "workload/checkpoint.h"
#include "workload/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tensors(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    struct st_file *f = NULL;
    if (!st_open_memory(data, size, "fuzz", &f, 7, &err)) {
        volatile unsigned char sum = 0;
        for (size_t i = 0; i < st_count(f); i++) {
            const struct st_tensor *t = st_at(f, i);
            const unsigned char *bytes = t->data;
            for (size_t k = 0; k < t->bytes; k++) /* every byte that it claims must be there */
                sum = (unsigned char)(sum + bytes[k]);
        }
        st_close(f);
    } else if (err.code != 7 || !err.message) {
        BUG("an error with code %d", err.code);
    }
    error_release(&err);
}

static void read_meta(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    struct checkpoint_meta meta = {0};
    if (checkpoint_parse_meta((const char *)data, size, "fuzz", &meta, &err) && err.code != 7)
        BUG("an error with code %d", err.code);
    checkpoint_meta_release(&meta);
    error_release(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] == 'm')
        read_meta(data + 1, size - 1);
    else if (size)
        read_tensors(data + 1, size - 1);
    return 0;
}
