/* docs/configuration.md, from the table. */
#include "harness/schema.h"

#include "common/num.h"

#include <string.h>

static const char intro[] =
    "# Scenario files\n"
    "\n"
    "<!-- Generated from the schema table by `ncbench check --reference`; do not edit. -->\n"
    "\n"
    "A scenario says what to run (`workload`), how (`runtimes`, `launch`), over which values\n"
    "(`matrix`), how often and in which order (`sampling`), and what to conclude (`compare`,\n"
    "`gates`). `ncbench check FILE` judges it, `ncbench check --dump FILE` shows it with all\n"
    "defaults, `ncbench plan FILE` lists the trials. `configs/` has scenarios to start from.\n"
    "\n"
    "## Rules\n"
    "\n"
    "- YAML 1.1 in UTF-8, one document, at most 1 MiB, 64 levels, 100,000 nodes after alias\n"
    "  expansion, 10,000 cells. Anchors and aliases work; merge keys (`<<`) and tags do not.\n"
    "- Unknown and duplicate keys are errors. All errors are shown at once, with their place.\n"
    "- Types follow from the key, not from the look of a value. Booleans are `true` and `false`;\n"
    "  integers plain decimal; quoted scalars are text.\n"
    "- Durations need a unit (`us ms s m h`: `90s`, `1m30s`, `1.5h`), sizes too (`B KB MB GB TB`\n"
    "  powers of 1000, `KiB MiB GiB TiB` powers of 1024), percentages the sign (`1%`).\n"
    "- `${…}` puts in a variable (`vars`) or a matrix name, computes (`+ - * / // %`, "
    "parentheses,\n"
    "  `min max ceil floor`) or reads the environment (`${env:HOME}`); `$$` is a dollar. A value\n"
    "  that is one lone `${…}` takes the type of what comes out. Inside `{…}` and `[…]` it must "
    "be\n"
    "  quoted: `{n: \"${ranks}\"}`. Only `workload`, `runtimes` and `launch` may depend on the\n"
    "  matrix. `/` of integers stays an integer where nothing remains; `//` and `%` round down.\n"
    "- `-D name=value` replaces a variable, `-D sampling.seed=7` or `-D 'runtimes[1].image=x'` "
    "any\n"
    "  key; values that open with `[`, `{` or a quote are read as YAML.\n"
    "- Relative paths are seen from the working directory.\n"
    "\n"
    "Metrics: `step_time_s`, `tokens_per_s`, `mfu`, `start_s`, `wall_s`, or any dotted path of "
    "the\n"
    "trial record, such as `phases_s.model_init`.\n";

static const char *type_name(const struct schema_key *key)
{
    static const char *const names[] = {
        [SCHEMA_MAP] = "mapping",       [SCHEMA_LIST] = "list",
        [SCHEMA_STRING] = "text",       [SCHEMA_PATH] = "path",
        [SCHEMA_NAME] = "name",         [SCHEMA_BOOL] = "true, false",
        [SCHEMA_INT] = "integer",       [SCHEMA_NUMBER] = "number",
        [SCHEMA_DURATION] = "duration", [SCHEMA_SIZE] = "size",
        [SCHEMA_PERCENT] = "percent",   [SCHEMA_AMOUNT] = "duration or number",
        [SCHEMA_CHOICE] = NULL,         [SCHEMA_SCALAR] = "scalar",
        [SCHEMA_ANY] = "anything",
    };
    return names[key->type];
}

static void append_type(const struct schema_key *key, struct str *out)
{
    const char *name = type_name(key);
    for (size_t i = 0; !name && key->choices[i]; i++)
        str_appendf(out, "%s`%s`", i ? ", " : "", key->choices[i]);
    if (name)
        str_append(out, name);
    if (key->flags & SCHEMA_SHARE)
        str_append(out, ", at most 100%");
    char low[NUM_F64_MAX], high[NUM_F64_MAX];
    if (key->min < key->max && key->max < 1e15)
        str_appendf(out, ", %s to %s", num_format_f64(low, key->min),
                    num_format_f64(high, key->max));
    else if (key->min < key->max)
        str_appendf(out, ", at least %s", num_format_f64(low, key->min));
}

/* '|' ends a cell of a Markdown table. */
static void append_cell(struct str *out, const char *text)
{
    for (; *text; text++)
        if (*text == '|')
            str_append(out, "\\|");
        else
            str_append_char(out, *text);
}

static void append_row(const struct schema_key *key, struct str *out)
{
    str_append(out, "| `");
    append_cell(out, key->path);
    str_append(out, "` | ");
    append_type(key, out);
    str_append(out, " | ");
    if (key->flags & SCHEMA_REQUIRED)
        str_append(out, "required");
    else if (key->def)
        str_appendf(out, "`%s`", key->def);
    str_append(out, " | ");
    append_cell(out, key->help);
    if (key->option)
        str_appendf(out, " `%s`", key->option);
    if (key->since)
        str_appendf(out, " Since %s.", key->since);
    str_append(out, " |\n");
}

void schema_reference(struct str *out)
{
    str_append(out, intro);
    const struct schema_key *key = schema_keys;
    str_append(out, "\n## Top level\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
    for (; key->path; key++)
        if (schema_is_child(&schema_root, key))
            append_row(key, out);
    const struct schema_key *section = NULL;
    for (key = schema_keys; key->path; key++) {
        if (schema_is_child(&schema_root, key)) {
            section = key;
            continue;
        }
        if (section)
            str_appendf(out, "\n## %s\n\n| key | type | default | meaning |\n|---|---|---|---|\n",
                        section->path);
        section = NULL;
        append_row(key, out);
    }
}
