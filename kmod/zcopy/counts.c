// SPDX-License-Identifier: GPL-2.0
/* Counters of the whole module, also in /sys/module/zcopy/parameters/stats. */
#include <linux/module.h>
#include <linux/sysfs.h>

#include "internal.h"

DEFINE_PER_CPU(struct zcopy_counts, zcopy_counts);
atomic_long_t zcopy_areas;
atomic_long_t zcopy_pages;

void zcopy_stats(struct zcopy_stats *stats)
{
	int cpu;

	stats->areas = atomic_long_read(&zcopy_areas);
	stats->pages = atomic_long_read(&zcopy_pages);
	for_each_possible_cpu(cpu) {
		struct zcopy_counts *counts = per_cpu_ptr(&zcopy_counts, cpu);

		stats->calls += READ_ONCE(counts->calls);
		stats->exchanged += READ_ONCE(counts->exchanged);
		stats->skipped += READ_ONCE(counts->skipped);
		stats->zeroed += READ_ONCE(counts->zeroed);
		stats->trimmed += READ_ONCE(counts->trimmed);
		stats->flushes += READ_ONCE(counts->flushes);
		stats->faults += READ_ONCE(counts->faults);
	}
}

static int stats_get(char *buffer, const struct kernel_param *param)
{
	struct zcopy_stats s = {};

	zcopy_stats(&s);
	return sysfs_emit(buffer,
			  "areas %llu\npages %llu\ncalls %llu\nexchanged %llu\n"
			  "skipped %llu\nzeroed %llu\ntrimmed %llu\nflushes %llu\n"
			  "faults %llu\n",
			  s.areas, s.pages, s.calls, s.exchanged, s.skipped,
			  s.zeroed, s.trimmed, s.flushes, s.faults);
}

static const struct kernel_param_ops stats_ops = { .get = stats_get };
module_param_cb(stats, &stats_ops, NULL, 0444);
MODULE_PARM_DESC(stats, "what there is, and what was done");
