# SPDX-License-Identifier: Apache-2.0
# The wire and the rxe devices on it; sourced with the variables of wire.py in the environment.
# shellcheck shell=bash

# Both ends may be in one network namespace, because rxe works in no other than the first. The kernel
# delivers between two of its own addresses over the loopback; a route that names the interface, and
# accepting one's own address as a source, send it over the wire instead.
prepare_end() {
  local interface=$1 own=$2 peer=$3 own6=$4 peer6=$5
  ip address add "$own/32" dev "$interface"
  ip -6 address add "$own6/128" dev "$interface" nodad noprefixroute
  ip link set "$interface" mtu "$SOFTROCE_MTU_BYTES" up
  echo 0 >"/proc/sys/net/ipv4/conf/$interface/rp_filter"
  echo 1 >"/proc/sys/net/ipv4/conf/$interface/accept_local"
  ip route add "$peer" dev "$interface" src "$own"
  ip -6 route add "$peer6" dev "$interface" src "$own6"
  # shellcheck disable=SC2086
  [ -z "$SOFTROCE_NETEM" ] || tc qdisc add dev "$interface" root netem $SOFTROCE_NETEM
}

# The index of a GID. Entries come and go with addresses, so it has to be looked for, and for a moment
# after an address was added it is not there yet.
gid_index() {
  local gids=/sys/class/infiniband/$1/ports/1/gids gid index deadline=$((SECONDS + 10))
  while [ $SECONDS -lt $deadline ]; do
    for ((index = 0; index < 16; index++)); do
      if { read -r gid <"$gids/$index"; } 2>/dev/null && [ "$gid" = "$2" ]; then
        echo "$index"
        return
      fi
    done
    sleep 0.02
  done
  echo "no GID $2 on $1 within 10 s" >&2
  return 1
}

# Between two ends in one guest: each knows the other's hardware address from the start. Asking for it
# takes the first connection a second, since the kernel's RDMA part misses an answer that comes at once
# and looks again only when its second is over; on a wire that loses packets it may fail altogether.
introduce_ends() {
  local number other hardware
  for number in 0 1; do
    other=$((1 - number))
    hardware=$(cat "/sys/class/net/${interfaces[$other]}/address") || return
    ip neigh replace "${addresses[$other]}" lladdr "$hardware" dev "${interfaces[$number]}" || return
    ip neigh replace "${addresses6[$other]}" lladdr "$hardware" dev "${interfaces[$number]}" || return
  done
}

# Takes away what network_up has added, and nothing else.
network_down() {
  local kind name
  while read -r kind name; do
    case $kind in
      device) rdma link delete "$name" ;;
      interface) ip link delete "$name" ;;
    esac
  done < <(tac "$SOFTROCE_CONTROL/added")
}

# With NIC empty both ends are made here, otherwise NIC is this guest's end.
network_up() {
  local nic=$1 interface device number own index index6 indexes=() indexes6=()
  local devices interfaces addresses addresses6 gids gids6
  read -ra devices <<<"$SOFTROCE_DEVICES"
  read -ra interfaces <<<"$SOFTROCE_INTERFACES"
  read -ra addresses <<<"$SOFTROCE_ADDRESSES"
  read -ra addresses6 <<<"$SOFTROCE_ADDRESSES6"
  read -ra gids <<<"$SOFTROCE_GIDS"
  read -ra gids6 <<<"$SOFTROCE_GIDS6"
  if [ -z "$nic" ]; then
    ip link add "${interfaces[0]}" type veth peer name "${interfaces[1]}" || return
    echo "interface ${interfaces[0]}" >>"$SOFTROCE_CONTROL/added"
  else
    ip link set "$nic" name "${interfaces[0]}" || return
  fi
  for number in "${!interfaces[@]}"; do
    interface=${interfaces[$number]} device=${devices[$number]}
    own=$((SOFTROCE_GUESTS == 1 ? number : SOFTROCE_GUEST))
    prepare_end "$interface" "${addresses[$own]}" "${addresses[1 - own]}" \
      "${addresses6[$own]}" "${addresses6[1 - own]}" || return
    rdma link add "$device" type rxe netdev "$interface" || return
    echo "device $device" >>"$SOFTROCE_CONTROL/added"
  done
  [ -n "$nic" ] || introduce_ends || return
  for number in "${!devices[@]}"; do
    own=$((SOFTROCE_GUESTS == 1 ? number : SOFTROCE_GUEST))
    index=$(gid_index "${devices[$number]}" "${gids[$own]}") || return
    index6=$(gid_index "${devices[$number]}" "${gids6[$own]}") || return
    indexes+=("$index") indexes6+=("$index6")
  done
  export SOFTROCE_GID_INDEXES=${indexes[*]} SOFTROCE_GID_INDEXES6=${indexes6[*]}
}
