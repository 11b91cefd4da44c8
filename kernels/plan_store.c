#include "kernels/plan_store.h"

#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const mode_names[] = {
    [PLANS_AUTO] = "auto",
    [PLANS_STORED] = "stored",
    [PLANS_TIME] = "time",
    [PLANS_FIRST] = "first",
};
enum { N_MODES = sizeof mode_names / sizeof *mode_names };

enum plan_mode plan_mode_of(const char *name)
{
    for (int i = 0; i < N_MODES; i++)
        if (name && !strcmp(name, mode_names[i]))
            return (enum plan_mode)i;
    return PLANS_AUTO;
}

const char *plan_mode_name(enum plan_mode mode)
{
    return mode_names[mode];
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

void plan_store_open(struct plan_store *s, const char *identity, enum plan_mode mode)
{
    *s = (struct plan_store){.mode = mode};
    snprintf(s->identity, sizeof s->identity, "%s", identity);
    for (char *c = s->identity; *c; c++)
        if (!is_plain(*c))
            *c = '-';
}

void plan_store_close(struct plan_store *s)
{
    free(s->plans);
    *s = (struct plan_store){0};
}

bool plan_key_valid(const char *key, size_t length)
{
    if (length < 1 || length >= PLAN_KEY_MAX)
        return false;
    bool after_blank = true; /* none at the head */
    for (size_t i = 0; i < length; i++) {
        const bool blank = key[i] == ' ';
        if ((blank && after_blank) || (!blank && !is_plain(key[i])))
            return false;
        after_blank = blank;
    }
    return !after_blank;
}

static struct plan *look_up(const struct plan_store *s, const char *key)
{
    for (size_t i = 0; i < s->count; i++)
        if (!strcmp(s->plans[i].key, key))
            return &s->plans[i];
    return NULL;
}

static struct plan *append(struct plan_store *s, const char *key)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->plans = mem_realloc(s->plans, s->room, sizeof *s->plans);
    }
    struct plan *p = &s->plans[s->count++];
    *p = (struct plan){0};
    snprintf(p->key, sizeof p->key, "%s", key);
    return p;
}

static void set(struct plan *p, const void *value, size_t size, enum plan_origin origin)
{
    memset(p->value, 0, sizeof p->value);
    memcpy(p->value, value, size);
    p->size = size;
    p->origin = origin;
}

bool plan_store_add(struct plan_store *s, const char *key, const void *value, size_t size)
{
    if (!plan_key_valid(key, strlen(key)) || size < 1 || size > PLAN_VALUE_MAX ||
        s->count >= PLANS_MAX || look_up(s, key))
        return false;
    set(append(s, key), value, size, PLAN_STORED);
    return true;
}

const struct plan *plan_store_find(const struct plan_store *s, const char *key, size_t size)
{
    if (s->mode != PLANS_AUTO && s->mode != PLANS_STORED)
        return NULL;
    const struct plan *p = look_up(s, key);
    return p && p->origin == PLAN_STORED && !p->refused && p->size == size ? p : NULL;
}

void plan_store_refuse(struct plan_store *s, const char *key)
{
    struct plan *p = look_up(s, key);
    if (p)
        p->refused = true;
}

void plan_store_take(struct plan_store *s, const char *key, const void *value, size_t size,
                     enum plan_origin origin)
{
    if (!plan_key_valid(key, strlen(key)) || size < 1 || size > PLAN_VALUE_MAX)
        return;
    struct plan *p = look_up(s, key);
    p = p ? p : append(s, key);
    set(p, value, size, origin);
    p->taken = true;
}

int64_t plan_store_taken(const struct plan_store *s, enum plan_origin origin)
{
    int64_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n += s->plans[i].taken && s->plans[i].origin == origin;
    return n;
}
