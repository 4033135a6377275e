/* One pass over many values where torch makes several: dropout, cross-entropy with its gradient, additive scores, an
   LSTM's gates, log-softmax, and the largest sums for a beam.

   Values are floats or, with `half`, bfloat16: the upper half of a float. Nothing here depends on Python or torch:
   weft/core/native/pointwise.py fills the jobs and checks every array. */

#include "common.h"

INLINE float from_half(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint16_t to_half(float x) { /* rounded to the nearest, ties to even */
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* ---- dropout: y = x scale where the random bits of a position are at least `least`, else 0; the gradient is computed
   the same way. `rest` is added if it is given. x and y may differ in format: of a sum that is kept in floats, the
   gradient has the format of each summand ---- */

typedef struct {
    Team team;
    int32_t half, half_out;
    uint32_t seed, least;
    float scale;
    int64_t count;
    const void *x;
    void *y;
    const float *rest; /* or NULL; if given, y is in floats */
} Dropout;

INLINE uint32_t random_bits(uint32_t position, uint32_t seed) { /* a hash of both */
    uint32_t x = position * 0x9e3779b9u + seed;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

INLINE void drop(const Dropout *d, int64_t from, int64_t to, int half, int half_out, int add) {
    const float *restrict x = d->x, *restrict rest = d->rest;
    const uint16_t *restrict x_half = d->x;
    float *restrict y = d->y;
    uint16_t *restrict y_half = d->y;
    const uint32_t seed = d->seed, least = d->least;
    const float scale = d->scale;
#pragma omp simd
    for (int64_t i = from; i < to; i++) {
        float value = (half ? from_half(x_half[i]) : x[i]) * scale;
        value = random_bits((uint32_t)i, seed) >= least ? value : 0.0f;
        if (add) value += rest[i];
        if (half_out) y_half[i] = to_half(value);
        else y[i] = value;
    }
}

#define DROP(name, half, half_out, add) \
    FAST static void name(const void *job, int64_t from, int64_t to) { drop(job, from, to, half, half_out, add); }
DROP(floats, 0, 0, 0)
DROP(halves, 1, 1, 0)
DROP(floats_to_halves, 0, 1, 0)
DROP(halves_to_floats, 1, 0, 0)
DROP(add_floats, 0, 0, 1)
DROP(add_halves, 1, 0, 1)

void weft_dropout(const Dropout *d) {
    static const Range PLAIN[2][2] = {{floats, floats_to_halves}, {halves_to_floats, halves}};
    static const Range ADDED[2] = {add_floats, add_halves};
    parallel_for(&d->team, d->rest ? ADDED[d->half] : PLAIN[d->half][d->half_out], d, d->count, d->count);
}

/* ---- cross-entropy of each row of scores with its target, with label smoothing, and the gradient of the scores ---- */

typedef struct {
    Team team;
    int32_t half, symbols;
    float smoothing;
    int64_t rows, ignored; /* rows whose target is `ignored` count nothing */
    const void *scores;    /* (rows, symbols) */
    const int64_t *targets; /* (rows) */
    float *losses;         /* (rows) */
    void *gradients;       /* (rows, symbols) */
    float *scratch;        /* (threads, symbols) with `half`, else unused */
} CrossEntropy;

typedef struct {
    const CrossEntropy *job;
    int64_t *wrong; /* a row whose target is no symbol, or -1 */
} CheckedEntropy;

FAST static void entropy_rows(const void *checked, int64_t from, int64_t to) {
    const CrossEntropy *e = ((const CheckedEntropy *)checked)->job;
    const int V = e->symbols;
    const float even = e->smoothing / V;
    float *room = e->half ? e->scratch + (size_t)(e->team.parallel == NULL ? 0 : e->team.thread()) * V : NULL;
    for (int64_t r = from; r < to; r++) {
        const size_t start = (size_t)r * V;
        const int64_t y = e->targets[r];
        uint16_t *restrict halves = (uint16_t *)e->gradients + start;
        if (y == e->ignored) {
            e->losses[r] = 0.0f;
            if (e->half) memset(halves, 0, sizeof(uint16_t) * V);
            else memset((float *)e->gradients + start, 0, sizeof(float) * V);
            continue;
        }
        if (y < 0 || y >= V) {
            __atomic_store_n(((const CheckedEntropy *)checked)->wrong, r, __ATOMIC_RELAXED);
            return;
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
        const float target = g[y];
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < V; i++) {
            g[i] = exponential(g[i] - most);
            sum += g[i];
        }
        const float total = most + __builtin_logf(sum), share = 1.0f / sum;
        e->losses[r] = total - (1.0f - e->smoothing) * target - e->smoothing * all / V;
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

/* -1, or a row whose target is no symbol: then the results are incomplete */
int64_t weft_cross_entropy(const CrossEntropy *e) {
    int64_t wrong = -1;
    const CheckedEntropy checked = {e, &wrong};
    parallel_for(&e->team, entropy_rows, &checked, e->rows, e->rows * e->symbols);
    return wrong;
}

/* ---- additive scores: wᵀ tanh(q + k) for each query of a line and each of its keys ---- */

typedef struct {
    Team team;
    int64_t lines, query_count, key_count, width; /* queries and keys of one line */
    const float *queries, *keys, *weight;         /* (lines, queries, width), (lines, keys, width), (width) */
    float *scores;                                /* (lines, queries, keys) */
} AdditiveScores;

FAST static void score_queries(const void *job, int64_t from, int64_t to) {
    const AdditiveScores *a = job;
    const int D = (int)a->width;
    const float *restrict weight = a->weight;
    for (int64_t q = from; q < to; q++) {
        const float *restrict query = a->queries + (size_t)q * D;
        const float *keys = a->keys + (size_t)(q / a->query_count) * a->key_count * D;
        for (int64_t i = 0; i < a->key_count; i++) {
            const float *restrict key = keys + (size_t)i * D;
            float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
            for (int d = 0; d < D; d++) sum += weight[d] * hyperbolic(query[d] + key[d]);
            a->scores[q * a->key_count + i] = sum;
        }
    }
}

void weft_additive_scores(const AdditiveScores *a) {
    const int64_t count = a->lines * a->query_count;
    parallel_for(&a->team, score_queries, a, count, count * a->key_count * a->width);
}

/* ---- one step of an LSTM after its matrix products: c = i c~ + f c', h = o tanh(c) ---- */

typedef struct {
    Team team;
    int64_t rows, width;
    const float *from_input, *from_state; /* (rows, 4, width): i, f, c~ and o are functions of their sum */
    const float *before;                  /* (rows, width): c' */
    float *h, *c;                         /* (rows, width) */
} LstmStep;

FAST static void lstm_rows(const void *job, int64_t from, int64_t to) {
    const LstmStep *l = job;
    const int D = (int)l->width;
    for (int64_t row = from; row < to; row++) {
        const float *restrict x = l->from_input + (size_t)row * 4 * D, *restrict s = l->from_state + (size_t)row * 4 * D;
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

void weft_lstm_step(const LstmStep *l) { parallel_for(&l->team, lstm_rows, l, l->rows, 4 * l->rows * l->width); }

/* ---- log-softmax of each row, in place ---- */

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

void weft_log_softmax(const LogSoftmax *l) { parallel_for(&l->team, log_softmax_rows, l, l->rows, l->rows * l->symbols); }

/* ---- for each line the `count` largest sums of a hypothesis's score and the log-probability of its next symbol ---- */

enum { BLOCK = 64 }; /* values whose maximum is computed before each is compared */

typedef struct {
    Team team;
    int64_t lines, width, symbols, count; /* width: hypotheses of a line; count: sums wanted of a line */
    int64_t end, first;                   /* allowed are the symbol `end` and all from `first` on */
    const float *scores, *log_probs;      /* (lines, width), (lines, width, symbols) */
    float *best;                          /* (lines, count), the largest first; -inf where there are fewer */
    int64_t *indices;                     /* (lines, count): hypothesis * symbols + symbol */
} TopSums;

INLINE void insert(const TopSums *b, float *best, int64_t *indices, float value, int64_t index) {
    int64_t i = b->count - 1;
    for (; i > 0 && value > best[i - 1]; i--) best[i] = best[i - 1], indices[i] = indices[i - 1];
    best[i] = value, indices[i] = index;
}

FAST static void top_of_lines(const void *job, int64_t from, int64_t to) {
    const TopSums *b = job;
    const int64_t V = b->symbols, last = b->count - 1;
    for (int64_t line = from; line < to; line++) {
        float *best = b->best + line * b->count;
        int64_t *indices = b->indices + line * b->count;
        for (int64_t i = 0; i <= last; i++) best[i] = -__builtin_inff(), indices[i] = b->end;
        for (int64_t k = 0; k < b->width; k++) {
            const float *restrict x = b->log_probs + (size_t)(line * b->width + k) * V;
            const float score = b->scores[line * b->width + k];
            if (x[b->end] + score > best[last]) insert(b, best, indices, x[b->end] + score, k * V + b->end);
            for (int64_t start = b->first; start < V; start += BLOCK) {
                const int64_t stop = start + BLOCK < V ? start + BLOCK : V;
                float most = -3.4e38f;
#pragma omp simd reduction(max : most)
                for (int64_t i = start; i < stop; i++) most = x[i] > most ? x[i] : most;
                if (!(most + score > best[last])) continue;
                for (int64_t i = start; i < stop; i++)
                    if (x[i] + score > best[last]) insert(b, best, indices, x[i] + score, k * V + i);
            }
        }
    }
}

void weft_top_sums(const TopSums *b) {
    parallel_for(&b->team, top_of_lines, b, b->lines, b->lines * b->width * b->symbols);
}
