/* The EDF, a TOML file that describes a container: read by the CSCS container engine
 * (srun --environment=) and by Skybox (srun --edf=). We write one a trial. */
#ifndef RUNTIMES_EDF_H
#define RUNTIMES_EDF_H

#include "runtimes/runtime.h"

enum edf_dialect {
    EDF_CE,     /* image: a squashfs or a reference; no devices */
    EDF_SKYBOX, /* image: a reference alone; devices as podman's --device */
};

/* Can an EDF say this text? `${` is expanded there unless written `$${`, so that a literal `$${`
 * cannot be said; control characters other than tab neither survive the way. */
bool edf_can_say(const char *text);
/* The launch as an EDF, appended. Pure. 3: something cannot be said. */
int edf_write(const struct runtime_launch *launch, enum edf_dialect dialect, struct str *out,
              struct error *err);

#endif
