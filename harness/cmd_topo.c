/* ncbench topo show | dump | diff */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "harness/session_view.h"
#include "harness/topo.h"
#include "harness/verbs.h"

#include <stdio.h>
#include <string.h>

struct topo_options {
    char *output, *bind, *session;
    int64_t ranks;
    bool json, all;
};

#define FIELD(name) offsetof(struct topo_options, name)
const struct option_spec topo_options[] = {
    {"output", 'o', OPT_STRING, FIELD(output), "-", 0, 0, "FILE", "where to; - is standard output"},
    {"json", 0, OPT_BOOL, FIELD(json), NULL, 0, 0, NULL, "show and diff: as JSON"},
    {"all", 'a', OPT_BOOL, FIELD(all), NULL, 0, 0, NULL,
     "show: every core by itself, however many there are"},
    {"ranks", 0, OPT_INT, FIELD(ranks), "0", 0, 65536, "N",
     "show: where N ranks would be bound; 0: not asked"},
    {"bind", 0, OPT_CHOICE, FIELD(bind), "cores", 0, 0, TOPO_BIND_CHOICES,
     "show: how they would be, as launch.bind"},
    {"session", 0, OPT_STRING, FIELD(session), NULL, 0, 0, "SESSION",
     "diff: A and B are names of its runtimes, or \"host\": the view from outside"},
    {0}};

static int write_out(const char *path, const struct str *text, struct error *err)
{
    if (strcmp(path, "-") != 0)
        return fs_write_atomic(path, text->data, text->len, NCBENCH_EXIT_RESULTS, err);
    if (fwrite(text->data, 1, text->len, stdout) != text->len || fflush(stdout))
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot write standard output");
    return 0;
}

static int dump(const struct topo_options *o, struct error *err)
{
    auto_topo t = {0};
    auto_str xml = STR_INIT;
    if (topo_load(NULL, &t, err) || topo_export(&t, &xml, err))
        return -err->code;
    if (!t.this_machine)
        log_warn("the topology is that of %s, not of this machine", topo_stand_in());
    return write_out(o->output, &xml, err);
}

/* ---- show ------------------------------------------------------------------------------------ */

static int show(const struct topo_options *o, const char *from, struct error *err)
{
    auto_topo t = {0};
    auto_str text = STR_INIT;
    struct topo_plan plan = {0};
    if (topo_load(from, &t, err))
        return -err->code;
    if (!t.hwloc)
        log_warn("%s: only the PUs that may be used are known", t.why);
    if (o->ranks && topo_plan_make(&t, topo_bind_parse(o->bind), (int)o->ranks,
                                   NCBENCH_EXIT_ENVIRONMENT, &plan, err))
        return -err->code;
    if (o->json) {
        auto_json *doc = topo_json(&t, o->ranks ? &plan : NULL);
        json_write(&text, doc, 2);
        str_append(&text, "\n");
    } else {
        topo_draw(&t, o->ranks ? &plan : NULL, o->all, &text);
    }
    topo_plan_release(&plan);
    return write_out(o->output, &text, err);
}

/* ---- diff ------------------------------------------------------------------------------------ */

/* topo/<runtime>/<host>.xml of a session, the first host; "host": topo/<host>.xml. */
static char *find_xml(const char *session, const char *name, struct error *err)
{
    struct session_view view = {0};
    if (session_view_load(session, &view, NULL, err))
        return NULL;
    char *found = NULL;
    auto_strv names = STRV_INIT;
    auto_error struct error absent = ERROR_INIT;
    auto_free char *dir = !strcmp(name, "host") ? mem_printf("%s/topo", view.dir)
                                                : mem_printf("%s/topo/%s", view.dir, name);
    if (!fs_list_dir(dir, &names, NCBENCH_EXIT_RESULTS, &absent))
        for (size_t i = 0; i < names.count && !found; i++)
            if (str_ends_with(names.items[i], ".xml"))
                found = mem_printf("%s/%s", dir, names.items[i]);
    if (!found) {
        error_set(err, NCBENCH_EXIT_RESULTS, "%s has no topology of \"%s\"", session, name);
        error_hint(err, "expected the name of a runtime that told its topology, or \"host\"");
    }
    session_view_release(&view);
    return found;
}

static void print_comparison(const struct topo_comparison *c, const char *a, const char *b,
                             struct str *out)
{
    if (c->verdict == TOPO_SAME)
        str_appendf(out, "%s and %s are the same\n", a, b);
    else if (c->verdict == TOPO_TOO_COMPLEX)
        str_appendf(out, "%s and %s have different structures: look at the two trees\n", a, b);
    else
        str_appendf(out, "%s and %s differ\n", a, b);
    for (size_t i = 0; i < c->count; i++)
        str_appendf(out, "  %s: %s in %s, %s in %s\n", c->items[i].what, c->items[i].a, a,
                    c->items[i].b, b);
}

static json_t *comparison_json(const struct topo_comparison *c)
{
    json_t *doc = json_object(), *all = json_array();
    json_put_str(doc, "verdict", topo_verdict_name(c->verdict));
    for (size_t i = 0; i < c->count; i++) {
        json_t *one = json_object();
        json_put_str(one, "what", c->items[i].what);
        json_put_str(one, "a", c->items[i].a);
        json_put_str(one, "b", c->items[i].b);
        json_array_append_new(all, one);
    }
    json_put(doc, "differences", all);
    return doc;
}

/* Exit 7 where they are not the same, as for arms that cannot be compared. */
static int diff(const struct topo_options *o, const char *a, const char *b, int *exit_code,
                struct error *err)
{
    struct topo_comparison c = {0};
    auto_str text = STR_INIT;
    auto_free char *path_a = o->session ? find_xml(o->session, a, err) : mem_strdup(a);
    auto_free char *path_b = err->code    ? NULL
                             : o->session ? find_xml(o->session, b, err)
                                          : mem_strdup(b);
    if (err->code || topo_compare(path_a, path_b, &c, err))
        return -err->code;
    if (o->json) {
        auto_json *doc = comparison_json(&c);
        json_write(&text, doc, 2);
        str_append(&text, "\n");
    } else {
        print_comparison(&c, a, b, &text);
    }
    *exit_code = c.verdict == TOPO_SAME ? NCBENCH_EXIT_OK : NCBENCH_EXIT_UNTRUSTWORTHY;
    topo_comparison_release(&c);
    return write_out(o->output, &text, err);
}

static int dispatch(const struct topo_options *o, const struct strv *words, int *exit_code,
                    struct error *err)
{
    const char *word = words->count ? words->items[0] : "";
    if (!strcmp(word, "dump") && words->count == 1)
        return dump(o, err);
    if (!strcmp(word, "show") && words->count <= 2)
        return show(o, words->count > 1 ? words->items[1] : NULL, err);
    if (!strcmp(word, "diff") && words->count == 3)
        return diff(o, words->items[1], words->items[2], exit_code, err);
    return error_set(err, NCBENCH_EXIT_USAGE,
                     "topo %s: expected show [FILE|\"SYNTHETIC\"], dump, or diff A B",
                     *word ? word : "\"\"");
}

int cmd_topo(int argc, char **argv)
{
    struct topo_options o;
    int exit_code = NCBENCH_EXIT_OK;
    auto_strv words = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    options_defaults(topo_options, &o);
    if (!options_parse(topo_options, &o, argc, argv, &words, &err))
        dispatch(&o, &words, &exit_code, &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(topo_options, &o);
    return err.code ? err.code : exit_code;
}
