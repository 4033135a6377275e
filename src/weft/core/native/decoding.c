/* One step of a Transformer's decoder, all blocks in one call, and products with matrices that do not change any more.

   With many rows each thread takes some of them through the whole step; with few, threads share each product's outputs
   and wait for each other after it. What a row becomes does not depend on that, nor on the rows beside it.
   Nothing here knows Python or torch: weft/core/native/decoding.py fills the jobs. The equations are in
   weft/nn/decoders/transformer.py and multihead.py.

   N rows, D width, H heads of width d, S source length, F inner width */

#include "common.h"

enum { PANEL = 16, TALL = 6 }; /* outputs side by side, and rows of a tile */
enum { MANY_ROWS = 4 };         /* a thread, from which on it takes rows rather than outputs */
enum { PLAIN, RELU, ADD };     /* what is done with a product: nothing more, max(0, ·), added to what is there */

typedef struct {
    Team team;
    int32_t lanes, after;
    int64_t rows, x_stride, y_stride;
    int32_t inputs, outputs;
    const float *panels, *bias, *x; /* see product.h; the bias may be missing */
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

static void some_rows(const void *job, int64_t from, int64_t to) {
    const Product *p = job;
    tiles(p, from, to - from, 0, panels_of(p->outputs));
}

static void some_panels(const void *job, int64_t from, int64_t to) {
    const Product *p = job;
    tiles(p, 0, p->rows, from, to - from);
}

void weft_product(const Product *p) {
    const int64_t panels = panels_of(p->outputs), values = p->rows * p->inputs * p->outputs;
    const int by_rows = p->rows >= MANY_ROWS && p->rows > panels;
    in_parts(&p->team, by_rows ? some_rows : some_panels, p, by_rows ? p->rows : panels, values);
}

typedef struct {
    const float *panels, *bias;
    int32_t inputs, outputs;
} Map;

typedef struct {
    const float *weight, *bias;
} Norm;

typedef struct {
    Map own_in, own_out, cross_in, cross_out, feed_in, feed_out; /* own_in makes query, key and value */
    Norm own, cross, feed;
} Block;

typedef struct {
    const float *keys, *values; /* of the source, once a line */
} Source;

typedef struct {
    Team team;
    void (*wait)(void); /* until all threads are there */
    int32_t lanes, norm_first, rows, each, width, heads, blocks, inner, source, length, room_rows;
    float epsilon;
    int64_t of_line, of_head, of_place, mask_of_line; /* how far apart these stand in the source's arrays */
    const Block *parts;  /* (blocks) */
    const Source *read;  /* (blocks) */
    const Norm *last;    /* after the last block, or missing */
    const uint8_t *mask; /* (lines, S) */
    const int64_t *stored; /* (N / each) which line the rows look at, or missing: each their own */
    const float *cosines, *sines; /* (d / 2) the turn of this place, or missing */
    const float *bias;            /* (H, length) on the scores of what is written, or missing */
    float *room;                  /* (places, room_rows, blocks, 2, D) what was written, and room for this place */
    const int64_t *origin;        /* (length, N) the row of the room that holds a hypothesis's place, or missing: its own */
    float *x;                     /* (N, D) what is read, and what comes out */
    float *normed, *asked, *mixed, *wide, *scores; /* (threads, N, D), (N, 3 D), (N, D), (N, F), (threads, longest) */
} Step;

typedef struct {
    int64_t row, rows;        /* this thread's rows */
    int64_t share, shares;    /* and its part of what is made of them */
    float *normed, *scores;   /* its own */
} Own;

static void meet(const Step *s, const Own *o) {
    if (o->shares > 1) s->wait();
}

static void make(const Step *s, const Own *o, const Map *m, const float *x, int64_t x_stride, float *y, int64_t y_stride, int after) {
    const Product p = {.lanes = s->lanes, .after = after, .x_stride = x_stride, .y_stride = y_stride, .inputs = m->inputs,
                       .outputs = m->outputs, .panels = m->panels, .bias = m->bias, .x = x, .y = y};
    const int64_t panels = panels_of(m->outputs), from = panels * o->share / o->shares, to = panels * (o->share + 1) / o->shares;
    tiles(&p, o->row, o->rows, from, to - from);
    meet(s, o);
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

/* what a part of a block reads: x, or its norm */
static const float *before(const Step *s, const Own *o, const Norm *n) {
    if (!s->norm_first) return s->x;
    normalise(s, n, s->x, o->normed, o->row, o->rows);
    return o->normed;
}

static void norm_in_place(const Step *s, const Own *o, const Norm *n) {
    const int64_t from = o->rows * o->share / o->shares, to = o->rows * (o->share + 1) / o->shares;
    normalise(s, n, s->x, s->x, o->row + from, to - from);
    meet(s, o);
}

static void after(const Step *s, const Own *o, const Norm *n) {
    if (!s->norm_first) norm_in_place(s, o, n);
}

INLINE float dot(const float *restrict a, const float *restrict b, int n) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

INLINE void mix_in(float *restrict y, float share, const float *restrict x, int n) {
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

INLINE void turn(const Step *s, float *x, int d) {
    const int half = d / 2;
    for (int i = 0; i < half; i++) {
        const float left = x[i], right = x[half + i];
        x[i] = left * s->cosines[i] - right * s->sines[i];
        x[half + i] = left * s->sines[i] + right * s->cosines[i];
    }
}

/* a place of the room: key and value of one block */
INLINE float *place_of(const Step *s, int block, int64_t place, int64_t row) {
    return s->room + (((size_t)place * s->room_rows + row) * s->blocks + block) * 2 * s->width;
}

/* heads `from` … of all rows, counted through: the new key and value go into the room, the query looks at all */
FAST static void look_back(const Step *s, const Own *o, int block, int64_t from, int64_t to) {
    const int D = s->width, d = D / s->heads, now = s->length - 1;
    const float scale = 1.0f / __builtin_sqrtf((float)d);
    float *scores = o->scores;
    for (int64_t one = from; one < to; one++) {
        const int64_t n = one / s->heads, h = one % s->heads;
        float *query = s->asked + (size_t)n * 3 * D + h * d, *mixed = s->mixed + (size_t)n * D + h * d;
        float *own = place_of(s, block, now, n) + h * d;
        if (s->cosines) {
            turn(s, query, d);
            turn(s, query + D, d);
        }
        memcpy(own, query + D, sizeof(float) * d);
        memcpy(own + D, query + 2 * D, sizeof(float) * d);
        for (int t = 0; t <= now; t++) {
            const int64_t row = s->origin == NULL ? n : s->origin[(size_t)t * s->rows + n];
            scores[t] = dot(query, place_of(s, block, t, row) + h * d, d) * scale;
        }
        if (s->bias)
            for (int t = 0; t <= now; t++) scores[t] += s->bias[(size_t)h * s->length + t];
        softmax(scores, s->length);
        memset(mixed, 0, sizeof(float) * d);
        for (int t = 0; t <= now; t++) {
            const int64_t row = s->origin == NULL ? n : s->origin[(size_t)t * s->rows + n];
            mix_in(mixed, scores[t], place_of(s, block, t, row) + D + h * d, d);
        }
    }
}

FAST static void look_at_source(const Step *s, const Own *o, int block, int64_t from, int64_t to) {
    const int D = s->width, d = D / s->heads, S = s->source;
    const float scale = 1.0f / __builtin_sqrtf((float)d);
    float *scores = o->scores;
    for (int64_t one = from; one < to; one++) {
        const int64_t n = one / s->heads, h = one % s->heads;
        const int64_t line = s->stored ? s->stored[n / s->each] : n / s->each;
        const float *query = s->asked + (size_t)n * 3 * D + h * d; /* each row keeps to its own room */
        const size_t first = line * s->of_line + h * s->of_head;
        const float *keys = s->read[block].keys + first, *values = s->read[block].values + first;
        const uint8_t *mask = s->mask + line * s->mask_of_line;
        float *mixed = s->mixed + (size_t)n * D + h * d;
        for (int i = 0; i < S; i++) scores[i] = mask[i] ? dot(query, keys + i * s->of_place, d) * scale : -3.4e38f;
        softmax(scores, S);
        memset(mixed, 0, sizeof(float) * d);
        for (int i = 0; i < S; i++)
            if (mask[i]) mix_in(mixed, scores[i], values + i * s->of_place, d);
    }
}

typedef void (*Look)(const Step *, const Own *, int block, int64_t from, int64_t to);

static void look(const Step *s, const Own *o, Look how, int block) {
    const int64_t heads = o->rows * s->heads, first = o->row * s->heads;
    how(s, o, block, first + heads * o->share / o->shares, first + heads * (o->share + 1) / o->shares);
    meet(s, o);
}

static void steps_of(const Step *s, const Own *o) {
    const int D = s->width, F = s->inner;
    for (int b = 0; b < s->blocks; b++) {
        const Block *p = s->parts + b;
        make(s, o, &p->own_in, before(s, o, &p->own), D, s->asked, 3 * D, PLAIN);
        look(s, o, look_back, b);
        make(s, o, &p->own_out, s->mixed, D, s->x, D, ADD);
        after(s, o, &p->own);
        make(s, o, &p->cross_in, before(s, o, &p->cross), D, s->asked, 3 * D, PLAIN);
        look(s, o, look_at_source, b);
        make(s, o, &p->cross_out, s->mixed, D, s->x, D, ADD);
        after(s, o, &p->cross);
        make(s, o, &p->feed_in, before(s, o, &p->feed), D, s->wide, F, RELU);
        make(s, o, &p->feed_out, s->wide, F, s->x, D, ADD);
        after(s, o, &p->feed);
    }
    if (s->last) norm_in_place(s, o, s->last);
}

static void take_step(void *given) {
    const Step *s = given;
    const int64_t all = s->team.threads(), me = s->team.thread(), longest = s->length > s->source ? s->length : s->source;
    const int by_rows = s->rows >= MANY_ROWS * all;
    const int64_t from = s->rows * me / all, to = s->rows * (me + 1) / all;
    Own own = {0, s->rows, me, all, s->normed + (size_t)me * s->rows * s->width, s->scores + (size_t)me * longest};
    if (by_rows) own = (Own){from, to - from, 0, 1, s->normed, own.scores};
    steps_of(s, &own);
}

void weft_step(const Step *s) {
    if (s->team.parallel == NULL) {
        const Own all = {0, s->rows, 0, 1, s->normed, s->scores};
        steps_of(s, &all);
    } else
        s->team.parallel(take_step, (void *)s, 0, 0);
}

int64_t weft_decoding_size(void) { return sizeof(Product) + sizeof(Block) + sizeof(Source) + sizeof(Step); }
