// SPDX-License-Identifier: Apache-2.0
// What a group tells while its operations wait.
#include <algorithm>

#include "base/log.h"
#include "engine/group.h"

namespace rocecoll {

void Group::look_at_waits(Instant now) {
  const Running* oldest = find(0);
  if (oldest == nullptr) {
    watch_.end();
    watch_roll_.end();
    return;
  }
  const std::vector<AwaitedRank> awaited = messenger_->awaited();
  for (LogEntry& entry : watch_.look(now, awaited, describe(*oldest))) {
    Log(entry.severity, std::move(entry.text));
  }
  if (watch_.report_due(now, oldest->entry.order, oldest->entry.submitted)) {
    tell_of_long_wait(now, *oldest, awaited);
  }
}

// Ranks that this one waits for may wait themselves: all are asked whether they have called it.
void Group::tell_of_long_wait(Instant now, const Running& oldest,
                              const std::vector<AwaitedRank>& awaited) {
  if (!call_the_roll(now, &oldest, watch_roll_)) {
    watch_.look_again(std::max(now, watch_roll_.next_look()));
    return;
  }
  std::string text = "group \"" + spec_.name + "\": " + describe(oldest) + " has waited " +
                     DescribeDuration(now - oldest.entry.submitted);
  if (!awaited.empty()) text += " for " + DescribeContacts(spec_, now, awaited);
  if (is_collective(oldest.entry)) text += describe_roll(watch_roll_);
  if (oldest.entry.tag_operation != kNoTag) text += "; " + oldest.execution.describe_progress();
  Log(Severity::kWarning, std::move(text));
  watch_.reported(now, oldest.entry.submitted);
  watch_roll_.end();
}

}  // namespace rocecoll
