// Ethernet, IPv4 and UDP headers between two endpoints; all addresses follow from the endpoints' numbers.
#pragma once

#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#define UDP_PORT 9000

// The headers in front of each payload.
struct headers {
    struct rte_ether_hdr ethernet;
    struct rte_ipv4_hdr ip;
    struct rte_udp_hdr udp;
};

_Static_assert(sizeof(struct headers) == 42, "the payload begins at byte 42");

// The headers of one direction, for frames of the length used last.
struct template {
    struct headers headers;
    uint16_t length;
};

static inline struct rte_ether_addr mac_of(uint8_t number)
{
    return (struct rte_ether_addr){{2, 0, 0, 0, 0x20, number}};
}

static inline rte_be32_t ip_of(uint8_t number)
{
    return rte_cpu_to_be_32(RTE_IPV4(198, 18, 0, number + 1));
}

static inline struct template template_between(uint8_t from, uint8_t to)
{
    struct template template = {.headers = {
        .ethernet = {.dst_addr = mac_of(to), .src_addr = mac_of(from),
                     .ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)},
        .ip = {.version_ihl = RTE_IPV4_VHL_DEF, .fragment_offset = rte_cpu_to_be_16(RTE_IPV4_HDR_DF_FLAG),
               .time_to_live = 64, .next_proto_id = IPPROTO_UDP, .src_addr = ip_of(from), .dst_addr = ip_of(to)},
        .udp = {.src_port = rte_cpu_to_be_16(UDP_PORT), .dst_port = rte_cpu_to_be_16(UDP_PORT)},
    }};
    return template;
}

// Returns the headers of a frame of `length` bytes. UDP has no checksum, which IPv4 allows.
static inline const struct headers *template_for(struct template *template, uint16_t length)
{
    if (template->length != length) {
        struct headers *headers = &template->headers;
        uint16_t total = (uint16_t)(length - sizeof headers->ethernet);
        headers->ip.total_length = rte_cpu_to_be_16(total);
        headers->udp.dgram_len = rte_cpu_to_be_16((uint16_t)(total - sizeof headers->ip));
        headers->ip.hdr_checksum = 0;
        headers->ip.hdr_checksum = rte_ipv4_cksum(&headers->ip);
        template->length = length;
    }
    return &template->headers;
}

// Exchanges the addresses of a packet; its checksum stays right.
static inline void headers_turn(struct headers *headers)
{
    struct rte_ether_addr mac = headers->ethernet.dst_addr;
    headers->ethernet.dst_addr = headers->ethernet.src_addr;
    headers->ethernet.src_addr = mac;
    rte_be32_t ip = headers->ip.dst_addr;
    headers->ip.dst_addr = headers->ip.src_addr;
    headers->ip.src_addr = ip;
}
