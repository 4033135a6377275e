/* y = W x + b for rows x, with W packed: panels of 16 outputs, each (inputs, 16), padded with zeros.

   A tile of up to six rows and one panel stays in registers while it runs over the inputs; its sums are computed in one
   order, whatever the other rows are. Define LANES, the floats of a register (8 or 16), before including this. */

#define NAME_(name, lanes) name##_##lanes
#define NAME(name, lanes) NAME_(name, lanes)
#define LANE NAME(Lane, LANES)
#define LOOSE NAME(Loose, LANES)
#define TILE NAME(tile, LANES)
#define TILES NAME(tiles, LANES)
#define PARTS (PANEL / LANES)

typedef float LANE __attribute__((vector_size(4 * LANES)));
typedef float LOOSE __attribute__((vector_size(4 * LANES), aligned(4)));

INLINE void TILE(const int rows, const Product *p, const float *restrict x, const float *restrict w, int64_t first, float *restrict y) {
    const int K = p->inputs;
    const size_t step = p->x_stride;
    LANE sums[TALL][PARTS];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < PARTS; i++) sums[r][i] = (LANE){0};
    for (int k = 0; k < K; k++) {
        LANE part[PARTS];
        for (int i = 0; i < PARTS; i++) part[i] = *(const LOOSE *)(w + (size_t)k * PANEL + i * LANES);
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < PARTS; i++) sums[r][i] += x[r * step + k] * part[i];
    }
    float row[PANEL];
    const int64_t left = p->outputs - first, count = left < PANEL ? left : PANEL;
    for (int r = 0; r < rows; r++) {
        float *restrict out = y + (size_t)r * p->y_stride + first;
        memcpy(row, sums[r], sizeof row);
        if (p->bias)
            for (int i = 0; i < count; i++) row[i] += p->bias[first + i];
        if (p->then == RELU)
            for (int i = 0; i < count; i++) row[i] = row[i] > 0.0f ? row[i] : 0.0f;
        if (p->then == ADD)
            for (int i = 0; i < count; i++) row[i] += out[i];
        memcpy(out, row, sizeof(float) * (size_t)count);
    }
}

FAST static void TILES(const Product *p, int64_t row, int64_t rows, int64_t panel, int64_t panels) {
    const int64_t tiles = (rows + TALL - 1) / TALL; /* of about the same height */
    for (int64_t n = panel; n < panels + panel; n++) {
        const float *w = p->panels + (size_t)n * PANEL * p->inputs;
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t from = row + rows * t / tiles, to = row + rows * (t + 1) / tiles, first = n * PANEL;
            const float *x = p->x + (size_t)from * p->x_stride;
            float *y = p->y + (size_t)from * p->y_stride;
            switch (to - from) {
            case 1: TILE(1, p, x, w, first, y); break;
            case 2: TILE(2, p, x, w, first, y); break;
            case 3: TILE(3, p, x, w, first, y); break;
            case 4: TILE(4, p, x, w, first, y); break;
            case 5: TILE(5, p, x, w, first, y); break;
            default: TILE(6, p, x, w, first, y); break;
            }
        }
    }
}

#undef PARTS
#undef TILES
#undef TILE
#undef LOOSE
#undef LANE
#undef NAME
#undef NAME_
