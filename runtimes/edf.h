/* The EDF, a TOML file that describes a container: read by the CSCS container engine
 * (srun --environment=) and by Skybox (srun --edf=). We write one a trial. */
#ifndef RUNTIMES_EDF_H
#define RUNTIMES_EDF_H

#include "runtimes/runtime.h"

struct edf_dialect {
    const char *kind, *option; /* of a scenario; of srun */
    bool path_images;          /* image: a squashfs or a reference; else a reference alone */
    bool devices;              /* as podman's --device */
};
extern const struct edf_dialect edf_ce, edf_skybox;

/* Can an EDF say this text? `${` is expanded there unless written `$${`, so that a literal `$${`
 * cannot be said; control characters other than tab neither survive the way. */
bool edf_can_say(const char *text);
/* The launch as an EDF, appended. Pure. 3: something cannot be said. */
int edf_write(const struct runtime_launch *launch, const struct edf_dialect *dialect,
              struct str *out, struct error *err);

#endif
