#include "common/host_name.h"

#include <unistd.h>

const char *host_name(void)
{
    static char name[256];
    if (!*name)
        gethostname(name, sizeof name - 1);
    return name;
}
