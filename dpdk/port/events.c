// Queues announce frames.

#include <rte_epoll.h>
#include <rte_interrupts.h>

#include "receive.h"

int receive_events(struct mr_receive *receive, int epoll, bool on)
{
    return rte_eth_dev_rx_intr_ctl_q(receive->port, receive->queue, epoll, on ? RTE_INTR_EVENT_ADD : RTE_INTR_EVENT_DEL, NULL);
}

bool receive_arm(struct mr_receive *receive)
{
    if (receive->next < receive->held || rte_eth_dev_rx_intr_enable(receive->port, receive->queue) != 0)
        return false;
    return rte_eth_rx_queue_count(receive->port, receive->queue) <= 0;
}

// DPDK reads the event away, as it knows its kind.
void receive_disarm(struct mr_receive *receive, int epoll)
{
    struct rte_epoll_event event;
    rte_epoll_wait(epoll, &event, 1, 0);
    rte_eth_dev_rx_intr_disable(receive->port, receive->queue);
}
