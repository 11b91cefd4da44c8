#include "workload/train.h"
#include "workload/verbs.h"

int cmd_base_train(int argc, char **argv)
{
    struct run run;
    struct train_options options;
    struct error err = ERROR_INIT;
    options_defaults(train_option_specs, &options);
    if (!run_begin(&run, argc, argv, &err) &&
        !options_parse(train_option_specs, &options, argc, argv, NULL, &err))
        train_run(&run, &options, &err);
    int code = run_end(&run, &err);
    options_release(train_option_specs, &options);
    error_release(&err);
    return code;
}
