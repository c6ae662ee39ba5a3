// A network card in the place of a device: it writes down what it is told of frames, and changes headers before as Intel's drivers do.

#include <string.h>

#include <rte_ethdev.h>
#include <rte_net.h>

struct told {
    uint64_t flags;
    uint32_t len;
    uint16_t pieces, link, network, transport, segment;
    uint8_t head[128];
};

#define ROOM 32
static struct told told[ROOM];
static unsigned int first, end;

static uint16_t transmit(void *queue, struct rte_mbuf **frames, uint16_t count)
{
    (void)queue;
    for (uint16_t i = 0; i < count; i++) {
        const struct rte_mbuf *frame = frames[i];
        struct told *next = &told[end++ % ROOM];
        *next = (struct told){
            .flags = frame->ol_flags,
            .len = frame->pkt_len,
            .pieces = frame->nb_segs,
            .link = frame->l2_len,
            .network = frame->l3_len,
            .transport = frame->l4_len,
            .segment = frame->tso_segsz,
        };
        memcpy(next->head, rte_pktmbuf_mtod(frame, const void *), RTE_MIN(sizeof next->head, (size_t)frame->data_len));
        rte_pktmbuf_free(frames[i]);
    }
    return count;
}

static uint16_t prepare(void *queue, struct rte_mbuf **frames, uint16_t count)
{
    (void)queue;
    for (uint16_t i = 0; i < count; i++)
        if (rte_net_intel_cksum_prepare(frames[i]) != 0)
            return i;
    return count;
}

// Puts the card in the place of a device that runs.
void card_install(uint16_t port)
{
    rte_eth_fp_ops[port].tx_pkt_burst = transmit;
    rte_eth_fp_ops[port].tx_pkt_prepare = prepare;
}

// Returns whether there was another frame.
int card_next(struct told *next)
{
    if (first == end)
        return 0;
    *next = told[first++ % ROOM];
    return 1;
}
