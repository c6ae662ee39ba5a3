// A node of a chain: it splits received frames, finds the next hop of each packet, and joins packets to one next hop.
#pragma once

#include "frame.h"
#include "link.h"
#include "scenario.h"

#include "ns3/event-id.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

class Hop {
  public:
    Hop(const Scenario& scenario, std::string name) : scenario_(scenario), name_(std::move(name)) {}
    virtual ~Hop() = default;
    Hop(const Hop&) = delete;

    void add_output(Link& link) { outputs_.push_back({&link}); }
    bool leads_on() const { return !outputs_.empty(); }
    // Takes a frame from a link.
    void receive(Records records);
    // Takes packets that a source of this node sends.
    void inject(const Records& records);
    // Keeps the counts as they are now: the end of sending.
    void mark() { marked_cycles_ = cycles_, marked_packets_ = packets_, waiting_ = waiting_now(); }

    const std::string& name() const { return name_; }
    double marked_cycles() const { return marked_cycles_; }
    uint64_t marked_packets() const { return marked_packets_; }
    uint64_t waiting() const { return waiting_; }

  protected:
    // Packets to one next hop that may be joined.
    struct Output {
        Link* link;
        Records open = {};
        uint32_t bytes = 0;
        ns3::EventId timer = {};
        // Of the paper's node: packets in this window of time, its beginning, and the rate in the one before.
        uint64_t counted = 0;
        int64_t window_ns = 0;
        double pps = 0;
    };

    // A packet that waits.
    struct Waiting {
        Record record;
        bool begins_frame; // that came from a link
    };

    // Takes waiting packets, unless the node is at work.
    virtual void work() = 0;

    Output& next_hop(const Record& record);
    // Joins a packet; sends the frame before if it does not fit, or if the frame has `most` packets. Returns how many were sent.
    uint32_t join(Output& output, const Record& record, uint32_t most);
    void flush(Output& output);
    // Lets an open frame wait for others until the holding time is over.
    void hold(Output& output);

    const Scenario& scenario_;
    std::vector<Output> outputs_;
    std::deque<Waiting> queue_;
    double cycles_ = 0;
    uint64_t packets_ = 0;

  private:
    // Ends the holding time of an open frame.
    void expire(Output& output);
    uint64_t waiting_now() const;

    std::string name_;
    size_t turn_ = 0;
    double marked_cycles_ = 0;
    uint64_t marked_packets_ = 0;
    uint64_t waiting_ = 0;
};

std::unique_ptr<Hop> make_paper_hop(const Scenario& scenario, const std::string& name);
std::unique_ptr<Hop> make_millrace_hop(const Scenario& scenario, const std::string& name);
