// SPDX-License-Identifier: Apache-2.0
// A runtime in a process that has hardly any descriptors left: it works, or says so.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/in_child.h"
#include "base/limited_files.h"
#include "base/log.h"
#include "runtime/open_transport.h"
#include "runtime/runtimes.h"

namespace rocecoll {
namespace {

using Next = Progress::Next;

// Beyond what a runtime opens.
constexpr size_t kSteps = 40;

RuntimeOptions WithSharedMemory() {
  RuntimeOptions options;
  options.transport = "udp";  // what RoCE opens is its libraries' affair
  options.shm = true;
  return options;
}

bool IsPlain(const Status& status) {
  const std::string& message = status.message();
  EXPECT_EQ(status.code(), StatusCode::kNetwork) << message;
  EXPECT_NE(message.find("too many open files: this process may have "), message.npos) << message;
  EXPECT_TRUE(message.ends_with("; raise `ulimit -n`")) << message;
  return !testing::Test::HasFailure();
}

// Whether it works with room for `count` more files. Else it says so in plain words.
bool Works(size_t count, const std::function<Status()>& start) {
  EXPECT_TRUE(InChild([&] {
    AllowMoreFiles(count);
    const Status status = start();
    return status.ok() || IsPlain(status);
  })) << count;
  return InChild([&] {
    AllowMoreFiles(count);
    return start().ok();
  });
}

// How much room the first start has that works.
size_t LeastRoom(const std::function<Status()>& start) {
  size_t count = 0;
  while (count < kSteps && !Works(count, start)) ++count;
  for (size_t more = count; more < kSteps; ++more) EXPECT_TRUE(Works(more, start)) << more;
  return count;
}

// Without a look before, so that each place is once the one that has none.
Status OpenPlaceByPlace() {
  auto transport = OpenTransport(WithSharedMemory());
  if (!transport.ok()) return transport.status();
  return Progress::Start(transport.take(), EngineOptions{}, ProgressOptions{}).status();
}

// What is missing would be told in the log, beside what the socket has.
Status StartWithSharedMemory() {
  const Status status = StartRuntime(WithSharedMemory()).status();
  while (const auto entry = TakeLogEntry(Duration{0})) {
    EXPECT_TRUE(entry->text.starts_with("UDP port ")) << entry->text;
  }
  return status;
}

// What would do without shared memory leaves room for others, which then have none.
TEST(OpenFiles, EveryPlaceThatHasNoneSaysSo) {
  if (kSanitizerTakesFiles) GTEST_SKIP() << "a sanitizer takes files of its own";
  size_t worked = 0;
  for (size_t count = 0; count < kSteps; ++count) worked += Works(count, OpenPlaceByPlace) ? 1 : 0;
  EXPECT_LT(worked, kSteps - 3);
  EXPECT_GT(worked, kSteps / 2);
}

TEST(OpenFiles, ARuntimeStartsWithAllThatItNeeds) {
  const size_t least = LeastRoom(StartWithSharedMemory);
  EXPECT_GT(least, 0u);
  EXPECT_LT(least, kSteps);
}

TEST(OpenFiles, EachNeighbourNeedsRoom) {
  const auto start = [](uint32_t ranks) {
    return [ranks] {
      RuntimeOptions options = WithSharedMemory();
      options.local_ranks = ranks;
      return StartRuntime(options).status();
    };
  };
  const size_t alone = LeastRoom(start(1));
  EXPECT_LT(alone, kSteps);
  EXPECT_EQ(LeastRoom(start(8)), alone + 7);
}

// Links that are opened later go over the network where shared memory takes more than there is.
TEST(OpenFiles, LinksDoWithoutInARuntimeThatRuns) {
  if (kSanitizerTakesFiles) GTEST_SKIP() << "a sanitizer takes files of its own";
  for (const size_t count : {0, 1, 2, 3, 4, 5, 6, 8}) {
    EXPECT_TRUE(InChild([count] {
      Runtimes runtimes(2, WithSharedMemory());
      AllowMoreFiles(count);
      std::vector<std::vector<int32_t>> data(2, std::vector<int32_t>(300'000, 1));
      std::vector<OperationPtr> calls;
      for (Rank rank = 0; rank < 2; ++rank) {
        calls.push_back(runtimes.all_reduce(data[rank]));
        EXPECT_TRUE(runtimes[rank].submit(runtimes.group(rank), calls[rank], Next::kGoesOn).ok());
      }
      for (Rank rank = 0; rank < 2; ++rank) {
        const Status status = runtimes[rank].wait(calls[rank], std::chrono::seconds(200));
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(data[rank], std::vector<int32_t>(300'000, 2));
      }
      return true;
    })) << count;
  }
}

}  // namespace
}  // namespace rocecoll
