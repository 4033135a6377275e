/* One pass over many values where torch takes several: dropout, cross-entropy with its gradient, additive scores,
   log-softmax, and the best of very many for a beam.

   Values are floats or, with `half`, bfloat16: the upper half of a float. Nothing here knows Python or torch:
   weft/core/native/pointwise.py fills the jobs. */

#include "common.h"

INLINE float from_half(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint16_t to_half(float x) { /* to the nearest, ties to even */
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* ---- dropout: y = x scale where the bits of its place are at least `least`, else 0; its gradient is the same.
   With `rest`, that is added. x and y may differ in format: where a sum is kept in floats, its gradients go back as
   the parts of the sum were ---- */

typedef struct {
    Team team;
    int32_t half, half_out;
    uint32_t seed, least;
    float scale;
    int64_t count;
    const void *x;
    void *y;
    const float *rest; /* may be missing; y is in floats with it */
} Dropout;

INLINE uint32_t bits_of(uint32_t place, uint32_t seed) { /* each place's own, as good as random */
    uint32_t x = place * 0x9e3779b9u + seed;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

INLINE void drop(const Dropout *d, int64_t from, int64_t to, int half, int half_out, int onto) {
    const float *restrict x = d->x, *restrict rest = d->rest;
    const uint16_t *restrict x_half = d->x;
    float *restrict y = d->y;
    uint16_t *restrict y_half = d->y;
    const uint32_t seed = d->seed, least = d->least;
    const float scale = d->scale;
#pragma omp simd
    for (int64_t i = from; i < to; i++) {
        float value = (half ? from_half(x_half[i]) : x[i]) * scale;
        value = bits_of((uint32_t)i, seed) >= least ? value : 0.0f;
        if (onto) value += rest[i];
        if (half_out) y_half[i] = to_half(value);
        else y[i] = value;
    }
}

#define DROP(name, half, half_out, onto) \
    FAST static void name(const void *job, int64_t from, int64_t to) { drop(job, from, to, half, half_out, onto); }
DROP(floats, 0, 0, 0)
DROP(halves, 1, 1, 0)
DROP(floats_to_halves, 0, 1, 0)
DROP(halves_to_floats, 1, 0, 0)
DROP(floats_onto, 0, 0, 1)
DROP(halves_onto, 1, 0, 1)

void weft_dropout(const Dropout *d) {
    static const Part PLAIN[2][2] = {{floats, floats_to_halves}, {halves_to_floats, halves}};
    static const Part ONTO[2] = {floats_onto, halves_onto};
    in_parts(&d->team, d->rest ? ONTO[d->half] : PLAIN[d->half][d->half_out], d, d->count, d->count);
}

/* ---- cross-entropy of each row of scores with the symbol that was wanted, smoothed, and the scores' gradients ---- */

typedef struct {
    Team team;
    int32_t half, symbols;
    float smoothing;
    int64_t rows, none;    /* rows that want `none` count nothing */
    const void *scores;    /* (rows, symbols) */
    const int64_t *wanted; /* (rows) */
    float *losses;         /* (rows) */
    void *gradients;       /* (rows, symbols) */
    float *room;           /* (threads, symbols) with `half`: for numbers on the way; else not used */
} Entropy;

FAST static void entropy_rows(const void *job, int64_t from, int64_t to) {
    const Entropy *e = job;
    const int V = e->symbols;
    const float even = e->smoothing / V;
    float *room = e->half ? e->room + (size_t)(e->team.parallel == NULL ? 0 : e->team.thread()) * V : NULL;
    for (int64_t r = from; r < to; r++) {
        const size_t start = (size_t)r * V;
        const int64_t y = e->wanted[r];
        uint16_t *restrict halves = (uint16_t *)e->gradients + start;
        if (y == e->none) {
            e->losses[r] = 0.0f;
            if (e->half) memset(halves, 0, sizeof(uint16_t) * V);
            else memset((float *)e->gradients + start, 0, sizeof(float) * V);
            continue;
        }
        float *restrict g = e->half ? room : (float *)e->gradients + start;
        float most = -3.4e38f, sum = 0.0f, all = 0.0f;
        if (e->half) {
            const uint16_t *restrict x = (const uint16_t *)e->scores + start;
#pragma omp simd reduction(max : most) reduction(+ : all)
            for (int i = 0; i < V; i++) {
                float value = from_half(x[i]);
                g[i] = value;
                all += value;
                most = value > most ? value : most;
            }
        } else {
            const float *restrict x = (const float *)e->scores + start;
#pragma omp simd reduction(max : most) reduction(+ : all)
            for (int i = 0; i < V; i++) {
                g[i] = x[i];
                all += x[i];
                most = x[i] > most ? x[i] : most;
            }
        }
        const float wanted = g[y];
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < V; i++) {
            g[i] = exponential(g[i] - most);
            sum += g[i];
        }
        const float total = most + __builtin_logf(sum), share = 1.0f / sum;
        e->losses[r] = total - (1.0f - e->smoothing) * wanted - e->smoothing * all / V;
        g[y] -= (1.0f - e->smoothing) * sum;
        if (e->half) {
#pragma omp simd
            for (int i = 0; i < V; i++) halves[i] = to_half(g[i] * share - even);
        } else {
#pragma omp simd
            for (int i = 0; i < V; i++) g[i] = g[i] * share - even;
        }
    }
}

void weft_entropy(const Entropy *e) { in_parts(&e->team, entropy_rows, e, e->rows, e->rows * e->symbols); }

/* ---- additive scores: wᵀ tanh(q + k) for each query of a line and each of its keys ---- */

typedef struct {
    Team team;
    int64_t lines, queries, keys, width; /* queries and keys of a line */
    const float *asked, *known, *weight; /* (lines, queries, width), (lines, keys, width), (width) */
    float *scores;                       /* (lines, queries, keys) */
} Additive;

FAST static void additive_queries(const void *job, int64_t from, int64_t to) {
    const Additive *a = job;
    const int D = (int)a->width;
    const float *restrict weight = a->weight;
    for (int64_t one = from; one < to; one++) {
        const float *restrict query = a->asked + (size_t)one * D;
        const float *keys = a->known + (size_t)(one / a->queries) * a->keys * D;
        for (int64_t i = 0; i < a->keys; i++) {
            const float *restrict key = keys + (size_t)i * D;
            float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
            for (int d = 0; d < D; d++) sum += weight[d] * hyperbolic(query[d] + key[d]);
            a->scores[one * a->keys + i] = sum;
        }
    }
}

void weft_additive(const Additive *a) {
    const int64_t count = a->lines * a->queries;
    in_parts(&a->team, additive_queries, a, count, count * a->keys * a->width);
}

/* ---- what an LSTM makes of its gates' sums: c = i c~ + f c', h = o tanh(c) ---- */

typedef struct {
    Team team;
    int64_t rows, width;
    const float *of_input, *of_state; /* (rows, 4, width): i, f, c~ and o are made of their sum */
    const float *before;              /* (rows, width): c' */
    float *h, *c;                     /* (rows, width) */
} LongShort;

FAST static void long_short_rows(const void *job, int64_t from, int64_t to) {
    const LongShort *l = job;
    const int D = (int)l->width;
    for (int64_t row = from; row < to; row++) {
        const float *restrict x = l->of_input + (size_t)row * 4 * D, *restrict s = l->of_state + (size_t)row * 4 * D;
        const float *restrict before = l->before + (size_t)row * D;
        float *restrict h = l->h + (size_t)row * D, *restrict c = l->c + (size_t)row * D;
#pragma omp simd
        for (int d = 0; d < D; d++) {
            const float i = sigmoid(x[d] + s[d]), f = sigmoid(x[D + d] + s[D + d]);
            const float n = hyperbolic(x[2 * D + d] + s[2 * D + d]), o = sigmoid(x[3 * D + d] + s[3 * D + d]);
            c[d] = f * before[d] + i * n;
            h[d] = o * hyperbolic(c[d]);
        }
    }
}

void weft_long_short(const LongShort *l) { in_parts(&l->team, long_short_rows, l, l->rows, 4 * l->rows * l->width); }

/* ---- log-softmax of each row, in its place ---- */

typedef struct {
    Team team;
    int64_t rows, symbols;
    float *x; /* (rows, symbols) */
} LogSoftmax;

FAST static void log_softmax_rows(const void *job, int64_t from, int64_t to) {
    const LogSoftmax *l = job;
    const int V = (int)l->symbols;
    for (int64_t r = from; r < to; r++) {
        float *restrict x = l->x + (size_t)r * V;
        float most = -3.4e38f, sum = 0.0f;
#pragma omp simd reduction(max : most)
        for (int i = 0; i < V; i++) most = x[i] > most ? x[i] : most;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < V; i++) sum += exponential(x[i] - most);
        const float total = most + __builtin_logf(sum);
#pragma omp simd
        for (int i = 0; i < V; i++) x[i] -= total;
    }
}

void weft_log_softmax(const LogSoftmax *l) { in_parts(&l->team, log_softmax_rows, l, l->rows, l->rows * l->symbols); }

/* ---- of each line the `count` best sums of a hypothesis's total and what it may say next, the best first ---- */

enum { LOOK = 64 }; /* values of which the most is found before any is looked at */

typedef struct {
    Team team;
    int64_t lines, width, symbols, count; /* hypotheses a line; how many are wanted of each line */
    int64_t end, first;                   /* what may be said: `end`, and all symbols from `first` on */
    const float *total, *said;            /* (lines, width), (lines, width, symbols) */
    float *best;                          /* (lines, count); -inf where there are not so many */
    int64_t *places;                      /* (lines, count): hypothesis * symbols + symbol */
} Best;

INLINE void enter(const Best *b, float *best, int64_t *places, float value, int64_t place) {
    int64_t i = b->count - 1;
    for (; i > 0 && value > best[i - 1]; i--) best[i] = best[i - 1], places[i] = places[i - 1];
    best[i] = value, places[i] = place;
}

FAST static void best_of_lines(const void *job, int64_t from, int64_t to) {
    const Best *b = job;
    const int64_t V = b->symbols, last = b->count - 1;
    for (int64_t line = from; line < to; line++) {
        float *best = b->best + line * b->count;
        int64_t *places = b->places + line * b->count;
        for (int64_t i = 0; i <= last; i++) best[i] = -__builtin_inff(), places[i] = b->end;
        for (int64_t k = 0; k < b->width; k++) {
            const float *restrict x = b->said + (size_t)(line * b->width + k) * V;
            const float total = b->total[line * b->width + k];
            if (x[b->end] + total > best[last]) enter(b, best, places, x[b->end] + total, k * V + b->end);
            for (int64_t start = b->first; start < V; start += LOOK) {
                const int64_t stop = start + LOOK < V ? start + LOOK : V;
                float most = -3.4e38f;
#pragma omp simd reduction(max : most)
                for (int64_t i = start; i < stop; i++) most = x[i] > most ? x[i] : most;
                if (!(most + total > best[last])) continue;
                for (int64_t i = start; i < stop; i++)
                    if (x[i] + total > best[last]) enter(b, best, places, x[i] + total, k * V + i);
            }
        }
    }
}

void weft_best(const Best *b) { in_parts(&b->team, best_of_lines, b, b->lines, b->lines * b->width * b->symbols); }

int64_t weft_pointwise_size(void) {
    return sizeof(Dropout) + sizeof(Entropy) + sizeof(Additive) + sizeof(LongShort) + sizeof(LogSoftmax) + sizeof(Best);
}
