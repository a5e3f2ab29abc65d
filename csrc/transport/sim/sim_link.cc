// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_link.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "transport/sim/sim_fabric.h"
#include "transport/sim/sim_transport.h"

namespace rocecoll {
namespace {

// Gives none, all or a part of it to the slice's intake, in turn.
void Place(std::span<const std::byte> written, const LocalSlice& into, uint64_t turn) {
  size_t given = 0;
  if (into.intake != nullptr && turn % 3 != 0) {
    given = written.size() / (turn % 3);
    if (given < written.size()) given -= given % Intake::kPieceBytes;
    into.intake->take(written.first(given));
  }
  std::ranges::copy(written.subspan(given), into.data + given);
}

}  // namespace

bool SimLink::send_frame(const FrameBytes& frame) {
  ROCECOLL_CHECK(!closed_);
  const SimFabricOptions& options = transport_.fabric_.options();
  ROCECOLL_CHECK(!frame.empty() && frame.size() <= options.max_frame_bytes);
  if (!down_.ok()) return true;
  if (queued_frames_ >= options.max_queued_frames) {
    refused_ = true;
    return false;
  }
  ++queued_frames_;
  Transfer transfer;
  frame.append_to(transfer.frame);
  start(std::move(transfer));
  return true;
}

bool SimLink::write(const RemoteSlice& to, LocalSlice from, uint32_t token) {
  ROCECOLL_CHECK(!closed_);
  ROCECOLL_CHECK(from.size > 0 && from.size == to.length);
  if (!down_.ok()) return true;
  if (queued_writes_ >= transport_.fabric_.options().max_queued_writes) {
    refused_ = true;
    return false;
  }
  ++queued_writes_;
  Transfer transfer;
  transfer.kind = Transfer::Kind::kWrite;
  transfer.token = token;
  transfer.to = to;
  transfer.from = from;
  start(std::move(transfer));
  return true;
}

RemoteSlice SimLink::expose(LocalSlice into, uint32_t token) {
  ROCECOLL_CHECK(!closed_);
  const uint64_t key = next_region_++;
  regions_.emplace(key, Region{into, token});
  return RemoteSlice{0, into.size, key};
}

void SimLink::unexpose(const RemoteSlice& slice) {
  ROCECOLL_CHECK(!closed_);
  const bool was_exposed = regions_.erase(slice.key) == 1;
  ROCECOLL_CHECK(was_exposed || !down_.ok());
}

void SimLink::close(const Status& why) {
  ROCECOLL_CHECK(!closed_);
  const auto keep = shared_from_this();  // forget() may drop the last other reference
  closed_ = true;
  regions_.clear();
  std::erase_if(waiting_, [](const Transfer& t) { return t.kind == Transfer::Kind::kWrite; });
  queued_writes_ = 0;
  if (down_.ok() && why.ok()) {
    Transfer goodbye;
    goodbye.kind = Transfer::Kind::kGoodbye;
    ++queued_frames_;
    start(std::move(goodbye));
    return;  // forgotten once the goodbye has left the queue
  }
  waiting_.clear();
  queued_frames_ = 0;
  if (down_.ok()) transport_.send_abort(id_, peer_endpoint_, why.reported_by(id_.local));
  transport_.forget(id_);
}

void SimLink::establish(const std::shared_ptr<SimLink>& peer) {
  if (established_ || !down_.ok()) return;
  established_ = true;
  peer_ = peer;
  std::deque<Transfer> waiting = std::move(waiting_);
  waiting_.clear();
  for (Transfer& transfer : waiting) transmit(std::move(transfer));
}

void SimLink::go_down(const Status& why) {
  if (!down_.ok()) return;
  unsent_ = unsent_frames();
  down_ = why;
  waiting_.clear();
  queued_frames_ = 0;
  queued_writes_ = 0;
  if (closed_) {
    transport_.forget(id_);
    return;
  }
  Event event;
  event.kind = Event::Kind::kDown;
  transport_.push(shared_from_this(), event, {});
}

void SimLink::start(Transfer transfer) {
  if (established_) {
    transmit(std::move(transfer));
  } else {
    waiting_.push_back(std::move(transfer));
  }
}

void SimLink::transmit(Transfer transfer) {
  SimFabric& fabric = transport_.fabric_;
  const size_t bytes =
      transfer.kind == Transfer::Kind::kWrite ? transfer.from.size : transfer.frame.size();
  transport_.stats_.bytes_sent += bytes;
  ++transport_.stats_.packets_sent;
  fabric.carry(transport_.endpoint_, peer_endpoint_, bytes, last_arrival_,
               [sender = shared_from_this(), transfer = std::move(transfer)]() mutable {
                 // A dead process no longer lends its memory, and the last things it sent are lost.
                 SimFabric& f = sender->transport_.fabric_;
                 if (!f.alive(sender->transport_.endpoint_)) return;
                 if (!f.alive(sender->peer_endpoint_)) return;
                 if (const auto peer = sender->peer_.lock()) {
                   peer->deliver(*sender, transfer);
                 } else {
                   sender->leave_queue(transfer.kind);
                 }
               });
}

void SimLink::deliver(SimLink& sender, Transfer& transfer) {
  // A write whose source was closed may no longer be read, and a link that went down delivers
  // nothing.
  const bool sent =
      sender.down_.ok() && !(sender.closed_ && transfer.kind == Transfer::Kind::kWrite);
  if (live() && sent) {
    switch (transfer.kind) {
      case Transfer::Kind::kFrame: {
        transport_.stats_.bytes_received += transfer.frame.size();
        ++transport_.stats_.packets_received;
        transport_.push(shared_from_this(), Event{}, std::move(transfer.frame),
                        sender.shared_from_this());
        return;
      }
      case Transfer::Kind::kWrite:
        deliver_write(sender, transfer);
        return;
      case Transfer::Kind::kGoodbye:
        go_down(Status(StatusCode::kPeerLeft, "the peer closed the connection"));
        break;
    }
  }
  sender.leave_queue(transfer.kind);
}

void SimLink::deliver_write(SimLink& sender, const Transfer& transfer) {
  const auto region = regions_.find(transfer.to.key);
  if (region == regions_.end() || region->second.memory.size != transfer.from.size) {
    const Status why(StatusCode::kNetwork, "a write hit memory that is not exposed");
    go_down(why);
    sender.go_down(why);
    return;
  }
  Place({transfer.from.data, transfer.from.size}, region->second.memory, transfer.to.key);
  transport_.stats_.bytes_received += transfer.from.size;
  ++transport_.stats_.packets_received;
  Event landed;
  landed.kind = Event::Kind::kLanded;
  landed.token = region->second.token;
  regions_.erase(region);
  transport_.push(shared_from_this(), landed, {});
  SimFabric& fabric = transport_.fabric_;
  fabric.queue().schedule(fabric.now() + fabric.options().latency,
                          [sender = sender.shared_from_this(), token = transfer.token] {
                            if (!sender->live() || !sender->transport_.alive()) return;
                            sender->leave_queue(Transfer::Kind::kWrite);
                            Event written;
                            written.kind = Event::Kind::kWritten;
                            written.token = token;
                            sender->transport_.push(sender, written, {});
                          });
}

void SimLink::leave_queue(Transfer::Kind kind) {
  uint32_t& queued = kind == Transfer::Kind::kWrite ? queued_writes_ : queued_frames_;
  if (queued > 0) --queued;  // going down has emptied the queues
  if (closed_ && kind == Transfer::Kind::kGoodbye) {
    transport_.forget(id_);
  } else if (refused_) {
    refused_ = false;
    transport_.fabric_.mark_ready(transport_.endpoint_);
  }
}

}  // namespace rocecoll
