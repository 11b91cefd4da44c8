/* What the runtimes that are plugins of srun share: pyxis, and the engines that read an EDF. They
 * run in a Slurm step, make one container a node that the tasks join, and remove it at its end. */
#ifndef RUNTIMES_SRUN_PLUGIN_H
#define RUNTIMES_SRUN_PLUGIN_H

#include "runtimes/runtime.h"

/* Does this machine's srun know the option ("--container-image")? Fills a probe; versions: slurm.
 */
void srun_plugin_probe(const char *option, const char *plugin, struct runtime_probe *out);
/* As a check: exit 4. */
int srun_plugin_check_host(const struct runtime_spec *spec, const char *option, const char *plugin,
                           struct error *err);
/* Options that would choose the container behind our back, or end the step early. 3. */
int srun_plugin_check_options(const struct runtime_spec *spec, struct error *err);
/* Lines "pyxis: …" (the node is in them) and enroot's "[ERROR] …"; then what srun says. */
enum outcome srun_plugin_classify(const struct runtime_evidence *evidence, struct str *reason);
/* Versions, image, configuration files in effect by hash. */
void srun_plugin_describe(const struct runtime_spec *spec, json_t *obj);

/* Is HOME's directory sure to be there inside: does a mount make it? */
bool srun_plugin_home_is_mounted(const struct runtime_launch *launch);

#endif
