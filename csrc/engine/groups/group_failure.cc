// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/group_failure.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/named_status.h"
#include "engine/groups/failure_text.h"
#include "engine/groups/notice.h"

namespace rocecoll {
namespace {

// An abort notice is sent this often, this far apart: at 10 % loss one of a thousand ranks misses
// all three and learns from a closing link or its own deadline.
constexpr int kNotices = 3;
constexpr Duration kNoticeInterval = std::chrono::milliseconds(10);

}  // namespace

Status GroupFailure::fail(const Status& why, const std::string& operation) {
  const FailureText text(group_);
  const std::string cause = why.reporter() ? text.report(why) : why.message();
  const std::string whole = operation.empty() ? cause : operation + ": " + cause;
  return begin(Status(why.code(), text.message(why.code(), whole)),
               why.reporter() ? why : Status(why.code(), whole));
}

Status GroupFailure::abort(const Status& why) {
  const Status reason = why.message().empty() ? Status(why.code(), "aborted") : why;
  return begin(reason, reason);
}

// `report` goes to the other ranks: as this rank's, unless it is another one's.
Status GroupFailure::begin(Status shown, const Status& report) {
  if (!status_.ok()) return {};
  ROCECOLL_CHECK(!shown.ok());
  const Status told = report.reported_by(group_.rank);
  notice_ = Encode(AbortNotice{group_.key, told},
                   std::min(Transport::kMaxNoticeBytes, transport_.limits().max_frame_bytes));
  notices_left_ = kNotices;
  next_notice_ = Instant::min();
  status_ = std::move(shown);
  return told;
}

void GroupFailure::add(const std::string& what) {
  status_ = Status(status_.code(), status_.message() + "; and then " + what);
}

bool GroupFailure::step(Instant now) {
  if (notices_left_ == 0 || now < next_notice_) return false;
  tell_everyone();
  next_notice_ = now + kNoticeInterval;
  return true;
}

void GroupFailure::tell(Rank peer) {
  if (!notice_.empty()) transport_.notify(group_.addresses[peer], notice_);
}

void GroupFailure::tell_everyone() {
  --notices_left_;
  for (Rank rank = 0; rank < group_.addresses.size(); ++rank) {
    if (rank != group_.rank) tell(rank);
  }
}

void GroupFailure::leave(const std::string& operation) {
  while (notices_left_ > 0) tell_everyone();
  if (!status_.ok()) return;
  status_ =
      NamedStatus(StatusCode::kAborted,
                  "group \"" + group_.name + "\": " + (operation.empty() ? "" : operation + ": ") +
                      "this rank ended the group before the operation was done; wait for every "
                      "operation first");
}

PartingWord GroupFailure::parting_word() const {
  return {group_.addresses,
          notice_.empty() ? Encode(LeftNotice{group_.key, group_.rank}) : notice_};
}

}  // namespace rocecoll
