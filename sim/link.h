// A link from one node to the next: two point-to-point devices of ns-3 with a channel between them.
#pragma once

#include "frame.h"
#include "scenario.h"

#include "ns3/node.h"
#include "ns3/point-to-point-net-device.h"

#include <functional>
#include <map>
#include <string>

// Counts of the frames sent on a link.
struct LinkCounts {
    uint64_t frames = 0;
    uint64_t packets = 0;
    uint64_t bytes = 0;
    std::map<uint32_t, uint64_t> held;  // frames by packets in them
    std::map<uint32_t, uint64_t> sizes; // frames by bytes
};

class Link {
  public:
    using Receiver = std::function<void(Records)>;

    // `number` names the link's random numbers.
    Link(const Scenario& scenario, const std::string& from, const std::string& to, ns3::Ptr<ns3::Node> near, ns3::Ptr<ns3::Node> far,
         Receiver receiver, int64_t number);
    Link(const Link&) = delete;

    void send(const Records& records);
    // Keeps the counts as they are now: the end of sending.
    void mark() { marked_ = counts_; }

    const std::string& from() const { return from_; }
    const std::string& to() const { return to_; }
    const LinkCounts& marked() const { return marked_; }
    uint64_t lost_frames() const { return lost_frames_; }
    uint64_t lost_packets() const { return lost_packets_; }

  private:
    bool receive(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> frame, uint16_t, const ns3::Address&);
    void lose(ns3::Ptr<const ns3::Packet> frame);

    Format format_;
    std::string from_;
    std::string to_;
    ns3::Ptr<ns3::PointToPointNetDevice> near_;
    Receiver receiver_;
    LinkCounts counts_;
    LinkCounts marked_;
    uint64_t lost_frames_ = 0;
    uint64_t lost_packets_ = 0;
};
