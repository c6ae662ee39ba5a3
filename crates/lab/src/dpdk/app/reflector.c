#include "reflector.h"

#include <rte_prefetch.h>

void reflector_start(struct sink *reflector, const struct port *port)
{
    sink_start(reflector, port, peer_of(port->number), TOUCH_NONE);
}

bool reflector_turn(struct sink *reflector, struct loop *loop)
{
    struct rte_mbuf *burst[MAX_BURST], *strays[MAX_BURST];
    const uint16_t port = reflector->port->id;
    unsigned count = rte_eth_rx_burst(port, 0, burst, RTE_MAX(loop->options->burst, 32));
    if (count == 0)
        return false;
    loop_tick(loop);
    for (unsigned at = 0; at < count; at++)
        rte_prefetch0(rte_pktmbuf_mtod(burst[at], void *));
    unsigned kept = 0, stray = 0;
    for (unsigned at = 0; at < count; at++) {
        if (sink_take(reflector, burst[at], loop->tally.now)) {
            headers_turn(rte_pktmbuf_mtod(burst[at], struct headers *));
            burst[kept++] = burst[at];
        } else {
            strays[stray++] = burst[at];
        }
    }
    unsigned sent = rte_eth_tx_burst(port, 0, burst, (uint16_t)kept);
    rte_pktmbuf_free_bulk(burst + sent, kept - sent);
    rte_pktmbuf_free_bulk(strays, stray);
    return true;
}
