// SPDX-License-Identifier: Apache-2.0
// A port whose descriptor announces something only once after arm(), as completion queues do: who
// drives the engine arms before each sleep.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <future>

#include "engine/progress/progress.h"
#include "runtime/runtimes.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/datagram/udp/udp_port.h"

namespace rocecoll {
namespace {

using Next = Progress::Next;

class ArmedPort final : public DatagramPort {
 public:
  explicit ArmedPort(std::unique_ptr<DatagramPort> inner)
      : inner_(std::move(inner)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event never{.events = EPOLLONESHOT, .data = {}};
    EXPECT_EQ(epoll_ctl(epoll_, EPOLL_CTL_ADD, inner_->wait_handle().descriptors().front(), &never),
              0);
  }
  ~ArmedPort() override { close(epoll_); }
  ArmedPort(const ArmedPort&) = delete;
  ArmedPort& operator=(const ArmedPort&) = delete;

  PortLimits limits() const override { return inner_->limits(); }
  Address address() const override { return inner_->address(); }
  Result<PeerHandle> add_peer(const Address& address) override { return inner_->add_peer(address); }
  void remove_peer(PeerHandle peer) override { inner_->remove_peer(peer); }
  bool send_to(const Address& address, std::span<const std::byte> datagram) override {
    return inner_->send_to(address, datagram);
  }
  size_t peer_limit(PeerHandle peer) const override { return inner_->peer_limit(peer); }
  size_t send(std::span<const TxDatagram> batch) override { return inner_->send(batch); }
  size_t receive(std::span<RxDatagram> batch) override { return inner_->receive(batch); }
  void release(std::span<const RxDatagram> batch) override { inner_->release(batch); }
  bool poll_unreachable(UnreachableHint& hint) override { return inner_->poll_unreachable(hint); }
  void flush() override { inner_->flush(); }
  WaitHandle wait_handle() override { return WaitHandle(epoll_); }
  bool arm() override {
    const int fd = inner_->wait_handle().descriptors().front();
    epoll_event once{.events = EPOLLIN | EPOLLONESHOT, .data = {}};
    EXPECT_EQ(epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &once), 0);
    pollfd now{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&now, 1, 0) == 0;
  }

 private:
  const std::unique_ptr<DatagramPort> inner_;
  const int epoll_;
};

std::unique_ptr<Progress> StartArmed() {
  auto udp = UdpPort::Open({});
  EXPECT_TRUE(udp.ok()) << udp.status().message();
  // No timer comes to the help of a thread that sleeps on a descriptor which stays quiet.
  ConnectionOptions patient;
  patient.min_probe_timeout = patient.max_probe_timeout = std::chrono::hours(1);
  patient.heartbeat_interval = std::chrono::hours(1);
  patient.peer_timeout = std::chrono::hours(10);
  auto started = Progress::Start(
      std::make_unique<DatagramTransport>(std::make_unique<ArmedPort>(udp.take()), patient),
      EngineOptions{}, ProgressOptions{});
  EXPECT_TRUE(started.ok()) << started.status().message();
  return started.take();
}

TEST(Arm, ComesBeforeEverySleep) {
  std::vector<std::unique_ptr<Progress>> started;
  for (Rank rank = 0; rank < 2; ++rank) started.push_back(StartArmed());
  Runtimes runtimes(std::move(started));
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<int32_t>> data(2, std::vector<int32_t>(10000, 1));
    std::vector<std::promise<Status>> ends(2);
    for (Rank rank = 0; rank < 2; ++rank) {
      const auto op = runtimes.all_reduce(data[rank]);
      op->set_on_complete(
          [&, rank](const Operation& done) { ends[rank].set_value(done.status()); });
      ASSERT_TRUE(runtimes[rank].submit(runtimes.group(rank), op, Next::kGoesOn).ok());
    }
    for (Rank rank = 0; rank < 2; ++rank) {
      std::future<Status> end = ends[rank].get_future();
      // Before the operation's deadline, which wakes a sleeper, too.
      ASSERT_EQ(end.wait_for(std::chrono::seconds(150)), std::future_status::ready);
      const Status status = end.get();
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(data[rank], std::vector<int32_t>(10000, 2));
    }
  }
}

}  // namespace
}  // namespace rocecoll
