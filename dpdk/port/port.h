// The interface of the plugin: what crates/dpdk/src/abi.rs repeats. A change of it changes MR_ABI.
//
// Functions that can fail return 0 or a negative errno, and write a sentence to `error`, which has room for MR_ERROR bytes. They are
// called by one thread at a time. So is everything that uses a queue, or its device, which may give buffers back or take more: the
// caller sees to that, but for functions whose argument is const, which only read counters.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MR_ABI 3
#define MR_ERROR 512

struct mr_receive;
struct mr_transmit;

// Whose buffer: a guest's, or the switch's own.
enum { MR_GUEST = 1, MR_OWN = 2 };

// A buffer: a frame goes to addr + start.
struct mr_loan {
    uint64_t addr;
    uint32_t len, id;
    uint32_t start, reserved;
};

// The frame goes on in the next record.
#define MR_MORE 1
// The buffer is one of the switch's own.
#define MR_IS_OWN 2
// The frame leaves work to the device: the next `struct mr_work` is its own.
#define MR_WORK 4

// A received frame, or a piece of it; a frame to send, or a piece of it.
struct mr_frame {
    uint64_t addr;
    uint32_t id;
    uint16_t len, flags;
};

// Work on a frame that the device does: the transport checksum, and the division into segments if `segment` is their payload. Lengths of
// headers: Ethernet's with VLAN tags, IP's, and TCP's or UDP's.
struct mr_work {
    uint16_t link, network;
    uint16_t transport, segment;
    uint8_t is_v6, is_udp;
};

// Memory that a device may reach, and the addresses of its pages for the device, which are the same if `iovas` is NULL.
struct mr_region {
    uint64_t addr, len, page;
    const uint64_t *iovas;
};

// The device sends frames of several pieces; frames may come from this machine's kernel, or from a guest, which leave checksums
// unfinished; it registers memory when its queues are set up, and reaches no other.
#define MR_CHAINS 1
#define MR_UNFINISHED 4
#define MR_REGISTERS 8
// Work that it does: checksums of TCP and UDP, segments of TCP in IPv4 and in IPv6.
#define MR_CHECKSUM 16
#define MR_TCP4 32
#define MR_TCP6 64

struct mr_info {
    char name[64], driver[64], bus[32];
    // Why the device can't receive into buffers of others; empty if it can.
    char refusal[160];
    // Why it should get the switch's own buffers only; empty if a guest's are as good.
    char own_only[160];
    uint16_t receive_queues, transmit_queues;
    // Sizes of rings.
    uint16_t receive_least, receive_most, receive_align;
    uint16_t transmit_least, transmit_most, transmit_align;
    uint32_t max_mtu, min_room;
    uint32_t flags;
};

struct mr_config {
    uint16_t queues, receive_size, transmit_size;
    // 0: the device's own.
    uint16_t mtu;
    uint32_t room;
    uint8_t interrupts, rss;
    // Work that frames may leave to it.
    uint16_t work;
};

// A queue as it was set up.
struct mr_sizes {
    // Descriptors of the ring.
    uint32_t ring;
    // Receive: loans that the queue holds at most, of each kind; bytes that a guest's buffer needs from its start; own buffers that
    // the device never lacks a buffer with; those of them that it keeps and receives nothing into. Transmit: pieces that the queue
    // holds at most.
    uint32_t capacity, least, reserve, idle;
    // Transmit: the most pieces of a frame that is to be cut.
    uint32_t pieces;
};

// Loans with the queue, waiting and at the device.
struct mr_out {
    uint32_t guest, own;
    uint32_t guest_waiting, own_waiting;
};

struct mr_link {
    uint32_t speed;
    uint8_t up, full_duplex;
    uint16_t reserved;
};

struct mr_stats {
    uint64_t received, received_bytes, sent, sent_bytes;
    uint64_t missed, no_buffer, receive_errors, transmit_errors;
};

// Of one queue. Receive: frames; those dropped, as they did not fit; times that the device asked for buffers and there were not enough.
// Transmit: frames; those finished without being sent, as the device can't take them.
struct mr_counts {
    uint64_t frames, dropped, no_buffer;
};

struct millrace_dpdk {
    uint32_t abi;
    uint32_t reserved;
    const char *(*version)(void);
    // Once a process.
    int (*start)(int argc, char **argv, char *error);
    bool (*is_virtual)(void);

    // Finds a device, or attaches it.
    int (*probe)(const char *device, uint16_t *port, char *error);
    // Stops, closes and detaches it.
    int (*remove)(uint16_t port, char *error);
    int (*info)(uint16_t port, struct mr_info *info, char *error);
    int (*configure)(uint16_t port, const struct mr_config *config, char *error);
    // Its queues have been set up.
    int (*start_port)(uint16_t port, char *error);
    int (*stop_port)(uint16_t port, char *error);
    int (*link)(uint16_t port, struct mr_link *link);
    int (*stats)(uint16_t port, struct mr_stats *stats);
    int (*promiscuous)(uint16_t port, bool on, char *error);
    int (*mac)(uint16_t port, uint8_t mac[6]);
    // Frames to an address go to a queue, until the rule is destroyed.
    int (*steer)(uint16_t port, const uint8_t mac[6], uint16_t queue, void **rule, char *error);
    int (*unsteer)(uint16_t port, void *rule, char *error);

    // Memory, for all devices; and for those behind the IOMMU, by one of them.
    int (*memory_register)(const struct mr_region *region, char *error);
    int (*memory_unregister)(const struct mr_region *region);
    int (*memory_map)(uint16_t port, const struct mr_region *region, char *error);
    int (*memory_unmap)(const struct mr_region *region);

    int (*receive_open)(uint16_t port, uint16_t queue, const struct mr_config *config, struct mr_receive **receive,
                        struct mr_sizes *sizes, char *error);
    // While the device is stopped, once after each `configure` of it, and again so that a device that registers memory knows new regions;
    // drivers may ask for buffers here.
    int (*receive_setup)(struct mr_receive *receive, char *error);
    // The device has been removed, or its queue is set up again.
    void (*receive_close)(struct mr_receive *receive);
    int (*receive_start)(struct mr_receive *receive, char *error);
    int (*receive_stop)(struct mr_receive *receive, char *error);
    // Gives back frames that the queue has taken from the device and not passed on.
    void (*receive_flush)(struct mr_receive *receive);
    // If the queue is set up, a device that registers memory gets no buffers in it until that is done again.
    int (*receive_region)(struct mr_receive *receive, const struct mr_region *region, char *error);
    // Forgets a region: the device gets no more buffers in it, though they wait.
    void (*receive_forget)(struct mr_receive *receive, const struct mr_region *region);
    // Returns the number of buffers in the region that the device has.
    uint32_t (*receive_within)(struct mr_receive *receive, const struct mr_region *region);
    uint32_t (*receive_burst)(struct mr_receive *receive, struct mr_frame *frames, uint32_t room, uint32_t most);
    uint32_t (*receive_lend)(struct mr_receive *receive, uint32_t kind, const struct mr_loan *loans, uint32_t count);
    // Returns whether a loan could be lent if there is room.
    bool (*receive_takes)(struct mr_receive *receive, uint32_t kind, const struct mr_loan *loan);
    uint32_t (*receive_reclaim)(struct mr_receive *receive, uint32_t kind, uint32_t *ids, uint32_t room);
    struct mr_out (*receive_out)(const struct mr_receive *receive);
    struct mr_counts (*receive_counts)(const struct mr_receive *receive);
    // Has events of the queue wake up `epoll`.
    int (*receive_events)(struct mr_receive *receive, int epoll, bool on);
    // Forgets events of before. Returns false if the device does not announce frames, or one is there already.
    bool (*receive_arm)(struct mr_receive *receive, int epoll);
    void (*receive_disarm)(struct mr_receive *receive);

    int (*transmit_open)(uint16_t port, uint16_t queue, const struct mr_config *config, struct mr_transmit **transmit,
                         struct mr_sizes *sizes, char *error);
    int (*transmit_setup)(struct mr_transmit *transmit, char *error);
    void (*transmit_close)(struct mr_transmit *transmit);
    int (*transmit_region)(struct mr_transmit *transmit, const struct mr_region *region, char *error);
    void (*transmit_forget)(struct mr_transmit *transmit, const struct mr_region *region);
    uint32_t (*transmit_within)(struct mr_transmit *transmit, const struct mr_region *region);
    uint32_t (*transmit_send)(struct mr_transmit *transmit, const struct mr_frame *frames, uint32_t count);
    // The same, for frames of which some leave work; the device may change headers of these.
    uint32_t (*transmit_send_work)(struct mr_transmit *transmit, const struct mr_frame *frames, uint32_t count,
                                   const struct mr_work *work);
    uint32_t (*transmit_done)(struct mr_transmit *transmit, uint32_t *ids, uint32_t room);
    bool (*transmit_clean)(struct mr_transmit *transmit);
    uint32_t (*transmit_out)(const struct mr_transmit *transmit);
    struct mr_counts (*transmit_counts)(const struct mr_transmit *transmit);
};

// The only symbol that the plugin exports.
const struct millrace_dpdk *millrace_dpdk(void);
