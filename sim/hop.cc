#include "hop.h"

#include "ns3/simulator.h"

#include <utility>

void Hop::receive(Records records) {
    bool begins_frame = true;
    for (const auto& record : records) {
        queue_.push_back({record, std::exchange(begins_frame, false)});
    }
    work();
}

void Hop::inject(const Records& records) {
    for (const auto& record : records) {
        queue_.push_back({record, false});
    }
    work();
}

Hop::Output& Hop::next_hop(const Record& record) {
    // Packet by packet in turn is the paper's way (PA-Flow Section 6.2).
    const size_t at = scenario_.by_chain ? record.chain : turn_++;
    return outputs_[at % outputs_.size()];
}

uint32_t Hop::join(Output& output, const Record& record, uint32_t most) {
    const auto taken = scenario_.format.taken(record.length);
    uint32_t sent = 0;
    if (!output.open.empty() && scenario_.format.overhead + output.bytes + taken > scenario_.format.largest) {
        flush(output);
        sent++;
    }
    output.open.push_back(record);
    output.bytes += taken;
    packets_++;
    if (output.open.size() >= most) {
        flush(output);
        sent++;
    }
    return sent;
}

void Hop::flush(Output& output) {
    if (output.open.empty()) {
        return;
    }
    output.link->send(output.open);
    output.open.clear();
    output.bytes = 0;
}

void Hop::hold(Output& output) {
    // The timer of a frame that has left already is one for the frame after it, too.
    if (output.open.empty() || output.timer.IsRunning()) {
        return;
    }
    const auto end = ns3::NanoSeconds(static_cast<int64_t>(scenario_.hold_us * 1e3));
    output.timer = ns3::Simulator::Schedule(end, &Hop::expire, this, std::ref(output));
}

void Hop::expire(Output& output) {
    if (!output.open.empty()) {
        cycles_ += scenario_.millrace_model.cycles_frame;
        flush(output);
    }
}

uint64_t Hop::waiting_now() const {
    uint64_t packets = queue_.size();
    for (const auto& output : outputs_) {
        packets += output.open.size();
    }
    return packets;
}
