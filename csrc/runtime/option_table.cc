// SPDX-License-Identifier: Apache-2.0
#include "runtime/option_table.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

namespace rocecoll {
namespace {

using Option = RuntimeOption;

template <typename Number>
bool ParseNumber(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

bool ParseBool(std::string_view text, bool& value) {
  const bool yes = text == "1" || text == "true" || text == "yes" || text == "on";
  const bool no = text == "0" || text == "false" || text == "no" || text == "off";
  if (yes) value = true;
  if (no) value = false;
  return yes || no;
}

std::string RangeText(const std::string& what, double low, double high) {
  const auto text = [](double value) {
    std::string digits = std::to_string(value);
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
    return digits;
  };
  return what + " from " + text(low) + " to " + text(high);
}

// `field` yields the field of given options.
template <typename Field>
Option Text(const char* name, Field field) {
  return {name, "any text", [field](RuntimeOptions& options, std::string_view text) {
            field(options) = std::string(text);
            return true;
          }};
}

template <typename Field>
Option Bool(const char* name, Field field) {
  return {name, "true or false", [field](RuntimeOptions& options, std::string_view text) {
            return ParseBool(text, field(options));
          }};
}

template <typename Field>
Option Count(const char* name, uint64_t low, uint64_t high, Field field) {
  return {name, "a whole number from " + std::to_string(low) + " to " + std::to_string(high),
          [field, low, high](RuntimeOptions& options, std::string_view text) {
            uint64_t value = 0;
            if (!ParseNumber(text, value) || value < low || value > high) return false;
            auto& target = field(options);
            target = static_cast<std::remove_reference_t<decltype(target)>>(value);
            return true;
          }};
}

template <typename Field>
Option Probability(const char* name, Field field) {
  return {name, RangeText("a number", 0, 1),
          [field](RuntimeOptions& options, std::string_view text) {
            double value = 0;
            if (!ParseNumber(text, value) || !(value >= 0 && value <= 1)) return false;
            field(options) = value;
            return true;
          }};
}

// A year is as good as for ever.
constexpr double kMaxMicroseconds = 365.0 * 24 * 3600 * 1e6;

template <typename Field>
Option Microseconds(const char* name, double low, Field field) {
  return {name, RangeText("microseconds", low, kMaxMicroseconds),
          [field, low](RuntimeOptions& options, std::string_view text) {
            double value = 0;
            if (!ParseNumber(text, value) || !(value >= low && value <= kMaxMicroseconds)) {
              return false;
            }
            field(options) = Duration(std::llround(value * 1e3));
            return true;
          }};
}

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;
constexpr uint64_t kMaxCount = std::numeric_limits<uint32_t>::max();

// The field that a name stands for.
#define ROCECOLL_FIELD(path) [](RuntimeOptions& o) -> auto& { return o.path; }

std::vector<Option> MakeOptions() {
  return {
      Text("transport", ROCECOLL_FIELD(transport)),
      Text("host", ROCECOLL_FIELD(host)),
      Count("port_low", 0, 65535, ROCECOLL_FIELD(port_low)),
      Count("port_high", 0, 65535, ROCECOLL_FIELD(port_high)),
      Count("udp.max_datagram_bytes", 512, 65507, ROCECOLL_FIELD(max_datagram_bytes)),
      Count("udp.socket_buffer_bytes", 4096, 1 << 30, ROCECOLL_FIELD(socket_buffer_bytes)),
      Bool("udp.segmentation_offload", ROCECOLL_FIELD(segmentation_offload)),
      Count("udp.dscp", 0, 63, ROCECOLL_FIELD(dscp)),
      Bool("udp.ecn", ROCECOLL_FIELD(ecn)),
      Probability("fault.loss", ROCECOLL_FIELD(fault.loss)),
      Probability("fault.duplicate", ROCECOLL_FIELD(fault.duplicate)),
      Probability("fault.reorder", ROCECOLL_FIELD(fault.reorder)),
      Probability("fault.corrupt", ROCECOLL_FIELD(fault.corrupt)),
      Microseconds("fault.delay_us", 0, ROCECOLL_FIELD(fault.delay)),
      Count("fault.seed", 0, std::numeric_limits<uint64_t>::max(), ROCECOLL_FIELD(fault.seed)),
      Text("plugin", ROCECOLL_FIELD(plugin)),
      Text("ib.hca", ROCECOLL_FIELD(rdma.hca)),
      Count("ib.gid_index", 0, 255, ROCECOLL_FIELD(rdma.gid_index)),
      Count("ib.traffic_class", 0, 255, ROCECOLL_FIELD(rdma.traffic_class)),
      Count("ib.service_level", 0, 7, ROCECOLL_FIELD(rdma.service_level)),
      Count("ib.timeout", 1, 31, ROCECOLL_FIELD(rdma.timeout)),
      Count("ib.retry_count", 0, 7, ROCECOLL_FIELD(rdma.retry_count)),
      Count("ib.pkey_index", 0, 65535, ROCECOLL_FIELD(rdma.pkey_index)),
      Count("ib.max_mtu_bytes", 256, 4096, ROCECOLL_FIELD(rdma.max_mtu_bytes)),
      Count("ib.queue_pairs_per_connection", 1, 8, ROCECOLL_FIELD(rc.queue_pairs_per_connection)),
      Count("ib.credits", 1, 4096, ROCECOLL_FIELD(rc.credits)),
      Microseconds("ib.proof_timeout_us", 1000, ROCECOLL_FIELD(rc.proof_timeout)),
      Count("ib.max_recoveries", 0, kMaxCount, ROCECOLL_FIELD(rc.max_recoveries)),
      Bool("failover", ROCECOLL_FIELD(rc.failover)),
      Microseconds("connection.max_ack_delay_us", 0, ROCECOLL_FIELD(connection.max_ack_delay)),
      Microseconds("connection.min_probe_timeout_us", 100,
                   ROCECOLL_FIELD(connection.min_probe_timeout)),
      Microseconds("connection.max_probe_timeout_us", 100,
                   ROCECOLL_FIELD(connection.max_probe_timeout)),
      Microseconds("connection.heartbeat_interval_us", 1000,
                   ROCECOLL_FIELD(connection.heartbeat_interval)),
      Microseconds("connection.peer_timeout_us", 1000, ROCECOLL_FIELD(connection.peer_timeout)),
      Microseconds("connection.close_timeout_us", 0, ROCECOLL_FIELD(connection.close_timeout)),
      Count("connection.frame_queue_bytes", 64 * 1024, kMaxBytes,
            ROCECOLL_FIELD(connection.frame_queue_bytes)),
      Count("connection.max_pending_writes", 1, kMaxCount,
            ROCECOLL_FIELD(connection.max_pending_writes)),
      Count("messenger.eager_bytes", 0, kMaxBytes, ROCECOLL_FIELD(messenger.eager_bytes)),
      Count("messenger.eager_credits", 1, 65535, ROCECOLL_FIELD(messenger.eager_credits)),
      Count("engine.lane_bytes", 1024, kMaxBytes, ROCECOLL_FIELD(engine.lane_bytes)),
      Count("engine.max_lanes_in_flight", 1, 1024, ROCECOLL_FIELD(engine.max_lanes_in_flight)),
      Count("engine.max_operations_in_flight", 1, 65536,
            ROCECOLL_FIELD(engine.max_operations_in_flight)),
      Count("engine.max_pending_operations", 1, kMaxCount,
            ROCECOLL_FIELD(engine.max_pending_operations)),
      Count("engine.scratch_bytes", 1, kMaxBytes, ROCECOLL_FIELD(engine.scratch_bytes)),
      Microseconds("progress.spin_us", 0, ROCECOLL_FIELD(progress.spin_time)),
      Microseconds("progress.yield_us", 0, ROCECOLL_FIELD(progress.yield_time)),
  };
}

#undef ROCECOLL_FIELD

}  // namespace

const std::vector<RuntimeOption>& RuntimeOptionTable() {
  static const std::vector<RuntimeOption> options = MakeOptions();
  return options;
}

}  // namespace rocecoll
