// SPDX-License-Identifier: Apache-2.0
// One port made of two: UDP, which always exists, and the UD queue pair of a RoCE port. Peers are
// known only by their UDP addresses; the two FailoverPorts of a pair find out between them whether
// both have a UD port and whether datagrams get through to it (path_choice.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/datagram/answer_limiter.h"
#include "transport/datagram/deadline_heap.h"
#include "transport/datagram/ud/path_choice.h"
#include "transport/health_watch.h"
#include "transport/port.h"

namespace rocecoll {

struct FailoverOptions {
  // Pairs whose UD path does not work, or no longer works, use UDP. If false, no data goes over
  // UDP.
  bool failover = true;
  // RoCE was requested by name, so that a pair without it causes a warning, not only a note.
  bool expected = true;
};

struct FailoverCounts {
  uint64_t datagrams_over_ud = 0;   // accepted by the UD port
  uint64_t datagrams_over_udp = 0;  // while there was a UD port to choose
  uint64_t datagrams_nowhere = 0;   // lost for lack of a proven path, without failover
  uint64_t ignored = 0;             // useless HELLOs and PROBEs, datagrams of strangers
  uint64_t proven = 0;              // pairs that changed over to UD
  uint64_t failed = 0;              // pairs whose UD path fell silent
};

class FailoverPort final : public DatagramPort {
 public:
  using Clock = std::function<Instant()>;
  // What every UD path carries: the active MTU of a RoCE port on an Ethernet of 1500 bytes. Ports
  // with a smaller MTU are not used. A process that may have such a peer is limited to this size
  // even if it has no UD port itself.
  static constexpr size_t kUdDatagramBytes = 1024;

  // `ud` may be null: peers are told so, and everything goes over UDP.
  static std::unique_ptr<FailoverPort> Make(std::unique_ptr<DatagramPort> udp,
                                            std::unique_ptr<DatagramPort> ud,
                                            const FailoverOptions& options, Clock clock);
  FailoverPort(const FailoverPort&) = delete;
  FailoverPort& operator=(const FailoverPort&) = delete;

  const FailoverCounts& counts() const { return counts_; }
  bool uses_ud(PeerHandle peer) const;

  PortLimits limits() const override;
  Address address() const override { return udp_->address(); }
  Result<PeerHandle> add_peer(const Address& address) override;
  void remove_peer(PeerHandle peer) override;
  size_t peer_limit(PeerHandle peer) const override;
  void look_at_route(PeerHandle peer) override { udp_->look_at_route(peer); }
  // False with a UD port, since the pair may change over to it.
  bool on_this_host(PeerHandle peer) const override { return !ud_ && udp_->on_this_host(peer); }
  bool checks_payload(PeerHandle handle) const override;
  std::string_view carrier(PeerHandle handle) const override {
    return over_ud(peer(handle)) ? "ud" : "udp";
  }
  size_t guaranteed_bytes(const Address& peer) const override {
    return std::min(udp_->guaranteed_bytes(peer), kUdDatagramBytes);
  }
  size_t send(std::span<const TxDatagram> batch) override;
  bool send_to(const Address& address, std::span<const std::byte> datagram) override;
  size_t receive(std::span<RxDatagram> batch) override;
  Instant clock(Instant told) const override { return udp_->clock(told); }
  void release(std::span<const RxDatagram> batch) override;
  bool poll_unreachable(UnreachableHint& hint) override;
  void flush() override;
  WaitHandle wait_handle() override;
  bool arm() override;
  Instant next_deadline() const override;

 private:
  struct Peer {
    Peer(PeerHandle udp, const Address& udp_address, bool failover)
        : udp(udp), udp_address(udp_address), choice(failover) {}
    const PeerHandle udp;  // this port's own handle, too
    const Address udp_address;
    Address ud_address;  // empty: unknown
    PeerHandle ud;
    size_t ud_bytes = 0;     // largest datagram over UD
    std::string no_ud_text;  // why there is no UD path to it, if there is none
    PathChoice choice;
    bool starting = false;  // is in starting_
    DeadlineHook deadline;
  };
  enum class Way : uint8_t { kUdp, kUd, kNowhere };
  struct AddressHash {
    size_t operator()(const Address& address) const;
  };
  static constexpr Duration kHealthInterval = std::chrono::milliseconds(10);
  // Looking at UDP costs a system call. If UD has delivered something within kUdBusy, that happens
  // only once per kUdpInterval, and after every sleep.
  static constexpr Duration kUdBusy = std::chrono::milliseconds(1);
  static constexpr Duration kUdpInterval = std::chrono::microseconds(200);
  static constexpr uint32_t kUdLease = uint32_t{1} << 31;  // marks leases of the UD port

  FailoverPort(std::unique_ptr<DatagramPort> udp, std::unique_ptr<DatagramPort> ud,
               const FailoverOptions& options, Clock clock);

  // -- failover_port.cc
  bool over_ud(const Peer& to) const { return ud_ && (to.choice.uses_ud() || !options_.failover); }
  Peer& peer(PeerHandle handle) const;
  void forget_ud_address(Peer& peer);
  size_t ud_limit(const Peer& peer) const;
  Way choose(const TxDatagram& datagram);
  size_t send_over_ud(std::span<const TxDatagram> run);
  size_t send_over_udp(std::span<const TxDatagram> run);
  // Receives from one port; returns how many datagrams are for the owner. `more`: the port may have
  // more.
  size_t receive_from(bool ud, std::span<RxDatagram> batch, bool& more);
  void check_health();
  void take_changes();
  void run_timers(bool drained);
  void service(Peer& peer);

  // -- failover_paths.cc
  bool consume(bool ud, RxDatagram& datagram);
  void on_hello(const RxDatagram& datagram);
  void on_hello_question(const Address& from, const PathHello& question);
  void on_hello_answer(const PathHello& answer);
  void on_probe(Peer& from, const RxDatagram& datagram);
  std::string learn_ud_address(Peer& peer, const PathHello& answer);
  PathHello own_hello(PathMessage message, bool knows_receiver) const;
  void ask(Peer& peer, uint64_t nonce);
  void send_probe(Peer& peer, uint64_t nonce, bool full);
  void report(const Peer& peer, PathNews news) const;

  const std::unique_ptr<DatagramPort> udp_;
  const std::unique_ptr<DatagramPort> ud_;
  const FailoverOptions options_;
  const Clock clock_;
  const size_t own_ud_bytes_;
  const size_t ud_burst_;
  FailoverCounts counts_;
  Instant now_{};  // of the latest receive()
  HealthWatch ud_watch_{kHealthInterval};

  std::unordered_map<uint32_t, std::unique_ptr<Peer>> peers_;  // by the handle's index
  std::unordered_map<Address, Peer*, AddressHash> by_udp_;
  std::unordered_map<Address, Peer*, AddressHash> by_ud_;
  mutable Peer* last_sent_to_ = nullptr;
  Peer* last_heard_ = nullptr;
  DeadlineHeap<Peer, &Peer::deadline> deadlines_;
  std::vector<Peer*> starting_;  // idle peers with traffic, to be started in the next receive()
  std::vector<Peer*> unheard_;   // peers that UD has just carried something to
  // Bounds answers: thousands of peers may ask at once when a job starts.
  AnswerLimiter answers_{1024, std::chrono::microseconds(100)};
  bool ud_first_ = false;               // which port's turn it is
  bool udp_more_ = true;                // UDP may have more without its descriptor being readable
  Instant udp_at_{};                    // when to look at UDP again at the latest
  Instant ud_heard_{};                  // when UD last delivered something
  bool udp_skipped_ = false;            // by the latest receive()
  bool more_waits_ = false;             // received, but not yet handed out
  std::vector<Peer*> due_;              // within run_timers()
  std::vector<TxDatagram> translated_;  // within send()
  std::vector<std::vector<std::byte>> sealed_anew_;  // headers of those, within send()
  std::vector<RxDatagram> released_;                 // within release()
  std::vector<std::byte> probe_bytes_;               // within send_probe()
};

}  // namespace rocecoll
