#!/bin/bash
## kola:
##   description: The first boot is completed with one reboot before the workload starts, which it does once.
##   # Two boots, emulated.
##   timeoutMin: 15
# A login is possible after the last unit of the first boot only (config.bu); flameholder itself makes the reboot before it.
set -xeuo pipefail
# shellcheck source=tests/kola/data/steps.sh
. "$KOLA_EXT_DATA/steps.sh"

flameholder verify || fatal "flameholder verify reports drift"
grep -qw kola=final /proc/cmdline || fatal "the kernel argument is missing"
[ "$(cat /var/kola-workload)" = final ] || fatal "the workload did not start exactly once with the final config: $(cat /var/kola-workload)"
[ ! -e /etc/ignition-machine-config-encapsulated.json ] || fatal "the encapsulated config still exists: the first boot is not complete"
