// What a device tells about itself while it runs.

#include <rte_errno.h>

#include "internal.h"

int status_link(uint16_t port, struct mr_link *link)
{
    struct rte_eth_link from;
    int failed = rte_eth_link_get_nowait(port, &from);
    if (failed == 0)
        *link = (struct mr_link){.speed = from.link_speed, .up = from.link_status, .full_duplex = from.link_duplex};
    return failed;
}

int status_stats(uint16_t port, struct mr_stats *stats)
{
    struct rte_eth_stats from;
    int failed = rte_eth_stats_get(port, &from);
    if (failed == 0)
        *stats = (struct mr_stats){
            .received = from.ipackets,
            .received_bytes = from.ibytes,
            .sent = from.opackets,
            .sent_bytes = from.obytes,
            .missed = from.imissed,
            .no_buffer = from.rx_nombuf,
            .receive_errors = from.ierrors,
            .transmit_errors = from.oerrors,
        };
    return failed;
}

int status_promiscuous(uint16_t port, bool on, char *error)
{
    said_forget();
    int failed = on ? rte_eth_promiscuous_enable(port) : rte_eth_promiscuous_disable(port);
    return failed ? fail(error, failed, "%s can't be made %spromiscuous: %s", port_name(port), on ? "" : "less ", rte_strerror(-failed))
                  : 0;
}

int status_mac(uint16_t port, uint8_t mac[6])
{
    return rte_eth_macaddr_get(port, (struct rte_ether_addr *)mac);
}
