/* ncbench doctor */
#include "harness/doctor.h"
#include "harness/image.h"
#include "harness/verbs.h"

#include "common/protocol.h"
#include "runtimes/runtime.h"

#include <stdio.h>
#include <string.h>

struct doctor_options {
    char *runtime, *image;
    bool json;
};

const struct option_spec doctor_options[] = {
    {"runtime", 'r', OPT_STRING, offsetof(struct doctor_options, runtime), NULL, 0, 0, "KIND",
     "only this runtime; its absence is then a FAIL"},
    {"image", 0, OPT_STRING, offsetof(struct doctor_options, image), IMAGE_DEFAULT_NAME, 0, 0,
     "REF", "the image to look for"},
    {"json", 0, OPT_BOOL, offsetof(struct doctor_options, json), NULL, 0, 0, NULL,
     "print the findings as JSON"},
    {0}};

static void append_text(const struct doctor *d, struct str *out)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct finding *f = &d->items[i];
        str_appendf(out, "%-4s  %-12s  %s", doctor_level_name(f->level), f->check, f->text);
        if (f->fix)
            str_appendf(out, "; fix: %s", f->fix);
        str_append_char(out, '\n');
    }
}

static void append_json(const struct doctor *d, struct str *out)
{
    auto_json *list = json_array();
    for (size_t i = 0; i < d->count; i++) {
        const struct finding *f = &d->items[i];
        json_t *obj = json_object();
        json_put_str(obj, "check", f->check);
        json_put_str(obj, "level", doctor_level_name(f->level));
        json_put_str(obj, "text", f->text);
        if (f->fix)
            json_put_str(obj, "fix", f->fix);
        json_array_append_new(list, obj);
    }
    json_write(out, list, 2);
    str_append_char(out, '\n');
}

static int check_kind(const char *kind, struct error *err)
{
    const char *names[32];
    size_t count = 0;
    for (const struct runtime_ops *const *r = runtime_registry; *r && count < 32; r++)
        names[count++] = (*r)->name;
    if (!kind || runtime_find(kind))
        return 0;
    error_set(err, NCBENCH_EXIT_USAGE, "--runtime \"%s\" is no runtime", kind);
    const char *near = str_nearest(kind, names, count);
    return near ? error_hint(err, "did you mean \"%s\"?", near) : -err->code;
}

static int examine(const struct doctor_options *o, struct error *err)
{
    struct doctor d = {0};
    auto_str out = STR_INIT;
    if (check_kind(o->runtime, err))
        return -err->code;
    doctor_machine(&d);
    doctor_runtimes(&d, o->runtime, o->image);
    (o->json ? append_json : append_text)(&d, &out);
    int code = doctor_worst(&d) == DOCTOR_FAIL ? NCBENCH_EXIT_ENVIRONMENT : 0;
    doctor_release(&d);
    if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout))
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot write standard output");
    return code;
}

int cmd_doctor(int argc, char **argv)
{
    struct doctor_options o;
    auto_error struct error err = ERROR_INIT;
    int code = 0;
    options_defaults(doctor_options, &o);
    if (!options_parse(doctor_options, &o, argc, argv, NULL, &err))
        code = examine(&o, &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(doctor_options, &o);
    return err.code ? err.code : code;
}
