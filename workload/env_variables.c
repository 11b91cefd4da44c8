/* The environment variables that change speed, and no others: the rest is nobody's business. */
#include "workload/env_priv.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"

#include <ctype.h>
#include <string.h>

extern char **environ;

/* A trailing '*' matches any end. */
static const char *const allowed[] = {
    "OMP_*",    "KMP_*",    "GOMP_*", "OPENBLAS_*", "BLIS_*",    "GOTO_*",
    "MKL_*",    "MALLOC_*", "LD_*",   "NCCL_*",     "CUDA_*",    "NVIDIA_*",
    "FI_*",     "UCX_*",    "OMPI_*", "MPICH_*",    "HWLOC_*",   "GLIBC_TUNABLES",
    "CUBLAS_*", "CUDNN_*",  "IBV_*",  "MLX5_*",     "NANOCHAT_*"};
static const char *const secret[] = {"TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL", "AUTH"};

static bool is_allowed(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        size_t m = strlen(allowed[i]);
        bool prefix = allowed[i][m - 1] == '*';
        if (prefix ? n >= m - 1 && !strncmp(name, allowed[i], m - 1)
                   : n == m && !strncmp(name, allowed[i], m))
            return true;
    }
    return false;
}

/* By its name, or by a user and password in a URL. */
static bool is_secret(const char *name, const char *value)
{
    auto_free char *upper = mem_strdup(name);
    for (char *p = upper; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        if (strstr(upper, secret[i]))
            return true;
    const char *url = strstr(value, "://");
    return url && strchr(url, '@');
}

void env_variables(json_t *group, const struct env_context *context)
{
    (void)context;
    auto_strv sorted = STRV_INIT;
    for (char **p = environ; *p; p++) {
        const char *eq = strchr(*p, '=');
        if (eq && is_allowed(*p, (size_t)(eq - *p)))
            strv_push(&sorted, *p);
    }
    strv_sort(&sorted);
    for (size_t i = 0; i < sorted.count; i++) {
        char *eq = strchr(sorted.items[i], '=');
        *eq = '\0';
        if (!json_object_get(group, sorted.items[i])) /* a name may come twice; the first counts */
            json_put_str(group, sorted.items[i],
                         is_secret(sorted.items[i], eq + 1) ? "redacted" : eq + 1);
    }
}
