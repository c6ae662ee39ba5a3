// The node of PA-Flow Section 6.2: the input rate decides how many packets are joined, and the output rate has an end.
#include "hop.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <cmath>

namespace {

class PaperHop final : public Hop {
  public:
    using Hop::Hop;

  private:
    void work() override;
    void leave();
    uint32_t most(Output& output);

    bool busy_ = false;
};

void PaperHop::work() {
    if (busy_ || queue_.empty()) {
        return;
    }
    busy_ = true;
    const auto picoseconds = static_cast<int64_t>(1e12 / scenario_.paper_model.output_pps);
    ns3::Simulator::Schedule(ns3::PicoSeconds(picoseconds), &PaperHop::leave, this);
}

void PaperHop::leave() {
    const auto record = queue_.front().record;
    queue_.pop_front();
    auto& output = next_hop(record);
    join(output, record, scenario_.aggregate ? most(output) : 1);
    hold(output);
    busy_ = false;
    work();
}

// Returns how many packets make a frame at the rate of the last window, by the measured ratios with straight lines between them.
uint32_t PaperHop::most(Output& output) {
    const auto now = ns3::Simulator::Now().GetNanoSeconds();
    const auto window = static_cast<int64_t>(scenario_.paper_model.window_us * 1e3);
    output.counted++;
    if (now - output.window_ns >= window) {
        output.pps = output.counted * 1e9 / (now - output.window_ns);
        output.counted = 0;
        output.window_ns = now;
    }
    const auto& ratios = scenario_.paper_model.ratio;
    // The first window has none before it.
    const auto pps = output.pps > 0 ? output.pps : output.counted * 1e9 / std::max<int64_t>(now - output.window_ns, 1);
    if (ratios.empty()) {
        return 1;
    }
    const auto above = ratios.lower_bound(pps);
    double ratio;
    if (above == ratios.begin()) {
        ratio = above->second;
    } else if (above == ratios.end()) {
        ratio = std::prev(above)->second;
    } else {
        const auto below = std::prev(above);
        ratio = below->second + (above->second - below->second) * (pps - below->first) / (above->first - below->first);
    }
    return std::max(1.0, std::floor(1 / ratio));
}

} // namespace

std::unique_ptr<Hop> make_paper_hop(const Scenario& scenario, const std::string& name) {
    return std::make_unique<PaperHop>(scenario, name);
}
