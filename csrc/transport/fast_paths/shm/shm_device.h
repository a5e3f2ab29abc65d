// SPDX-License-Identifier: Apache-2.0
// The memory of one host as the fast path of a SwitchingTransport: what all paths of this process
// share. Processes greet each other over a Unix socket. After that they communicate through memory,
// and use the socket only to wake a process that sleeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"
#include "transport/fast_path.h"
#include "transport/fast_paths/shm/doorbell.h"
#include "transport/fast_paths/shm/host_socket.h"
#include "transport/fast_paths/shm/peer_process.h"
#include "transport/fast_paths/shm/shm_end.h"
#include "transport/fast_paths/shm/shm_options.h"
#include "transport/fast_paths/shm/shm_path.h"

namespace rocecoll {

class ShmDevice final : public FastDevice {
 public:
  // kNetwork if the system refuses.
  static Result<std::unique_ptr<ShmDevice>> Open(const ShmOptions& options);
  ~ShmDevice() override;

  const std::string& description() const override { return description_; }
  MemoryDomain* memory() override { return nullptr; }
  const TransportStats& stats() const override { return stats_; }
  std::unique_ptr<FastPath> make_path() override;
  bool poll(FastEvent& event) override;
  FastPath* release(const FastLease& lease) override;
  WaitHandle wait_handle() override { return WaitHandle(wait_); }
  bool arm() override;
  // Always ok, because memory does not fail. Looks at the socket and for processes that have ended.
  Status health(Instant now) override;

  // -- for its paths
  const HostSocket& socket() const { return socket_; }
  const Doorbell& doorbell() const { return doorbell_; }
  const ShmOptions& options() const { return options_; }
  const HostFacts& host() const { return host_; }
  TransportStats& own_stats() { return stats_; }
  // Gives the path a slot of the doorbell. None: all are taken.
  std::optional<uint32_t> add(ShmPath& path);
  void remove(uint32_t slot);
  void expect_greeting() { ++expected_greetings_; }
  void expect_no_greeting() { --expected_greetings_; }
  void look_again(uint32_t slot) { again_.push_back(slot); }
  void greet_later(uint32_t slot) { to_greet_.push_back(slot); }
  void keep_until_released(std::unique_ptr<ReceiveRing> ring);

 private:
  ShmDevice(HostSocket socket, Doorbell doorbell, Descriptor wait, const ShmOptions& options);
  void begin_batch();
  void look_outside();
  void receive_words();
  void on_greeting(HostSocket::Received received);
  std::shared_ptr<PeerProcess> process_of(HostSocket::Received& received);
  void on_end(const PeerProcess* process);
  ShmPath* path_at(uint32_t slot) { return slot < paths_.size() ? paths_[slot] : nullptr; }

  const std::string description_ = "shared memory";
  const ShmOptions options_;
  const HostFacts host_ = HostFacts::Read();
  HostSocket socket_;
  Doorbell doorbell_;
  Descriptor wait_;  // epoll, for the socket and the ends of processes
  TransportStats stats_;

  std::vector<ShmPath*> paths_;  // by slot
  std::vector<uint32_t> free_slots_;
  size_t expected_greetings_ = 0;
  std::vector<std::weak_ptr<PeerProcess>> processes_;
  std::vector<std::unique_ptr<ReceiveRing>> kept_;

  std::vector<uint32_t> rung_;   // slots to look at in this batch
  std::vector<uint32_t> again_;  // in the next one
  std::vector<uint32_t> to_greet_;
  size_t next_ = 0;  // of rung_
  bool bell_told_ = false;
  bool in_batch_ = false;
  bool armed_ = false;
  bool look_owed_ = false;  // the socket may still hold the word that ended a sleep
};

}  // namespace rocecoll
