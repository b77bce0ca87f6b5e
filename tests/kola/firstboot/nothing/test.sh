#!/bin/bash
## kola:
##   description: A first boot that leaves nothing to complete takes no reboot.
set -xeuo pipefail
# shellcheck source=tests/kola/data/steps.sh
. "$KOLA_EXT_DATA/steps.sh"

flameholder verify || fatal "flameholder verify reports drift"
boots=$(journalctl --list-boots --quiet | wc --lines)
[ "$boots" = 1 ] || fatal "the host booted $boots times"
[ "$(cat /var/kola-workload)" = final ] || fatal "the workload did not start exactly once: $(cat /var/kola-workload)"
[ ! -e /etc/ignition-machine-config-encapsulated.json ] || fatal "the encapsulated config still exists: the first boot is not complete"
