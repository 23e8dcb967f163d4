/* SPDX-License-Identifier: MIT
 * rapt/optimizer.h: just enough to train: gradients to zero, their global norm, SGD and AdamW
 * steps.
 * Each call takes lists of parameters and of their gradients as the modules' *_parameters calls
 * write them: equal counts, sizes and order; names are not looked at. f32, any strides.
 *
 * Memory    an optimiser's state lies beside the parameters in list order: keep the list's order
 *           from step to step. No tensor shares an element with another, or with the state: a
 *           parameter that two layers share is listed once. (Checked for a parameter and its own
 *           gradient alone.)
 * Numerics  factors in double precision, elements in f32.
 * Threads   over elements; bitwise the same for any thread count.
 * Errors    RAPT_ERR_ARGUMENT (null pointer, count < 0, number not finite or out of range),
 *           RAPT_ERR_DTYPE, RAPT_ERR_SHAPE (lists that disagree), RAPT_ERR_OVERLAP,
 *           RAPT_ERR_MEMORY. Nothing is written then. */
#ifndef RAPT_OPTIMIZER_H
#define RAPT_OPTIMIZER_H

#include "export.h"
#include "modules.h"
#include "status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All elements 0: PyTorch's zero_grad. */
RAPT_API rapt_status rapt_gradients_zero(rapt_context *context, const rapt_parameter *gradients,
                                         int64_t count);

/* *norm = the Euclidean norm of all gradients together (summed in double precision); if it exceeds
 * max_norm, all are multiplied by max_norm / (norm + 1e-6) (PyTorch's clip_grad_norm_). A norm that
 * is not finite leaves them as they are. max_norm >= 0, infinity = only measure. norm may be
 * null. */
RAPT_API rapt_status rapt_gradients_clip(rapt_context *context, const rapt_parameter *gradients,
                                         int64_t count, double max_norm, double *norm);

/* g = gradient + weight_decay w;  m = momentum m + g (m = g in step 1);  w -= lr m
 * (PyTorch's SGD without dampening; Sutskever et al. 2013). `state`: as many floats as there are
 * parameters, kept by the caller between steps; null if momentum is 0. */
typedef struct rapt_sgd {
    double lr, momentum, weight_decay; /* >= 0; used as given: all zero changes nothing */
} rapt_sgd;

RAPT_API rapt_status rapt_sgd_step(rapt_context *context, const rapt_sgd *what,
                                   const rapt_parameter *parameters,
                                   const rapt_parameter *gradients, int64_t count, int64_t step,
                                   float *state);

/* w -= lr weight_decay w;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
 * w -= lr (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
 * (Loshchilov and Hutter 2019, as PyTorch computes it). `state`: twice as many floats as there are
 * parameters, m then v, zeros before step 1, kept by the caller. step counts from 1. */
typedef struct rapt_adamw {
    double lr, beta1, beta2, eps, weight_decay; /* used as given; betas in 0 .. 1, 1 excluded */
} rapt_adamw;

/* PyTorch's: lr 0.001, betas 0.9 and 0.999, eps 1e-8, weight_decay 0.01. */
RAPT_API rapt_adamw rapt_adamw_default(void);

RAPT_API rapt_status rapt_adamw_step(rapt_context *context, const rapt_adamw *what,
                                     const rapt_parameter *parameters,
                                     const rapt_parameter *gradients, int64_t count, int64_t step,
                                     float *state);

#ifdef __cplusplus
}
#endif
#endif
