// What is known of drivers, and can't be asked for. Read in, or seen with, DPDK 22.11 and 24.11.

#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>

#include "internal.h"

#define MEMORY "it receives only into DPDK's own memory"
#define KEEPS "its driver keeps memory registered until the device is closed, and would write to pages of a guest that is gone"
#define STACKED "the devices below it may put frames elsewhere than into the buffers that they get: use one of these"

static const struct driver DRIVERS[] = {
    {.name = "net_af_xdp", .refusal = "it receives only into a pool's own memory: use a port of the driver \"af_xdp\""},
    {.name = "net_virtio_user", .refusal = "it receives only into DPDK's own memory: use a port of the driver \"virtio-user\""},
    {.name = "net_bonding", .refusal = STACKED},
    {.name = "net_failsafe", .refusal = STACKED},
    {.name = "net_vdev_netvsc", .refusal = STACKED},
    {.name = "net_mvneta", .refusal = MEMORY},
    {.name = "net_mvpp2", .refusal = MEMORY},
    {.name = "mlx5_pci", .registers = true},
    {.name = "mlx5_auxiliary", .registers = true},
    {.name = "net_mlx4", .registers = true, .own_only = KEEPS},
    {.name = "net_mana", .registers = true, .own_only = KEEPS},
    {.name = "net_virtio", .obeys_length = true, .takes_many = true, .cuts = true, .forgets_events = true},
    {.name = "net_vmxnet3", .obeys_length = true, .takes_many = true, .keeps_ring = true},
    {.name = "net_tap", .obeys_length = true, .keeps_ring = true, .cuts_by_library = true},
    {.name = "net_pcap",
     .obeys_length = true,
     .writes_headroom = true,
     .own_only = "its driver writes before frames, where a guest's buffers have no room"},
    {.name = "net_ring", .own_only = "its frames stay in the memory of their sender"},
    {.name = "net_null", .finished = true},
    {.name = "net_memif", .finished = true},
    {.name = "net_e1000_em", .tags = 1, .cuts = true},
    {.name = "net_e1000_igb", .tags = 1, .cuts = true},
    {.name = "net_igc", .tags = 1, .cuts = true},
    {.name = "net_ixgbe", .tags = 2, .cuts = true},
    {.name = "net_i40e", .tags = 2, .cuts = true},
    {.name = "net_ice", .tags = 2, .cuts = true},
    {.name = "net_iavf", .tags = 2, .cuts = true},
};

bool is_virtual(const struct rte_eth_dev_info *info)
{
    return strcmp(rte_bus_name(rte_dev_bus(info->device)), "vdev") == 0;
}

const struct driver *driver_of(const char *name)
{
    static const struct driver OTHER = {.name = "another"};
    for (size_t i = 0; i < RTE_DIM(DRIVERS) && name != NULL; i++)
        if (strcmp(DRIVERS[i].name, name) == 0)
            return &DRIVERS[i];
    return &OTHER;
}

// Tests name a driver in software, which then stands for one that does so. A NIC's driver can't be named: memory that is reached by
// DMA needs its guard.
bool driver_registers(const struct rte_eth_dev_info *info)
{
    const char *name = info->driver_name, *tested = getenv("MILLRACE_DPDK_REGISTERS");
    bool stands = tested != NULL && name != NULL && strcmp(tested, name) == 0;
    return driver_of(name)->registers || (stands && is_virtual(info));
}
