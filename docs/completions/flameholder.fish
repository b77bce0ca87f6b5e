# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_flameholder_global_optspecs
    string join \n q/quiet v/verbose color= h/help V/version
end

function __fish_flameholder_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_flameholder_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_flameholder_using_subcommand
    set -l cmd (__fish_flameholder_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c flameholder -n "__fish_flameholder_needs_command" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_needs_command" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_needs_command" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_needs_command" -s V -l version -d 'Print version'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "plan" -d 'Show what would change, why, and what it would disrupt; changes nothing'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "apply" -d 'Make a host, a tree or a sysroot match a configuration'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "status" -d 'Show deployments, generations and the state of the daemon'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "verify" -d 'Compare the disk with the record of the applied generation; repair drift'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "unstage" -d 'Discard the staged deployment; the next reboot boots the current one again'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "rollback" -d 'Go back to the previous generation'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "retry" -d 'Release the blocked target, which `status` names, so that it may be applied again'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "recover" -d 'Undo or complete an interrupted change; safe at any time'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "history" -d 'List what happened to this host and why: generations, updates, rollbacks, repairs'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "etc-diff" -d 'Show the changes of /etc that an update keeps, takes from the image, loses or refuses'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "fleet" -d 'Show the nodes of a cluster: what each does and waits for, blocked targets, slots, progress'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "render" -d 'Merge MachineConfigs into a rendered one, as the machine-config-controller does'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "schema" -d 'Print the JSON schema of a document that `-o json` prints'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "version" -d 'Print the versions of the agent, of its worker and of libostree'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "daemon" -d 'Keep the host at the config that a cluster, a directory or a server desires'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "adopt" -d 'Take a node over from the machine-config-daemon, as it is'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "release" -d 'Give a node back to the machine-config-daemon, as it is'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "activate" -d 'Early in boot: put the generation\'s files outside /etc in place'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "finalize" -d 'At shutdown: finalize the staged deployment together with its configuration'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "confirm-boot" -d 'After boot: run the boot check, then confirm the generation or roll it back'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "firstboot" -d 'Before kubelet starts for the first time: complete what Ignition began'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "work" -d 'For the daemon: do one job on the host, read from standard input'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "introduce" -d 'In a pod: lend the token of the pod\'s service account to the daemon on the host'
complete -c flameholder -n "__fish_flameholder_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l desired -d 'The desired config, a MachineConfig, Ignition config or Butane config in JSON or YAML; a directory of them, which are merged as by the daemon; `-` for standard input; its address on a server, such as `https://HOST:22623/config/worker`; or an artifact in a registry, `oci://REGISTRY/REPOSITORY:TAG`' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l os-image -d 'Take this OS image instead of the one that the config names' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l profile -d 'Rules that decide which changes can be applied' -r -f -a "mcd\t'Accept exactly the changes that the machine-config-daemon accepts'
native\t'Accept those of `mcd`, and also directories, links and appended contents'"
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l server-ca -d 'Check the server of a URL with the CAs of this file (PEM), instead of those of the system' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l server-pin -d 'Also demand that the server has this public key, spelled `sha256//BASE64`; may be repeated' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l client-certificate -d 'Identify to the server with this certificate (PEM)' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l client-key -d 'Private key of that certificate (PEM), readable by its owner only' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l token-file -d 'Send the server the bearer token in this file, which is read for each request; with the source `kube`, identify with it in place of the user of --kubeconfig' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l root -d 'Work on a plain directory tree, which has no operating system to change, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l sysroot -d 'Work on an OSTree sysroot that is not booted, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l current -d 'The current config, compared instead of the one that was applied last' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l os-backend -d 'Program that changes OS image and packages of the running host; default: as the settings say, else `auto`' -r -f -a "auto\t'rpm-ostreed if the host has it, else libostree'
libostree\t'libostree alone: layered packages and overrides stay as they are'
rpm-ostree\t'rpm-ostreed for image, packages and overrides; libostree for the rest'"
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l policy -d 'Take the node disruption policy from this MachineConfiguration' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l show-contents -d 'Show contents of files and units, and output of health checks, which can hold secrets: to root on a terminal, or with `yes` anywhere; never with `-o json`' -r -f -a "terminal\t'On a terminal, to root'
yes\t'Wherever standard output goes'"
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l explain -d 'Explain this path instead: each source that names it, which one wins, and what becomes of it' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l first-boot -d 'Use the machine-config-daemon\'s built-in disruption table, as on a first boot'
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l exit-code -d 'Exit with 2 if `apply` would change the disk, drift that it undoes included'
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l summary -d 'Show the verdict and counts, and no paths'
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l diff -d 'Show also at which lines contents change; with --show-contents, the lines'
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -l fetch-size -d 'Ask the registry how much of a new OS image the update fetches; needs network'
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l desired -d 'The desired config, a MachineConfig, Ignition config or Butane config in JSON or YAML; a directory of them, which are merged as by the daemon; `-` for standard input; its address on a server, such as `https://HOST:22623/config/worker`; or an artifact in a registry, `oci://REGISTRY/REPOSITORY:TAG`' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l os-image -d 'Take this OS image instead of the one that the config names' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l profile -d 'Rules that decide which changes can be applied' -r -f -a "mcd\t'Accept exactly the changes that the machine-config-daemon accepts'
native\t'Accept those of `mcd`, and also directories, links and appended contents'"
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l server-ca -d 'Check the server of a URL with the CAs of this file (PEM), instead of those of the system' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l server-pin -d 'Also demand that the server has this public key, spelled `sha256//BASE64`; may be repeated' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l client-certificate -d 'Identify to the server with this certificate (PEM)' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l client-key -d 'Private key of that certificate (PEM), readable by its owner only' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l token-file -d 'Send the server the bearer token in this file, which is read for each request; with the source `kube`, identify with it in place of the user of --kubeconfig' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l root -d 'Work on a plain directory tree, which has no operating system to change, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l sysroot -d 'Work on an OSTree sysroot that is not booted, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l os-backend -d 'Program that changes OS image and packages of the running host; default: as the settings say, else `auto`' -r -f -a "auto\t'rpm-ostreed if the host has it, else libostree'
libostree\t'libostree alone: layered packages and overrides stay as they are'
rpm-ostree\t'rpm-ostreed for image, packages and overrides; libostree for the rest'"
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l reboot -d 'Reboot the running host into the staged deployment; without effect on a tree or on a sysroot that is not booted' -r -f -a "never\t'Never: any later reboot switches to the staged deployment'
auto\t'If the change needs it; inhibitor locks are waited for, and after ten minutes (setting `reboot.inhibitor-timeout`) the command fails'
insist\t'If the change needs it; inhibitor locks are overruled after that time'"
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l wait-lock -d 'Wait for the lock if another command, the daemon or another program holds it, for ten minutes or as long as given' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l locked -d 'Keep the staged deployment locked: no reboot switches to it until the same command is called without this'
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l override-source -d 'Go on although the daemon of this host follows a source that desires another config'
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -l override-policy -d 'Unlock the staged deployment, and reboot if --reboot says so, although a reboot policy is set: it has no grant'
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand apply" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -l root -d 'Work on a plain directory tree, which has no operating system to change, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -l sysroot -d 'Work on an OSTree sysroot that is not booted, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -l wait -d 'Wait until the state is this one, such as `Done` (see flameholder-phases(7)); exit with 1 if it is or becomes Blocked instead' -r -f -a "Observing\t''
Idle\t''
Fetching\t''
Preparing\t''
AwaitingGrant\t''
Draining\t''
Applying\t''
Unlocking\t''
Rebooting\t''
ShuttingDown\t''
CheckingBoot\t''
RollingBack\t''
Verifying\t''
Uncordoning\t''
Done\t''
Drifted\t''
Blocked\t''
BackingOff\t''
Stopping\t''
Interrupted\t''
Staged\t''
Degraded\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -l timeout -d 'Exit with 75 if the state is not reached within this time, such as `30m`; default: no limit' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -l show-contents -d 'Show contents of files and units, and output of health checks, which can hold secrets: to root on a terminal, or with `yes` anywhere; never with `-o json`' -r -f -a "terminal\t'On a terminal, to root'
yes\t'Wherever standard output goes'"
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -l watch -d 'Print the status again whenever the phase of the daemon or the boot check changes'
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -l exit-code -d 'Exit with 0 if the host is as desired, with 1 if it does not get there by itself, and with 75 in between'
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -l root -d 'Work on a plain directory tree, which has no operating system to change, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -l sysroot -d 'Work on an OSTree sysroot that is not booted, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -l show-contents -d 'Show contents of files and units, and output of health checks, which can hold secrets: to root on a terminal, or with `yes` anywhere; never with `-o json`' -r -f -a "terminal\t'On a terminal, to root'
yes\t'Wherever standard output goes'"
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -l wait-lock -d 'Wait for the lock if another command, the daemon or another program holds it, for ten minutes or as long as given' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -l repair -d 'Repair drift of paths whose drift policy is `repair`, and report the rest'
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -l diff -d 'Show at which lines the contents of drifted files differ; with --show-contents, the lines'
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand unstage" -l wait-lock -d 'Wait for the lock if another command, the daemon or another program holds it, for ten minutes or as long as given' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand unstage" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand unstage" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand unstage" -l force -d 'Discard the staged deployment of another program as well'
complete -c flameholder -n "__fish_flameholder_using_subcommand unstage" -l override-source -d 'Go on although the daemon of this host follows a source that desires another config than the running one'
complete -c flameholder -n "__fish_flameholder_using_subcommand unstage" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand unstage" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand unstage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -l sysroot -d 'Work on an OSTree sysroot that is not booted, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -l reboot -d 'Reboot the running host into the staged deployment; without effect on a tree or on a sysroot that is not booted' -r -f -a "never\t'Never: any later reboot switches to the staged deployment'
auto\t'If the change needs it; inhibitor locks are waited for, and after ten minutes (setting `reboot.inhibitor-timeout`) the command fails'
insist\t'If the change needs it; inhibitor locks are overruled after that time'"
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -l wait-lock -d 'Wait for the lock if another command, the daemon or another program holds it, for ten minutes or as long as given' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -l locked -d 'Keep the staged deployment locked: no reboot switches to it until the same command is called without this'
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -l override-source -d 'Go on although the daemon of this host follows a source that desires another config'
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand rollback" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand retry" -l wait-lock -d 'Wait for the lock if another command, the daemon or another program holds it, for ten minutes or as long as given' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand retry" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand retry" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand retry" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand retry" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand retry" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand recover" -l root -d 'Work on a plain directory tree, which has no operating system to change, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand recover" -l sysroot -d 'Work on an OSTree sysroot that is not booted, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand recover" -l wait-lock -d 'Wait for the lock if another command, the daemon or another program holds it, for ten minutes or as long as given' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand recover" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand recover" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand recover" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand recover" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand recover" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand history" -l root -d 'Work on a plain directory tree, which has no operating system to change, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand history" -l sysroot -d 'Work on an OSTree sysroot that is not booted, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand history" -s n -l lines -d 'Show this number of events, the newest; 0 for all' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand history" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand history" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand history" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand history" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand etc-diff" -l sysroot -d 'Read an OSTree sysroot that is not booted, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand etc-diff" -l to -d 'Deployment to merge with, by the first digits of its commit; default: the staged or pending one, or else the booted one, which shows local changes alone' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand etc-diff" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand etc-diff" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand etc-diff" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand etc-diff" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand etc-diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -l kubeconfig -d 'Kubeconfig of the cluster; of several, separated by colons, the first that exists; default: ~/.kube/config' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -l pool -d 'Show the nodes of this pool only' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -l graph -d 'Update graph (Cincinnati), an `https:` URL or a file: show which release follows those that the nodes run' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -l watch -d 'Show the fleet again whenever it changes'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -f -a "explain" -d 'Tell what happened to a node: its conditions and events, in the order of time'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -f -a "pause" -d 'Pause a pool: its nodes keep their configs'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -f -a "resume" -d 'Resume the rollout of a paused pool'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -f -a "retry" -d 'Release the blocked target of a node, so that its agent tries it again'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and not __fish_seen_subcommand_from explain pause resume retry help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from explain" -l kubeconfig -d 'Kubeconfig of the cluster; of several, separated by colons, the first that exists; default: ~/.kube/config' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from explain" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from explain" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from explain" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from pause" -l kubeconfig -d 'Kubeconfig of the cluster; of several, separated by colons, the first that exists; default: ~/.kube/config' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from pause" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from pause" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from pause" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from resume" -l kubeconfig -d 'Kubeconfig of the cluster; of several, separated by colons, the first that exists; default: ~/.kube/config' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from resume" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from resume" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from resume" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from retry" -l kubeconfig -d 'Kubeconfig of the cluster; of several, separated by colons, the first that exists; default: ~/.kube/config' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from retry" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from retry" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from retry" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from retry" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "explain" -d 'Tell what happened to a node: its conditions and events, in the order of time'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "pause" -d 'Pause a pool: its nodes keep their configs'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "resume" -d 'Resume the rollout of a paused pool'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "retry" -d 'Release the blocked target of a node, so that its agent tries it again'
complete -c flameholder -n "__fish_flameholder_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l kubeconfig -d 'Kubeconfig of the cluster; of several, separated by colons, the first that exists; default: ~/.kube/config' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l pool -d 'Pool name, the middle part of the rendered config\'s name' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l name -d 'Name of the rendered config, in place of one with its digest' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l os-image -d 'OS image of the release, in place of the osImageURL of the controller\'s base configs' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l extensions-image -d 'Image of the release that holds the extension packages' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l release -d 'Release image of a cluster: the config gets the OS image and the extensions image that it names' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l from-graph -d 'Update graph (Cincinnati), an `https:` URL or a file: the config gets the image of the release that follows --os-version' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l os-version -d 'Version that the hosts have, as the graph names it' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -s o -l output -d 'Notation of the rendered config: JSON, which YAML parsers read too, unless asked for otherwise. A failure is a document of this notation as well, if it is given' -r -f -a "json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l prune -d 'In a cluster without the machine-config-operator: remove the rendered configs that no pool and no node names'
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -l check -d 'Check the configs and their merge, and print a summary only'
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand render" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand schema" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand schema" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand schema" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand version" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand version" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand version" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand version" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l source -d 'Source of the desired config: `kube`; `dir:PATH`, a file or a directory of files; a document on a server, such as `https://HOST:22623/config/worker`; or an artifact in a registry, `oci://REGISTRY/REPOSITORY:TAG`' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l pool -d 'With the source `kube`, in a cluster without the machine-config-operator: follow the config of this MachineConfigPool, or with `BY-LABELS` of the one that selects the labels of this host\'s Node' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l kubeconfig -d 'Kubeconfig for reading configs and policies and for writing the MachineConfigNode; default: /var/lib/kubelet/kubeconfig' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l node-kubeconfig -d 'Kubeconfig for watching and annotating the Node and for sending events; default: that of --kubeconfig' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l node-name -d 'Name of this host\'s Node; default: the host name' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l namespace -d 'Namespace of the events about this Node; default: openshift-machine-config-operator' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l metrics -d 'Address to serve metrics at, or `off`; default: 127.0.0.1:8797 with the source `kube`, no metrics otherwise' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l profile -d 'Rules that decide which changes can be applied; default: `mcd` with the source `kube`, else `native`' -r -f -a "mcd\t'Accept exactly the changes that the machine-config-daemon accepts'
native\t'Accept those of `mcd`, and also directories, links and appended contents'"
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l server-ca -d 'Check the server of a URL with the CAs of this file (PEM), instead of those of the system' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l server-pin -d 'Also demand that the server has this public key, spelled `sha256//BASE64`; may be repeated' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l client-certificate -d 'Identify to the server with this certificate (PEM)' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l client-key -d 'Private key of that certificate (PEM), readable by its owner only' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l token-file -d 'Send the server the bearer token in this file, which is read for each request; with the source `kube`, identify with it in place of the user of --kubeconfig' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l poll-interval -d 'Mean time in seconds between two requests to the server of a URL or the registry of an artifact; default: 300' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l os-backend -d 'Program that changes OS image and packages of the running host; default: as the settings say, else `auto`' -r -f -a "auto\t'rpm-ostreed if the host has it, else libostree'
libostree\t'libostree alone: layered packages and overrides stay as they are'
rpm-ostree\t'rpm-ostreed for image, packages and overrides; libostree for the rest'"
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand daemon" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l config -d 'Take this config, with which Ignition installed the host, for its current one: a MachineConfig, Ignition config or Butane config; without it, the machine-config-daemon\'s is taken' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l source -d 'Start the daemon with this source of the desired config: `kube`, `dir:PATH`, a URL or `oci://…`; without it no daemon is started' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l kubeconfig -d 'Kubeconfig with which the daemon reads configs and policies from the cluster' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l node-kubeconfig -d 'Kubeconfig with which the daemon watches and annotates the Node' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l token-file -d 'File with the token with which the daemon identifies in place of the user of --kubeconfig' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l node-name -d 'Name of this host\'s Node' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l os-backend -d 'Program that changes OS image and packages of the running host; default: as the settings say, else `auto`' -r -f -a "auto\t'rpm-ostreed if the host has it, else libostree'
libostree\t'libostree alone: layered packages and overrides stay as they are'
rpm-ostree\t'rpm-ostreed for image, packages and overrides; libostree for the rest'"
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l wait-lock -d 'Wait for the lock if another command, the daemon or another program holds it, for ten minutes or as long as given' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -l repair -d 'Repair drift from the node\'s current config; without this option drift makes the command fail'
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand adopt" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand release" -l wait-lock -d 'Wait for the lock if another command, the daemon or another program holds it, for ten minutes or as long as given' -r
complete -c flameholder -n "__fish_flameholder_using_subcommand release" -s o -l output -d 'Form of the result; `flameholder schema` describes the documents' -r -f -a "text\t'Plain text, coloured on a terminal'
json\t'JSON'
yaml\t'YAML'"
complete -c flameholder -n "__fish_flameholder_using_subcommand release" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand release" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand release" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand activate" -l root -d 'Work on a plain directory tree, which has no operating system to change, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand activate" -l sysroot -d 'Work on an OSTree sysroot that is not booted, instead of the running host' -r -f -a "(__fish_complete_directories)"
complete -c flameholder -n "__fish_flameholder_using_subcommand activate" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand activate" -l after-mounts -d 'Complete the activation of the running host, once all file systems are mounted'
complete -c flameholder -n "__fish_flameholder_using_subcommand activate" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand activate" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand activate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand finalize" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand finalize" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand finalize" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand finalize" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand confirm-boot" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand confirm-boot" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand confirm-boot" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand confirm-boot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand firstboot" -l profile -d 'Rules that decide which changes can be applied' -r -f -a "mcd\t'Accept exactly the changes that the machine-config-daemon accepts'
native\t'Accept those of `mcd`, and also directories, links and appended contents'"
complete -c flameholder -n "__fish_flameholder_using_subcommand firstboot" -l os-backend -d 'Program that changes OS image and packages of the running host; default: as the settings say, else `auto`' -r -f -a "auto\t'rpm-ostreed if the host has it, else libostree'
libostree\t'libostree alone: layered packages and overrides stay as they are'
rpm-ostree\t'rpm-ostreed for image, packages and overrides; libostree for the rest'"
complete -c flameholder -n "__fish_flameholder_using_subcommand firstboot" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand firstboot" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand firstboot" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand firstboot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand work" -l os-backend -d 'Program that changes OS image and packages of the running host; default: as the settings say, else `auto`' -r -f -a "auto\t'rpm-ostreed if the host has it, else libostree'
libostree\t'libostree alone: layered packages and overrides stay as they are'
rpm-ostree\t'rpm-ostreed for image, packages and overrides; libostree for the rest'"
complete -c flameholder -n "__fish_flameholder_using_subcommand work" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand work" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand work" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand work" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand introduce" -l directory -d 'Directory of the node to copy the token to' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand introduce" -l account -d 'Directory in which the cluster puts the pod\'s token' -r -F
complete -c flameholder -n "__fish_flameholder_using_subcommand introduce" -l color -d 'Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too' -r -f -a "auto\t'On a terminal that shows them'
always\t'Into files and pipes as well'
never\t''"
complete -c flameholder -n "__fish_flameholder_using_subcommand introduce" -l once -d 'Exit after copying the token once, instead of again at each renewal'
complete -c flameholder -n "__fish_flameholder_using_subcommand introduce" -s q -l quiet -d 'Print the result and errors only: no progress, no warnings'
complete -c flameholder -n "__fish_flameholder_using_subcommand introduce" -s v -l verbose -d 'Also print debug messages'
complete -c flameholder -n "__fish_flameholder_using_subcommand introduce" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "plan" -d 'Show what would change, why, and what it would disrupt; changes nothing'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "apply" -d 'Make a host, a tree or a sysroot match a configuration'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "status" -d 'Show deployments, generations and the state of the daemon'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "verify" -d 'Compare the disk with the record of the applied generation; repair drift'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "unstage" -d 'Discard the staged deployment; the next reboot boots the current one again'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "rollback" -d 'Go back to the previous generation'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "retry" -d 'Release the blocked target, which `status` names, so that it may be applied again'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "recover" -d 'Undo or complete an interrupted change; safe at any time'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "history" -d 'List what happened to this host and why: generations, updates, rollbacks, repairs'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "etc-diff" -d 'Show the changes of /etc that an update keeps, takes from the image, loses or refuses'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "fleet" -d 'Show the nodes of a cluster: what each does and waits for, blocked targets, slots, progress'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "render" -d 'Merge MachineConfigs into a rendered one, as the machine-config-controller does'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "schema" -d 'Print the JSON schema of a document that `-o json` prints'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "version" -d 'Print the versions of the agent, of its worker and of libostree'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "daemon" -d 'Keep the host at the config that a cluster, a directory or a server desires'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "adopt" -d 'Take a node over from the machine-config-daemon, as it is'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "release" -d 'Give a node back to the machine-config-daemon, as it is'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "activate" -d 'Early in boot: put the generation\'s files outside /etc in place'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "finalize" -d 'At shutdown: finalize the staged deployment together with its configuration'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "confirm-boot" -d 'After boot: run the boot check, then confirm the generation or roll it back'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "firstboot" -d 'Before kubelet starts for the first time: complete what Ignition began'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "work" -d 'For the daemon: do one job on the host, read from standard input'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "introduce" -d 'In a pod: lend the token of the pod\'s service account to the daemon on the host'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and not __fish_seen_subcommand_from plan apply status verify unstage rollback retry recover history etc-diff fleet render schema version daemon adopt release activate finalize confirm-boot firstboot work introduce help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "explain" -d 'Tell what happened to a node: its conditions and events, in the order of time'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "pause" -d 'Pause a pool: its nodes keep their configs'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "resume" -d 'Resume the rollout of a paused pool'
complete -c flameholder -n "__fish_flameholder_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "retry" -d 'Release the blocked target of a node, so that its agent tries it again'
