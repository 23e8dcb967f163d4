/* SPDX-License-Identifier: MIT
 * A user's program in plain C: the average of two values, by attention with zero queries. */
#include <rapt/rapt.h>

#include <stdio.h>

int main(void) {
    const float zero[4] = {0, 0, 0, 0}, values[2] = {1, 3};
    float average = -1;
    const rapt_tensor q = rapt_tensor_4d(RAPT_F32, zero, 1, 1, 1, 2);
    const rapt_tensor k = rapt_tensor_4d(RAPT_F32, zero, 1, 1, 2, 2);
    const rapt_tensor v = rapt_tensor_4d(RAPT_F32, values, 1, 1, 2, 1);
    const rapt_tensor out = rapt_tensor_4d(RAPT_F32, &average, 1, 1, 1, 1);
    const rapt_attention what = {.causal = RAPT_CAUSAL_NONE};
    const rapt_attention_operands operands = {.q = &q, .k = &k, .v = &v, .out = &out};
    rapt_context *ctx = NULL;
    rapt_status status = rapt_context_create(&ctx, NULL);
    if (status == RAPT_OK) { status = rapt_attention_forward(ctx, &what, &operands); }
    printf("C: %s %s %g\n", rapt_status_name(status), rapt_context_message(ctx), (double)average);
    rapt_context_destroy(ctx);
    return status == RAPT_OK && average == 2 && rapt_version() == RAPT_VERSION ? 0 : 1;
}
