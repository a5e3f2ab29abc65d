#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process in the initramfs of a qemu guest (busybox): loads the modules, makes the host's
# file system the root, read-only, and hands over to guest_init.sh in the control directory.
# SOFTROCE_* come from the kernel's command line.
bb=/bin/busybox

while read -r module; do
  $bb insmod "/modules/$module" || echo "softroce: cannot load $module"
done </modules/order
# Nothing may come to the file system while the guest sees it, so what was once read stays valid:
# cache=loose asks the host for a page or a name once only. That halves the time of `import torch`.
$bb mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=1048576,cache=loose host /host
exec $bb switch_root /host /bin/bash "$SOFTROCE_CONTROL/guest_init.sh"
