/* libFuzzer target: the reader of stored plans takes any bytes, and what it takes it writes again.
 * The checksum at the end is made right first, else nearly no input would get past it. */
#include "common/fs.h"
#include "kernels/plan_files.h"

#include <stdint.h>
#include <string.h>

static void read_once(const char *text, size_t length)
{
    struct plan_store s;
    const char *why = NULL;
    plan_store_open(&s, "fuzz", PLANS_AUTO);
    if (plan_text_read(&s, text, length, &why)) {
        auto_str again = STR_INIT;
        plan_text_write(&s, &again);
        if (again.len != length || memcmp(again.data, text, length) != 0)
            __builtin_trap();
    } else if (s.count != 0 || !why) {
        __builtin_trap();
    }
    plan_store_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_str summed = STR_INIT;
    char sum[SHA256_HEX];
    read_once((const char *)data, size);
    str_append_n(&summed, data, size);
    sha256_hex(summed.data, summed.len, sum);
    str_appendf(&summed, "sha256 %s\n", sum);
    read_once(summed.data, summed.len);
    return 0;
}
