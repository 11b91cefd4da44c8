#include "common/verb.h"

#include "common/protocol.h"
#include "common/topo.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct verb *find_verb(const struct program *program, const char *name)
{
    for (const struct verb *v = program->verbs; v->name; v++)
        if (!strcmp(v->name, name))
            return v;
    return NULL;
}

static int print_text(const struct str *text)
{
    bool failed = fwrite(text->data, 1, text->len, stdout) != text->len || fflush(stdout) != 0;
    return failed ? NCBENCH_EXIT_RESULTS : 0;
}

static int help_program(const struct program *program)
{
    auto_str out = STR_INIT;
    str_appendf(&out, "usage: %s VERB [OPTIONS] …\n\n%s\n\nverbs:\n", program->name,
                program->summary);
    for (const struct verb *v = program->verbs; v->name; v++)
        str_appendf(&out, "  %-12s %s\n", v->name, v->summary);
    str_appendf(&out,
                "\n`%s VERB --help` tells a verb's options; `%s --version` versions and "
                "features.\n\nexit codes:\n%s",
                program->name, program->name, program->exit_codes);
    return print_text(&out);
}

static int help_verb(const struct program *program, const struct verb *verb)
{
    auto_str out = STR_INIT;
    str_appendf(&out, "usage: %s %s%s%s%s\n\n%s\n", program->name, verb->name,
                verb->options ? " [OPTIONS]" : "", *verb->operands ? " " : "", verb->operands,
                verb->summary);
    if (verb->description)
        str_appendf(&out, "\n%s\n", verb->description);
    if (verb->options) {
        str_append(&out, "\noptions:\n");
        options_help(verb->options, &out);
    }
    return print_text(&out);
}

/* Does a sentence end before `space`? A closing parenthesis or quote may follow its stop. */
static bool ends_sentence(const char *start, const char *space)
{
    while (space > start && strchr(")\"'", space[-1]))
        space--;
    return space > start && strchr(".!?", space[-1]);
}

/* Text for mdoc: backslashes, and dots or quotes at the start of a line. */
static void append_mdoc(struct str *out, const char *text)
{
    const char *start = text;
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            str_append(out, "\\&");
        line_start = *text == '\n';
        if (*text == '\\')
            str_append(out, "\\e");
        else if (*text == '-')
            str_append(out, "\\-");
        else if (line_start && text[1] == '\n')
            str_append(out, "\n.Pp"); /* an empty line is a paragraph */
        else if (*text == ' ' && ends_sentence(start, text))
            str_append_char(out, '\n'), line_start = true; /* mdoc wants each on its own line */
        else
            str_append_char(out, *text);
        if (line_start && text[1] == '\n') {
            while (text[1] == '\n')
                text++;
            str_append_char(out, '\n');
        }
    }
}

static void man_options(struct str *out, const struct option_spec *o)
{
    str_append(out, ".Bl -tag -width Ds\n");
    for (; o->name; o++) {
        str_append(out, ".It ");
        if (o->letter)
            str_appendf(out, "Fl %c , ", o->letter);
        str_appendf(out, "Fl -%s", o->name);
        if (o->type != OPT_BOOL)
            str_append(out, " Ar value");
        str_append_char(out, '\n');
        append_mdoc(out, o->help);
        if (!str_ends_with(o->help, "."))
            str_append_char(out, '.');
        if (o->type == OPT_CHOICE) {
            str_append(out, "\nOne of ");
            append_mdoc(out, o->metavar);
            str_append_char(out, '.');
        }
        if (o->def && *o->def) {
            str_append(out, "\nDefault: ");
            append_mdoc(out, o->def);
            str_append_char(out, '.');
        }
        str_append_char(out, '\n');
    }
    str_append(out, ".El\n");
}

static int man_page(const struct program *program)
{
    auto_str out = STR_INIT;
    str_append(&out, ".Dd $Mdocdate$\n.Dt ");
    for (const char *p = program->name; *p; p++)
        str_append_char(&out, (char)toupper((unsigned char)*p));
    str_appendf(&out, " 1\n.Os\n.Sh NAME\n.Nm %s\n.Nd ", program->name);
    append_mdoc(&out, program->summary);
    str_appendf(&out, "\n.Sh SYNOPSIS\n");
    for (const struct verb *v = program->verbs; v->name; v++) {
        str_appendf(&out, ".Nm\n.Cm %s\n", v->name);
        if (v->options)
            str_append(&out, ".Op Ar options\n");
        if (*v->operands) {
            str_append(&out, ".Ar ");
            append_mdoc(&out, v->operands);
            str_append_char(&out, '\n');
        }
    }
    str_append(&out, ".Sh VERBS\n");
    for (const struct verb *v = program->verbs; v->name; v++) {
        str_appendf(&out, ".Ss %s\n", v->name);
        append_mdoc(&out, v->summary);
        str_append(&out, ".\n");
        if (v->description) {
            str_append(&out, ".Pp\n");
            append_mdoc(&out, v->description);
            str_append_char(&out, '\n');
        }
        if (v->options)
            man_options(&out, v->options);
    }
    str_append(&out, ".Sh EXIT STATUS\n.Bd -literal\n");
    append_mdoc(&out, program->exit_codes);
    str_append(&out, ".Ed\n");
    return print_text(&out);
}

static int unknown_verb(const struct program *program, const char *name)
{
    const char *names[64];
    size_t count = 0;
    for (const struct verb *v = program->verbs; v->name && count < 64; v++)
        names[count++] = v->name;
    fprintf(stderr, "%s: error: unknown verb \"%s\"\n", program->name, name);
    const char *near = str_nearest(name, names, count);
    if (near)
        fprintf(stderr, "%s: hint: did you mean \"%s\"?\n", program->name, near);
    else
        fprintf(stderr, "%s: hint: `%s --help` lists the verbs\n", program->name, program->name);
    return NCBENCH_EXIT_USAGE;
}

/* Is --help among the arguments of a verb, before any "--"? */
static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

/* The optional libraries too: what a program can see depends on them. */
static void print_version(const struct program *p, bool json)
{
    const char *hwloc = topo_hwloc_version();
    if (json)
        printf("{\"%s\": \"%s\", \"hwloc_api\": %s%s%s, \"papi\": %s}\n", p->name, p->version,
               hwloc ? "\"" : "", hwloc ? hwloc : "null", hwloc ? "\"" : "",
               HAVE_PAPI ? "true" : "false");
    else
        printf("%s %s\nhwloc API %s, PAPI %s\n", p->name, p->version, hwloc ? hwloc : "no",
               HAVE_PAPI ? "yes" : "no");
}

int verb_main(const struct program *program, int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "%s: error: no verb given\n%s: hint: `%s --help` lists them\n",
                program->name, program->name, program->name);
        return NCBENCH_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || (!strcmp(name, "help") && argc == 2))
        return help_program(program);
    if (!strcmp(name, "--version")) {
        print_version(program, argc > 2 && !strcmp(argv[2], "--json"));
        return fflush(stdout) ? NCBENCH_EXIT_RESULTS : 0;
    }
    if (!strcmp(name, "man"))
        return man_page(program);
    const struct verb *verb = find_verb(program, !strcmp(name, "help") ? argv[2] : name);
    if (!verb)
        return unknown_verb(program, !strcmp(name, "help") ? argv[2] : name);
    if (!strcmp(name, "help") || wants_help(argc - 2, argv + 2))
        return help_verb(program, verb);
    return verb->run(argc - 2, argv + 2);
}
