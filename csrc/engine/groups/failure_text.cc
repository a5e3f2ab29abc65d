// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/failure_text.h"

#include <cstdio>
#include <string_view>

#include "base/named_status.h"
#include "base/text.h"
#include "engine/groups/group_spec.h"
#include "engine/operations/fingerprint.h"

namespace rocecoll {
namespace {

// At most this many of the ranks that are waited for are named.
constexpr size_t kNamedPeers = 8;

std::string_view Advice(StatusCode code) {
  switch (code) {
    case StatusCode::kMismatch:
      return "every rank must call the same operations, in the same order, with matching arguments";
    case StatusCode::kTimeout:
      return "see whether these ranks are alive and reach this operation; if they are only slow, "
             "give the group a longer timeout";
    case StatusCode::kPeerLost:
      return "if it still runs, the network to its host is cut";
    case StatusCode::kNoContact:
      return "if it still runs, the cause is a firewall (open the UDP ports both ways, "
             "ROCECOLL_PORT_RANGE), the wrong interface (ROCECOLL_SOCKET_IFNAME) or the MTU";
    case StatusCode::kPeerLeft:
      return "if it only ended early, let all ranks wait for each other (a barrier) before they "
             "end";
    case StatusCode::kAborted:
      return "the first error is in the log of the rank that aborted";
    case StatusCode::kNetwork:
      return "see the network settings of this host";
    case StatusCode::kDevice:
      return "see the device's own error on that rank: it may come from a kernel that ran before";
    case StatusCode::kInternal:
      return "this is a bug in rocecoll, please report it";
    case StatusCode::kOk:
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return "";
  }
  return "";
}

std::string MismatchCause(const MessengerFailure& failure, const std::string& peer,
                          std::span<const Rank> global_ranks) {
  if (!failure.fingerprints_differ) {
    return "this rank has " + std::to_string(failure.our_bytes) + " bytes here, " + peer + " has " +
           std::to_string(failure.their_bytes);
  }
  const std::string ours = DescribeFingerprint(failure.ours, global_ranks);
  const std::string theirs = DescribeFingerprint(failure.theirs, global_ranks);
  std::string text = "this rank called " + ours + ", " + peer + " called " + theirs;
  if (ours == theirs) text += "; they differ in block sizes, algorithm or engine options";
  return text;
}

}  // namespace

std::string FailureText::name(Rank group_rank) const {
  return "rank " + std::to_string(group_.global_rank(group_rank));
}

std::string FailureText::peer(Rank group_rank) const {
  std::string text = name(group_rank);
  if (group_rank < group_.addresses.size() && !address(group_rank).empty()) {
    text += " (" + address(group_rank) + ")";
  }
  return text;
}

const std::string& FailureText::address(Rank group_rank) const {
  return group_.known_as.empty() ? group_.addresses[group_rank].text()
                                 : group_.known_as[group_rank];
}

// Towards a rank on loopback, this rank's own address is a loopback one, too.
const std::string& FailureText::own_address(Rank towards) const {
  const bool directly = group_.addresses[towards].text() == address(towards);
  return directly ? address(group_.rank) : group_.addresses[group_.rank].text();
}

std::string FailureText::peers(const std::vector<Rank>& group_ranks) const {
  std::string text;
  for (size_t i = 0; i < group_ranks.size(); ++i) {
    if (i == kNamedPeers) {
      return text + " and " + std::to_string(group_ranks.size() - i) + " more ranks";
    }
    if (i > 0) text += ", ";
    text += peer(group_ranks[i]);
  }
  return text;
}

std::string FailureText::operation(const Fingerprint& fingerprint, uint64_t sequence) const {
  const std::string arguments = DescribeArguments(fingerprint, group_.global_ranks);
  std::string text = DescribeName(fingerprint) + " #" + std::to_string(sequence);
  if (!arguments.empty()) text += " (" + arguments + ")";
  return text;
}

std::string FailureText::message_call(const OperationSpec& spec, uint64_t sequence) const {
  const bool sends = spec.collective == Collective::kSend;
  const uint64_t elements = (sends ? spec.input : spec.output).partition.total();
  return std::string(TraitsOf(spec.collective).call) + " #" + std::to_string(sequence) +
         (sends ? " (to " : " (from ") + (spec.any_source ? "any rank" : name(spec.root)) +
         ", tag " + std::to_string(spec.user_tag) + ", " + std::string(ToString(spec.type)) + ", " +
         std::to_string(elements) + (elements == 1 ? " element)" : " elements)");
}

std::string FailureText::no_contact(Rank to, const std::string& why) const {
  return "no contact with " + peer(to) + ": its address is known, but no UDP packet came back (" +
         own_address(to) + " to " + group_.addresses[to].text() + "): " + why + see_log(to);
}

std::string FailureText::see_log(Rank of) const {
  return "; see " + name(of) + "'s own log first: it may have raised an exception";
}

std::string FailureText::link_cause(const MessengerFailure& failure,
                                    const std::string& first_missed) const {
  const std::string who = peer(failure.peer);
  const std::string& why = failure.status.message();
  switch (failure.status.code()) {
    case StatusCode::kMismatch:
      return MismatchCause(failure, who, group_.global_ranks);
    case StatusCode::kPeerLeft:
      return who + " left the group" + see_log(failure.peer);
    case StatusCode::kPeerLost:
      return "lost " + who + ": " + why +
             (first_missed.empty() ? "" : ", first missed at " + first_missed) +
             see_log(failure.peer) + " or been killed";
    case StatusCode::kNoContact:
      return no_contact(failure.peer, why);
    default:
      return who + ": " + why;
  }
}

std::string FailureText::message(StatusCode code, const std::string& cause) const {
  return Named(log_text(code, cause));
}

std::string FailureText::log_text(StatusCode code, const std::string& cause) const {
  std::string text = "group \"" + group_.name + "\": " + cause;
  const std::string_view advice = Advice(code);
  if (!advice.empty()) text += "; " + std::string(advice);
  return text;
}

std::string FailureText::report(const Status& report) const {
  return peer(report.reporter().value()) + " reported: " + std::string(ToString(report.code())) +
         ": " + Printable(report.message());
}

std::string DescribeDuration(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", Seconds(duration));
  return text;
}

}  // namespace rocecoll
