#include "runtimes/enroot_node.h"

/* One that a killed session left half unpacked has the name too. */
#define CREATE                                                                                     \
    "enroot remove --force -- \"$1\" >/dev/null 2>&1\n"                                            \
    "exec enroot create --name \"$1\" \"$2\""

#define REMOVE                                                                                     \
    "list=$(enroot list) || exit\n"                                                                \
    "rc=0\n"                                                                                       \
    "for name; do\n"                                                                               \
    "    printf '%s\\n' \"$list\" | grep -qxF -- \"$name\" || continue\n"                          \
    "    enroot remove --force -- \"$name\" || rc=1\n"                                             \
    "done\n"                                                                                       \
    "exit $rc"

/* What pyxis does not hand on to enroot. */
#define OF_SITE                                                                                    \
    "unset ENROOT_LIBRARY_PATH ENROOT_SYSCONF_PATH ENROOT_RUNTIME_PATH "                           \
    "ENROOT_CACHE_PATH ENROOT_DATA_PATH ENROOT_TEMP_PATH\n"

/* "pyxis_12.3", with container_scope=job "pyxis_12_12.3". Slurm is asked only where one is found:
 * that is one question a node. */
#define REMOVE_STEPS                                                                               \
    "list=$(enroot list) || exit\n"                                                                \
    "pattern=\"pyxis_(${SLURM_JOB_ID}_)?$SLURM_JOB_ID\\.[0-9]+\"\n"                                \
    "left=$(printf '%s\\n' \"$list\" | grep -xE -- \"$pattern\") || exit 0\n"                      \
    "steps=$(squeue --noheader --steps --format=%i --jobs=\"$SLURM_JOB_ID\") || exit\n"            \
    "rc=0\n"                                                                                       \
    "for name in $left; do\n"                                                                      \
    "    step=$SLURM_JOB_ID.${name##*.}\n"                                                         \
    "    printf '%s\\n' \"$steps\" | grep -qxF -- \"$step\" && continue\n"                         \
    "    enroot remove --force -- \"$name\" || rc=1\n"                                             \
    "done\n"                                                                                       \
    "exit $rc"

static void shell(const char *script, struct strv *argv)
{
    strv_push(argv, "sh");
    strv_push(argv, "-c");
    strv_push(argv, script);
    strv_push(argv, "sh");
}

void enroot_node_create(const char *name, const char *image, struct strv *argv)
{
    shell(CREATE, argv);
    strv_push(argv, name);
    strv_push(argv, image);
}

void enroot_node_remove(enum enroot_paths paths, struct strv *argv)
{
    shell(paths == ENROOT_PATHS_OF_SITE ? OF_SITE REMOVE : REMOVE, argv);
}

void enroot_node_remove_steps(struct strv *argv)
{
    shell(OF_SITE REMOVE_STEPS, argv);
}
