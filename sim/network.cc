#include "network.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace {

const double STEPS = 8; // of a time's power of two

// Streams of random numbers of sources begin here, after those of links.
const int64_t SOURCES = 1 << 20;

} // namespace

Network::Network(const Scenario& scenario) : scenario_(scenario) {
    std::map<std::string, ns3::Ptr<ns3::Node>> nodes;
    std::map<std::string, Hop*> hops;
    for (const auto& name : scenario.nodes) {
        hops_.push_back(scenario.paper ? make_paper_hop(scenario, name) : make_millrace_hop(scenario, name));
        hops[name] = hops_.back().get();
        nodes[name] = ns3::CreateObject<ns3::Node>();
    }
    for (const auto& name : scenario.sinks) {
        nodes[name] = ns3::CreateObject<ns3::Node>();
    }
    const auto known = [](const auto& all, const std::string& name) {
        const auto at = all.find(name);
        if (at == all.end()) {
            throw std::runtime_error("there is no node `" + name + "` that can do this");
        }
        return at->second;
    };
    for (const auto& [from, to] : scenario.links) {
        const auto hop = hops.find(to);
        Link::Receiver receiver = [this](Records records) { deliver(records); };
        if (hop != hops.end()) {
            receiver = [hop = hop->second](Records records) { hop->receive(std::move(records)); };
        }
        links_.push_back(std::make_unique<Link>(scenario, from, to, known(nodes, from), known(nodes, to), receiver, links_.size()));
        known(hops, from)->add_output(*links_.back());
    }
    for (const auto& hop : hops_) {
        if (!hop->leads_on()) {
            throw std::runtime_error("no link leaves node `" + hop->name() + "`");
        }
    }
    for (const auto& spec : scenario.sources) {
        sources_.push_back(std::make_unique<Source>(scenario, spec, *known(hops, spec.node), SOURCES + sources_.size()));
    }
}

void Network::run() {
    ns3::Simulator::Schedule(ns3::Seconds(scenario_.seconds), [this] {
        for (auto& link : links_) {
            link->mark();
        }
        for (auto& hop : hops_) {
            hop->mark();
        }
    });
    ns3::Simulator::Run();
    ns3::Simulator::Destroy();
}

void Network::deliver(const Records& records) {
    const auto now = ns3::Simulator::Now().GetNanoSeconds();
    for (const auto& record : records) {
        const double time = std::max<int64_t>(now - record.sent_ns, 1);
        delivered_++;
        delivered_bytes_ += record.length;
        total_ns_ += time;
        times_[static_cast<int>(std::log2(time) * STEPS)]++;
    }
}

void Network::report(std::ostream& out) const {
    uint64_t sent = 0;
    uint64_t lost = 0;
    for (const auto& source : sources_) {
        sent += source->sent();
    }
    for (const auto& link : links_) {
        lost += link->lost_packets();
    }
    out << "{\"sent\":" << sent << ",\"delivered\":" << delivered_ << ",\"delivered_bytes\":" << delivered_bytes_ << ",\"lost\":" << lost;
    const auto quantile = [this](double share) {
        uint64_t below = 0;
        for (const auto& [step, packets] : times_) {
            below += packets;
            if (below >= share * delivered_) {
                return std::pow(2, (step + 0.5) / STEPS) / 1e3;
            }
        }
        return 0.0;
    };
    out << ",\"time_us\":{\"mean\":" << total_ns_ / 1e3 / std::max<uint64_t>(delivered_, 1) << ",\"p50\":" << quantile(0.5)
        << ",\"p99\":" << quantile(0.99) << "}";
    const auto pairs = [&out](const char* key, const std::map<uint32_t, uint64_t>& counts) {
        out << ",\"" << key << "\":[";
        const char* comma = "";
        for (const auto& [value, count] : counts) {
            out << comma << "[" << value << "," << count << "]";
            comma = ",";
        }
        out << "]";
    };
    out << ",\"links\":[";
    const char* comma = "";
    for (const auto& link : links_) {
        const auto& counts = link->marked();
        out << comma << "\n{\"from\":\"" << link->from() << "\",\"to\":\"" << link->to() << "\",\"frames\":" << counts.frames
            << ",\"packets\":" << counts.packets << ",\"bytes\":" << counts.bytes << ",\"lost_frames\":" << link->lost_frames()
            << ",\"lost_packets\":" << link->lost_packets();
        pairs("held", counts.held);
        pairs("sizes", counts.sizes);
        out << "}";
        comma = ",";
    }
    out << "],\"nodes\":[";
    comma = "";
    for (const auto& hop : hops_) {
        out << comma << "\n{\"name\":\"" << hop->name() << "\",\"packets\":" << hop->marked_packets() << ",\"cycles\":" << static_cast<uint64_t>(hop->marked_cycles())
            << ",\"waiting\":" << hop->waiting() << "}";
        comma = ",";
    }
    out << "]}\n";
}
