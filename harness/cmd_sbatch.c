/* ncbench sbatch: a scenario as a job of Slurm. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "harness/job_script.h"
#include "harness/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SUBMIT_S 60.0

struct sbatch_options {
    struct strv defines, run;
    char *output, *out;
    bool submit;
};

#define AT(field) offsetof(struct sbatch_options, field)
const struct option_spec sbatch_options[] = {
    {"submit", 0, OPT_BOOL, AT(submit), NULL, 0, 0, NULL,
     "submit the script; prints the number of the job"},
    {"output", 'o', OPT_STRING, AT(output), NULL, 0, 0, "FILE",
     "write the script there; - or nothing is standard output, with --submit <name>.sbatch"},
    {"out", 0, OPT_STRING, AT(out), NULL, 0, 0, "DIR",
     "results folder, instead of output.dir of the scenario"},
    {"define", 'D', OPT_LIST, AT(defines), NULL, 0, 0, "KEY=VALUE",
     "replace a variable or any key of the scenario, here and in the job; may be repeated"},
    {"run", 0, OPT_LIST, AT(run), NULL, 0, 0, "ARGUMENT",
     "an argument for `ncbench run` that begins the session, as --run=--blocks=6; may be repeated"},
    {0}};

static int make_script(const char *file, const struct sbatch_options *o, struct str *script,
                       char **name, struct error *err)
{
    struct scenario s = {0};
    auto_strv run = STRV_INIT;
    auto_free char *path = fs_realpath(file), *self = fs_realpath("/proc/self/exe");
    auto_free char *directory = fs_realpath(".");
    for (size_t i = 0; i < o->defines.count; i++)
        strv_pushf(&run, "--define=%s", o->defines.items[i]);
    strv_extend(&run, &o->run);
    const struct job_script_options options = {path, self, directory, o->out, &run};
    if (scenario_load(file, &o->defines, &s, err) == 0 &&
        job_script_write(&s, &options, script, err) == 0)
        *name = mem_strdup(s.name);
    scenario_release(&s);
    return err->code ? -err->code : 0;
}

/* sbatch's own words on failure, all of them: they say what the site does not like. */
static int submit(const char *path, struct error *err)
{
    char *const argv[] = {"sbatch", "--parsable", (char *)(uintptr_t)path, NULL};
    auto_str out = STR_INIT, errors = STR_INIT;
    int status = 0;
    if (spawn_capture(argv, NULL, SUBMIT_S, &out, &errors, &status, NCBENCH_EXIT_ENVIRONMENT, err))
        return -err->code;
    fputs(errors.data, stderr);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "sbatch did not take %s (exit %d)", path,
                         WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    fputs(out.data, stdout);
    if (fflush(stdout))
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot write to standard output");
    return 0;
}

static int write_script(const char *path, const struct str *script, struct error *err)
{
    if (fs_write_atomic(path, script->data, script->len, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    if (chmod(path, 0755))
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot make %s executable", path);
    return 0;
}

static int print_script(const struct str *script, struct error *err)
{
    if (fwrite(script->data, 1, script->len, stdout) != script->len || fflush(stdout))
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot write to standard output");
    return 0;
}

static int sbatch(const char *file, const struct sbatch_options *o, struct error *err)
{
    auto_str script = STR_INIT;
    auto_free char *name = NULL;
    if (make_script(file, o, &script, &name, err))
        return -err->code;
    const bool to_stdout = o->output ? !strcmp(o->output, "-") : !o->submit;
    if (to_stdout && o->submit)
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "--submit needs a file: -o FILE, or no -o for <name>.sbatch");
    if (to_stdout)
        return print_script(&script, err);
    auto_free char *path = o->output ? mem_strdup(o->output) : mem_printf("%s.sbatch", name);
    if (write_script(path, &script, err))
        return -err->code;
    log_info("wrote %s", path);
    return o->submit ? submit(path, err) : 0;
}

int cmd_sbatch(int argc, char **argv)
{
    struct sbatch_options o;
    auto_error struct error err = ERROR_INIT;
    auto_strv files = STRV_INIT;
    options_defaults(sbatch_options, &o);
    if (options_parse(sbatch_options, &o, argc, argv, &files, &err) == 0) {
        if (files.count != 1)
            error_set(&err, NCBENCH_EXIT_USAGE, "expected one scenario: sbatch FILE");
        else
            sbatch(files.items[0], &o, &err);
    }
    if (err.code)
        scenario_error_print(&err, "ncbench");
    options_release(sbatch_options, &o);
    return err.code;
}
