// Receiving: frames from the device below become packets.

#include <rte_ethdev.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include "net_paflow.h"

static void end_aggregate(struct receive_queue *queue)
{
    rte_pktmbuf_free(queue->aggregate);
    queue->aggregate = NULL;
}

// Drops the packets that the queue holds.
void receive_forget(struct receive_queue *queue)
{
    end_aggregate(queue);
    while (queue->next_frame < queue->frame_count)
        rte_pktmbuf_free(queue->frames[queue->next_frame++]);
}

// Returns the next frame, or NULL.
static inline struct rte_mbuf *next_frame(struct receive_queue *queue)
{
    if (queue->next_frame == queue->frame_count) {
        queue->next_frame = 0;
        queue->frame_count = rte_eth_rx_burst(queue->below, queue->number, queue->frames, FRAMES);
        queue->counters.frames += queue->frame_count;
        if (queue->frame_count == 0)
            return NULL;
    }
    struct rte_mbuf *frame = queue->frames[queue->next_frame++];
    if (queue->next_frame < queue->frame_count)
        rte_prefetch0(rte_pktmbuf_mtod(queue->frames[queue->next_frame], const void *));
    return frame;
}

// Looks into a frame. Returns true if it is no aggregate, but a packet by itself; it is dropped if it is a wrong aggregate.
static inline bool is_packet(struct receive_queue *queue, struct rte_mbuf *frame)
{
    uint32_t length = rte_pktmbuf_pkt_len(frame);
    if (unlikely(length > sizeof queue->gathered))
        return true;
    queue->bytes = rte_pktmbuf_read(frame, 0, length, queue->gathered);
    int found = paflow_split(queue->rules, queue->bytes, length, queue->pieces, &queue->congested);
    if (found == 0)
        return true;
    if (unlikely(found < 0)) {
        queue->counters.dropped[RTE_MIN(-found, PAFLOW_REASONS)]++;
        rte_pktmbuf_free(frame);
        return false;
    }
    queue->aggregate = frame;
    queue->piece_count = (uint16_t)found;
    queue->next_piece = 0;
    queue->counters.aggregates++;
    queue->counters.split += (uint64_t)found;
    return false;
}

// Copies the next `count` packets of the aggregate into buffers of their own, as an application may write in front of a packet and
// behind it. Returns how many there are.
static inline uint16_t extract(struct receive_queue *queue, struct rte_mbuf **packets, uint16_t count)
{
    const struct paflow_piece *pieces = &queue->pieces[queue->next_piece];
    uint16_t done = 0;
    queue->next_piece += count;
    if (unlikely(rte_pktmbuf_alloc_bulk(queue->pool, packets, count) != 0)) {
        queue->counters.no_buffers += count;
    } else {
        for (uint16_t i = 0; i < count; i++) {
            struct rte_mbuf *packet = packets[i];
            uint16_t length = pieces[i].length;
            if (unlikely(length > rte_pktmbuf_tailroom(packet))) {
                queue->counters.too_long++;
                rte_pktmbuf_free(packet);
                continue;
            }
            rte_memcpy(rte_pktmbuf_mtod(packet, void *), queue->bytes + pieces[i].start, length);
            if (unlikely(queue->congested) && paflow_mark(rte_pktmbuf_mtod(packet, uint8_t *), length) != 0) {
                queue->counters.congested++;
                rte_pktmbuf_free(packet);
                continue;
            }
            packet->data_len = length;
            packet->pkt_len = length;
            packets[done++] = packet;
        }
    }
    if (queue->next_piece == queue->piece_count)
        end_aggregate(queue);
    return done;
}

// Makes a packet this device's.
static inline void finish(struct receive_queue *queue, struct rte_mbuf *packet)
{
    packet->port = queue->own;
    queue->counters.bytes += rte_pktmbuf_pkt_len(packet);
    if (queue->checks)
        packet->ol_flags |= checksum_flags(packet);
}

// The packets of an aggregate are delivered in one burst if that has room for them: the application most likely sends them in one,
// too, and so they fill a frame again. Each frame holds a packet or more, except for wrong aggregates: the application gets its turn
// though these keep coming.
uint16_t receive(void *argument, struct rte_mbuf **packets, uint16_t room)
{
    struct receive_queue *queue = argument;
    uint16_t done = 0, frames = 0;
    while (done < room) {
        if (queue->aggregate != NULL) {
            uint16_t left = queue->piece_count - queue->next_piece, now = RTE_MIN(left, (uint16_t)(room - done));
            if (now < left && done > 0)
                break;
            done += extract(queue, packets + done, now);
            continue;
        }
        struct rte_mbuf *frame = frames++ < room ? next_frame(queue) : NULL;
        if (frame == NULL)
            break;
        if (is_packet(queue, frame)) {
            packets[done++] = frame;
        }
    }
    for (uint16_t i = 0; i < done; i++)
        finish(queue, packets[i]);
    queue->counters.packets += done;
    return done;
}
