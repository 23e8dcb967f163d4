/* SPDX-License-Identifier: MIT
 * rapt/rapt.h: exact attention on CPUs. Include this; read in this order:
 *
 *   tensor.h      views on your memory
 *   attention.h   the call: what is computed, on what, with which guarantees
 *   attention_backward.h  its gradients
 *   context.h     threads, instruction set, scratch memory, messages
 *   status.h      what calls return
 *   matmul.h      the matrix product
 *   softmax.h     softmax, masking routes, the fused mask-scale-softmax-dropout pass
 *   score.h       attention with other score functions
 *   random.h      dropout's counter generator; PyTorch's stream
 *   modules.h     the four passes: simple, self, causal, multi-head attention
 *   optimizer.h   just enough to train
 *   safetensors.h parameters in files (a library of its own, not included by this header)
 *
 * The whole of it in use:
 *
 *   rapt_context *ctx = NULL;
 *   rapt_status st = rapt_context_create(&ctx, NULL);
 *   rapt_tensor q = rapt_tensor_4d(RAPT_F32, q_data, B, Hq, Tq, D);
 *   rapt_tensor k = rapt_tensor_4d(RAPT_F32, k_data, B, Hkv, Tk, D);
 *   rapt_tensor v = rapt_tensor_4d(RAPT_F32, v_data, B, Hkv, Tk, Dv);
 *   rapt_tensor out = rapt_tensor_4d(RAPT_F32, out_data, B, Hq, Tq, Dv);
 *   rapt_attention what = {.causal = RAPT_CAUSAL_BOTTOM_RIGHT};
 *   rapt_attention_operands operands = {.q = &q, .k = &k, .v = &v, .out = &out};
 *   if (st == RAPT_OK) st = rapt_attention_forward(ctx, &what, &operands);
 *   if (st != RAPT_OK) fprintf(stderr, "%s\n", rapt_context_message(ctx));
 *   rapt_context_destroy(ctx); */
#ifndef RAPT_RAPT_H
#define RAPT_RAPT_H

#include "attention.h"
#include "attention_backward.h"
#include "context.h"
#include "matmul.h"
#include "modules.h"
#include "optimizer.h"
#include "random.h"
#include "score.h"
#include "softmax.h"
#include "status.h"
#include "tensor.h"
#include "version.h"

#endif
