#!/bin/bash
## kola:
##   description: With /var on a disk of its own, a generation is activated once that is mounted.
##   # Two boots; emulated and beside another guest up to seven minutes.
##   timeoutMin: 20
##   additionalDisks: ["2G:serial=var"]
set -xeuo pipefail
# shellcheck source=tests/kola/data/steps.sh
. "$KOLA_EXT_DATA/steps.sh"

await_boot_check
source=$(findmnt --noheadings --output SOURCE /var)
[ "$(realpath "$source")" = "$(realpath /dev/disk/by-id/virtio-var)" ] || fatal "/var is on $source"

case "${AUTOPKGTEST_REBOOT_MARK:-}" in
  "")
    write_config moved '[
     {"path": "/etc/kola/name", "mode": 420, "contents": {"source": "data:,moved"}},
     {"path": "/usr/local/bin/kola-name", "mode": 493, "contents": {"source": "data:,moved"}},
     {"path": "/var/kola/name", "mode": 420, "contents": {"source": "data:,moved"}}]' '["kola=moved"]'
    update_to moved
    ;;
  moved)
    flameholder verify || fatal "flameholder verify reports drift"
    for file in /etc/kola/name /usr/local/bin/kola-name /var/kola/name; do
      [ "$(cat "$file")" = moved ] || fatal "$file is not that of the config"
    done
    mounted=$(systemctl show --property=ActiveEnterTimestampMonotonic --value var.mount)
    activated=$(systemctl show --property=ExecMainStartTimestampMonotonic --value flameholder-activate.service)
    [ "$mounted" -gt 0 ] || fatal "/var is no unit"
    [ "$activated" -gt "$mounted" ] || fatal "activated at $activated, before the mount at $mounted"
    ;;
  *) fatal "unexpected mark: ${AUTOPKGTEST_REBOOT_MARK}" ;;
esac
