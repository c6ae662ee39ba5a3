// DPDK starts.

#include <rte_eal.h>
#include <rte_errno.h>

#include "receive.h"
#include "transmit.h"

int eal_start(int argc, char **argv, char *error)
{
    said_open();
    if (rte_eal_init(argc, argv) < 0)
        return fail(error, -rte_errno, "DPDK does not start: %s", rte_strerror(rte_errno));
    int failed = receive_pool_register();
    if (failed == 0)
        failed = transmit_pool_register();
    return failed ? fail(error, failed, "DPDK takes no more kinds of pools: %s", rte_strerror(-failed)) : 0;
}

bool eal_is_virtual(void)
{
    return rte_eal_iova_mode() == RTE_IOVA_VA;
}
