/* SPDX-License-Identifier: MIT
 * The smallest program: one head of causal attention over three tokens, in place of a manual. */
#include <rapt/rapt.h>

#include <stdio.h>

int main(void) {
    enum { B = 1, H = 1, T = 3, D = 2 };
    const float x[B * H * T * D] = {1, 0, 0, 1, 1, 1};
    float y[B * H * T * D] = {0};

    const rapt_tensor in = rapt_tensor_4d(RAPT_F32, x, B, H, T, D);
    const rapt_tensor out = rapt_tensor_4d(RAPT_F32, y, B, H, T, D);
    const rapt_attention what = {.causal = RAPT_CAUSAL_BOTTOM_RIGHT};
    const rapt_attention_operands operands = {.q = &in, .k = &in, .v = &in, .out = &out};

    rapt_context *ctx = NULL;
    rapt_status st = rapt_context_create(&ctx, NULL);
    if (st == RAPT_OK) { st = rapt_attention_forward(ctx, &what, &operands); }
    if (st != RAPT_OK) { fprintf(stderr, "%s\n", rapt_context_message(ctx)); }
    for (int i = 0; st == RAPT_OK && i < T; i++) {
        printf("%.4f %.4f\n", (double)y[i * D], (double)y[i * D + 1]);
    }
    rapt_context_destroy(ctx);
    return st == RAPT_OK ? 0 : 1;
}
