// SPDX-License-Identifier: Apache-2.0
#include "collectives/selector.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "collectives/binomial.h"
#include "collectives/circulant.h"
#include "collectives/direct.h"
#include "collectives/doubling.h"
#include "collectives/host_alltoall.h"
#include "collectives/host_columns.h"
#include "collectives/host_layout.h"
#include "collectives/host_leaders.h"
#include "collectives/host_order.h"
#include "collectives/ring.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

// Crossovers, in bytes, for a message cost between that of UDP on loopback (2.4 us + 0.34 ns/B) and
// that of a 25 Gb/s network (12 us + 0.33 ns/B). docs/algorithms.md derives them.
//
// Two ranks: splitting the vector saves no bytes, only half of the additions, and costs a second
// message.
constexpr uint64_t kDirectExchangeBytes = 64 * 1024;
// log2 p whole vectors against 2 log2 p messages of 2 (p - 1) / p vectors: 23 KB at p = 4, 12 KB at
// p = 16. Numbers of ranks that are not powers of two need two vectors more: 4 KB (loopback) to 36
// KB (network) at p = 3, 6 KB to 45 KB at p = 17. Measured on two cores, it pays up to 32 KiB with
// 3 to 13 ranks.
constexpr uint64_t kRecursiveDoublingBytes = 16 * 1024;
// A ring takes 2 (p - 1 - log2 p) more messages for the same bytes, which matters little once a
// block takes about 20 times as long as a message.
constexpr uint64_t kRingBlockBytes = 700 * 1000;
// log2 p whole vectors against 2 log2 p messages of less than 2 vectors: 17 KB (loopback) to 87 KB
// (network) at p = 8, less for more ranks.
constexpr uint64_t kBinomialBytes = 32 * 1024;
// A chain takes the vector once, plus p - 2 messages of a lane until it is full, against 2 (p - 1)
// / p vectors. In simulations for 6 to 128 ranks it took 0.81 to 0.90 of the time with 2 p lanes,
// and 0.7 to 0.8 with 4 p. With few ranks that share processors, for which every byte costs time,
// it took 0.7 from p lanes on.
constexpr uint64_t kChainBlockBytes = 512 * 1024;
constexpr uint64_t kShortChainBlockBytes = 256 * 1024;
constexpr uint32_t kShortChainRanks = 9;
// Each lane walks through all steps on every rank, which costs 60 ns for each step, so 15 us for
// this many.
constexpr uint32_t kLongestChain = 256;
// The root pays p - 1 messages against log2 p. The tree is better while a block takes less time
// than a message; for larger blocks it does not pay that inner ranks store and forward them.
constexpr uint64_t kBinomialGatherBlockBytes = 16 * 1024;
constexpr uint32_t kBinomialGatherRanks = 4;
// log2 p messages of p / 2 blocks against p - 1 messages (the value used by MPICH and Open MPI).
constexpr uint64_t kBruckBlockBytes = 256;
constexpr uint32_t kBruckRanks = 8;

// Groups that span hosts with several ranks each (m is the most on a host, H the number of hosts).
// Inside a host a message costs about a microsecond and 0.25 ns/B; between hosts it costs the same
// as above, and all ranks of a host share its link.
//
// Recursive doubling with partners on the same host first takes log2 m fewer steps there than
// leaders do, but sends m vectors on each of the log2 H links where leaders send one.
constexpr uint64_t kAlignedDoublingBytes = 8 * 1024;
// Leaders take log2 H messages between hosts, and columns 2 log2 H. But log2 m whole vectors pass
// through each leader, against less than one vector, twice; and if H is not a power of two, leaders
// send more vectors between hosts.
constexpr uint64_t kLeadersBytes = 128 * 1024;
// Along a chain of hosts a broadcast leaves each host once, and H messages of a lane pass until the
// chain is full, whereas the root's leader sends the broadcast log2 H times. In simulations for 8,
// 32 and 128 hosts with two ranks each, the times cross before 4, 8 and 32 lanes; this many bytes
// over log2 H, times H, are 5, 13 and 37 lanes.
constexpr uint64_t kHostChainBytes = 512 * 1024;
// Up to this many hosts may send their sums to the root's leader without making it the bottleneck
// for long.
constexpr uint32_t kReduceToLeaderHosts = 4;
// Columns are packed before they are sent and unpacked when they arrive. Once blocks are of this
// size, that costs as much as the additional messages of a ring.
constexpr uint64_t kHostRingBlockBytes = 64 * 1024;
// Sending a block by way of the same host costs it a second time, and saves m - 1 of m messages
// between hosts.
constexpr uint64_t kPackedBlockBytes = 4 * 1024;
// Bruck's algorithm takes a message of 12 us for each step. Of seven packed messages that are sent
// at once, the first costs 12 us and the others 2.4 us, so that one costs a third of a step.
constexpr uint32_t kPackedMessagesOfABruckStep = 3;
// But it sends the data from one host to another log2 p / 2 times, which costs as much as the
// packed message does from 5.7 KB on for 64 ranks, 3.8 KB for 256 and 2.9 KB for 1024.
constexpr uint64_t kPackedHostBytes = 3 * 1024;
// A rank that is alone on its host saves no messages. On a host with many times the ranks of
// another, going around the host first takes longer than the few messages between the two are
// worth.
constexpr uint32_t kPackedHostRatio = 8;

using Request = ProgramRequest;

// A requirement that not every request meets.
struct Need {
  std::string_view what;
  bool (*met)(const Request&);
  bool of_hosts = false;  // programs with this need are for ranks that span hosts
};
constexpr Need kEqualBlocks{"blocks of one size",
                            [](const Request& request) { return request.uniform; }};
constexpr Need kPowerOfTwo{"a number of ranks that is a power of two",
                           [](const Request& request) { return IsPowerOfTwo(request.ranks); }};

constexpr Need kHosts{"to know the ranks' hosts",
                      [](const Request& request) { return request.hosts != nullptr; }, true};
constexpr Need kCells{"hosts of which none has over 7 times the ranks of another",
                      [](const Request& request) {
                        return kHosts.met(request) && request.hosts->has_cell_for_each_rank();
                      },
                      true};
static_assert(HostLayout::kMostColumnsOfARank == 7);
constexpr Need kHostsAndEqualBlocks{
    "blocks of one size, and to know the ranks' hosts",
    [](const Request& request) { return kHosts.met(request) && kEqualBlocks.met(request); }, true};

// `make` is called for two or more ranks, after CheckRequest() has passed and if the need is met.
// MakeProgram() adds what it leaves out (name, ranks, root).
struct Algorithm {
  Collective collective;
  std::string_view name;
  Program (*make)(const Request&);
  const Need* need = nullptr;
};

// In the order of the enum Collective.
constexpr auto kAlgorithms = [] {
  using enum Collective;
  return std::to_array<Algorithm>({
      {kAllreduce, "recursive_doubling", RecursiveDoublingAllreduce},
      {kAllreduce, "halving_doubling", HalvingDoublingAllreduce, &kPowerOfTwo},
      {kAllreduce, "circulant", CirculantAllreduce},
      {kAllreduce, "ring", RingAllreduce},
      {kAllreduce, "host_leaders", HostLeadersAllreduce, &kHosts},
      {kAllreduce, "host_columns", HostColumnsAllreduce, &kHosts},
      {kReduce, "binomial", BinomialReduce},
      {kReduce, "reduce_scatter_gather", ReduceScatterGatherReduce},
      {kReduce, "host_leaders", HostLeadersReduce, &kHosts},
      {kReduceScatter, "circulant", CirculantReduceScatter},
      {kReduceScatter, "ring", RingReduceScatter},
      {kReduceScatter, "host_columns", HostColumnsReduceScatter, &kCells},
      {kReduceScatter, "host_ring", HostRingReduceScatter, &kHosts},
      {kBroadcast, "binomial", BinomialBroadcast},
      {kBroadcast, "scatter_allgather", ScatterAllgatherBroadcast},
      {kBroadcast, "chain", ChainBroadcast},
      {kBroadcast, "host_leaders", HostLeadersBroadcast, &kHosts},
      {kBroadcast, "host_columns", HostColumnsBroadcast, &kHosts},
      {kAllgather, "circulant", CirculantAllgather},
      {kAllgather, "ring", RingAllgather},
      {kAllgather, "host_columns", HostColumnsAllgather, &kCells},
      {kAllgather, "host_ring", HostRingAllgather, &kHosts},
      {kGather, "binomial", BinomialGather, &kEqualBlocks},
      {kGather, "linear", LinearGather},
      {kScatter, "binomial", BinomialScatter, &kEqualBlocks},
      {kScatter, "linear", LinearScatter},
      {kAlltoall, "bruck", BruckAlltoall, &kEqualBlocks},
      {kAlltoall, "pairwise", PairwiseAlltoall},
      {kAlltoall, "host_columns", HostAlltoall, &kHostsAndEqualBlocks},
      {kBarrier, "dissemination", DisseminationBarrier},
      {kBarrier, "host_leaders", HostLeadersBarrier, &kHosts},
      {kSend, "direct", DirectSend},
      {kRecv, "direct", DirectRecv},
  });
}();

static_assert(std::ranges::is_sorted(kAlgorithms, {}, &Algorithm::collective));

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kAlgorithms)> names;
  std::ranges::transform(kAlgorithms, names.begin(), &Algorithm::name);
  return names;
}();

std::string_view AllreduceName(const Request& request, bool ring) {
  const uint32_t ranks = request.ranks;
  const uint64_t small = ranks == 2 ? kDirectExchangeBytes : kRecursiveDoublingBytes;
  if (request.bytes <= small) return "recursive_doubling";
  if (ring) return "ring";
  return IsPowerOfTwo(ranks) ? "halving_doubling" : "circulant";
}

// Whether Bruck's algorithm is used instead of sending each block separately.
bool TakesBruck(const Request& request, uint64_t block_bytes) {
  return request.uniform && request.ranks >= kBruckRanks && block_bytes <= kBruckBlockBytes;
}

bool TakesChain(uint32_t ranks, uint64_t block_bytes) {
  return block_bytes >= (ranks <= kShortChainRanks ? kShortChainBlockBytes : kChainBlockBytes) &&
         ranks <= kLongestChain;
}

// For two or more ranks.
std::string_view FlatNameBySize(const Request& request) {
  const uint32_t ranks = request.ranks;
  const uint64_t block_bytes = request.bytes / ranks;
  const bool ring = ranks > 2 && block_bytes >= kRingBlockBytes;
  const bool binomial = ranks == 2 || request.bytes <= kBinomialBytes;
  switch (request.collective) {
    case Collective::kAllreduce:
      return AllreduceName(request, ring);
    case Collective::kReduce:
      return binomial ? "binomial" : "reduce_scatter_gather";
    case Collective::kReduceScatter:
    case Collective::kAllgather:
      return ring ? "ring" : "circulant";
    case Collective::kBroadcast:
      if (binomial) return "binomial";
      return TakesChain(ranks, block_bytes) ? "chain" : "scatter_allgather";
    case Collective::kGather:
    case Collective::kScatter:
      return request.uniform && ranks >= kBinomialGatherRanks &&
                     block_bytes <= kBinomialGatherBlockBytes
                 ? "binomial"
                 : "linear";
    case Collective::kAlltoall:
      return TakesBruck(request, block_bytes) ? "bruck" : "pairwise";
    case Collective::kBarrier:
      return "dissemination";
    case Collective::kSend:
    case Collective::kRecv:
      return "direct";
  }
  return {};
}

// Whether partners at distance 1, 2, ... m / 2 share a host, and the others have the same number on
// their hosts.
bool DoublingKeepsToHosts(const HostLayout& hosts) {
  return hosts.in_order() && hosts.even() && IsPowerOfTwo(hosts.ranks());
}

std::string_view HostAllreduceName(const Request& request) {
  const HostLayout& hosts = *request.hosts;
  const uint64_t extra_vectors = (hosts.most_on_a_host() - 1) * CeilLog2(hosts.hosts());
  if (DoublingKeepsToHosts(hosts) && request.bytes <= kAlignedDoublingBytes / extra_vectors) {
    return "recursive_doubling";
  }
  const uint32_t vectors = CeilLog2(hosts.most_on_a_host()) * (IsPowerOfTwo(hosts.hosts()) ? 1 : 2);
  return request.bytes <= kLeadersBytes / vectors ? "host_leaders" : "host_columns";
}

std::string_view HostBroadcastName(const Request& request) {
  const uint32_t hosts = request.hosts->hosts();
  const bool chain = hosts > 2 && hosts <= kLongestChain &&
                     request.bytes / hosts >= kHostChainBytes / CeilLog2(hosts);
  return chain ? "host_columns" : "host_leaders";
}

// Packs between hosts whose sizes do not differ too much. If blocks are so small that Bruck's
// algorithm is the alternative, it packs only if each rank sends few messages between hosts (H - 1
// with equally many ranks on each), or if each of these messages carries much.
bool PacksAlltoall(const Request& request, uint64_t block_bytes) {
  if (!kHostsAndEqualBlocks.met(request) || block_bytes > kPackedBlockBytes) return false;
  const HostLayout& hosts = *request.hosts;
  const uint32_t most = hosts.most_on_a_host(), fewest = hosts.fewest_on_a_host();
  if (fewest == 1 || most > kPackedHostRatio * fewest) return false;
  if (!TakesBruck(request, block_bytes)) return true;
  const uint32_t messages = (request.ranks - 1) / fewest;
  return messages <= kPackedMessagesOfABruckStep * CeilLog2(request.ranks) ||
         uint64_t{most} * fewest * block_bytes >= kPackedHostBytes;
}

// For ranks that span hosts. Empty if a flat program is better, or the only choice.
std::string_view HostNameBySize(const Request& request) {
  const uint64_t block_bytes = request.bytes / request.ranks;
  switch (request.collective) {
    case Collective::kAllreduce:
      return HostAllreduceName(request);
    case Collective::kReduce:
      return request.bytes <= kBinomialBytes || request.hosts->hosts() <= kReduceToLeaderHosts
                 ? "host_leaders"
                 : "";
    case Collective::kReduceScatter:
      if (block_bytes >= kRingBlockBytes) return "host_ring";
      return kCells.met(request) ? "host_columns" : "";
    case Collective::kAllgather:
      if (block_bytes >= kHostRingBlockBytes) return "host_ring";
      return kCells.met(request) ? "host_columns" : "";
    case Collective::kBroadcast:
      return HostBroadcastName(request);
    case Collective::kAlltoall:
      return PacksAlltoall(request, block_bytes) ? "host_columns" : "";
    case Collective::kBarrier:
      return "host_leaders";
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kSend:
    case Collective::kRecv:
      return "";
  }
  return "";
}

// For two or more ranks.
std::string_view NameBySize(const Request& request) {
  if (request.hosts != nullptr && request.hosts->spans_hosts()) {
    const std::string_view name = HostNameBySize(request);
    if (!name.empty()) return name;
  }
  return FlatNameBySize(request);
}

Status Refuse(const Request& request, const std::string& why) {
  return {StatusCode::kInvalidArgument, std::string(ToString(request.collective)) + ": " + why};
}

Status CheckRequest(const Request& request) {
  if (Status status = CheckRanks(request.ranks); !status.ok()) {
    return Refuse(request, status.message());
  }
  if (request.root >= request.ranks) {
    return Refuse(request, "root or peer " + std::to_string(request.root) + " of " +
                               std::to_string(request.ranks) + " ranks");
  }
  if (IsPointToPoint(request.collective) && request.ranks == 1) {
    return Refuse(request, "a group of one rank has no peer");
  }
  ROCECOLL_CHECK(request.hosts == nullptr || request.hosts->ranks() == request.ranks);
  return {};
}

}  // namespace

std::span<const std::string_view> AlgorithmNames(Collective collective) {
  const auto group = std::ranges::equal_range(kAlgorithms, collective, {}, &Algorithm::collective);
  return std::span(kNames).subspan(static_cast<size_t>(group.begin() - kAlgorithms.begin()),
                                   group.size());
}

Result<Program> MakeProgram(const ProgramRequest& request, std::string_view algorithm) {
  if (Status status = CheckRequest(request); !status.ok()) return status;
  const bool alone = request.ranks == 1;
  const auto row_of = [&](std::string_view name) {
    return std::ranges::find_if(kAlgorithms, [&](const Algorithm& candidate) {
      return candidate.collective == request.collective && candidate.name == name;
    });
  };
  auto found = row_of(algorithm);
  if (!algorithm.empty() && found == std::end(kAlgorithms)) {
    return Refuse(request, "no algorithm is named '" + std::string(algorithm) + "'");
  }
  const bool has_no_use = !algorithm.empty() && found->need != nullptr && found->need->of_hosts &&
                          request.hosts != nullptr && !request.hosts->spans_hosts();
  if (!alone && (algorithm.empty() || has_no_use)) found = row_of(NameBySize(request));
  if (!alone && found->need != nullptr && !found->need->met(request)) {
    return Refuse(request, std::string(found->name) + " needs " + std::string(found->need->what));
  }
  Program program = alone ? Local(request) : found->make(request);
  program.name = alone ? "local" : found->name;
  program.ranks = request.ranks;
  program.root = request.root;
  if (program.blocks == 0) program.blocks = request.ranks;
  return program;
}

}  // namespace rocecoll
