// The plugin's functions, and the sizes of what passes through them: crates/dpdk/src/abi.rs has the same.

#include <rte_version.h>

#include "receive.h"
#include "transmit.h"

_Static_assert(sizeof(struct mr_loan) == 24, "");
_Static_assert(sizeof(struct mr_frame) == 16, "");
_Static_assert(sizeof(struct mr_work) == 10, "");
_Static_assert(sizeof(struct mr_region) == 32, "");
_Static_assert(sizeof(struct mr_info) == 508, "");
_Static_assert(sizeof(struct mr_config) == 16, "");
_Static_assert(sizeof(struct mr_sizes) == 24, "");
_Static_assert(sizeof(struct mr_out) == 16, "");
_Static_assert(sizeof(struct mr_link) == 8, "");
_Static_assert(sizeof(struct mr_stats) == 64, "");
_Static_assert(sizeof(struct mr_counts) == 24, "");

static const struct millrace_dpdk TABLE = {
    .abi = MR_ABI,
    .version = rte_version,
    .start = eal_start,
    .is_virtual = eal_is_virtual,
    .probe = device_probe,
    .remove = device_remove,
    .info = device_info,
    .configure = device_configure,
    .start_port = device_start,
    .stop_port = device_stop,
    .link = status_link,
    .stats = status_stats,
    .promiscuous = status_promiscuous,
    .mac = status_mac,
    .steer = steer,
    .unsteer = unsteer,
    .memory_register = memory_register,
    .memory_unregister = memory_unregister,
    .memory_map = memory_map,
    .memory_unmap = memory_unmap,
    .receive_open = receive_open,
    .receive_setup = receive_setup,
    .receive_close = receive_close,
    .receive_start = receive_start,
    .receive_stop = receive_stop,
    .receive_flush = receive_flush,
    .receive_region = receive_region,
    .receive_forget = receive_forget,
    .receive_within = receive_within,
    .receive_burst = receive_burst,
    .receive_lend = receive_lend,
    .receive_takes = receive_takes,
    .receive_reclaim = receive_reclaim,
    .receive_out = receive_out,
    .receive_counts = receive_counts,
    .receive_events = receive_events,
    .receive_arm = receive_arm,
    .receive_disarm = receive_disarm,
    .transmit_open = transmit_open,
    .transmit_setup = transmit_setup,
    .transmit_close = transmit_close,
    .transmit_region = transmit_region,
    .transmit_forget = transmit_forget,
    .transmit_within = transmit_within,
    .transmit_send = transmit_send,
    .transmit_send_work = transmit_send_work,
    .transmit_done = transmit_done,
    .transmit_clean = transmit_clean,
    .transmit_out = transmit_out,
    .transmit_counts = transmit_counts,
};

const struct millrace_dpdk *millrace_dpdk(void)
{
    return &TABLE;
}
