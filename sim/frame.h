// Frames: ns-3 packets with the data of each packet in them.
#pragma once

#include "scenario.h"

#include "ns3/packet.h"

#include <cstdint>
#include <vector>

// A packet of a source.
struct Record {
    int64_t sent_ns;
    uint32_t chain;
    uint32_t length;
};

using Records = std::vector<Record>;

// Returns the bytes of a frame with these packets. One alone goes as it is.
uint32_t frame_bytes(const Records& records, const Format& format);

// Makes a frame that takes this many bytes on a link.
ns3::Ptr<ns3::Packet> make_frame(const Records& records, uint32_t bytes);

// Returns the packets that make_frame has put into a frame.
Records split_frame(const ns3::Ptr<const ns3::Packet>& frame);
