// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/port_deal.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "transport/transport.h"

namespace rocecoll {
namespace {

using Candidates = std::vector<PortCandidate*>;

// Sorts mlx5_2 before mlx5_10: the number at the end of a name is compared as a number.
std::tuple<std::string, size_t, std::string, uint32_t> InOrder(const PortCandidate& candidate) {
  const std::string& name = candidate.device;
  size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
  return {name.substr(0, digits), name.size(), name, candidate.port};
}

void Add(std::string& words, const std::string& word) {
  words += (words.empty() ? "" : ", ") + word;
}

// Keeps the candidates with the largest merit, and records in the others why they are left out.
template <typename Merit>
void KeepBest(Candidates& left, const Merit& merit, const std::string& why,
              const std::string& why_not) {
  if (left.empty()) return;
  const auto best =
      merit(**std::ranges::max_element(left, {}, [&](const auto* one) { return merit(*one); }));
  const auto worse = [&](const PortCandidate* one) { return merit(*one) < best; };
  if (std::ranges::none_of(left, worse)) return;
  for (PortCandidate* one : left) {
    if (worse(one)) {
      one->words = why_not;
    } else {
      Add(one->words, why);
    }
  }
  std::erase_if(left, worse);
}

std::string InGbit(uint32_t speed) { return std::to_string(speed) + " Gbit/s"; }

// An entry that names several devices selects the fastest of them.
void KeepFastest(Candidates& left) {
  std::map<size_t, uint32_t> fastest;
  for (const PortCandidate* one : left) {
    fastest[one->entry] = std::max(fastest[one->entry], one->speed_gbit_s);
  }
  const uint32_t most =
      std::ranges::max_element(fastest, {}, [](const auto& entry) { return entry.second; })->second;
  KeepBest(
      left, [&](const PortCandidate& one) { return one.speed_gbit_s == fastest[one.entry]; },
      "the fastest: " + InGbit(most), "slower than " + InGbit(most));
}

void KeepNearest(Candidates& left, const ProcessPlace& process) {
  const std::string what = process.accelerator_path.empty() ? "processors" : "accelerator";
  KeepBest(
      left, [&](const PortCandidate& one) { return Nearness(process, one.place); },
      "near this process's " + what, "farther from this process's " + what);
}

// The functions of a NIC share its port, so a second one adds nothing.
void KeepOneFunction(Candidates& left) {
  std::map<std::pair<std::string, uint32_t>, PortCandidate*> first;
  const auto key = [](const PortCandidate& one) { return std::pair(one.place.physical, one.port); };
  const auto merit = [](const PortCandidate& one) {
    return std::tuple(one.place.physical != one.place.pci_path, one.entry, InOrder(one));
  };
  for (PortCandidate* one : left) {
    PortCandidate*& best = first[key(*one)];
    if (best == nullptr || merit(*one) < merit(*best)) best = one;
  }
  std::erase_if(left, [&](PortCandidate* one) {
    const PortCandidate* best = first[key(*one)];
    if (one->place.physical.empty() || one == best) return false;
    one->words = "the same NIC as " + best->device;
    return true;
  });
}

// "0, 8, 16, ...": the local ranks to which the port at `place` is dealt, if `count` ports are
// dealt in turn.
std::string Turns(size_t place, size_t count) {
  std::string text;
  for (size_t turn = 0; turn < 3; ++turn) Add(text, std::to_string(place + turn * count));
  return text + ", ...";
}

size_t PortsOfEach(size_t ports, const DealRules& rules) {
  if (!rules.named || rules.local_ranks == 0) return 1;
  return std::min(ports / rules.local_ranks, RemoteSlice::kMaxPorts);
}

// Deals the ports in turn, up to the number that every rank can get.
void DealSeveral(const Candidates& left, size_t each, const DealRules& rules) {
  for (size_t i = 0; i < left.size(); ++i) {
    const size_t rank = i % rules.local_ranks;
    const size_t turn = i / rules.local_ranks;
    if (turn >= each) {
      Add(left[i]->words, "one more than the local ranks share out");
      continue;
    }
    if (rank == rules.local_rank % rules.local_ranks) left[i]->chosen = turn;
    Add(left[i]->words, "for local rank " + std::to_string(rank) + ", of whose " +
                            std::to_string(each) + " ports it is number " +
                            std::to_string(turn + 1));
  }
}

}  // namespace

void DealPorts(Candidates left, const ProcessPlace& process, const DealRules& rules) {
  if (left.empty()) return;
  KeepBest(
      left, [](const PortCandidate& one) { return one.routed; }, "its address is routed",
      "its address is link-local");
  if (!rules.named) {
    KeepBest(
        left, [](const PortCandidate& one) { return !one.place.software; }, "a NIC",
        "a program, and there is a NIC");
  }
  KeepFastest(left);
  KeepNearest(left, process);
  KeepOneFunction(left);
  std::ranges::sort(left, [](const PortCandidate* a, const PortCandidate* b) {
    if (a->entry != b->entry) return a->entry < b->entry;
    if (a->host_merit != b->host_merit) return a->host_merit > b->host_merit;
    return InOrder(*a) < InOrder(*b);
  });
  const size_t each = PortsOfEach(left.size(), rules);
  if (each > 1) return DealSeveral(left, each, rules);
  const size_t taken = rules.local_rank % left.size();
  for (size_t i = 0; i < left.size(); ++i) {
    if (i == taken) left[i]->chosen = 0;
    if (left.size() > 1) Add(left[i]->words, "for local ranks " + Turns(i, left.size()));
  }
}

}  // namespace rocecoll
