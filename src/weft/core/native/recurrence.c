/* Recurrences over time, with and without attention whose context is fed to the next step: forward and backward.

   Matrix products are computed by the BLAS that torch ships; what happens between them is one pass over the values of a
   step. Nothing here depends on Python or torch: weft/core/native/library.py finds BLAS and threads,
   weft/core/native/recurrence.py fills a Job and checks every array, weft/nn/fused.py calls it.
   Every array is time first: (T, B, ...). The equations are in weft/nn/cells.py and lstm.py.

   T steps, B rows, D width, P blocks of D computed from the inputs, S source length, K key width, C value width */

#include "common.h"

#define MIN_SHARED_VALUES 16384 /* of a step; below it, a second thread costs more than it saves */

typedef void (*Product)(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                        const int *, const float *, const int *, const float *, float *, const int *);

enum { ELMAN, ELMAN_SIGMOID, LSTM, LSTM_F, LSTM_I, LSTM_O, GRU, GRU_AFTER, MUT1, MUT3 }; /* as in recurrence.py */
enum { NO_SCORE, ADDITIVE, DOT };
enum { TAPS = 4 }; /* of the location filter: for two positions before, one before, the same and one after */

typedef struct {
    /* torch's functions */
    Product product;
    Parallel parallel; /* or NULL: run on this thread alone */
    Number thread, threads;
    /* sizes */
    int32_t cell, steps, rows, width, blocks;
    int32_t score, source, key_width, value_width, context_stride;
    float scale;
    /* the cell */
    float *pre;          /* (T, B, P D) W x + b; with attention, the product with the fed context is added */
    const float *first;  /* (N D, D) the matrix that multiplies h' */
    const float *second; /* (D, D) the matrix that multiplies r h' */
    const float *extra;  /* (D) mut1: b; gru-after: c */
    float *h;            /* (T + 1, B, D), h[0] is input */
    float *c;            /* (T + 1, B, D) LSTMs */
    float *acts;         /* (T, B, P D) gates and candidate; mut1: z, r, tanh of the direct input */
    float *mid;          /* (T, B, D) gru, mut: r h'; gru-after: U h' + c, which backward replaces by its gradient */
    float *news;         /* (T, B, D) mut1: the candidate */
    float *scratch;      /* (B, D) */
    /* attention */
    const uint8_t *mask;     /* (B, S) which source positions are real; there may be holes */
    int64_t *lengths;        /* (B) the last real position of each source, plus 1: forward computes it */
    const float *of_query;   /* (K, D) additive: the matrix that multiplies the query */
    const float *weight;     /* (K) additive */
    const float *location;   /* (TAPS) the filter over the weights of the step before, or NULL */
    const float *keys;       /* (B, S, K) */
    const float *values;     /* (B, S, C) */
    const float *of_context; /* (P D, C), rows `context_stride` apart: the matrix that multiplies the fed context */
    float *queries;          /* (T, B, K) additive */
    float *weights;          /* (T, B, S) */
    float *contexts;         /* (T, B, C) */
    /* gradients; those of h and contexts hold the gradients from later layers at the start */
    float *dh, *dc, *dpre;      /* (T + 1, B, D), (B, D), (T, B, P D) */
    float *dcontexts, *dscores; /* (T, B, C), (T, B, S) */
    float *dqueries, *dkeys, *dweight; /* (T, B, K), (B, S, K), (B, K): additive */
    float *dlocation;                  /* (B, TAPS) */
} Job;

/* ---- products: rows of `a` are `stride` apart; y (+)= a Wᵀ, and x (+)= a W ---- */

static void times_transposed(const Job *j, const float *a, int stride, const float *w, int outputs, int inputs,
                             int w_stride, float *y, int y_stride, int add) {
    const float one = 1.0f, keep = add ? 1.0f : 0.0f;
    j->product("T", "N", &outputs, &j->rows, &inputs, &one, w, &w_stride, a, &stride, &keep, y, &y_stride);
}

static void times(const Job *j, const float *a, int stride, const float *w, int outputs, int inputs, int w_stride,
                  float *x, int x_stride, int add) {
    const float one = 1.0f, keep = add ? 1.0f : 0.0f;
    j->product("N", "N", &inputs, &j->rows, &outputs, &one, w, &w_stride, a, &stride, &keep, x, &x_stride);
}

/* ---- rows of one step, divided among threads ---- */

typedef void (*Rows)(const Job *, int t, int from, int to);
typedef struct {
    const Job *job;
    Rows rows;
    int t;
} Share;

static void run_rows(void *argument) {
    const Share *s = argument;
    int all = s->job->threads(), me = s->job->thread(), rows = s->job->rows;
    s->rows(s->job, s->t, (int)((int64_t)rows * me / all), (int)((int64_t)rows * (me + 1) / all));
}

static void over_rows(const Job *j, int t, Rows rows, int64_t values) {
    if (j->parallel == NULL || values < MIN_SHARED_VALUES) {
        rows(j, t, 0, j->rows);
        return;
    }
    Share share = {j, rows, t};
    j->parallel(run_rows, &share, 0, 0);
}

/* the offset of row b of step t in an array of `n` values a row */
INLINE size_t at(const Job *j, int t, int b, int n) { return ((size_t)t * j->rows + b) * n; }

/* ---- Elman ---- */

INLINE void squashed(const Job *j, int t, int from, int to, const int logistic) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict x = j->pre + at(j, t, b, D);
        float *restrict h = j->h + at(j, t + 1, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) h[d] = logistic ? sigmoid(x[d] + h[d]) : hyperbolic(x[d] + h[d]);
    }
}

INLINE void squashed_back(const Job *j, int t, int from, int to, const int logistic) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict h = j->h + at(j, t + 1, b, D), *restrict g = j->dh + at(j, t + 1, b, D);
        float *restrict dx = j->dpre + at(j, t, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) dx[d] = g[d] * (logistic ? h[d] * (1.0f - h[d]) : 1.0f - h[d] * h[d]);
    }
}

FAST static void elman_rows(const Job *j, int t, int from, int to) { squashed(j, t, from, to, 0); }
FAST static void elman_back(const Job *j, int t, int from, int to) { squashed_back(j, t, from, to, 0); }
FAST static void elman_sigmoid_rows(const Job *j, int t, int from, int to) { squashed(j, t, from, to, 1); }
FAST static void elman_sigmoid_back(const Job *j, int t, int from, int to) { squashed_back(j, t, from, to, 1); }

/* ---- LSTM: I, F, N, O are the blocks of the gates and the candidate, -1 for a gate that is always open ---- */

INLINE void lstm_rows(const Job *j, int t, int from, int to, const int I, const int F, const int N, const int O) {
    const int D = j->width, P = j->blocks;
    for (int b = from; b < to; b++) {
        const float *restrict x = j->pre + at(j, t, b, P * D), *restrict before = j->c + at(j, t, b, D);
        float *restrict a = j->acts + at(j, t, b, P * D), *restrict c = j->c + at(j, t + 1, b, D);
        float *restrict h = j->h + at(j, t + 1, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            float n = hyperbolic(x[N * D + d] + a[N * D + d]), kept = before[d], new = n;
            a[N * D + d] = n;
            if (F >= 0) kept *= a[F * D + d] = sigmoid(x[F * D + d] + a[F * D + d]);
            if (I >= 0) new *= a[I * D + d] = sigmoid(x[I * D + d] + a[I * D + d]);
            c[d] = kept + new;
            float out = hyperbolic(c[d]);
            if (O >= 0) out *= a[O * D + d] = sigmoid(x[O * D + d] + a[O * D + d]);
            h[d] = out;
        }
    }
}

INLINE void lstm_back(const Job *j, int t, int from, int to, const int I, const int F, const int N, const int O) {
    const int D = j->width, P = j->blocks;
    for (int b = from; b < to; b++) {
        const float *restrict a = j->acts + at(j, t, b, P * D), *restrict c = j->c + at(j, t + 1, b, D);
        const float *restrict before = j->c + at(j, t, b, D), *restrict g = j->dh + at(j, t + 1, b, D);
        float *restrict dc = j->dc + at(j, 0, b, D), *restrict dx = j->dpre + at(j, t, b, P * D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            float n = a[N * D + d], i = I >= 0 ? a[I * D + d] : 1.0f, f = F >= 0 ? a[F * D + d] : 1.0f;
            float o = O >= 0 ? a[O * D + d] : 1.0f, out = hyperbolic(c[d]);
            float of_c = dc[d] + g[d] * o * (1.0f - out * out);
            dx[N * D + d] = of_c * i * (1.0f - n * n);
            if (I >= 0) dx[I * D + d] = of_c * n * i * (1.0f - i);
            if (F >= 0) dx[F * D + d] = of_c * before[d] * f * (1.0f - f);
            if (O >= 0) dx[O * D + d] = g[d] * out * o * (1.0f - o);
            dc[d] = of_c * f;
        }
    }
}

#define LSTM_KIND(name, I, F, N, O)                                                                                   \
    FAST static void name##_rows(const Job *j, int t, int from, int to) { lstm_rows(j, t, from, to, I, F, N, O); }    \
    FAST static void name##_back(const Job *j, int t, int from, int to) { lstm_back(j, t, from, to, I, F, N, O); }
LSTM_KIND(whole, 0, 1, 2, 3)
LSTM_KIND(without_f, 0, -1, 2, 1)
LSTM_KIND(without_i, -1, 0, 2, 1)
LSTM_KIND(without_o, 0, 1, 2, -1)

/* ---- GRU and its variants: blocks z, r, candidate ---- */

/* z and r, and r h' for the second product. `acts` holds U h' of the blocks that use it. */
INLINE void gate_rows(const Job *j, int t, int from, int to, const int z_uses_state) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict x = j->pre + at(j, t, b, 3 * D), *restrict before = j->h + at(j, t, b, D);
        float *restrict a = j->acts + at(j, t, b, 3 * D), *restrict mid = j->mid + at(j, t, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            a[d] = sigmoid(z_uses_state ? x[d] + a[d] : x[d]);
            float r = sigmoid(x[D + d] + a[D + d]);
            a[D + d] = r;
            mid[d] = r * before[d];
        }
    }
}
FAST static void both_gates(const Job *j, int t, int from, int to) { gate_rows(j, t, from, to, 1); }
FAST static void reset_gate(const Job *j, int t, int from, int to) { gate_rows(j, t, from, to, 0); }

/* the candidate and h; h holds the second product at the start */
FAST static void gru_rows(const Job *j, int t, int from, int to) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict x = j->pre + at(j, t, b, 3 * D), *restrict before = j->h + at(j, t, b, D);
        float *restrict a = j->acts + at(j, t, b, 3 * D), *restrict h = j->h + at(j, t + 1, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            float n = hyperbolic(x[2 * D + d] + h[d]);
            a[2 * D + d] = n;
            h[d] = before[d] + a[d] * (n - before[d]);
        }
    }
}

FAST static void mut1_rows(const Job *j, int t, int from, int to) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict x = j->pre + at(j, t, b, 3 * D), *restrict before = j->h + at(j, t, b, D);
        float *restrict a = j->acts + at(j, t, b, 3 * D), *restrict h = j->h + at(j, t + 1, b, D);
        float *restrict news = j->news + at(j, t, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            float direct = hyperbolic(x[2 * D + d]);
            float n = hyperbolic(h[d] + direct + j->extra[d]);
            a[2 * D + d] = direct;
            news[d] = n;
            h[d] = before[d] + a[d] * (n - before[d]);
        }
    }
}

/* gradients of z and of the candidate's argument (in the third block of dpre), and of h' through the interpolation */
INLINE void blend_back(const Job *j, int t, int from, int to, const float *news, const int stride) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict a = j->acts + at(j, t, b, 3 * D), *restrict before = j->h + at(j, t, b, D);
        const float *restrict g = j->dh + at(j, t + 1, b, D), *restrict new = news + at(j, t, b, stride);
        float *restrict dx = j->dpre + at(j, t, b, 3 * D), *restrict down = j->dh + at(j, t, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            float z = a[d], n = new[d];
            dx[d] = g[d] * (n - before[d]) * z * (1.0f - z);
            dx[2 * D + d] = g[d] * z * (1.0f - n * n);
            down[d] += g[d] * (1.0f - z);
        }
    }
}
FAST static void gru_blend_back(const Job *j, int t, int from, int to) {
    blend_back(j, t, from, to, j->acts + 2 * j->width, 3 * j->width);
}
FAST static void mut1_blend_back(const Job *j, int t, int from, int to) {
    blend_back(j, t, from, to, j->news, j->width);
}

/* gradients of r and of h' through r h', whose gradient is in scratch */
FAST static void reset_back(const Job *j, int t, int from, int to) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict a = j->acts + at(j, t, b, 3 * D), *restrict before = j->h + at(j, t, b, D);
        const float *restrict of_mid = j->scratch + at(j, 0, b, D);
        float *restrict dx = j->dpre + at(j, t, b, 3 * D), *restrict down = j->dh + at(j, t, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            float r = a[D + d];
            dx[D + d] = of_mid[d] * before[d] * r * (1.0f - r);
            down[d] += of_mid[d] * r;
        }
    }
}

/* mut1: the third block becomes the gradient of the direct input; `news` becomes that of the candidate's argument */
FAST static void mut1_direct_back(const Job *j, int t, int from, int to) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict a = j->acts + at(j, t, b, 3 * D);
        float *restrict dx = j->dpre + at(j, t, b, 3 * D), *restrict news = j->news + at(j, t, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            news[d] = dx[2 * D + d];
            dx[2 * D + d] *= 1.0f - a[2 * D + d] * a[2 * D + d];
        }
    }
}

/* mut3: z multiplies tanh h' */
FAST static void tanh_of_state(const Job *j, int t, int from, int to) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict before = j->h + at(j, t, b, D);
        float *restrict out = j->scratch + at(j, 0, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) out[d] = hyperbolic(before[d]);
    }
}

FAST static void tanh_of_state_back(const Job *j, int t, int from, int to) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict before = j->h + at(j, t, b, D), *restrict g = j->scratch + at(j, 0, b, D);
        float *restrict down = j->dh + at(j, t, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            float out = hyperbolic(before[d]);
            down[d] += g[d] * (1.0f - out * out);
        }
    }
}

/* ---- torch's GRU: blocks r, z, candidate; the reset gate acts after the matrix ---- */

FAST static void after_rows(const Job *j, int t, int from, int to) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict x = j->pre + at(j, t, b, 3 * D), *restrict before = j->h + at(j, t, b, D);
        float *restrict a = j->acts + at(j, t, b, 3 * D), *restrict h = j->h + at(j, t + 1, b, D);
        float *restrict mid = j->mid + at(j, t, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            float r = sigmoid(x[d] + a[d]), z = sigmoid(x[D + d] + a[D + d]), inner = a[2 * D + d] + j->extra[d];
            float n = hyperbolic(x[2 * D + d] + r * inner);
            a[d] = r, a[D + d] = z, a[2 * D + d] = n, mid[d] = inner;
            h[d] = n + z * (before[d] - n);
        }
    }
}

FAST static void after_back(const Job *j, int t, int from, int to) {
    const int D = j->width;
    for (int b = from; b < to; b++) {
        const float *restrict a = j->acts + at(j, t, b, 3 * D), *restrict before = j->h + at(j, t, b, D);
        const float *restrict g = j->dh + at(j, t + 1, b, D);
        float *restrict dx = j->dpre + at(j, t, b, 3 * D), *restrict down = j->dh + at(j, t, b, D);
        float *restrict mid = j->mid + at(j, t, b, D);
#pragma omp simd
        for (int d = 0; d < D; d++) {
            float r = a[d], z = a[D + d], n = a[2 * D + d], dn = g[d] * (1.0f - z) * (1.0f - n * n);
            dx[d] = dn * mid[d] * r * (1.0f - r);
            dx[D + d] = g[d] * (before[d] - n) * z * (1.0f - z);
            dx[2 * D + d] = dn;
            mid[d] = dn * r;
            down[d] += g[d] * z;
        }
    }
}

/* ---- attention: one query a row ---- */

/* location-aware scores: e[s] += sum over m of filter[m] a[s + m - 2], with a the weights of the step before */
INLINE void add_location(const float *restrict filter, const float *restrict a, float *restrict e, int n) {
    for (int m = 0; m < TAPS; m++)
        for (int s = m < 2 ? 2 - m : 0; s < n && s + m - 2 < n; s++) e[s] += filter[m] * a[s + m - 2];
}

/* gradients of the weights a, from those of the scores of the step after, and of the filter */
INLINE void location_back(const float *restrict filter, const float *restrict de, float *restrict da, int n, float scale) {
    for (int m = 0; m < TAPS; m++)
        for (int s = m < 2 ? 2 - m : 0; s < n && s + m - 2 < n; s++) da[s + m - 2] += filter[m] * de[s] / scale;
}
INLINE void filter_back(const float *restrict a, const float *restrict de, float *restrict dfilter, int n, float scale) {
    for (int m = 0; m < TAPS; m++)
        for (int s = m < 2 ? 2 - m : 0; s < n && s + m - 2 < n; s++) dfilter[m] += de[s] / scale * a[s + m - 2];
}

INLINE void softmax(float *restrict e, int n, int all) {
    float top = n > 0 ? e[0] : 0.0f, sum = 0.0f;
    for (int s = 1; s < n; s++) top = e[s] > top ? e[s] : top;
    for (int s = 0; s < n; s++) sum += e[s] = exponential(e[s] - top);
    for (int s = 0; s < n; s++) e[s] /= sum;
    for (int s = n; s < all; s++) e[s] = 0.0f;
}

/* positions of a mask that are not real: their score before the softmax, and their weight after it */
INLINE void hide(const uint8_t *restrict mask, float *restrict e, int n, float value) {
    for (int s = 0; s < n; s++) e[s] = mask[s] ? e[s] : value;
}

static void measure(const Job *j) {
    for (int b = 0; b < j->rows; b++) {
        const uint8_t *mask = j->mask + (size_t)b * j->source;
        int n = j->source;
        while (n > 0 && !mask[n - 1]) n--;
        j->lengths[b] = n;
    }
}

FAST static void attend(const Job *j, int t, int from, int to) {
    const int S = j->source, K = j->key_width, C = j->value_width;
    for (int b = from; b < to; b++) {
        const int n = (int)j->lengths[b];
        const uint8_t *restrict mask = j->mask + (size_t)b * S;
        const float *restrict keys = j->keys + (size_t)b * S * K, *restrict values = j->values + (size_t)b * S * C;
        const float *restrict q = j->score == DOT ? j->h + at(j, t + 1, b, K) : j->queries + at(j, t, b, K);
        float *restrict e = j->weights + at(j, t, b, S), *restrict out = j->contexts + at(j, t, b, C);
        for (int s = 0; s < n; s++) {
            const float *restrict k = keys + (size_t)s * K, *restrict w = j->weight;
            float sum = 0.0f;
            if (j->score == DOT) {
#pragma omp simd reduction(+ : sum)
                for (int d = 0; d < K; d++) sum += q[d] * k[d];
            } else {
#pragma omp simd reduction(+ : sum)
                for (int d = 0; d < K; d++) sum += w[d] * hyperbolic(q[d] + k[d]);
            }
            e[s] = sum * j->scale;
        }
        if (j->location != NULL && t > 0) add_location(j->location, j->weights + at(j, t - 1, b, S), e, n);
        hide(mask, e, n, -3.4e38f);
        softmax(e, n, S);
        hide(mask, e, n, 0.0f);
        memset(out, 0, sizeof(float) * C);
        for (int s = 0; s < n; s++) {
            const float *restrict v = values + (size_t)s * C;
            const float share = e[s];
#pragma omp simd
            for (int d = 0; d < C; d++) out[d] += share * v[d];
        }
    }
}

FAST static void attend_back(const Job *j, int t, int from, int to) {
    const int S = j->source, K = j->key_width, C = j->value_width;
    for (int b = from; b < to; b++) {
        const int n = (int)j->lengths[b];
        const float *restrict keys = j->keys + (size_t)b * S * K, *restrict values = j->values + (size_t)b * S * C;
        const float *restrict a = j->weights + at(j, t, b, S), *restrict g = j->dcontexts + at(j, t, b, C);
        float *restrict de = j->dscores + at(j, t, b, S);
        float mean = 0.0f;
        for (int s = 0; s < n; s++) {
            const float *restrict v = values + (size_t)s * C;
            float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
            for (int d = 0; d < C; d++) sum += g[d] * v[d];
            de[s] = sum;
        }
        if (j->location != NULL && t < j->steps - 1)
            location_back(j->location, j->dscores + at(j, t + 1, b, S), de, n, j->scale);
        for (int s = 0; s < n; s++) mean += de[s] * a[s];
        for (int s = 0; s < n; s++) de[s] = a[s] * (de[s] - mean) * j->scale;
        for (int s = n; s < S; s++) de[s] = 0.0f;
        if (j->location != NULL && t > 0)
            filter_back(j->weights + at(j, t - 1, b, S), de, j->dlocation + (size_t)b * TAPS, n, j->scale);
        if (j->score == DOT) {
            float *restrict dq = j->dh + at(j, t + 1, b, K);
            for (int s = 0; s < n; s++) {
                const float *restrict k = keys + (size_t)s * K;
                const float share = de[s];
#pragma omp simd
                for (int d = 0; d < K; d++) dq[d] += share * k[d];
            }
            continue;
        }
        const float *restrict q = j->queries + at(j, t, b, K), *restrict w = j->weight;
        float *restrict dq = j->dqueries + at(j, t, b, K), *restrict dw = j->dweight + at(j, 0, b, K);
        memset(dq, 0, sizeof(float) * K);
        for (int s = 0; s < n; s++) {
            const float *restrict k = keys + (size_t)s * K;
            float *restrict dk = j->dkeys + ((size_t)b * S + s) * K;
            const float share = de[s];
#pragma omp simd
            for (int d = 0; d < K; d++) {
                float fit = hyperbolic(q[d] + k[d]), inner = share * w[d] * (1.0f - fit * fit);
                dq[d] += inner;
                dk[d] += inner;
                dw[d] += share * fit;
            }
        }
    }
}

/* ---- one step, forward and backward ---- */

static void cell_step(const Job *j, int t) {
    static const Rows LSTMS[] = {whole_rows, without_f_rows, without_i_rows, without_o_rows};
    const int D = j->width, P = j->blocks;
    const int64_t size = (int64_t)j->rows * D;
    const float *before = j->h + at(j, t, 0, D);
    float *h = j->h + at(j, t + 1, 0, D), *acts = j->acts + at(j, t, 0, P * D), *mid = j->mid + at(j, t, 0, D);
    switch (j->cell) {
    case ELMAN: case ELMAN_SIGMOID:
        times_transposed(j, before, D, j->first, D, D, D, h, D, 0);
        over_rows(j, t, j->cell == ELMAN ? elman_rows : elman_sigmoid_rows, size);
        break;
    case LSTM: case LSTM_F: case LSTM_I: case LSTM_O:
        times_transposed(j, before, D, j->first, P * D, D, D, acts, P * D, 0);
        over_rows(j, t, LSTMS[j->cell - LSTM], size * P);
        break;
    case GRU_AFTER:
        times_transposed(j, before, D, j->first, 3 * D, D, D, acts, 3 * D, 0);
        over_rows(j, t, after_rows, size * 3);
        break;
    case GRU:
        times_transposed(j, before, D, j->first, 2 * D, D, D, acts, 3 * D, 0);
        over_rows(j, t, both_gates, size * 2);
        times_transposed(j, mid, D, j->second, D, D, D, h, D, 0);
        over_rows(j, t, gru_rows, size);
        break;
    case MUT1:
        times_transposed(j, before, D, j->first, D, D, D, acts + D, 3 * D, 0);
        over_rows(j, t, reset_gate, size * 2);
        times_transposed(j, mid, D, j->second, D, D, D, h, D, 0);
        over_rows(j, t, mut1_rows, size * 2);
        break;
    case MUT3:
        over_rows(j, t, tanh_of_state, size);
        times_transposed(j, j->scratch, D, j->first, D, D, D, acts, 3 * D, 0);
        times_transposed(j, before, D, j->first + (size_t)D * D, D, D, D, acts + D, 3 * D, 0);
        over_rows(j, t, both_gates, size * 2);
        times_transposed(j, mid, D, j->second, D, D, D, h, D, 0);
        over_rows(j, t, gru_rows, size);
        break;
    }
}

static void cell_back(const Job *j, int t) {
    static const Rows LSTMS[] = {whole_back, without_f_back, without_i_back, without_o_back};
    const int D = j->width, P = j->blocks;
    const int64_t size = (int64_t)j->rows * D;
    float *dx = j->dpre + at(j, t, 0, P * D), *down = j->dh + at(j, t, 0, D);
    switch (j->cell) {
    case ELMAN: case ELMAN_SIGMOID:
        over_rows(j, t, j->cell == ELMAN ? elman_back : elman_sigmoid_back, size);
        times(j, dx, D, j->first, D, D, D, down, D, 1);
        break;
    case LSTM: case LSTM_F: case LSTM_I: case LSTM_O:
        over_rows(j, t, LSTMS[j->cell - LSTM], size * P);
        times(j, dx, P * D, j->first, P * D, D, D, down, D, 1);
        break;
    case GRU_AFTER:
        over_rows(j, t, after_back, size * 3);
        times(j, dx, 3 * D, j->first, 2 * D, D, D, down, D, 1);
        times(j, j->mid + at(j, t, 0, D), D, j->first + (size_t)2 * D * D, D, D, D, down, D, 1);
        break;
    case GRU:
        over_rows(j, t, gru_blend_back, size * 2);
        times(j, dx + 2 * D, 3 * D, j->second, D, D, D, j->scratch, D, 0);
        over_rows(j, t, reset_back, size);
        times(j, dx, 3 * D, j->first, 2 * D, D, D, down, D, 1);
        break;
    case MUT1:
        over_rows(j, t, mut1_blend_back, size * 2);
        times(j, dx + 2 * D, 3 * D, j->second, D, D, D, j->scratch, D, 0);
        over_rows(j, t, reset_back, size);
        over_rows(j, t, mut1_direct_back, size);
        times(j, dx + D, 3 * D, j->first, D, D, D, down, D, 1);
        break;
    case MUT3:
        over_rows(j, t, gru_blend_back, size * 2);
        times(j, dx + 2 * D, 3 * D, j->second, D, D, D, j->scratch, D, 0);
        over_rows(j, t, reset_back, size);
        times(j, dx, 3 * D, j->first, D, D, D, j->scratch, D, 0);
        over_rows(j, t, tanh_of_state_back, size);
        times(j, dx + D, 3 * D, j->first + (size_t)D * D, D, D, D, down, D, 1);
        break;
    }
}

void weft_forward(const Job *j) {
    const int D = j->width, K = j->key_width, C = j->value_width, PD = j->blocks * D;
    if (j->score != NO_SCORE) measure(j);
    for (int t = 0; t < j->steps; t++) {
        if (j->score != NO_SCORE && t > 0)
            times_transposed(j, j->contexts + at(j, t - 1, 0, C), C, j->of_context, PD, C, j->context_stride,
                             j->pre + at(j, t, 0, PD), PD, 1);
        cell_step(j, t);
        if (j->score == ADDITIVE)
            times_transposed(j, j->h + at(j, t + 1, 0, D), D, j->of_query, K, D, D, j->queries + at(j, t, 0, K), K, 0);
        if (j->score != NO_SCORE) over_rows(j, t, attend, (int64_t)j->rows * j->source * K);
    }
}

void weft_backward(const Job *j) {
    const int D = j->width, K = j->key_width, C = j->value_width, PD = j->blocks * D;
    for (int t = j->steps - 1; t >= 0; t--) {
        if (j->score != NO_SCORE && t < j->steps - 1)
            times(j, j->dpre + at(j, t + 1, 0, PD), PD, j->of_context, PD, C, j->context_stride,
                  j->dcontexts + at(j, t, 0, C), C, 1);
        if (j->score != NO_SCORE) over_rows(j, t, attend_back, (int64_t)j->rows * j->source * K);
        if (j->score == ADDITIVE)
            times(j, j->dqueries + at(j, t, 0, K), K, j->of_query, K, D, D, j->dh + at(j, t + 1, 0, D), D, 1);
        cell_back(j, t);
    }
}
