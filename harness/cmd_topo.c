/* ncbench topo dump */
#include "harness/topo.h"
#include "harness/verbs.h"

#include "common/fs.h"
#include "common/log.h"
#include "common/protocol.h"

#include <stdio.h>
#include <string.h>

struct topo_options {
    char *output;
};

const struct option_spec topo_options[] = {{"output", 'o', OPT_STRING,
                                            offsetof(struct topo_options, output), "-", 0, 0,
                                            "FILE", "where to; - is standard output"},
                                           {0}};

static int dump(const char *path, struct error *err)
{
    auto_str xml = STR_INIT;
    bool this_machine = true;
    if (topo_xml(&xml, &this_machine, err))
        return -err->code;
    if (!this_machine)
        log_warn("the topology is that of HWLOC_SYNTHETIC, HWLOC_XMLFILE or HWLOC_FSROOT, not of "
                 "this machine");
    if (strcmp(path, "-") != 0)
        return fs_write_atomic(path, xml.data, xml.len, NCBENCH_EXIT_RESULTS, err);
    if (fwrite(xml.data, 1, xml.len, stdout) != xml.len || fflush(stdout))
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot write standard output");
    return 0;
}

int cmd_topo(int argc, char **argv)
{
    struct topo_options o;
    auto_strv words = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    options_defaults(topo_options, &o);
    if (!options_parse(topo_options, &o, argc, argv, &words, &err)) {
        if (words.count == 1 && !strcmp(words.items[0], "dump"))
            dump(o.output, &err);
        else
            error_set(&err, NCBENCH_EXIT_USAGE, "topo %s: expected dump and nothing else",
                      words.count ? words.items[0] : "\"\"");
    }
    if (err.code)
        error_print(&err, "ncbench");
    options_release(topo_options, &o);
    return err.code;
}
