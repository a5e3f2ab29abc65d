#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The native bed's counterpart of guest_init.sh: the same network and job, on this machine's kernel.
#
#   native_run.sh CONTROL STDOUT_FD STDERR_FD     runs the job
#   native_run.sh CONTROL undo                    takes away what that has added
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C
SOFTROCE_CONTROL=$1
# shellcheck source=/dev/null
. "$SOFTROCE_CONTROL/settings.0.sh"
# shellcheck source=scripts/softroce_bed/guest_network.sh
. "$SOFTROCE_CONTROL/guest_network.sh"
if [ "$2" = undo ]; then
  [ ! -e "$SOFTROCE_CONTROL/added" ] || network_down
  exit
fi
ulimit -l unlimited
network_up "" || exit 1
bash "$SOFTROCE_CONTROL/job.sh" </dev/null >&"$2" 2>&"$3"
echo $? >"$SOFTROCE_CONTROL/status.0"
