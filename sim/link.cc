#include "link.h"

#include "ns3/drop-tail-queue.h"
#include "ns3/error-model.h"
#include "ns3/nstime.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/queue-size.h"
#include "ns3/random-variable-stream.h"
#include "ns3/string.h"

namespace {

const uint16_t ETHERTYPE = 0x0800; // the device carries IP only

} // namespace

Link::Link(const Scenario& scenario, const std::string& from, const std::string& to, ns3::Ptr<ns3::Node> near, ns3::Ptr<ns3::Node> far,
           Receiver receiver, int64_t number)
    : format_(scenario.format), from_(from), to_(to), near_(ns3::CreateObject<ns3::PointToPointNetDevice>()), receiver_(receiver) {
    auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
    channel->SetAttribute("Delay", ns3::TimeValue(ns3::PicoSeconds(static_cast<int64_t>(scenario.delay_us * 1e6))));
    auto other = ns3::CreateObject<ns3::PointToPointNetDevice>();
    for (const auto& [device, node] : {std::pair(near_, near), std::pair(other, far)}) {
        // Nothing is dropped before a link (PA-Flow Section 6.2).
        auto queue = ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>();
        queue->SetMaxSize(ns3::QueueSize("4000000000p"));
        device->SetQueue(queue);
        device->SetDataRate(ns3::DataRate(static_cast<uint64_t>(scenario.link_gbps * 1e9)));
        device->SetAddress(ns3::Mac48Address::Allocate());
        device->SetMtu(65535);
        device->Attach(channel);
        node->AddDevice(device);
    }
    // After AddDevice, which sets the node's own.
    other->SetReceiveCallback(ns3::MakeCallback(&Link::receive, this));
    if (scenario.loss > 0) {
        auto numbers = ns3::CreateObject<ns3::UniformRandomVariable>();
        numbers->SetStream(number);
        auto errors = ns3::CreateObject<ns3::RateErrorModel>();
        errors->SetRandomVariable(numbers);
        errors->SetUnit(ns3::RateErrorModel::ERROR_UNIT_PACKET);
        errors->SetRate(scenario.loss);
        other->SetReceiveErrorModel(errors);
        other->TraceConnectWithoutContext("PhyRxDrop", ns3::MakeCallback(&Link::lose, this));
    }
}

void Link::send(const Records& records) {
    const auto bytes = frame_bytes(records, format_);
    counts_.frames++;
    counts_.packets += records.size();
    counts_.bytes += bytes;
    counts_.held[records.size()]++;
    counts_.sizes[bytes]++;
    near_->Send(make_frame(records, bytes), near_->GetBroadcast(), ETHERTYPE);
}

bool Link::receive(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> frame, uint16_t, const ns3::Address&) {
    receiver_(split_frame(frame));
    return true;
}

void Link::lose(ns3::Ptr<const ns3::Packet> frame) {
    // The device has not taken its header off yet.
    auto whole = frame->Copy();
    whole->RemoveAtStart(2);
    lost_frames_++;
    lost_packets_ += split_frame(whole).size();
}
