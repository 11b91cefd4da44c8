/* An arena: many small allocations that live and die together.
 *
 * Everything from arena_alloc is zeroed, aligned for any type, and released at once by
 * arena_release; nothing is freed alone. For trees whose nodes point at each other. */
#ifndef COMMON_ARENA_H
#define COMMON_ARENA_H

#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* newest first */
};

#define ARENA_INIT                                                                                 \
    {                                                                                              \
        NULL                                                                                       \
    }

void *arena_alloc(struct arena *arena, size_t bytes);
/* A copy of n bytes with a NUL behind. */
char *arena_strndup(struct arena *arena, const char *s, size_t n);
char *arena_strdup(struct arena *arena, const char *s);
/* What `other` owns becomes `arena`'s; other is empty afterwards. */
void arena_join(struct arena *arena, struct arena *other);
void arena_release(struct arena *arena);

#endif
