/* What the compiled parts share: clones of a function for each kind of CPU, torch's threads, the exponential, and the
   logistic function and the hyperbolic tangent computed with it. */

#ifndef WEFT_COMMON_H
#define WEFT_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FAST
#endif
#define INLINE static inline __attribute__((always_inline))

typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned);
typedef int (*Number)(void);

#define MIN_PARALLEL_VALUES 32768 /* below it, a second thread costs more than it saves */

typedef struct {
    Parallel parallel; /* torch's OpenMP; NULL: run on this thread alone */
    Number thread, threads;
} Team;

typedef void (*Range)(const void *job, int64_t from, int64_t to);

typedef struct {
    const Team *team;
    Range range;
    const void *job;
    int64_t count;
} Loop;

static inline void run_share(void *argument) {
    const Loop *loop = argument;
    const int64_t threads = loop->team->threads(), thread = loop->team->thread();
    loop->range(loop->job, loop->count * thread / threads, loop->count * (thread + 1) / threads);
}

/* range(job, 0, count), divided among threads if it computes many values */
static inline void parallel_for(const Team *team, Range range, const void *job, int64_t count, int64_t values) {
    if (team->parallel == NULL || values < MIN_PARALLEL_VALUES) {
        range(job, 0, count);
        return;
    }
    Loop loop = {team, range, job, count};
    team->parallel(run_share, &loop, 0, 0);
}

INLINE float exponential(float x) { /* NaN gives NaN: p is NaN whatever the scale */
    x = x > 87.0f ? 87.0f : x;
    x = x < -87.0f ? -87.0f : x;
    float n = __builtin_rintf(x * 1.44269504088896341f);
    float r = __builtin_fmaf(n, -0.693359375f, x);
    r = __builtin_fmaf(n, 2.12194440e-4f, r);
    float p = 1.0f / 5040.0f; /* Taylor: |r| is at most half of ln 2 */
    p = __builtin_fmaf(p, r, 1.0f / 720.0f);
    p = __builtin_fmaf(p, r, 1.0f / 120.0f);
    p = __builtin_fmaf(p, r, 1.0f / 24.0f);
    p = __builtin_fmaf(p, r, 1.0f / 6.0f);
    p = __builtin_fmaf(p, r, 0.5f);
    p = __builtin_fmaf(p, r, 1.0f);
    p = __builtin_fmaf(p, r, 1.0f);
    uint32_t power = ((uint32_t)(int32_t)n + 127u) << 23;
    float scale;
    memcpy(&scale, &power, sizeof scale);
    return p * scale;
}

INLINE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

INLINE float hyperbolic(float x) { /* tanh: the series near 0, elsewhere the quotient */
    float q = x * x;
    float near = __builtin_fmaf(q, 62.0f / 2835.0f, -17.0f / 315.0f);
    near = __builtin_fmaf(q, near, 2.0f / 15.0f);
    near = __builtin_fmaf(q, near, -1.0f / 3.0f);
    near = __builtin_fmaf(q * near, x, x);
    float far = 1.0f - 2.0f / (1.0f + exponential(2.0f * x));
    return q < 0.1f ? near : far;
}

#endif
