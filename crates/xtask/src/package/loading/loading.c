// loading PLUGIN DRIVER DEVICE...: loads the plugin as the switch does, starts DPDK with a driver, and attaches devices by the plugin.
#define _GNU_SOURCE
#include "port.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int is_good, const char *what, const char *why)
{
	if (is_good)
		return;
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

int main(int argc, char **argv)
{
	char error[MR_ERROR] = "", processor[32];

	check(argc > 3, argv[0], "needs a plugin, a driver and devices");
	void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	check(plugin != NULL, argv[1], plugin ? "" : dlerror());
	const struct millrace_dpdk *(*table)(void) = (const struct millrace_dpdk *(*)(void))dlsym(plugin, "millrace_dpdk");
	check(table != NULL, argv[1], "has no table");
	const struct millrace_dpdk *dpdk = table();
	check(dpdk->abi == MR_ABI, argv[1], "has another version");

	snprintf(processor, sizeof(processor), "--lcores=0@%d", sched_getcpu());
	char *words[] = {argv[0], "--no-huge", "--no-shconf", "--no-telemetry", "--no-pci", "--iova-mode=va",
			 "-m64", "-d", argv[2], processor, NULL};
	check(!dpdk->start(sizeof(words) / sizeof(*words) - 1, words, error), "DPDK", error);
	for (char **device = argv + 3; *device; device++) {
		struct mr_info info;
		uint16_t port;

		check(!dpdk->probe(*device, &port, error), *device, error);
		check(!dpdk->info(port, &info, error), *device, error);
		printf("%s: %s, driver %s, %s\n", argv[1], dpdk->version(), info.driver, info.name);
	}
	return 0;
}
