// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/switching/switching_wire.h"

#include <algorithm>
#include <array>

namespace rocecoll {
namespace {

constexpr size_t kMaxControlBytes = 16 + FastPath::kMaxStreams * (8 + 1 + Address::kMaxBytes) +
                                    kMaxReasonBytes + RemoteSlice::kWireBytes;

class Control {
 public:
  explicit Control(ControlType type) { writer_.Write(type); }

  template <typename T>
  Control& add(T value) {
    writer_.Write(value);
    return *this;
  }
  Control& add_bytes(std::span<const std::byte> bytes) {
    writer_.WriteBytes(bytes);
    return *this;
  }
  Control& add_reason(const std::string& reason) {
    return add_bytes(
        std::as_bytes(std::span(reason)).first(std::min(reason.size(), kMaxReasonBytes)));
  }
  WireBytes take() {
    const auto written = writer_.written();
    return {written.begin(), written.end()};
  }
  ByteWriter& writer() { return writer_; }

 private:
  std::array<std::byte, kMaxControlBytes> bytes_{};
  ByteWriter writer_{bytes_};
};

// Past the type, which the caller has looked at.
ByteReader Body(std::span<const std::byte> frame) {
  ByteReader reader(frame);
  reader.Read<uint8_t>();
  return reader;
}

std::string ReadReason(ByteReader& reader) {
  const auto bytes = reader.ReadBytes(std::min(reader.remaining(), kMaxReasonBytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

bool Complete(const ByteReader& reader) { return reader.ok() && reader.remaining() == 0; }

}  // namespace

WireBytes WriteOffer(const SwitchingOffer& offer) {
  ROCECOLL_CHECK(offer.ends.addresses.size() <= FastPath::kMaxStreams);
  Control control(ControlType::kOffer);
  control.add(static_cast<uint8_t>(offer.ends.addresses.size()))
      .add(offer.ends.credits)
      .add(offer.generation)
      .add(offer.ends.ports);
  for (const uint64_t received : offer.received) control.add(received);
  for (const Address& address : offer.ends.addresses) {
    control.add(static_cast<uint8_t>(address.bytes().size())).add_bytes(address.bytes());
  }
  if (offer.ends.addresses.empty()) control.add(offer.outlook).add_reason(offer.reason);
  return control.take();
}

std::optional<SwitchingOffer> ParseOffer(std::span<const std::byte> frame) {
  ByteReader reader = Body(frame);
  SwitchingOffer offer;
  const auto streams = reader.Read<uint8_t>();
  offer.ends.credits = reader.Read<uint16_t>();
  offer.generation = reader.Read<uint32_t>();
  offer.ends.ports = reader.Read<uint8_t>();
  for (uint64_t& received : offer.received) received = reader.Read<uint64_t>();
  if (streams > FastPath::kMaxStreams) return std::nullopt;
  if (offer.ends.ports == 0 || offer.ends.ports > RemoteSlice::kMaxPorts) return std::nullopt;
  for (uint8_t i = 0; i < streams; ++i) {
    const auto size = reader.Read<uint8_t>();
    if (size > Address::kMaxBytes) return std::nullopt;
    offer.ends.addresses.emplace_back(reader.ReadBytes(size), "");
  }
  const auto& addresses = offer.ends.addresses;
  if (streams > 0 && std::ranges::all_of(addresses, &Address::empty)) return std::nullopt;
  if (streams == 0) {
    const auto outlook = reader.Read<uint8_t>();
    if (outlook > static_cast<uint8_t>(SwitchingOutlook::kWillOffer)) return std::nullopt;
    offer.outlook = static_cast<SwitchingOutlook>(outlook);
    offer.reason = ReadReason(reader);
  }
  if (!Complete(reader) || (streams > 0 && offer.ends.credits == 0)) return std::nullopt;
  return offer;
}

namespace {

WireBytes WriteGeneration(ControlType type, uint32_t generation) {
  return Control(type).add(uint8_t{0}).add(uint16_t{0}).add(generation).take();
}

}  // namespace

WireBytes WriteReady(uint32_t generation) {
  return WriteGeneration(ControlType::kReady, generation);
}
WireBytes WriteMoved(uint32_t generation) {
  return WriteGeneration(ControlType::kMoved, generation);
}

std::optional<uint32_t> ParseGeneration(std::span<const std::byte> frame) {
  ByteReader reader = Body(frame);
  const bool zero = reader.Read<uint8_t>() == 0 && reader.Read<uint16_t>() == 0;
  const auto generation = reader.Read<uint32_t>();
  if (!zero || !Complete(reader)) return std::nullopt;
  return generation;
}

WireBytes WriteVerdict(const SwitchingVerdict& verdict) {
  return Control(ControlType::kVerdict)
      .add(static_cast<uint8_t>(verdict.proved))
      .add(uint16_t{0})
      .add(verdict.generation)
      .add_reason(verdict.reason)
      .take();
}

std::optional<SwitchingVerdict> ParseVerdict(std::span<const std::byte> frame) {
  ByteReader reader = Body(frame);
  SwitchingVerdict verdict;
  const auto proved = reader.Read<uint8_t>();
  const auto zero = reader.Read<uint16_t>();
  verdict.proved = proved == 1;
  verdict.generation = reader.Read<uint32_t>();
  verdict.reason = ReadReason(reader);
  if (proved > 1 || zero != 0 || !Complete(reader)) return std::nullopt;
  return verdict;
}

WireBytes WriteExposed(const SwitchingExposed& exposed) {
  Control control(ControlType::kExposed);
  control.add(uint8_t{0}).add(uint16_t{0}).add(exposed.number);
  exposed.slice.store(control.writer());
  return control.take();
}

std::optional<SwitchingExposed> ParseExposed(std::span<const std::byte> frame) {
  ByteReader reader = Body(frame);
  const bool zero = reader.Read<uint8_t>() == 0 && reader.Read<uint16_t>() == 0;
  SwitchingExposed exposed;
  exposed.number = reader.Read<uint32_t>();
  exposed.slice = RemoteSlice::load(reader);
  if (!zero || !Complete(reader)) return std::nullopt;
  return exposed;
}

WireBytes WriteGoodbye(uint64_t messages) {
  return Control(ControlType::kGoodbye)
      .add(uint8_t{0})
      .add(uint16_t{0})
      .add(uint32_t{0})
      .add(messages)
      .take();
}

std::optional<uint64_t> ParseGoodbye(std::span<const std::byte> frame) {
  ByteReader reader = Body(frame);
  const bool zero =
      reader.Read<uint8_t>() == 0 && reader.Read<uint16_t>() == 0 && reader.Read<uint32_t>() == 0;
  const auto messages = reader.Read<uint64_t>();
  if (!zero || !Complete(reader)) return std::nullopt;
  return messages;
}

}  // namespace rocecoll
