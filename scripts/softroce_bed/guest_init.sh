#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first process of a guest, the same in every virtual bed: makes the network, runs the job, leaves
# its exit status in the control directory, powers off.
#
# The bed boots it with the host's file system as root, read-only, and on the kernel's command line:
#   SOFTROCE_CONTROL  directory of the host with guest_init.sh (this), guest_network.sh, settings.N.sh
#                     and job.sh; it is mounted again here, at the same path and writable
#   SOFTROCE_SHARE    how: hostfs, or 9p with the tag `control`
#   SOFTROCE_GUEST    N, the number of this guest
#   SOFTROCE_STDOUT, SOFTROCE_STDERR   terminals that end in the runner's pipes, or, for an
#   SOFTROCE_TERMINAL                  interactive job, in its terminal
#   SOFTROCE_NIC      this guest's end of the wire between two guests; unset with one guest
# Kernel messages, and what this script has to complain about, go to the console.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
if [ $$ != 1 ]; then
  echo "guest_init.sh is for guests of scripts/softroce only" >&2
  exit 1
fi

power_off() {
  sync
  "$SOFTROCE_PYTHON" -I -S -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321FEDC)'
}

fail() {
  echo "softroce: guest $SOFTROCE_GUEST: $*" >/dev/console
  power_off
}

# What is in the host's /tmp stays visible; what is written there goes to memory.
make_scratch() {
  mount -t tmpfs tmpfs /run && mkdir -p /run/tmp/upper /run/tmp/work &&
    mount -t overlay overlay -o lowerdir=/tmp,upperdir=/run/tmp/upper,workdir=/run/tmp/work /tmp &&
    chmod 1777 /tmp
}

mount_control() {
  mkdir -p "$SOFTROCE_CONTROL"
  case $SOFTROCE_SHARE in
    hostfs) mount -t hostfs -o "$SOFTROCE_CONTROL" none "$SOFTROCE_CONTROL" ;;
    9p) mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 control "$SOFTROCE_CONTROL" ;;
    *) false ;;
  esac
}

# Those that programs rely on and the kernel leaves to user space.
make_links() {
  ln -sf /proc/self/fd /dev/fd && ln -sf fd/0 /dev/stdin && ln -sf fd/1 /dev/stdout &&
    ln -sf fd/2 /dev/stderr
}

mount_all() {
  mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t devtmpfs devtmpfs /dev &&
    mkdir -p /dev/shm /dev/pts && mount -t tmpfs tmpfs /dev/shm &&
    mount -t devpts devpts /dev/pts && make_links && make_scratch && mount_control
}

# Programs look up their own host name; no name server can be asked, so none is.
set_names() {
  local name=softroce$SOFTROCE_GUEST addresses number
  echo "$name" >/proc/sys/kernel/hostname
  read -ra addresses <<<"$SOFTROCE_ADDRESSES"
  printf '127.0.0.1 localhost\n::1 localhost\n' >/run/hosts
  if [ "$SOFTROCE_GUESTS" = 1 ]; then
    echo "127.0.0.1 $name" >>/run/hosts
  else
    for number in 0 1; do echo "${addresses[$number]} softroce$number" >>/run/hosts; done
  fi
  printf '%s: files\n' passwd group hosts services >/run/nsswitch.conf
  for name in hosts nsswitch.conf; do
    [ ! -e "/etc/$name" ] || mount --bind "/run/$name" "/etc/$name"
  done
}

# IPv6 prefers the kernel's own addresses to a route that names the interface, so those are moved
# behind the routes of the wire.
route_ipv6_over_wire() {
  local interface
  for interface in $SOFTROCE_INTERFACES; do
    ip -6 rule add preference 10 oif "$interface" lookup main
  done
  ip -6 rule add preference 100 lookup local
  ip -6 rule delete preference 0
}

run_job() {
  local status output errors deadline
  if [ -n "${SOFTROCE_TERMINAL:-}" ]; then
    {  # opened once, because the console of a virtual machine forgets its size when it is closed
      stty sane rows "$SOFTROCE_ROWS" columns "$SOFTROCE_COLUMNS"
      setsid -c bash "$SOFTROCE_CONTROL/job.sh"
    } <"$SOFTROCE_TERMINAL" >"$SOFTROCE_TERMINAL" 2>&1
    return
  fi
  # The job writes to pipes: to it this is no terminal. Bytes pass through unchanged.
  stty -F "$SOFTROCE_STDOUT" raw -echo
  stty -F "$SOFTROCE_STDERR" raw -echo
  exec 3> >(exec cat >"$SOFTROCE_STDOUT")
  output=$!
  exec 4> >(exec cat >"$SOFTROCE_STDERR")
  errors=$!
  bash "$SOFTROCE_CONTROL/job.sh" </dev/null >&3 2>&4 3>&- 4>&-
  status=$?
  exec 3>&- 4>&-
  # What the job left running in the background may hold the pipes; it must not hold up the end.
  deadline=$((SECONDS + 5))
  while kill -0 "$output" "$errors" 2>/dev/null && [ $SECONDS -lt $deadline ]; do sleep 0.02; done
  return $status
}

mount_all || fail "cannot mount the file systems"
exec </dev/null >/dev/console 2>&1
# shellcheck source=/dev/null
. "$SOFTROCE_CONTROL/settings.$SOFTROCE_GUEST.sh"
# shellcheck source=scripts/softroce_bed/guest_network.sh
. "$SOFTROCE_CONTROL/guest_network.sh"
set_names
ulimit -l unlimited
ulimit -n 65536
ip link set lo up
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
[ "$SOFTROCE_GUESTS" = 2 ] || route_ipv6_over_wire
network_up "${SOFTROCE_NIC:-}" || fail "cannot make the rxe devices"
run_job
echo $? >"$SOFTROCE_CONTROL/status.$SOFTROCE_GUEST"
power_off
