#include "harness/reporters/reporter.h"

#include <string.h>

const struct reporter_ops *const reporters[] = {&reporter_markdown, &reporter_html, &reporter_text,
                                                NULL};

const struct reporter_ops *reporter_find(const char *name)
{
    for (size_t i = 0; reporters[i]; i++)
        if (!strcmp(reporters[i]->name, name))
            return reporters[i];
    return NULL;
}
