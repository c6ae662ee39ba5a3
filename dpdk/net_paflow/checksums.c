// Checksums of received packets, checked in software for applications that expect a NIC to do it: the one below sees only aggregates.

#include <rte_ip.h>
#include <rte_net.h>
#include <rte_udp.h>

#include "net_paflow.h"

// Reports whether a UDP header has no checksum, which IPv4 allows.
static bool has_none(const void *l4, uint32_t type)
{
    return (type & RTE_PTYPE_L4_MASK) == RTE_PTYPE_L4_UDP && ((const struct rte_udp_hdr *)l4)->dgram_cksum == 0;
}

static uint64_t of_ipv4(const struct rte_mbuf *packet, uint32_t type, const struct rte_net_hdr_lens *lens)
{
    const struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(packet, const struct rte_ipv4_hdr *, lens->l2_len);
    uint64_t flags = rte_ipv4_cksum(ip) == 0 ? RTE_MBUF_F_RX_IP_CKSUM_GOOD : RTE_MBUF_F_RX_IP_CKSUM_BAD;
    if (lens->l4_len == 0 || lens->l2_len + rte_be_to_cpu_16(ip->total_length) > packet->data_len)
        return flags;
    const void *l4 = (const uint8_t *)ip + lens->l3_len;
    bool good = has_none(l4, type) || rte_ipv4_udptcp_cksum_verify(ip, l4) == 0;
    return flags | (good ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : RTE_MBUF_F_RX_L4_CKSUM_BAD);
}

static uint64_t of_ipv6(const struct rte_mbuf *packet, const struct rte_net_hdr_lens *lens)
{
    const struct rte_ipv6_hdr *ip = rte_pktmbuf_mtod_offset(packet, const struct rte_ipv6_hdr *, lens->l2_len);
    // Extension headers are not looked behind.
    if (lens->l4_len == 0 || lens->l3_len != sizeof *ip ||
        lens->l2_len + sizeof *ip + rte_be_to_cpu_16(ip->payload_len) > packet->data_len)
        return 0;
    bool good = rte_ipv6_udptcp_cksum_verify(ip, ip + 1) == 0;
    return good ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : RTE_MBUF_F_RX_L4_CKSUM_BAD;
}

// Returns the flags of a packet; none where nothing is known, as of a packet in several buffers.
uint64_t checksum_flags(const struct rte_mbuf *packet)
{
    struct rte_net_hdr_lens lens = {0};
    uint32_t type = rte_net_get_ptype(packet, &lens, RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK);
    uint32_t l4 = type & RTE_PTYPE_L4_MASK;
    if (l4 != RTE_PTYPE_L4_UDP && l4 != RTE_PTYPE_L4_TCP)
        lens.l4_len = 0;
    if (packet->nb_segs > 1 || lens.l2_len + lens.l3_len + lens.l4_len > packet->data_len)
        return 0;
    if (RTE_ETH_IS_IPV4_HDR(type))
        return of_ipv4(packet, type, &lens);
    return RTE_ETH_IS_IPV6_HDR(type) ? of_ipv6(packet, &lens) : 0;
}
