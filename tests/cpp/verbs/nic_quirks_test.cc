// SPDX-License-Identifier: Apache-2.0
// The behaviour of other vendors' devices, emulated on Soft-RoCE: calls of libibverbs pass through
// this program.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "verbs/real_call.h"
#include "verbs/verbs_world.h"

namespace rocecoll {
namespace {

struct NicQuirks {
  bool refuses_posts_after_failure = false;  // bnxt_re of rdma-core before 47: EINVAL
  bool purges_completions = false;           // mlx5: those of a destroyed queue pair
  bool keeps_queue_sizes = false;            // no ibv_resize_cq: EOPNOTSUPP
  bool says_no_shared_receives = false;      // irdma (E810) and ionic: max_srq is 0
  int refuses_shared_receives = 0;           // fails with this error
  int max_completions = 0;                   // for each completion queue; 0: as the device says
  uint32_t max_sends = 0;                    // for each queue pair, although the device claims more
  bool no_inline = false;                    // refuses queue pairs that ask for any
  bool flushes_last = false;                 // completes nothing until a queue pair is destroyed
  // Mlx5: for each queue pair in turn; empty: the call does not exist.
  std::vector<uint32_t> extensions;
  bool refuses_extensions = false;
  // Observed so far.
  unsigned purged = 0;
  std::vector<int> completion_vectors;  // of the completion queues made
  std::vector<uint32_t> agreed;         // the extensions that were set
};

NicQuirks& Quirks() {
  static NicQuirks quirks;
  return quirks;
}

decltype(ibv_context_ops::post_send) real_post_send = nullptr;

int PostSend(ibv_qp* queue_pair, ibv_send_wr* requests, ibv_send_wr** refused) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  if (Quirks().refuses_posts_after_failure &&
      ibv_query_qp(queue_pair, &attributes, IBV_QP_STATE, &initial) == 0 &&
      attributes.qp_state == IBV_QPS_ERR) {
    *refused = requests;
    return EINVAL;
  }
  return real_post_send(queue_pair, requests, refused);
}

decltype(ibv_context_ops::poll_cq) real_poll_cq = nullptr;

int PollQueue(ibv_cq* queue, int entries, ibv_wc* completions) {
  return Quirks().flushes_last ? 0 : real_poll_cq(queue, entries, completions);
}

// All completions in the queue must belong to this queue pair, because the others could not be put
// back.
void Purge(const ibv_qp& queue_pair) {
  std::array<ibv_wc, 16> batch;
  int polled = 0;
  while ((polled = ibv_poll_cq(queue_pair.recv_cq, batch.size(), batch.data())) > 0) {
    for (int i = 0; i < polled; ++i) ROCECOLL_CHECK(batch[i].qp_num == queue_pair.qp_num);
    Quirks().purged += static_cast<unsigned>(polled);
  }
}

}  // namespace
}  // namespace rocecoll

// A program's own definitions take precedence over those of the libraries that it is linked to.

using rocecoll::Quirks;
using rocecoll::Real;

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  errno = EINVAL;
  if (Quirks().no_inline && attributes->cap.max_inline_data > 0) return nullptr;
  const uint32_t most = Quirks().max_sends;
  if (most > 0 && attributes->cap.max_send_wr > most) return nullptr;
  ibv_qp* made = Real(&ibv_create_qp, "ibv_create_qp")(domain, attributes);
  if (Quirks().no_inline) attributes->cap.max_inline_data = 0;
  if (made != nullptr && made->context->ops.post_send != rocecoll::PostSend) {
    rocecoll::real_post_send = made->context->ops.post_send;
    made->context->ops.post_send = rocecoll::PostSend;
    rocecoll::real_poll_cq = made->context->ops.poll_cq;
    made->context->ops.poll_cq = rocecoll::PollQueue;
  }
  return made;
}

int ibv_destroy_qp(ibv_qp* queue_pair) {
  if (Quirks().purges_completions) rocecoll::Purge(*queue_pair);
  const int failed = Real(&ibv_destroy_qp, "ibv_destroy_qp")(queue_pair);
  Quirks().flushes_last = false;
  return failed;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const int failed = Real(&ibv_query_device, "ibv_query_device")(context, attributes);
  if (Quirks().says_no_shared_receives) attributes->max_srq = attributes->max_srq_wr = 0;
  if (Quirks().max_completions > 0) attributes->max_cqe = Quirks().max_completions;
  return failed;
}

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* attributes) {
  errno = Quirks().refuses_shared_receives;
  if (errno != 0) return nullptr;
  return Real(&ibv_create_srq, "ibv_create_srq")(domain, attributes);
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel,
                      int vector) {
  Quirks().completion_vectors.push_back(vector);
  errno = EINVAL;
  if (Quirks().max_completions > 0 && entries > Quirks().max_completions) return nullptr;
  return Real(&ibv_create_cq, "ibv_create_cq")(context, entries, user, channel, vector);
}

int ibv_query_ece(ibv_qp* /*queue_pair*/, ibv_ece* found) {
  std::vector<uint32_t>& left = Quirks().extensions;
  if (left.empty()) return EOPNOTSUPP;
  *found = {.vendor_id = 0x15b3, .options = left.front(), .comp_mask = 0};
  left.erase(left.begin());
  return 0;
}

// May be called only before the queue pair is made ready to receive.
int ibv_set_ece(ibv_qp* queue_pair, ibv_ece* wanted) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  const int failed = ibv_query_qp(queue_pair, &attributes, IBV_QP_STATE, &initial);
  ROCECOLL_CHECK(failed == 0 && attributes.qp_state == IBV_QPS_INIT);
  if (Quirks().refuses_extensions || wanted->vendor_id != 0x15b3) return EINVAL;
  Quirks().agreed.push_back(wanted->options);
  return 0;
}

int ibv_resize_cq(ibv_cq* queue, int entries) {
  if (Quirks().keeps_queue_sizes) return EOPNOTSUPP;
  if (Quirks().max_completions > 0 && entries > Quirks().max_completions) return -EINVAL;
  return Real(&ibv_resize_cq, "ibv_resize_cq")(queue, entries);
}

namespace rocecoll {
namespace {

class NicQuirksTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = NoDevices(1);
    if (!reason.empty()) GTEST_SKIP() << reason;
    Quirks() = {};
  }
  ~NicQuirksTest() override { Quirks() = {}; }

  void open(const RdmaOptions& options = {}) {
    a_ = std::make_unique<RdmaEnd>(UsableDevices().front(), options);
    b_ = std::make_unique<RdmaEnd>(UsableDevices().back(), options);
  }
  void make_queue_pairs(std::vector<uint32_t> extensions = {}) {
    Quirks().extensions = std::move(extensions);
    a_->queue_pair = a_->make();
    b_->queue_pair = b_->make();
  }
  void connect() {
    open();
    make_queue_pairs();
    ASSERT_TRUE(a_->connect(*b_).ok());
    ASSERT_TRUE(b_->connect(*a_).ok());
  }

  std::unique_ptr<RdmaEnd> a_;
  std::unique_ptr<RdmaEnd> b_;
};

TEST_F(NicQuirksTest, ARefusedRequestIsTheEndOfItsQueuePairNotOfTheDevice) {
  Quirks().refuses_posts_after_failure = true;
  ASSERT_NO_FATAL_FAILURE(connect());
  // Nobody has noticed the failure yet, as when a completion has not been polled.
  SendRequest denied = a_->write(*b_, 0, 8, 1);
  denied.remote_key ^= 0x5a00;
  ASSERT_EQ(a_->queue_pair->post({&denied, 1}), 1u);
  ASSERT_TRUE(a_->await(1));
  const SendRequest next = a_->write(*b_, 0, 8, 2);
  EXPECT_EQ(a_->queue_pair->post({&next, 1}), 0u);
  a_->queue_pair->fail();
  EXPECT_EQ(a_->queue_pair->post({&next, 1}), 0u);
  EXPECT_TRUE(a_->device->health().ok()) << a_->device->health().message();
}

TEST_F(NicQuirksTest, ReceivesOfADestroyedQueuePairAreNotLost) {
  Quirks().purges_completions = true;
  ASSERT_NO_FATAL_FAILURE(connect());
  constexpr size_t kMessages = 40;
  b_->post_receives(kMessages, 64);
  std::vector<SendRequest> list;
  for (uint64_t i = 0; i < kMessages; ++i) {
    list.push_back(a_->request(SendRequest::Kind::kSend, 0, 8, i));
  }
  ASSERT_EQ(a_->queue_pair->post(list), kMessages);
  ASSERT_TRUE(a_->await(kMessages));  // so the other end has received them
  b_->queue_pair.reset();
  ASSERT_TRUE(b_->await(kMessages));
  for (size_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(b_->completions[i].kind, WorkCompletion::Kind::kReceive);
    EXPECT_EQ(b_->completions[i].id, i * 64);
    EXPECT_EQ(b_->completions[i].queue_pair, kNoQueuePair) << "another one may have its number";
  }
  EXPECT_EQ(Quirks().purged, 0u);
}

TEST_F(NicQuirksTest, ACompletionQueueThatCannotGrowServesHundredsOfQueuePairs) {
  Quirks().keeps_queue_sizes = true;
  RdmaEnd end(UsableDevices().front(), RdmaOptions());
  std::vector<std::unique_ptr<RdmaQueuePair>> queue_pairs;
  while (queue_pairs.size() < 200) {
    auto made = end.device->create_queue_pair();
    ASSERT_TRUE(made.ok()) << queue_pairs.size() << ": " << made.status().message();
    queue_pairs.push_back(made.take());
  }
}

TEST_F(NicQuirksTest, WithoutSharedReceiveQueuesEachQueuePairHasItsOwn) {
  for (const int error : {0, ENOSYS, EOPNOTSUPP, EINVAL, -EOPNOTSUPP}) {
    Quirks().says_no_shared_receives = error == 0;
    Quirks().refuses_shared_receives = error;
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_FALSE(b_->device->limits().shared_receives) << error;
    const size_t room = b_->device->limits().max_receive_requests;
    b_->post_receives(room, 64);
    std::vector<SendRequest> list;
    for (uint64_t i = 0; i < room; ++i) {
      list.push_back(a_->request(SendRequest::Kind::kSend, i * 64, 64, i));
    }
    ASSERT_EQ(a_->queue_pair->post(list), room);
    ASSERT_TRUE(a_->await(room) && b_->await(room));
    for (size_t i = 0; i < room; ++i) {
      EXPECT_EQ(b_->completions[i].status, CompletionStatus::kSuccess) << b_->completions[i].text;
      EXPECT_EQ(b_->completions[i].id, i * 64);
    }
  }
}

TEST_F(NicQuirksTest, AQueuePairsOwnReceivesAreFlushedOrGoneWithIt) {
  Quirks().says_no_shared_receives = true;
  ASSERT_NO_FATAL_FAILURE(connect());
  b_->post_receives(16, 64);
  const uint32_t failed = b_->queue_pair->number();
  b_->queue_pair->fail();
  ASSERT_TRUE(b_->await(16));
  for (const WorkCompletion& completion : b_->completions) {
    EXPECT_EQ(completion.kind, WorkCompletion::Kind::kReceive);
    EXPECT_EQ(completion.status, CompletionStatus::kFlushed) << completion.text;
    EXPECT_EQ(completion.queue_pair, failed);
  }
  for (int cycle = 0; cycle < 50; ++cycle) {
    b_->queue_pair = b_->make();
    b_->post_receives(32, 64);
    b_->queue_pair->fail();
    Quirks().flushes_last = cycle % 2 == 0;
    b_->queue_pair.reset();
    WorkCompletion late;
    while (b_->device->poll({&late, 1}) == 1) EXPECT_EQ(late.queue_pair, kNoQueuePair) << cycle;
  }
  EXPECT_TRUE(b_->quiet());
  EXPECT_TRUE(b_->device->health().ok()) << b_->device->health().message();
}

TEST_F(NicQuirksTest, SmallDevicesAreUsedAsFarAsTheyGo) {
  for (const bool shared : {true, false}) {
    Quirks().says_no_shared_receives = !shared;
    Quirks().max_completions = 600;
    Quirks().max_sends = 40;
    Quirks().no_inline = true;
    ASSERT_NO_FATAL_FAILURE(connect());
    EXPECT_EQ(a_->device->limits().max_inline_bytes, 0u);
    EXPECT_EQ(a_->device->limits().max_send_requests, 32u);
    EXPECT_EQ(b_->device->limits().max_receive_requests, shared ? 75u : 32u);
    b_->post_receives(8, 64);
    const SendRequest send = a_->request(SendRequest::Kind::kSend, 0, 64, 1);
    ASSERT_EQ(a_->queue_pair->post({&send, 1}), 1u);
    ASSERT_TRUE(a_->await(1) && b_->await(1));
    EXPECT_EQ(b_->completions[0].status, CompletionStatus::kSuccess) << b_->completions[0].text;
    std::vector<std::unique_ptr<RdmaQueuePair>> others;
    auto made = a_->device->create_queue_pair();
    for (; made.ok(); made = a_->device->create_queue_pair()) others.push_back(made.take());
    EXPECT_GE(others.size(), 7u);
    const std::string why = made.status().message();
    EXPECT_NE(why.find("has no room for another queue pair: "), std::string::npos) << why;
    EXPECT_TRUE(a_->device->health().ok()) << a_->device->health().message();
  }
}

TEST_F(NicQuirksTest, BothEndsUseTheExtensionsThatBothHave) {
  open();
  make_queue_pairs({0b0110, 0b1100});
  ASSERT_TRUE(a_->connect(*b_).ok() && b_->connect(*a_).ok());
  EXPECT_EQ(Quirks().agreed, (std::vector<uint32_t>{0b0100, 0b0100}));
  make_queue_pairs({0b0110});  // the other device has no extensions
  ASSERT_TRUE(a_->connect(*b_).ok() && b_->connect(*a_).ok());
  EXPECT_EQ(Quirks().agreed.size(), 2u);
}

TEST_F(NicQuirksTest, RefusedExtensionsAreNoConnection) {
  Quirks().refuses_extensions = true;
  open();
  make_queue_pairs({1, 1});
  const Status refused = a_->connect(*b_);
  EXPECT_NE(refused.message().find("ROCECOLL_IB_ECE=0"), std::string::npos) << refused.message();
  RdmaOptions without;
  without.extensions = false;
  open(without);
  make_queue_pairs({1, 1});
  EXPECT_TRUE(a_->connect(*b_).ok() && b_->connect(*a_).ok());
}

TEST_F(NicQuirksTest, CompletionQueuesAreSpreadOverTheInterruptsOfADevice) {
  const std::string device = UsableDevices().front();
  ibv_device** devices = ibv_get_device_list(nullptr);
  ContextHandle context;
  for (ibv_device** each = devices; *each != nullptr; ++each) {
    if (ibv_get_device_name(*each) == device) context.reset(ibv_open_device(*each));
  }
  ibv_free_device_list(devices);
  ASSERT_NE(context, nullptr);
  for (int i = 0; i < 40; ++i) RdmaEnd(device, RdmaOptions());
  const std::set<int> taken(Quirks().completion_vectors.begin(), Quirks().completion_vectors.end());
  EXPECT_GE(*taken.begin(), 0);
  EXPECT_LT(*taken.rbegin(), context->num_comp_vectors);
  EXPECT_TRUE(taken.size() > 1 || context->num_comp_vectors == 1);
}

TEST_F(NicQuirksTest, ReadOnlyMemoryCanBeSent) {
  ASSERT_NO_FATAL_FAILURE(connect());
  constexpr size_t kBytes = 8192;
  void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const std::span memory(static_cast<std::byte*>(mapped), kBytes);
  const auto pattern = Pattern(kBytes, 3);
  std::memcpy(mapped, pattern.data(), kBytes);
  ASSERT_EQ(mprotect(mapped, kBytes, PROT_READ), 0);
  auto region = a_->device->register_memory(memory, RemoteAccess::kNone);
  ASSERT_TRUE(region.ok()) << region.status().message();
  EXPECT_FALSE(a_->device->register_memory(memory, RemoteAccess::kWrite).ok());
  SendRequest write = a_->write(*b_, 0, kBytes, 1);
  write.payload = memory;
  write.local_key = region.value().local_key;
  ASSERT_EQ(a_->queue_pair->post({&write, 1}), 1u);
  ASSERT_TRUE(a_->await(1));
  EXPECT_EQ(a_->completions[0].status, CompletionStatus::kSuccess) << a_->completions[0].text;
  EXPECT_TRUE(b_->holds(0, pattern));
  a_->device->deregister(region.value());
  munmap(mapped, kBytes);
}

}  // namespace
}  // namespace rocecoll
