// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/host_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/random.h"
#include "base/system_error.h"

namespace rocecoll {
namespace {

constexpr uint64_t kMagic = 0x3174736865636f72;  // "rocehst1", for this version of the format
constexpr int kDescriptors = 2;

struct WireGreeting {
  uint64_t magic = kMagic;
  HostGreeting greeting;
};

// What came with a message besides its bytes.
struct Ancillary {
  pid_t process = 0;
  bool ours = false;  // the sender runs as our user
  std::array<Descriptor, kDescriptors> descriptors;
};

Ancillary Unpack(msghdr& message) {
  Ancillary found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(part), sizeof(sender));
      found.process = sender.pid;
      found.ours = sender.uid == ::geteuid();
    } else if (part->cmsg_type == SCM_RIGHTS) {
      const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
        Descriptor owned(descriptor);  // closed if there is no place for it
        if (i < found.descriptors.size()) found.descriptors[i] = std::move(owned);
      }
    }
  }
  return found;
}

// Whether a message may be sent later: the peer has to read first, there is no memory, or too many
// descriptors of our user are in flight (ETOOMANYREFS, unix(7)).
bool Passes(int error) {
  return error == EAGAIN || error == EINTR || error == ENOBUFS || error == ENOMEM ||
         error == ETOOMANYREFS;
}

}  // namespace

// unix(7): an abstract name begins with a zero byte.
HostSocketAddress::HostSocketAddress(const HostSocketName& name) {
  address.sun_family = AF_UNIX;
  char* path = address.sun_path + 1;
  const int length = std::snprintf(path, sizeof(address.sun_path) - 1, "rocecoll-%016llx%016llx",
                                   static_cast<unsigned long long>(name[0]),
                                   static_cast<unsigned long long>(name[1]));
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

Result<HostSocket> HostSocket::Open() {
  HostSocket made;
  made.name_ = {EntropyId(), EntropyId()};
  made.socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const HostSocketAddress own(made.name_);
  const int yes = 1;
  if (!made.socket_.valid() ||
      ::setsockopt(made.socket_, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) != 0 ||
      ::bind(made.socket_, own.generic(), own.size) != 0) {
    return SystemError("no Unix socket");
  }
  return made;
}

// The result does not matter: if the queue is full, the words in it wake the peer.
void HostSocket::wake(const HostSocketAddress& peer) const {
  const std::byte word{1};
  ::sendto(socket_, &word, sizeof(word), MSG_NOSIGNAL, peer.generic(), peer.size);
}

Result<bool> HostSocket::greet(HostSocketAddress peer, const HostGreeting& greeting, int ring,
                               int doorbell) const {
  WireGreeting wire;
  wire.greeting = greeting;
  iovec payload{&wire, sizeof(wire)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> space{};
  msghdr message{};
  message.msg_name = &peer.address;
  message.msg_namelen = peer.size;
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(kDescriptors * sizeof(int));
  const std::array<int, kDescriptors> descriptors{ring, doorbell};
  std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(descriptors));
  if (::sendmsg(socket_, &message, MSG_NOSIGNAL) >= 0) return true;
  if (Passes(errno)) return false;
  if (errno != ECONNREFUSED) return SystemError("cannot greet its process (sendmsg)");
  return Status(StatusCode::kNetwork, "its Unix socket does not answer");
}

std::optional<HostSocket::Received> HostSocket::receive() const {
  WireGreeting wire;
  iovec payload{&wire, sizeof(wire)};
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(kDescriptors * sizeof(int))>
          space{};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  const ssize_t size = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
  if (size < 0) return std::nullopt;
  Ancillary with = Unpack(message);
  Received received;
  if (size != sizeof(wire) || wire.magic != kMagic) return received;
  received.greeting = wire.greeting;
  if (!with.ours) {
    received.obstacle = "one of both runs as another user";
  } else if ((message.msg_flags & MSG_CTRUNC) != 0) {
    received.obstacle =
        "this process may not take what came with its greeting: too many open files (raise "
        "`ulimit -n`), or the system forbids it";
  } else if (!with.descriptors.back().valid()) {
    received.obstacle = "no descriptors came with its greeting";
  } else {
    received.process = with.process;
    received.ring = std::move(with.descriptors[0]);
    received.doorbell = std::move(with.descriptors[1]);
  }
  return received;
}

}  // namespace rocecoll
