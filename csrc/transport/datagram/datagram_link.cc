// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/datagram_link.h"

#include "transport/datagram/datagram_endpoint.h"
#include "transport/datagram/datagram_transport.h"

namespace rocecoll {

LinkId DatagramLink::id() const { return endpoint_.connection.link(); }

bool DatagramLink::send_frame(const FrameBytes& frame) {
  if (!endpoint_.connection.send_frame(frame)) return false;
  transport_.wants_to_transmit(endpoint_);
  return true;
}

// Datagrams that the port has not taken yet may be this link's.
uint64_t DatagramLink::unsent_frames() const {
  return endpoint_.connection.unsent_frames() + (transport_.batch_.blocked() ? 1 : 0);
}

bool DatagramLink::write(const RemoteSlice& to, LocalSlice from, uint32_t token) {
  if (!endpoint_.connection.write(to, from, token)) return false;
  transport_.wants_to_transmit(endpoint_);
  return true;
}

RemoteSlice DatagramLink::expose(LocalSlice into, uint32_t token) {
  return endpoint_.connection.expose(into, token);
}

void DatagramLink::unexpose(const RemoteSlice& slice) { endpoint_.connection.unexpose(slice); }

void DatagramLink::vouch(Instant now) { endpoint_.path.path.vouched_at = now; }

std::optional<LinkContact> DatagramLink::contact() const { return endpoint_.connection.contact(); }

std::vector<PathStats> DatagramLink::path_stats() const {
  const Path& path = endpoint_.path.path;
  PathStats stats{transport_.carrier(endpoint_), true, endpoint_.traffic, {}, {}};
  stats.traffic.packets_retransmitted = endpoint_.connection.retransmitted_packets();
  if (path.rtt.has_sample()) stats.rtt = path.rtt.smoothed();
  stats.congestion_window_bytes = path.congestion->window();
  return {stats};
}

void DatagramLink::close(const Status& why) { transport_.close_link(endpoint_, why); }

}  // namespace rocecoll
