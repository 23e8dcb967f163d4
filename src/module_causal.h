/* SPDX-License-Identifier: MIT
 * module_causal.h: what stacked attention needs of the causal modules that it is made of. */
#ifndef RAPTI_MODULE_CAUSAL_H
#define RAPTI_MODULE_CAUSAL_H

#include "module.h"

/* Checks a configuration. */
rapt_status rapti_causal_check(rapt_context *context, const rapt_causal_config *config);

rapt_linear rapti_causal_layer(const rapt_causal_attention *module, rapti_role role);

/* Lists the parameters with a prefix to their names. */
void rapti_causal_list(rapti_listing *listing, const char *prefix,
                       const rapt_causal_attention *module);

#endif
