// SPDX-License-Identifier: Apache-2.0
// Makes the RDMA devices of a program smaller than they are: LD_PRELOAD=quirky_nic.so and, in
// QUIRKY_NIC, limits such as "max_srq=0 max_cqe=600": at most max_srq_wr, max_cqe, max_qp_wr as the
// device says, and without being said max_inline_data of a queue pair, as devices do it. Of a
// process there may be max_qp queue pairs and max_mr registrations at a time; for more there is no
// memory. And slower: with "way_ms=1000" the way to a peer takes the kernel so long to find, each
// time, and a registration takes reg_ms_per_mib for each MiB. With "alive=0", which a program may
// set while it runs, the devices have died, as one that was pulled out: they say so once, calls to
// the kernel fail, what peers send is dropped, and requests are taken without being completed.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace {

int Limit(const char* name, int actual) {
  const char* limits = std::getenv("QUIRKY_NIC");
  if (limits == nullptr) return actual;
  const std::string all = std::string(" ") + limits;
  const std::string key = std::string(" ") + name + "=";
  const size_t at = all.find(key);
  return at == std::string::npos ? actual : std::min(actual, std::atoi(&all[at + key.size()]));
}

void FindWay() {
  const int way_ms = Limit("way_ms", 60'000);
  if (way_ms < 60'000) poll(nullptr, 0, way_ms);
}

template <typename Function>
Function* Real(Function* /*type*/, const char* name, const char* version = "IBVERBS_1.1") {
  void* found = dlvsym(RTLD_NEXT, name, version);  // 1.0 has another binary interface
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

// Those of a kind that this process has. The first that are too many fail, as with devices.
class Living {
 public:
  explicit Living(const char* limit) : limit_(limit) {}

  template <typename Make>
  auto make(const Make& make_one) -> decltype(make_one()) {
    if (count_.fetch_add(1) >= Limit(limit_, INT_MAX)) {
      count_.fetch_sub(1);
      errno = ENOMEM;
      return nullptr;
    }
    auto* made = make_one();
    if (made == nullptr) count_.fetch_sub(1);
    return made;
  }
  int destroyed(int failed) {
    if (failed == 0) count_.fetch_sub(1);
    return failed;
  }

 private:
  const char* const limit_;
  std::atomic<int> count_ = 0;
};

Living queue_pairs("max_qp");
Living registrations("max_mr");

std::mutex mutex;
std::set<ibv_qp*> on_devices;
std::set<ibv_context*> told_of_death;

// What has completed before stays where programs look for it, as in the memory of a host.
bool Died() {
  if (Limit("alive", 1) != 0) return false;
  const std::lock_guard lock(mutex);
  for (ibv_qp* queue_pair : std::exchange(on_devices, {})) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    Real(&ibv_modify_qp, "ibv_modify_qp")(queue_pair, &attributes, IBV_QP_STATE);
  }
  return true;
}

// Programs call these by way of the device's context.
int (*poll_now)(ibv_cq*, int, ibv_wc*) = nullptr;
int (*send_now)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;

int SendOrLose(ibv_qp* queue_pair, ibv_send_wr* list, ibv_send_wr** refused) {
  return Died() ? 0 : send_now(queue_pair, list, refused);
}

// A dead device does not flush what it was asked for.
int PollOrNothing(ibv_cq* queue, int room, ibv_wc* completions) {
  const int count = poll_now(queue, room, completions);
  if (count <= 0 || !Died()) return count;
  const auto flushed = [](const ibv_wc& one) { return one.status == IBV_WC_WR_FLUSH_ERR; };
  return static_cast<int>(std::remove_if(completions, completions + count, flushed) - completions);
}

void Watch(ibv_context* context) {
  if (context->ops.post_send == SendOrLose) return;
  poll_now = context->ops.poll_cq;  // of one make all
  send_now = context->ops.post_send;
  context->ops.poll_cq = PollOrNothing;
  context->ops.post_send = SendOrLose;
}

template <typename Register>
ibv_mr* RegisterSlowly(size_t bytes, const Register& register_now) {
  errno = EIO;
  if (Died()) return nullptr;
  const int64_t ms_per_mib = Limit("reg_ms_per_mib", INT_MAX);
  if (ms_per_mib < INT_MAX) {
    const auto us = ms_per_mib * 1000 * static_cast<int64_t>(bytes) >> 20;
    std::this_thread::sleep_for(std::chrono::microseconds(us));
  }
  return registrations.make(register_now);
}

}  // namespace

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const int failed = Real(&ibv_query_device, "ibv_query_device")(context, attributes);
  attributes->max_srq = Limit("max_srq", attributes->max_srq);
  attributes->max_srq_wr = Limit("max_srq_wr", attributes->max_srq_wr);
  attributes->max_cqe = Limit("max_cqe", attributes->max_cqe);
  attributes->max_qp_wr = Limit("max_qp_wr", attributes->max_qp_wr);
  attributes->max_qp = Limit("max_qp", attributes->max_qp);
  attributes->max_mr = Limit("max_mr", attributes->max_mr);
  return failed;
}

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* wanted) {
  errno = EOPNOTSUPP;
  if (Limit("max_srq", 1) == 0) return nullptr;
  return Real(&ibv_create_srq, "ibv_create_srq")(domain, wanted);
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel,
                      int vector) {
  errno = EIO;
  if (Died()) return nullptr;
  Watch(context);
  errno = EINVAL;
  if (entries > Limit("max_cqe", entries)) return nullptr;
  return Real(&ibv_create_cq, "ibv_create_cq")(context, entries, user, channel, vector);
}

int ibv_resize_cq(ibv_cq* queue, int entries) {
  if (Died()) return EIO;
  if (entries > Limit("max_cqe", entries)) return EINVAL;
  return Real(&ibv_resize_cq, "ibv_resize_cq")(queue, entries);
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  errno = EIO;
  if (Died()) return nullptr;
  const auto asked = static_cast<int>(wanted->cap.max_inline_data);
  const auto sends = static_cast<int>(wanted->cap.max_send_wr);
  const auto receives = static_cast<int>(wanted->cap.max_recv_wr);
  errno = EINVAL;
  if (asked > Limit("max_inline_data", asked) || sends > Limit("max_qp_wr", sends) ||
      receives > Limit("max_qp_wr", receives)) {
    return nullptr;
  }
  ibv_qp* made =
      queue_pairs.make([&] { return Real(&ibv_create_qp, "ibv_create_qp")(domain, wanted); });
  if (made != nullptr) {
    const std::lock_guard lock(mutex);
    on_devices.insert(made);
    const auto granted = static_cast<int>(wanted->cap.max_inline_data);
    wanted->cap.max_inline_data = static_cast<uint32_t>(Limit("max_inline_data", granted));
  }
  return made;
}

int ibv_destroy_qp(ibv_qp* queue_pair) {
  {
    const std::lock_guard lock(mutex);
    on_devices.erase(queue_pair);
  }
  return queue_pairs.destroyed(Real(&ibv_destroy_qp, "ibv_destroy_qp")(queue_pair));
}

// A macro of this name takes the other one where there are flags that may be left out.
#undef ibv_reg_mr
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* memory, size_t bytes, int access) {
  return RegisterSlowly(
      bytes, [&] { return Real(&ibv_reg_mr, "ibv_reg_mr")(domain, memory, bytes, access); });
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* memory, size_t bytes, uint64_t at,
                         unsigned int access) {
  return RegisterSlowly(bytes, [&] {
    return Real(&ibv_reg_mr_iova2, "ibv_reg_mr_iova2", "IBVERBS_1.8")(domain, memory, bytes, at,
                                                                      access);
  });
}

int ibv_dereg_mr(ibv_mr* region) {
  return registrations.destroyed(Real(&ibv_dereg_mr, "ibv_dereg_mr")(region));
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const bool died = Died();
  const std::lock_guard lock(mutex);
  if (died && told_of_death.insert(context).second) {
    *event = {};
    event->event_type = IBV_EVENT_DEVICE_FATAL;
    return 0;
  }
  return Real(&ibv_get_async_event, "ibv_get_async_event")(context, event);
}

int ibv_modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  if (Died()) return EIO;
  if ((mask & IBV_QP_AV) != 0) FindWay();
  return Real(&ibv_modify_qp, "ibv_modify_qp")(queue_pair, attributes, mask);
}

ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* way) {
  errno = EIO;
  if (Died()) return nullptr;
  FindWay();
  return Real(&ibv_create_ah, "ibv_create_ah")(domain, way);
}
