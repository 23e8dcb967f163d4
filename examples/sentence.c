/* SPDX-License-Identifier: MIT
 * The six-token sentence of chapter 3 of Raschka, "Build a Large Language Model (from Scratch)",
 * through attention, each number beside the one that the book prints. Exit status 1 if one differs
 * in the fourth decimal.
 *
 *   section 3.3.2   every token attends to every token: q = k = v = x, no scaling
 *   section 3.5.3   causal: q = x Wq^T, k = x Wk^T, v = x Wv^T, scores / sqrt(2) */
#include <rapt/rapt.h>

#include <math.h>
#include <stdio.h>

enum { TOKENS = 6, D_IN = 3, D_OUT = 2 };

static const char *const words[TOKENS] = {"Your", "journey", "starts", "with", "one", "step"};

static const float x[TOKENS * D_IN] = {0.43f, 0.15f, 0.89f, 0.55f, 0.87f, 0.66f,
                                       0.57f, 0.85f, 0.64f, 0.22f, 0.58f, 0.33f,
                                       0.77f, 0.25f, 0.10f, 0.05f, 0.80f, 0.55f};

/* The weights that PyTorch draws for three Linear(3, 2, bias=False) after manual_seed(123). */
static const float w_query[D_OUT * D_IN] = {-0.235429645f, 0.0191244762f, -0.286745936f,
                                            0.217726618f,  -0.49193421f,  0.423223078f};
static const float w_key[D_OUT * D_IN] = {-0.419641405f, -0.459017664f, -0.364820182f,
                                          0.261478186f,  -0.213326395f, 0.216052175f};
static const float w_value[D_OUT * D_IN] = {-0.490014136f, -0.350292057f, -0.211989194f,
                                            -0.11346072f,  -0.440439373f, 0.378043622f};

static const float book_simple[TOKENS * D_IN] = {
    0.4421f, 0.5931f, 0.5790f, 0.4419f, 0.6515f, 0.5683f, 0.4431f, 0.6496f, 0.5671f,
    0.4304f, 0.6298f, 0.5510f, 0.4671f, 0.5910f, 0.5266f, 0.4177f, 0.6503f, 0.5645f};

static const float book_causal[TOKENS * D_OUT] = {-0.4519f, 0.2216f,  -0.5874f, 0.0058f,
                                                  -0.6300f, -0.0632f, -0.5675f, -0.0843f,
                                                  -0.5526f, -0.0981f, -0.5299f, -0.1081f};

/* y[token][out] = sum over in of x[token][in] * weight[out][in] */
static void project(const float *weight, float *y) {
    for (int token = 0; token < TOKENS; token++) {
        for (int out = 0; out < D_OUT; out++) {
            float sum = 0.0f;
            for (int in = 0; in < D_IN; in++) {
                sum += x[token * D_IN + in] * weight[out * D_IN + in];
            }
            y[token * D_OUT + out] = sum;
        }
    }
}

/* Attention over one sentence and one head: all arrays are [TOKENS][width]. */
static rapt_status attend(rapt_context *ctx, const rapt_attention *what, int64_t width,
                          const float *q, const float *k, const float *v, float *y) {
    const rapt_tensor tq = rapt_tensor_4d(RAPT_F32, q, 1, 1, TOKENS, width);
    const rapt_tensor tk = rapt_tensor_4d(RAPT_F32, k, 1, 1, TOKENS, width);
    const rapt_tensor tv = rapt_tensor_4d(RAPT_F32, v, 1, 1, TOKENS, width);
    const rapt_tensor out = rapt_tensor_4d(RAPT_F32, y, 1, 1, TOKENS, width);
    const rapt_attention_operands operands = {.q = &tq, .k = &tk, .v = &tv, .out = &out};
    return rapt_attention_forward(ctx, what, &operands);
}

/* Prints token by token: ours | the book's | largest difference. Returns how many rows differ. */
static int compare(const char *title, int width, const float *ours, const float *book) {
    int wrong = 0;
    printf("%s\n", title);
    for (int token = 0; token < TOKENS; token++) {
        float largest = 0.0f;
        printf("  %-8s", words[token]);
        for (int i = 0; i < width; i++) { printf(" %8.4f", (double)ours[token * width + i]); }
        printf("  |");
        for (int i = 0; i < width; i++) {
            const float difference = fabsf(ours[token * width + i] - book[token * width + i]);
            largest = difference <= largest ? largest : difference;
            printf(" %8.4f", (double)book[token * width + i]);
        }
        const int ok = largest <= 5.1e-5f; /* half of the last printed digit */
        printf("  | %7.1e %s\n", (double)largest, ok ? "" : "DIFFERS");
        wrong += !ok;
    }
    return wrong;
}

int main(void) {
    float q[TOKENS * D_OUT], k[TOKENS * D_OUT], v[TOKENS * D_OUT];
    float simple[TOKENS * D_IN], causal[TOKENS * D_OUT];
    project(w_query, q);
    project(w_key, k);
    project(w_value, v);

    const rapt_attention unscaled = {.scale = {.on = 1, .value = 1.0f}};
    const rapt_attention masked = {.causal = RAPT_CAUSAL_TOP_LEFT};
    rapt_context *ctx = NULL;
    rapt_status status = rapt_context_create(&ctx, NULL);
    if (status == RAPT_OK) { status = attend(ctx, &unscaled, D_IN, x, x, x, simple); }
    if (status == RAPT_OK) { status = attend(ctx, &masked, D_OUT, q, k, v, causal); }

    int wrong = 1;
    if (status != RAPT_OK) {
        fprintf(stderr, "%s: %s\n", rapt_status_name(status), rapt_context_message(ctx));
    } else {
        printf("\"Your journey starts with one step\", instruction set %s\n"
               "token: context vector | the book's | largest difference\n",
               rapt_context_isa(ctx));
        wrong = compare("3.3.2 simple self-attention", D_IN, simple, book_simple) +
                compare("3.5.3 causal attention", D_OUT, causal, book_causal);
    }
    rapt_context_destroy(ctx);
    return wrong ? 1 : 0;
}
