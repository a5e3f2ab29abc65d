// SPDX-License-Identifier: Apache-2.0
// Simulated processes whose datagrams are recorded, so that they can be sent once more, and which
// can end after an exact number of them.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "conformance/world.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {

class RecordingPort final : public DatagramPort {
 public:
  struct Datagram {
    uint32_t to = 0;  // endpoint
    std::vector<std::byte> bytes;
  };

  explicit RecordingPort(std::unique_ptr<SimPort> port) : port_(std::move(port)) {}

  // From now on; nothing is recorded before.
  void record() { recording_ = true; }
  std::vector<Datagram> take_recorded() { return std::exchange(recorded_, {}); }
  void send_again(const Datagram& datagram) {
    port_->send_to(SimAddress(datagram.to), datagram.bytes);
  }
  // Only so many more datagrams reach the network.
  void end_after(uint64_t datagrams) { left_ = datagrams; }
  bool ended() const { return left_ == 0; }

  PortLimits limits() const override { return port_->limits(); }
  Address address() const override { return port_->address(); }
  Result<PeerHandle> add_peer(const Address& peer) override { return port_->add_peer(peer); }
  void remove_peer(PeerHandle peer) override { port_->remove_peer(peer); }
  size_t peer_limit(PeerHandle peer) const override { return port_->peer_limit(peer); }
  void renew_way(PeerHandle peer) override { port_->renew_way(peer); }
  bool seeks_way(PeerHandle peer) const override { return port_->seeks_way(peer); }
  bool checks_payload(PeerHandle peer) const override { return port_->checks_payload(peer); }
  size_t send(std::span<const TxDatagram> batch) override {
    for (const TxDatagram& datagram : batch) {
      if (!counts()) break;
      port_->send({&datagram, 1});
      if (!recording_) continue;
      Datagram copy{datagram.to.index, {datagram.header.begin(), datagram.header.end()}};
      copy.bytes.insert(copy.bytes.end(), datagram.payload.begin(), datagram.payload.end());
      recorded_.push_back(std::move(copy));
    }
    return batch.size();
  }
  bool send_to(const Address& to, std::span<const std::byte> datagram) override {
    return !counts() || port_->send_to(to, datagram);
  }
  size_t receive(std::span<RxDatagram> batch) override { return port_->receive(batch); }
  void release(std::span<const RxDatagram> batch) override { port_->release(batch); }
  bool poll_unreachable(UnreachableHint& hint) override { return port_->poll_unreachable(hint); }
  void flush() override { port_->flush(); }
  WaitHandle wait_handle() override { return {}; }

 private:
  // Whether one more datagram goes out.
  bool counts() {
    if (left_ == 0) return false;
    if (left_ != UINT64_MAX) --left_;
    return true;
  }

  const std::unique_ptr<SimPort> port_;
  std::vector<Datagram> recorded_;
  bool recording_ = false;
  uint64_t left_ = UINT64_MAX;
};

class RecordedWorld final : public VirtualWorld {
 public:
  RecordedWorld(size_t count, const SimWire& wire, uint64_t seed) : network(queue, seed, wire) {
    use_clock(queue);
    for (size_t i = 0; i < count; ++i) {
      ports.push_back(nullptr);
      add(make_process(i, network.add_endpoint()));
    }
  }
  ~RecordedWorld() override {
    for (size_t i = 0; i < nodes.size(); ++i) destroy(i);
  }
  void kill(size_t i) override { destroy(i); }
  // Another process, at the address of one that was killed.
  void restart(uint32_t i) { replace(i, make_process(i, network.restart_endpoint(i))); }

  EventQueue queue;
  SimNetwork network;
  std::vector<RecordingPort*> ports;

 private:
  std::unique_ptr<Transport> make_process(size_t i, std::unique_ptr<SimPort> sim) {
    auto port = std::make_unique<RecordingPort>(std::move(sim));
    ports[i] = port.get();
    return std::make_unique<DatagramTransport>(std::move(port), ConnectionOptions{});
  }
};

}  // namespace rocecoll
