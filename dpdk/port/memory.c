// Memory that devices may reach, for DPDK and for the IOMMU.

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_memory.h>
#include <rte_vfio.h>

#include "internal.h"

static rte_iova_t *addresses(const struct mr_region *region)
{
    // It is not changed.
    return (rte_iova_t *)(uintptr_t)region->iovas;
}

int memory_register(const struct mr_region *region, char *error)
{
    said_forget();
    unsigned int pages = region->iovas == NULL ? 0 : (unsigned int)(region->len / region->page);
    if (rte_extmem_register((void *)region->addr, region->len, addresses(region), pages, region->page) != 0)
        return fail(error, -rte_errno, "DPDK does not take %lu bytes of memory: %s", region->len, rte_strerror(rte_errno));
    return 0;
}

int memory_unregister(const struct mr_region *region)
{
    return rte_extmem_unregister((void *)region->addr, region->len) != 0 ? -rte_errno : 0;
}

// Calls a function for the whole region, or for each of its pages, if devices have addresses of their own.
static int each(const struct mr_region *region, int (*function)(void *argument, uint64_t addr, uint64_t iova, uint64_t len),
                void *argument)
{
    if (region->iovas == NULL)
        return function(argument, region->addr, region->addr, region->len);
    for (uint64_t offset = 0; offset < region->len; offset += region->page) {
        int failed = function(argument, region->addr + offset, region->iovas[offset / region->page], region->page);
        if (failed)
            return failed;
    }
    return 0;
}

static int map(void *device, uint64_t addr, uint64_t iova, uint64_t len)
{
    return rte_dev_dma_map(device, (void *)addr, iova, len) != 0 ? -rte_errno : 0;
}

// The container of all devices knows it, even if the last of them is gone.
static int unmap(void *argument, uint64_t addr, uint64_t iova, uint64_t len)
{
    (void)argument;
    return rte_vfio_container_dma_unmap(RTE_VFIO_DEFAULT_CONTAINER_FD, addr, iova, len) != 0 ? -rte_errno : 0;
}

int memory_map(uint16_t port, const struct mr_region *region, char *error)
{
    said_forget();
    struct rte_eth_dev_info info;
    int failed = rte_eth_dev_info_get(port, &info);
    if (failed == 0)
        failed = each(region, map, info.device);
    // Without an IOMMU, there is nothing to do.
    if (failed == 0 || (failed == -ENOTSUP && !eal_is_virtual()))
        return 0;
    return fail(error, failed, "%s can't reach %lu bytes of memory: %s; a limit may be RLIMIT_MEMLOCK (ulimit -l)", port_name(port),
                region->len, rte_strerror(-failed));
}

int memory_unmap(const struct mr_region *region)
{
    return each(region, unmap, NULL);
}
