/* The choices that a device makes among equal ways to compute something: which of the algorithms
 * that a library offers for a product. Each is a key (what is computed) and a value (opaque bytes
 * of the library's). A device makes its store when it opens; plan_files.h fills it from disk and
 * keeps it there. Another algorithm adds in another order, so a run with the same plans makes the
 * same sums. */
#ifndef KERNELS_PLAN_STORE_H
#define KERNELS_PLAN_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_mode {
    PLANS_AUTO,   /* stored ones; what is not stored is timed, and kept */
    PLANS_STORED, /* stored ones; what is not stored takes the first algorithm; keeps nothing */
    PLANS_TIME,   /* timed in every process; reads and keeps nothing */
    PLANS_FIRST,  /* the first algorithm that the library offers; reads and keeps nothing */
};

enum plan_origin { PLAN_STORED, PLAN_TIMED, PLAN_FIRST, PLAN_ORIGINS };

enum { PLAN_KEY_MAX = 160, PLAN_VALUE_MAX = 64, PLANS_MAX = 4096 };

struct plan {
    char key[PLAN_KEY_MAX];
    unsigned char value[PLAN_VALUE_MAX];
    size_t size;
    enum plan_origin origin;
    bool taken;   /* this process computes with it */
    bool refused; /* the library would not have the stored one: it is not to be kept */
};

struct plan_store {
    char identity[PLAN_KEY_MAX]; /* of device and libraries: [A-Za-z0-9._-] */
    enum plan_mode mode;
    struct plan *plans;
    size_t count, room;
};

/* "auto", "stored", "time" or "first"; anything else is auto. */
enum plan_mode plan_mode_of(const char *name);
const char *plan_mode_name(enum plan_mode mode);

/* Other characters of the identity become '-', so that it can name a file. */
void plan_store_open(struct plan_store *s, const char *identity, enum plan_mode mode);
void plan_store_close(struct plan_store *s);

/* Is that a key: 1 to PLAN_KEY_MAX - 1 of [A-Za-z0-9._-] and single blanks between them? */
bool plan_key_valid(const char *key, size_t length);
/* A plan as it was stored. False: no key, no size from 1 to PLAN_VALUE_MAX, there already, or
 * PLANS_MAX are there. */
bool plan_store_add(struct plan_store *s, const char *key, const void *value, size_t size);
/* The stored plan of that key and size where the mode takes stored ones; NULL: choose. */
const struct plan *plan_store_find(const struct plan_store *s, const char *key, size_t size);
/* The library refuses the stored plan. */
void plan_store_refuse(struct plan_store *s, const char *key);
/* This process computes with that. */
void plan_store_take(struct plan_store *s, const char *key, const void *value, size_t size,
                     enum plan_origin origin);
/* How many were taken from there. */
int64_t plan_store_taken(const struct plan_store *s, enum plan_origin origin);

#endif
