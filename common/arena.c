#include "common/arena.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 << 10 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(max_align_t) char data[];
};

static struct arena_chunk *new_chunk(size_t bytes)
{
    size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    struct arena_chunk *chunk = mem_alloc(sizeof *chunk + size);
    *chunk = (struct arena_chunk){.size = size};
    return chunk;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    const size_t align = _Alignof(max_align_t);
    bytes = (bytes + align - 1) / align * align;
    struct arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < bytes) {
        chunk = new_chunk(bytes);
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *p = chunk->data + chunk->used;
    chunk->used += bytes;
    memset(p, 0, bytes);
    return p;
}

char *arena_strndup(struct arena *arena, const char *s, size_t n)
{
    char *copy = arena_alloc(arena, n + 1);
    memcpy(copy, s, n);
    return copy;
}

char *arena_strdup(struct arena *arena, const char *s)
{
    return arena_strndup(arena, s, strlen(s));
}

void arena_join(struct arena *arena, struct arena *other)
{
    struct arena_chunk **tail = &arena->chunks;
    while (*tail)
        tail = &(*tail)->next;
    *tail = other->chunks;
    other->chunks = NULL;
}

void arena_release(struct arena *arena)
{
    while (arena->chunks) {
        struct arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
}
