#include "workload/build.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define SANITIZER "thread"
#else
#define SANITIZER "none"
#endif

json_t *build_json(void)
{
    json_t *b = json_object();
    json_put_str(b, "config", BUILD_CONFIG);
    json_put_str(b, "compiler", __VERSION__);
    json_put_str(b, "blas", BLAS_NAME);
    json_put_int(b, "openmp", _OPENMP);
    json_put_str(b, "sanitizer", SANITIZER);
    return b;
}
