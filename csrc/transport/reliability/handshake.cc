// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/handshake.h"

#include <algorithm>

#include "base/check.h"

namespace rocecoll {

Handshake::Verdict Handshake::on_init(Instant now, const InitBody& init) {
  ROCECOLL_CHECK(init.source_id != 0);
  if (init.link != link_.mirrored()) return Verdict::kIgnored;
  if (established() && init.source_id != peer_id_) return Verdict::kIgnored;
  if (init.destination_id != 0 && init.destination_id != local_id_) return Verdict::kIgnored;
  peer_id_ = init.source_id;
  ROCECOLL_CHECK(established());
  if (init.destination_id == local_id_) {
    peer_knows_us_ = true;
    return Verdict::kConfirm;
  }
  // The sender does not know our id yet: answer at once. Once it has shown that it does, this is a
  // late duplicate and deadline() ignores send_at_.
  send_at_ = now;
  return Verdict::kAccepted;
}

void Handshake::on_init_sent(Instant now) {
  ROCECOLL_CHECK(init_due(now));
  first_sent_at_ = std::min(first_sent_at_, now);
  send_at_ = now + retry_;
  const Duration longest = std::clamp((now - opened_at_) / kWaitShare, kLastRetry, kLongestRetry);
  retry_ = std::min(retry_ * 2, longest);
}

}  // namespace rocecoll
