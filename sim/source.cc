#include "source.h"

#include "ns3/simulator.h"

#include <cmath>
#include <limits>

namespace {

int64_t now_ps() {
    return ns3::Simulator::Now().GetPicoSeconds();
}

} // namespace

Source::Source(const Scenario& scenario, const SourceSpec& spec, Hop& hop, int64_t number)
    : spec_(spec), hop_(hop), end_ps_(static_cast<int64_t>(scenario.seconds * 1e12)), uniform_(ns3::CreateObject<ns3::UniformRandomVariable>()) {
    uniform_->SetStream(number);
    // Sources begin anywhere in their period.
    const double period = spec.on_us > 0 ? spec.on_us + (spec.off_us[0] + spec.off_us[1]) / 2 : spec.train * 1e6 / spec.pps;
    ns3::Simulator::Schedule(ns3::PicoSeconds(static_cast<int64_t>(uniform_->GetValue(0, period) * 1e6)), &Source::begin, this);
}

void Source::begin() {
    off_ps_ = spec_.on_us > 0 ? now_ps() + static_cast<int64_t>(spec_.on_us * 1e6) : std::numeric_limits<int64_t>::max();
    send();
}

void Source::send() {
    if (now_ps() >= end_ps_) {
        return;
    }
    if (now_ps() >= off_ps_) {
        const auto pause = uniform_->GetValue(spec_.off_us[0], spec_.off_us[1]);
        ns3::Simulator::Schedule(ns3::PicoSeconds(static_cast<int64_t>(pause * 1e6)), &Source::begin, this);
        return;
    }
    Records train;
    for (uint32_t n = 0; n < spec_.train && (spec_.packets == 0 || sent_ < spec_.packets); n++, sent_++) {
        const auto size = spec_.sizes.size() == 1 ? spec_.sizes[0] : spec_.sizes[uniform_->GetInteger(0, spec_.sizes.size() - 1)];
        train.push_back({ns3::Simulator::Now().GetNanoSeconds(), spec_.chain, size});
    }
    if (train.empty()) {
        return;
    }
    hop_.inject(train);
    const double mean = spec_.train * 1e12 / spec_.pps;
    const double distance = spec_.poisson ? -mean * std::log(1 - uniform_->GetValue()) : mean;
    ns3::Simulator::Schedule(ns3::PicoSeconds(static_cast<int64_t>(distance)), &Source::send, this);
}
