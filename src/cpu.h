/* SPDX-License-Identifier: MIT
 * cpu.h: what the processor and the operating system offer to this process. */
#ifndef RAPTI_CPU_H
#define RAPTI_CPU_H

#include <stdint.h>

/* 1 if instructions of the set run here: CPU bits and the saved register state agree. */
int rapti_cpu_has_avx2(void);
int rapti_cpu_has_avx512(void);

/* CPUs that this process may use: affinity mask and cgroup quota, at least 1. */
int32_t rapti_cpu_count(void);

#endif
