# Sourced by the tests: what several of them do. Not executable, so that kola takes it for no test.

# Fail, with the reason in the last line.
fatal() {
  echo "FAILED: $*" >&2
  exit 1
}

# Write the config $1 with the files $2, a list in JSON, the kernel arguments $3, another one, and the OS image $4 to
# /var/tmp/$1.json.
write_config() {
  cat > "/var/tmp/$1.json" << END
{"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": {"name": "$1"},
 "spec": {"osImageURL": "${4:-}", "kernelArguments": ${3:-[]}, "config": {"ignition": {"version": "3.4.0"}, "storage": {"files": $2}}}}
END
}

# Wait for the end of the boot check. kola logs in before: an update that needs a reboot would be refused until then.
await_boot_check() {
  for _ in $(seq 300); do
    systemctl is-active --quiet flameholder-confirm-boot.service || return 0
    sleep 1
  done
  flameholder status >&2
  fatal "the boot check did not end within 300 seconds"
}

# Stage the config $1, announce the reboot as $1, and reboot. What can fail comes before the announcement: after it, kola waits
# ten minutes for a reboot and gives no reason.
update_to() {
  flameholder apply --desired "/var/tmp/$1.json" || fatal "the config $1 is not staged"
  /tmp/autopkgtest-reboot-prepare "$1"
  exec flameholder apply --desired "/var/tmp/$1.json" --reboot auto
}
