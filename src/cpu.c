/* SPDX-License-Identifier: MIT
 * cpu.c: what the processor and the operating system offer to this process. Compiled for the
 * baseline: it runs before anything else is known. */
#define _GNU_SOURCE
#include "cpu.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__x86_64__)

#include <cpuid.h>

enum { XCR0_AVX = 0x06, XCR0_AVX512 = 0xe6 }; /* register state that the system saves */

static int saves_state(uint32_t wanted) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) { return 0; }
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & wanted) == wanted;
}

int rapti_cpu_has_avx2(void) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA) || !(c & bit_F16C)) { return 0; }
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) { return 0; }
    return saves_state(XCR0_AVX);
}

int rapti_cpu_has_avx512(void) {
    const uint32_t wanted = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & wanted) != wanted) { return 0; }
    return rapti_cpu_has_avx2() && saves_state(XCR0_AVX512);
}

#else

int rapti_cpu_has_avx2(void) { return 0; }
int rapti_cpu_has_avx512(void) { return 0; }

#endif

static int32_t affinity_count(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) { return CPU_COUNT(&set); }
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < 65536 ? (int32_t)online : 1;
}

/* "max 100000" or "<quota> <period>" in microseconds (cgroup v2); 0 = no limit known */
static int32_t quota_count(void) {
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!f) { return 0; }
    long quota = 0, period = 0;
    const int fields = fscanf(f, "%ld %ld", &quota, &period);
    fclose(f);
    if (fields != 2 || quota <= 0 || period <= 0) { return 0; }
    const long cpus = (quota + period - 1) / period;
    return cpus < 65536 ? (int32_t)cpus : 0;
}

int32_t rapti_cpu_count(void) {
    const int32_t affinity = affinity_count(), quota = quota_count();
    const int32_t count = quota > 0 && quota < affinity ? quota : affinity;
    return count > 0 ? count : 1;
}
