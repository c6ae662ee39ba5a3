#include "frame.h"

#include <algorithm>
#include <cstring>

namespace {

// Bytes that the header of the point-to-point device adds.
const uint32_t PPP = 2;

} // namespace

uint32_t frame_bytes(const Records& records, const Format& format) {
    if (records.size() == 1) {
        return records.front().length;
    }
    uint32_t bytes = format.overhead;
    for (const auto& record : records) {
        bytes += format.taken(record.length);
    }
    return bytes;
}

ns3::Ptr<ns3::Packet> make_frame(const Records& records, uint32_t bytes) {
    const uint16_t count = records.size();
    const uint32_t known = sizeof count + count * sizeof(Record);
    std::vector<uint8_t> content(known);
    std::memcpy(content.data(), &count, sizeof count);
    std::memcpy(content.data() + sizeof count, records.data(), count * sizeof(Record));
    auto frame = ns3::Create<ns3::Packet>(content.data(), known);
    frame->AddPaddingAtEnd(std::max(bytes - PPP, known) - known);
    return frame;
}

Records split_frame(const ns3::Ptr<const ns3::Packet>& frame) {
    std::vector<uint8_t> content(frame->GetSize());
    frame->CopyData(content.data(), content.size());
    uint16_t count;
    std::memcpy(&count, content.data(), sizeof count);
    Records records(count);
    std::memcpy(records.data(), content.data() + sizeof count, count * sizeof(Record));
    return records;
}
