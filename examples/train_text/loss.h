/* SPDX-License-Identifier: MIT
 * loss.h: cross-entropy: -ln p of the characters that really come next, in nats per character. */
#ifndef TRAIN_LOSS_H
#define TRAIN_LOSS_H

#include "network.h"
#include "text.h"

/* After network_forward: *loss = the mean over all characters of the batch, p = softmax(logits),
 * and n->dlogits = its gradient. One more character must follow each window. */
rapt_status loss_of_batch(network *n, const network_call *call, double *loss);

/* *loss = the mean over the held-out part, without dropout. Each character but the first is
 * predicted once, from half a context of held-out characters or more, where there are as many. */
rapt_status loss_held_out(network *n, const text *t, double *loss);

#endif
