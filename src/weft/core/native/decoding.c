/* One step of a Transformer's decoder, all blocks in one call, and products with matrices that no longer change.

   With many rows, each thread computes the whole step for some of them; with few, threads divide the outputs of each
   product and wait for each other after it. The result of a row depends neither on that nor on the other rows.
   Nothing here depends on Python or torch: weft/core/native/decoding.py fills the jobs and checks every array. The
   equations are in weft/nn/decoders/transformer.py and multihead.py.

   N rows (hypotheses), D width, H heads of width d, S source length, F inner width */

#include "common.h"

enum { PANEL = 16, TALL = 6 }; /* outputs of a panel, and rows of a tile */
enum { MANY_ROWS = 4 };        /* of a thread: from here on it computes rows rather than outputs */
enum { STORE, RELU, ADD };     /* what happens to a product: stored, max(0, ·) stored, added to what is there */

typedef struct {
    Team team;
    int32_t lanes, then;
    int64_t rows, x_stride, y_stride;
    int32_t inputs, outputs;
    const float *panels, *bias, *x; /* see product.h; the bias may be NULL */
    float *y;
} Product;

#define LANES 8
#include "product.h"
#undef LANES
#define LANES 16
#include "product.h"
#undef LANES

static void tiles(const Product *p, int64_t row, int64_t rows, int64_t panel, int64_t panels) {
    if (rows > 0 && panels > 0) (p->lanes == 16 ? tiles_16 : tiles_8)(p, row, rows, panel, panels);
}

INLINE int64_t panels_of(int32_t outputs) { return (outputs + PANEL - 1) / PANEL; }

static void row_range(const void *job, int64_t from, int64_t to) {
    const Product *p = job;
    tiles(p, from, to - from, 0, panels_of(p->outputs));
}

static void panel_range(const void *job, int64_t from, int64_t to) {
    const Product *p = job;
    tiles(p, 0, p->rows, from, to - from);
}

void weft_product(const Product *p) {
    const int64_t panels = panels_of(p->outputs), values = p->rows * p->inputs * p->outputs;
    const int by_rows = p->rows >= MANY_ROWS && p->rows > panels;
    parallel_for(&p->team, by_rows ? row_range : panel_range, p, by_rows ? p->rows : panels, values);
}

typedef struct {
    const float *panels, *bias;
    int32_t inputs, outputs;
} Linear;

typedef struct {
    const float *weight, *bias;
} Norm;

typedef struct {
    Linear self_in, self_out, cross_in, cross_out, feed_in, feed_out; /* self_in computes query, key and value */
    Norm self, cross, feed;
} Block;

typedef struct {
    const float *keys, *values;
} Source;

typedef struct {
    Team team;
    void (*barrier)(void); /* waits for all threads of the team */
    int32_t lanes, norm_first, rows, rows_per_line, width, heads, blocks, inner, source_length, length, cache_rows, lines;
    float epsilon;
    int64_t line_stride, head_stride, position_stride, mask_stride; /* of the source's arrays */
    int64_t bias_stride;   /* from the bias of a block to that of the next; 0: all have the same */
    const Block *parts;    /* (blocks) */
    const Source *source;  /* (blocks), each array (lines, H, S, d) */
    const Norm *last;      /* after the last block, or NULL */
    const uint8_t *mask;   /* (lines, S) */
    const int64_t *line_of; /* (N / rows_per_line) the line whose source the rows attend to, or NULL: in order */
    const float *cosines, *sines; /* (d / 2) the rotation of this position, or NULL */
    const float *bias;            /* (H, length) of a block, added to the scores of self-attention, or NULL */
    float *cache;                 /* (capacity, cache_rows, blocks, 2, D) keys and values written, and room for this position */
    const int64_t *row_of;        /* (length, N) the row of the cache that holds a hypothesis's position, or NULL: its own */
    float *x;                     /* (N, D) input and output */
    float *normed, *projected, *mixed, *hidden, *scores; /* (threads, N, D), (N, 3 D), (N, D), (N, F), (threads, longest) */
} Step;

typedef struct {
    int64_t row, rows;      /* the rows of this thread */
    int64_t share, shares;  /* and its share of their outputs */
    float *normed, *scores; /* scratch of this thread */
} Share;

static void wait_for_team(const Step *s, const Share *o) {
    if (o->shares > 1) s->barrier();
}

static void apply(const Step *s, const Share *o, const Linear *m, const float *x, int64_t x_stride, float *y, int64_t y_stride, int then) {
    const Product p = {.lanes = s->lanes, .then = then, .x_stride = x_stride, .y_stride = y_stride, .inputs = m->inputs,
                       .outputs = m->outputs, .panels = m->panels, .bias = m->bias, .x = x, .y = y};
    const int64_t panels = panels_of(m->outputs), from = panels * o->share / o->shares, to = panels * (o->share + 1) / o->shares;
    tiles(&p, o->row, o->rows, from, to - from);
    wait_for_team(s, o);
}

FAST static void normalise(const Step *s, const Norm *n, const float *from, float *to, int64_t row, int64_t rows) {
    const int D = s->width;
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = from + (size_t)r * D; /* y may be x */
        float *y = to + (size_t)r * D;
        float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < D; i++) sum += x[i];
        const float mean = sum / D;
#pragma omp simd reduction(+ : squares)
        for (int i = 0; i < D; i++) squares += (x[i] - mean) * (x[i] - mean);
        const float scale = 1.0f / __builtin_sqrtf(squares / D + s->epsilon);
#pragma omp simd
        for (int i = 0; i < D; i++) y[i] = (x[i] - mean) * scale * n->weight[i] + n->bias[i];
    }
}

/* the input of a block's part: x, or x normalised */
static const float *norm_before(const Step *s, const Share *o, const Norm *n) {
    if (!s->norm_first) return s->x;
    normalise(s, n, s->x, o->normed, o->row, o->rows);
    return o->normed;
}

static void norm_in_place(const Step *s, const Share *o, const Norm *n) {
    const int64_t from = o->rows * o->share / o->shares, to = o->rows * (o->share + 1) / o->shares;
    normalise(s, n, s->x, s->x, o->row + from, to - from);
    wait_for_team(s, o);
}

static void norm_after(const Step *s, const Share *o, const Norm *n) {
    if (!s->norm_first) norm_in_place(s, o, n);
}

INLINE float dot(const float *restrict a, const float *restrict b, int n) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

INLINE void add_scaled(float *restrict y, float share, const float *restrict x, int n) {
#pragma omp simd
    for (int i = 0; i < n; i++) y[i] += share * x[i];
}

INLINE void softmax(float *restrict x, int n) {
    float most = x[0], sum = 0.0f;
#pragma omp simd reduction(max : most)
    for (int i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++) {
        x[i] = exponential(x[i] - most);
        sum += x[i];
    }
    const float share = 1.0f / sum;
#pragma omp simd
    for (int i = 0; i < n; i++) x[i] *= share;
}

INLINE void rotate(const Step *s, float *x, int d) {
    const int half = d / 2;
    for (int i = 0; i < half; i++) {
        const float left = x[i], right = x[half + i];
        x[i] = left * s->cosines[i] - right * s->sines[i];
        x[half + i] = left * s->sines[i] + right * s->cosines[i];
    }
}

/* key and value of one block in the cache */
INLINE float *cached(const Step *s, int block, int64_t position, int64_t row) {
    return s->cache + (((size_t)position * s->cache_rows + row) * s->blocks + block) * 2 * s->width;
}

/* pairs of a row and a head, numbered through: the new key and value go into the cache, the query attends to all */
FAST static void attend_to_self(const Step *s, const Share *o, int block, int64_t from, int64_t to) {
    const int D = s->width, d = D / s->heads, now = s->length - 1;
    const float scale = 1.0f / __builtin_sqrtf((float)d);
    float *scores = o->scores;
    for (int64_t pair = from; pair < to; pair++) {
        const int64_t n = pair / s->heads, h = pair % s->heads;
        float *query = s->projected + (size_t)n * 3 * D + h * d, *mixed = s->mixed + (size_t)n * D + h * d;
        float *key = cached(s, block, now, n) + h * d;
        if (s->cosines) {
            rotate(s, query, d);
            rotate(s, query + D, d);
        }
        memcpy(key, query + D, sizeof(float) * d);
        memcpy(key + D, query + 2 * D, sizeof(float) * d);
        for (int t = 0; t <= now; t++) {
            const int64_t row = s->row_of == NULL ? n : s->row_of[(size_t)t * s->rows + n];
            scores[t] = dot(query, cached(s, block, t, row) + h * d, d) * scale;
        }
        if (s->bias) {
            const float *bias = s->bias + block * s->bias_stride + (size_t)h * s->length;
            for (int t = 0; t <= now; t++) scores[t] += bias[t];
        }
        softmax(scores, s->length);
        memset(mixed, 0, sizeof(float) * d);
        for (int t = 0; t <= now; t++) {
            const int64_t row = s->row_of == NULL ? n : s->row_of[(size_t)t * s->rows + n];
            add_scaled(mixed, scores[t], cached(s, block, t, row) + D + h * d, d);
        }
    }
}

FAST static void attend_to_source(const Step *s, const Share *o, int block, int64_t from, int64_t to) {
    const int D = s->width, d = D / s->heads, S = s->source_length;
    const float scale = 1.0f / __builtin_sqrtf((float)d);
    float *scores = o->scores;
    for (int64_t pair = from; pair < to; pair++) {
        const int64_t n = pair / s->heads, h = pair % s->heads;
        const int64_t line = s->line_of ? s->line_of[n / s->rows_per_line] : n / s->rows_per_line;
        const float *query = s->projected + (size_t)n * 3 * D + h * d; /* rows stay 3 D apart */
        const size_t first = line * s->line_stride + h * s->head_stride;
        const float *keys = s->source[block].keys + first, *values = s->source[block].values + first;
        const uint8_t *mask = s->mask + line * s->mask_stride;
        float *mixed = s->mixed + (size_t)n * D + h * d;
        for (int i = 0; i < S; i++) scores[i] = mask[i] ? dot(query, keys + i * s->position_stride, d) * scale : -3.4e38f;
        softmax(scores, S);
        memset(mixed, 0, sizeof(float) * d);
        for (int i = 0; i < S; i++)
            if (mask[i]) add_scaled(mixed, scores[i], values + i * s->position_stride, d);
    }
}

typedef void (*Attend)(const Step *, const Share *, int block, int64_t from, int64_t to);

static void attention(const Step *s, const Share *o, Attend attend, int block) {
    const int64_t pairs = o->rows * s->heads, first = o->row * s->heads;
    attend(s, o, block, first + pairs * o->share / o->shares, first + pairs * (o->share + 1) / o->shares);
    wait_for_team(s, o);
}

static void run_blocks(const Step *s, const Share *o) {
    const int D = s->width, F = s->inner;
    for (int b = 0; b < s->blocks; b++) {
        const Block *p = s->parts + b;
        apply(s, o, &p->self_in, norm_before(s, o, &p->self), D, s->projected, 3 * D, STORE);
        attention(s, o, attend_to_self, b);
        apply(s, o, &p->self_out, s->mixed, D, s->x, D, ADD);
        norm_after(s, o, &p->self);
        apply(s, o, &p->cross_in, norm_before(s, o, &p->cross), D, s->projected, 3 * D, STORE);
        attention(s, o, attend_to_source, b);
        apply(s, o, &p->cross_out, s->mixed, D, s->x, D, ADD);
        norm_after(s, o, &p->cross);
        apply(s, o, &p->feed_in, norm_before(s, o, &p->feed), D, s->hidden, F, RELU);
        apply(s, o, &p->feed_out, s->hidden, F, s->x, D, ADD);
        norm_after(s, o, &p->feed);
    }
    if (s->last) norm_in_place(s, o, s->last);
}

static void run_share_of_step(void *argument) {
    const Step *s = argument;
    const int64_t threads = s->team.threads(), thread = s->team.thread();
    const int64_t longest = s->length > s->source_length ? s->length : s->source_length;
    const int by_rows = s->rows >= MANY_ROWS * threads;
    const int64_t from = s->rows * thread / threads, to = s->rows * (thread + 1) / threads;
    float *scores = s->scores + (size_t)thread * longest;
    Share share = {0, s->rows, thread, threads, s->normed + (size_t)thread * s->rows * s->width, scores};
    if (by_rows) share = (Share){from, to - from, 0, 1, s->normed, scores};
    run_blocks(s, &share);
}

INLINE int within(const int64_t *indices, int64_t count, int64_t limit) {
    int64_t wrong = 0;
    for (int64_t i = 0; indices != NULL && i < count; i++) wrong += indices[i] < 0 || indices[i] >= limit;
    return wrong == 0;
}

/* 0, or the number of the array that has an index out of range: 1 line_of, 2 row_of; then nothing is computed */
int64_t weft_step(const Step *s) {
    if (!within(s->line_of, s->rows / s->rows_per_line, s->lines)) return 1;
    if (!within(s->row_of, (int64_t)s->length * s->rows, s->cache_rows)) return 2;
    if (s->team.parallel == NULL) {
        const Share all = {0, s->rows, 0, 1, s->normed, s->scores};
        run_blocks(s, &all);
    } else
        s->team.parallel(run_share_of_step, (void *)s, 0, 0);
    return 0;
}
