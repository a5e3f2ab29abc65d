// SPDX-License-Identifier: Apache-2.0
// The generations of a link's queue pairs.
#include "transport/fast_paths/rc/rc_path.h"

#include <utility>

#include "base/check.h"
#include "transport/fast_paths/rc/rc_device.h"

namespace rocecoll {

RcPath::RcPath(RcDevice& device) : device_(device), number_(device.number_link()) {}

RcPath::~RcPath() {
  device_.forget(*this);
  give_up();
}

Status RcPath::make_streams() {
  if (device_.credits() == 0) {
    return Status(StatusCode::kUnsupported,
                  "the receive queues of " + device_.description() + " are too short");
  }
  Status status = device_.registered_memory().reserve();
  if (!status.ok()) return status;
  const auto rails = static_cast<uint32_t>(device_.rails().count());
  const uint32_t each = std::min(device_.options().queue_pairs_per_connection, kMaxStreams / rails);
  for (uint32_t i = 0; i < each * rails; ++i) {
    streams_.push_back(device_.make_stream(i % rails, traffic_));
  }
  return {};
}

// Fails only if no rail gets its streams.
Status RcPath::prepare() {
  probing_ = started_ = false;
  if (streams_.empty()) {
    if (Status status = make_streams(); !status.ok()) return status;
  }
  const Rails::Set working = device_.rails().working();
  const Rails::Set wanted = working & ~std::exchange(left_out_, 0);
  Status first_problem;
  for (size_t rail = 0; rail < device_.rails().count(); ++rail) {
    if (((wanted == 0 ? working : wanted) >> rail & 1) == 0) continue;
    Status status = prepare_rail(rail);
    if (!status.ok() && first_problem.ok()) first_problem = std::move(status);
  }
  return rails() == 0 ? first_problem : Status();
}

// Afterwards either all streams of the rail have a queue pair or none has.
Status RcPath::prepare_rail(size_t rail) {
  Status status;
  uint32_t& reserved = reserved_receives_[rail];
  if (reserved == 0) {
    const auto count = std::ranges::count(streams_, rail, &RcStream::rail);
    const auto receives =
        static_cast<uint32_t>(count) * StreamCredits::ReceivesFor(device_.credits());
    status = device_.receives(rail).reserve(receives);
    if (!status.ok()) return status;
    reserved = receives;
  }
  for (const auto& stream : streams_) {
    if (stream->rail() != rail) continue;
    status = prepare(*stream);
    if (!status.ok()) break;
  }
  if (status.ok()) return status;
  for (const auto& stream : streams_) {
    if (stream->rail() == rail) destroy(*stream);
  }
  return status;
}

Status RcPath::prepare(RcStream& stream) {
  Status status = stream.prepare();
  if (!status.ok()) return status;
  device_.add(stream, *this);
  return device_.receives(stream.rail())
      .fill(stream.queue_pair(), StreamCredits::ReceivesFor(device_.credits()));
}

void RcPath::destroy(RcStream& stream) {
  if (!stream.prepared()) return;
  device_.remove(stream);
  stream.destroy();
}

FastPath::Ends RcPath::ends() const {
  Ends ends{
      static_cast<uint16_t>(device_.credits()), {}, static_cast<uint8_t>(device_.rails().count())};
  if (rails() == 0) return ends;
  for (const auto& stream : streams_) {
    ends.addresses.push_back(stream->prepared() ? stream->address() : Address());
  }
  return ends;
}

Status RcPath::connect(const Ends& peer) {
  if (peer_credits_ == 0) {
    while (streams_.size() > peer.addresses.size()) {
      destroy(*streams_.back());
      streams_.pop_back();
    }
    peer_credits_ = peer.credits;
  }
  if (streams_.size() > peer.addresses.size()) {
    return Status(StatusCode::kNetwork, "the peer offers fewer queue pairs than before");
  }
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (peer.addresses[i].empty()) {
      destroy(*streams_[i]);
    } else if (streams_[i]->prepared()) {
      const Status status =
          streams_[i]->connect(peer.addresses[i], i % peer.ports, device_.credits(), peer_credits_);
      if (!status.ok()) return status;
    }
  }
  if (rails() == 0) {
    return Status(StatusCode::kNetwork, "this rank and the peer have no working port in common");
  }
  hand_over();
  return {};
}

// Frames stay in order because one stream has all of them.
void RcPath::hand_over() {
  for (const auto& stream : streams_) {
    if (stream.get() == &first()) continue;
    stream->hand_over(stream->prepared() ? RcStream::HandOver::kFrames : RcStream::HandOver::kAll,
                      first());
  }
}

RcStream& RcPath::first() const {
  const auto found = std::ranges::find_if(streams_, &RcStream::prepared);
  ROCECOLL_CHECK(found != streams_.end());
  return **found;
}

// The streams take turns. Those that are not there are skipped.
RcStream& RcPath::stream_for(size_t part) const {
  size_t turn = part % streams_.size();
  while (!streams_[turn]->prepared()) turn = (turn + 1) % streams_.size();
  return *streams_[turn];
}

Rails::Set RcPath::rails() const { return rails_of(&RcStream::prepared); }

bool RcPath::lacks(Rails::Set rails) const {
  return std::ranges::any_of(streams_, [rails](const auto& stream) {
    return !stream->prepared() && (rails >> stream->rail() & 1) != 0;
  });
}

// The rails on which all streams that are there have the property.
Rails::Set RcPath::rails_of(bool (RcStream::*has)() const) const {
  Rails::Set there = 0;
  Rails::Set lacking = 0;
  for (const auto& stream : streams_) {
    if (!stream->prepared()) continue;
    const Rails::Set rail = Rails::Set{1} << stream->rail();
    there |= rail;
    if (!(*stream.*has)()) lacking |= rail;
  }
  return there & ~lacking;
}

bool RcPath::connected() const { return rails_of(&RcStream::connected) == rails(); }

Status RcPath::probe() {
  probing_ = true;
  for (const auto& stream : streams_) {
    if (stream->prepared()) stream->probe();
  }
  if (!failed()) return {};
  return Status(StatusCode::kNetwork, device_.description() + " does not take send requests");
}

bool RcPath::proved() const { return rails_of(&RcStream::proved) == rails(); }

void RcPath::start() {
  started_ = true;
  for (const auto& stream : streams_) {
    if (stream->prepared()) stream->start();
  }
}

// Leaves rails that have kept the others from carrying out of the next generation, unless that
// would leave no rail.
void RcPath::leave_out(Rails::Set failed) {
  const Rails::Set out = left_out_ | failed;
  if ((rails() & ~out) != 0) left_out_ = out;
}

void RcPath::fail() {
  if (!started_) leave_out(~rails_of(probing_ ? &RcStream::proved : &RcStream::connected));
  for (const auto& stream : streams_) stream->fail();
}

bool RcPath::failed() const {
  if (streams_.empty()) return false;
  return rails() == 0 || std::ranges::any_of(streams_, [](const auto& stream) {
           return stream->prepared() && stream->failed();
         });
}

bool RcPath::drained() const {
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->drained(); });
}

bool RcPath::complete() const {
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->prepared(); });
}

void RcPath::destroy() {
  for (const auto& stream : streams_) destroy(*stream);
}

std::vector<WireBytes> RcPath::give_up() {
  destroy();
  std::vector<WireBytes> frames;
  for (const auto& stream : streams_) {
    for (WireBytes& frame : stream->take_frames()) frames.push_back(std::move(frame));
  }
  forget_lent();
  streams_.clear();
  peer_credits_ = 0;
  for (size_t rail = 0; rail < device_.rails().count(); ++rail) {
    device_.receives(rail).release(std::exchange(reserved_receives_[rail], 0));
  }
  return frames;
}

std::string RcPath::carrier() const {
  return "RoCE, reliable connection over " + device_.rails().describe(rails());
}

}  // namespace rocecoll
