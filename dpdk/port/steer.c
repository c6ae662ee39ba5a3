// Frames to an address go to a queue.

#include <string.h>

#include <rte_errno.h>
#include <rte_flow.h>

#include "internal.h"

static int refused(uint16_t port, int failed, const struct rte_flow_error *flow, char *error)
{
    return fail(error, failed, "%s can't steer frames by their address: %s", port_name(port),
                flow->message != NULL ? flow->message : rte_strerror(-failed));
}

int steer(uint16_t port, const uint8_t mac[6], uint16_t queue, void **rule, char *error)
{
    said_forget();
    struct rte_flow_item_eth address = {0}, mask = {0};
    memcpy(&address.hdr.dst_addr, mac, sizeof address.hdr.dst_addr);
    memset(&mask.hdr.dst_addr, 0xff, sizeof mask.hdr.dst_addr);
    const struct rte_flow_attr attributes = {.ingress = 1};
    const struct rte_flow_item pattern[] = {
        {.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = &address, .mask = &mask},
        {.type = RTE_FLOW_ITEM_TYPE_END},
    };
    const struct rte_flow_action_queue to = {.index = queue};
    const struct rte_flow_action actions[] = {
        {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
        {.type = RTE_FLOW_ACTION_TYPE_END},
    };
    struct rte_flow_error flow = {0};
    int failed = rte_flow_validate(port, &attributes, pattern, actions, &flow);
    if (failed)
        return refused(port, failed, &flow, error);
    *rule = rte_flow_create(port, &attributes, pattern, actions, &flow);
    return *rule == NULL ? refused(port, -rte_errno, &flow, error) : 0;
}

int unsteer(uint16_t port, void *rule, char *error)
{
    said_forget();
    struct rte_flow_error flow = {0};
    int failed = rte_flow_destroy(port, rule, &flow);
    return failed ? refused(port, failed, &flow, error) : 0;
}
