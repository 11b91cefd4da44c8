/* The gnuplot templates of plots/, inside the program so that it draws from wherever it is run. The
 * Makefile rebuilds this file when one of them changes. */
#include "harness/plot.h"

#include <string.h>

#define TEMPLATE(name)                                                                             \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global plot_template_" #name "\n"                                                    \
            "plot_template_" #name ":\n"                                                           \
            ".incbin \"plots/" #name ".gp\"\n"                                                     \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char plot_template_##name[] __attribute__((visibility("hidden")))

TEMPLATE(common);
TEMPLATE(ratio);
TEMPLATE(steps);
TEMPLATE(phases);
TEMPLATE(scaling);
TEMPLATE(ecdf);

const char *plot_template(const char *name)
{
    static const struct {
        const char *name, *text;
    } table[] = {{"common", plot_template_common},   {"ratio", plot_template_ratio},
                 {"steps", plot_template_steps},     {"phases", plot_template_phases},
                 {"scaling", plot_template_scaling}, {"ecdf", plot_template_ecdf}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name))
            return table[i].text;
    return NULL;
}
