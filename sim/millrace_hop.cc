// A node as Millrace is one: a worker takes what waits in a round, and what comes meanwhile waits for the next one. Packets meet
// while the worker is busy (docs/measured/aggregation.md), and nothing waits longer, unless there is a holding time.
#include "hop.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <limits>

namespace {

class MillraceHop final : public Hop {
  public:
    using Hop::Hop;

  private:
    void work() override;
    void leave(uint32_t packets);
    // Lets the worker work for this many cycles, and then do this.
    template <class Then> void busy(double cycles, Then then);

    bool busy_ = false;
};

template <class Then> void MillraceHop::busy(double cycles, Then then) {
    busy_ = true;
    cycles_ += cycles;
    const auto picoseconds = static_cast<int64_t>(cycles * 1e3 / scenario_.millrace_model.ghz);
    ns3::Simulator::Schedule(ns3::PicoSeconds(picoseconds), then);
}

void MillraceHop::work() {
    if (busy_ || queue_.empty()) {
        return;
    }
    const auto& model = scenario_.millrace_model;
    const uint32_t packets = std::min<size_t>(queue_.size(), model.burst);
    const auto received = std::count_if(queue_.begin(), queue_.begin() + packets, [](const Waiting& w) { return w.begins_frame; });
    const auto cycles = model.cycles_round + packets * model.cycles_packet + received * model.cycles_received;
    busy(cycles, [this, packets] { leave(packets); });
}

void MillraceHop::leave(uint32_t packets) {
    uint32_t frames = 0;
    const uint32_t most = scenario_.aggregate ? std::numeric_limits<uint32_t>::max() : 1;
    for (uint32_t n = 0; n < packets; n++) {
        const auto record = queue_.front().record;
        queue_.pop_front();
        frames += join(next_hop(record), record, most);
    }
    for (auto& output : outputs_) {
        if (scenario_.hold_us > 0) {
            hold(output);
        } else if (!output.open.empty()) {
            flush(output);
            frames++;
        }
    }
    busy(frames * scenario_.millrace_model.cycles_frame, [this] {
        busy_ = false;
        work();
    });
}

} // namespace

std::unique_ptr<Hop> make_millrace_hop(const Scenario& scenario, const std::string& name) {
    return std::make_unique<MillraceHop>(scenario, name);
}
