// Queues announce frames.

#include <rte_epoll.h>
#include <rte_interrupts.h>

#include "receive.h"

int receive_events(struct mr_receive *receive, int epoll, bool on)
{
    int failed =
        rte_eth_dev_rx_intr_ctl_q(receive->port, receive->queue, epoll, on ? RTE_INTR_EVENT_ADD : RTE_INTR_EVENT_DEL, NULL);
    receive->announces = on && failed == 0;
    return failed;
}

bool receive_arm(struct mr_receive *receive, int epoll)
{
    if (receive->next < receive->held || !receive->announces)
        return false;
    // DPDK reads events of before away, as it knows their kind.
    struct rte_epoll_event event;
    rte_epoll_wait(epoll, &event, 1, 0);
    // Some drivers always announce.
    int failed = rte_eth_dev_rx_intr_enable(receive->port, receive->queue);
    return (failed == 0 || failed == -ENOTSUP) && rte_eth_rx_queue_count(receive->port, receive->queue) <= 0;
}

void receive_disarm(struct mr_receive *receive)
{
    rte_eth_dev_rx_intr_disable(receive->port, receive->queue);
}
