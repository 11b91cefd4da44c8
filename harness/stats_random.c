#include "harness/stats_random.h"

#include <math.h>

void stats_rng_seed(struct stats_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        rng->s[i] = z ^ (z >> 31);
    }
}

static uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t stats_rng_next(struct stats_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

double stats_rng_uniform(struct stats_rng *rng)
{
    return ldexp((double)(stats_rng_next(rng) >> 11), -53);
}

double stats_rng_normal(struct stats_rng *rng)
{
    double u = 1 - stats_rng_uniform(rng); /* (0, 1]: its logarithm is finite */
    double v = stats_rng_uniform(rng);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

size_t stats_rng_below(struct stats_rng *rng, size_t n)
{
    if (n < 2)
        return 0;
    uint64_t limit = UINT64_MAX - UINT64_MAX % n; /* values above would favour the low ones */
    uint64_t x;
    do
        x = stats_rng_next(rng);
    while (x >= limit);
    return (size_t)(x % n);
}

void stats_rng_shuffle(struct stats_rng *rng, size_t *items, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = stats_rng_below(rng, i), last = items[i - 1];
        items[i - 1] = items[k];
        items[k] = last;
    }
}
