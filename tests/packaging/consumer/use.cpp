// SPDX-License-Identifier: MIT
// A user's program in C++11: the average of two values, by attention with zero queries.
#include <rapt/rapt.h>

#include <iostream>

int main() {
    const float zero[4] = {0, 0, 0, 0}, values[2] = {1, 3};
    float average = -1;
    const rapt_tensor q = rapt_tensor_4d(RAPT_F32, zero, 1, 1, 1, 2);
    const rapt_tensor k = rapt_tensor_4d(RAPT_F32, zero, 1, 1, 2, 2);
    const rapt_tensor v = rapt_tensor_4d(RAPT_F32, values, 1, 1, 2, 1);
    const rapt_tensor out = rapt_tensor_4d(RAPT_F32, &average, 1, 1, 1, 1);
    rapt_attention what = rapt_attention();
    rapt_attention_operands operands = rapt_attention_operands();
    operands.q = &q;
    operands.k = &k;
    operands.v = &v;
    operands.out = &out;
    rapt_context *ctx = nullptr;
    rapt_status status = rapt_context_create(&ctx, nullptr);
    if (status == RAPT_OK) { status = rapt_attention_forward(ctx, &what, &operands); }
    std::cout << "C++: " << rapt_status_name(status) << ' ' << rapt_context_message(ctx) << ' '
              << average << '\n';
    rapt_context_destroy(ctx);
    return status == RAPT_OK && average == 2 && rapt_version() == RAPT_VERSION ? 0 : 1;
}
