//! Pages of the commands that operators call, in the order in which `--help` lists them.

use super::command_page::{CommandGroup, CommandPage, page};

/// All groups.
pub const GROUPS: [CommandGroup; 4] = [
    CommandGroup { heading: "Look at a host", pages: &LOOK },
    CommandGroup { heading: "Change a host", pages: &CHANGE },
    CommandGroup { heading: "Follow a source", pages: &FOLLOW },
    CommandGroup { heading: "Prepare and describe", pages: &PREPARE },
];

const LOOK: [CommandPage; 6] = [
    page(
        "plan",
        &[
            (
                "flameholder plan --desired worker.json",
                "see what an update of this host would change, and if it reboots",
            ),
            (
                "flameholder plan --root tree --desired worker.yaml --exit-code",
                "compare a directory tree in a script",
            ),
            (
                "flameholder plan --desired worker.json --explain /etc/chrony.conf",
                "see what becomes of one path, and why",
            ),
        ],
    )
    .exiting(&[
        (1, "failed, or printed a plan that cannot be applied"),
        (2, "with --exit-code: `apply` would change the disk"),
    ]),
    page(
        "status",
        &[
            ("flameholder status", "see what runs, what boots next, and what the daemon does"),
            ("flameholder status --watch -o json", "follow the daemon, one document per phase"),
            ("flameholder status --wait Done --timeout 30m", "wait in a script until an update is complete"),
        ],
    )
    .exiting(&[
        (0, "done; with --exit-code: the host is as desired; with --wait: it is in that state"),
        (1, "failed; with --exit-code: the host needs help; with --wait: it is blocked"),
        (75, "with --exit-code: the host is not as desired yet; with --timeout: the time is over"),
    ]),
    page(
        "verify",
        &[
            ("flameholder verify", "compare the managed files with what was applied"),
            ("flameholder verify --repair", "repair the paths whose drift policy is `repair`"),
        ],
    )
    .exiting(&[(2, "found drift that counts")]),
    page("history", &[("flameholder history -n 0 -o json", "export every event")]),
    page(
        "fleet",
        &[
            ("flameholder fleet --pool worker --watch", "follow the rollout of a pool"),
            ("flameholder fleet explain node-7", "see what happened to a node, and what it waits for"),
            ("flameholder fleet retry node-7", "let a node try its blocked target again"),
        ],
    ),
    page("etc-diff", &[("flameholder etc-diff", "see which local changes of /etc the next boot keeps")]),
];

const CHANGE: [CommandPage; 5] = [
    page(
        "apply",
        &[
            (
                "flameholder apply --desired worker.json",
                "update this host; a change that needs a reboot takes effect with the next one",
            ),
            (
                "flameholder apply --desired worker.json --reboot auto",
                "update it, and reboot as soon as nothing inhibits that",
            ),
            (
                "flameholder apply --root tree --desired worker.yaml",
                "write the files of a config into a directory tree",
            ),
            (
                "flameholder apply --desired worker.json --wait-lock=30m -o json",
                "update it in a script, behind a change that is under way",
            ),
        ],
    ),
    page(
        "unstage",
        &[("flameholder unstage", "keep the next reboot from switching to the staged deployment")],
    ),
    page(
        "rollback",
        &[
            ("flameholder rollback --reboot auto", "go back to the previous generation now"),
            ("flameholder rollback", "go back with the next reboot"),
        ],
    ),
    page(
        "retry",
        &[("flameholder retry", "try a config again whose boot check failed, after the cause was fixed")],
    ),
    page(
        "recover",
        &[
            ("flameholder recover", "do now what is done at each boot, after a command was killed"),
            ("flameholder recover --root tree", "undo a change of a directory tree that was interrupted"),
        ],
    ),
];

const FOLLOW: [CommandPage; 3] = [
    page(
        "daemon",
        &[
            ("systemctl enable --now flameholder-daemon.service", "follow the source that the settings name"),
            ("flameholder daemon --source dir:/etc/desired", "follow a directory of MachineConfigs"),
        ],
    ),
    page(
        "adopt",
        &[
            ("flameholder adopt", "take this node over; nothing on it changes, and no daemon is started"),
            ("flameholder adopt --source kube", "take it over, and follow the cluster from now on"),
        ],
    ),
    page("release", &[("flameholder release", "give this node back before the agent is removed")]),
];

const PREPARE: [CommandPage; 3] = [
    page(
        "render",
        &[
            (
                "flameholder render 00-base.yaml 50-ntp.yaml > worker.json",
                "merge MachineConfigs into the one that `apply` takes",
            ),
            ("flameholder render --check *.yaml", "check MachineConfigs before they are committed"),
        ],
    )
    .never_exiting(&[75]),
    page(
        "schema",
        &[("flameholder schema plan > plan.json", "save the schema of what `plan -o json` prints")],
    )
    .never_exiting(&[75, 78]),
    page("version", &[("flameholder version -o json", "record the versions of agent, worker and libostree")])
        .never_exiting(&[75, 78]),
];
