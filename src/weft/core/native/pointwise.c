/* One pass over many values where torch takes several: dropout, cross-entropy with its gradient, and products with a
   row or two, which are bound by reading the matrix once.

   Values are floats or, with `half`, bfloat16: the upper half of a float. Nothing here knows Python or torch:
   weft/core/native/__init__.py fills the jobs. */

#include "common.h"

#define WORTH_SHARING 32768 /* values; below it a second thread costs more than it brings */

typedef struct {
    Parallel parallel; /* torch's threads; may be missing: then one thread does all */
    Number thread, threads;
} Team;

typedef void (*Part)(const void *job, int64_t from, int64_t to);

typedef struct {
    const Team *team;
    Part part;
    const void *job;
    int64_t count;
} Work;

static void take_share(void *given) {
    const Work *w = given;
    const int64_t threads = w->team->threads(), thread = w->team->thread();
    w->part(w->job, w->count * thread / threads, w->count * (thread + 1) / threads);
}

static void in_parts(const Team *team, Part part, const void *job, int64_t count, int64_t values) {
    if (team->parallel == NULL || values < WORTH_SHARING) {
        part(job, 0, count);
        return;
    }
    Work work = {team, part, job, count};
    team->parallel(take_share, &work, 0, 0);
}

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

/* ---- y = x Wᵀ + b for few rows: four rows of W at a time meet every row of x ---- */

typedef struct {
    Team team;
    int32_t rows, inputs, outputs;
    const float *x, *weight, *bias; /* (rows, inputs), (outputs, inputs), (outputs) or missing */
    float *y;                       /* (rows, outputs) */
} Few;

FAST static void few_outputs(const void *job, int64_t from, int64_t to) {
    const Few *f = job;
    const int K = f->inputs;
    const int64_t N = f->outputs;
    for (int64_t n = 4 * from; n < 4 * to && n < N; n += 4) {
        const int64_t last = N - 1; /* beyond the end the last one is made again */
        const float *restrict w0 = f->weight + (size_t)n * K, *restrict w1 = f->weight + (size_t)(n + 1 < N ? n + 1 : last) * K,
                    *restrict w2 = f->weight + (size_t)(n + 2 < N ? n + 2 : last) * K,
                    *restrict w3 = f->weight + (size_t)(n + 3 < N ? n + 3 : last) * K;
        for (int r = 0; r < f->rows; r++) {
            const float *restrict x = f->x + (size_t)r * K;
            float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
            for (int k = 0; k < K; k++) {
                s0 += x[k] * w0[k];
                s1 += x[k] * w1[k];
                s2 += x[k] * w2[k];
                s3 += x[k] * w3[k];
            }
            const float sums[4] = {s0, s1, s2, s3};
            float *restrict y = f->y + (size_t)r * N + n;
            for (int i = 0; i < 4 && n + i < N; i++) y[i] = sums[i] + (f->bias ? f->bias[n + i] : 0.0f);
        }
    }
}

void weft_few(const Few *f) { in_parts(&f->team, few_outputs, f, (f->outputs + 3) / 4, (int64_t)f->outputs * f->inputs); }
