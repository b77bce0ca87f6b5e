//! Pages of the commands that operators call, in the order in which `--help` lists them.

use super::command_page::{CommandGroup, CommandPage};

/// All groups.
pub(crate) const GROUPS: [CommandGroup; 4] = [
    CommandGroup { heading: "Look at a host", pages: &LOOK },
    CommandGroup { heading: "Change a host", pages: &CHANGE },
    CommandGroup { heading: "Follow a source", pages: &FOLLOW },
    CommandGroup { heading: "Prepare and describe", pages: &PREPARE },
];

const LOOK: [CommandPage; 5] = [
    CommandPage {
        name: "plan",
        examples: &[
            (
                "flameholder plan --desired worker.json",
                "see what an update of this host would change, and if it reboots",
            ),
            (
                "flameholder plan --root tree --desired worker.yaml --exit-code",
                "compare a directory tree in a script",
            ),
        ],
        exit_status: &[
            (1, "failed, or printed a plan that cannot be applied"),
            (2, "with --exit-code: `apply` would change the disk"),
        ],
    },
    CommandPage {
        name: "status",
        examples: &[
            ("flameholder status", "see what runs, what boots next, and what the daemon does"),
            ("flameholder status --watch -o json", "follow the daemon, one document per phase"),
        ],
        exit_status: &[],
    },
    CommandPage {
        name: "verify",
        examples: &[
            ("flameholder verify", "compare the managed files with what was applied"),
            ("flameholder verify --repair", "repair the paths whose drift policy is `repair`"),
        ],
        exit_status: &[(2, "found drift that counts")],
    },
    CommandPage {
        name: "history",
        examples: &[("flameholder history -n 0 -o json", "export every event")],
        exit_status: &[],
    },
    CommandPage {
        name: "etc-diff",
        examples: &[("flameholder etc-diff", "see which local changes of /etc the next boot keeps")],
        exit_status: &[],
    },
];

const CHANGE: [CommandPage; 5] = [
    CommandPage {
        name: "apply",
        examples: &[
            (
                "flameholder apply --desired worker.json",
                "update this host; where that needs a reboot, the next one switches",
            ),
            (
                "flameholder apply --desired worker.json --reboot auto",
                "update it, and reboot as soon as nothing inhibits that",
            ),
            (
                "flameholder apply --root tree --desired worker.yaml",
                "write the files of a config into a directory tree",
            ),
        ],
        exit_status: &[],
    },
    CommandPage {
        name: "unstage",
        examples: &[("flameholder unstage", "keep the next reboot from switching to the staged deployment")],
        exit_status: &[],
    },
    CommandPage {
        name: "rollback",
        examples: &[("flameholder rollback --reboot auto", "go back to the previous generation now")],
        exit_status: &[],
    },
    CommandPage {
        name: "retry",
        examples: &[(
            "flameholder retry",
            "try a config again whose boot check failed, after its cause was mended",
        )],
        exit_status: &[],
    },
    CommandPage {
        name: "recover",
        examples: &[(
            "flameholder recover --root tree",
            "undo a change of a directory tree that was interrupted",
        )],
        exit_status: &[],
    },
];

const FOLLOW: [CommandPage; 3] = [
    CommandPage {
        name: "daemon",
        examples: &[
            ("systemctl enable --now flameholder-daemon.service", "follow the source that the settings name"),
            ("flameholder daemon --source dir:/etc/desired", "follow a directory of MachineConfigs"),
        ],
        exit_status: &[],
    },
    CommandPage {
        name: "adopt",
        examples: &[("flameholder adopt", "take this node over; nothing on it changes")],
        exit_status: &[],
    },
    CommandPage {
        name: "release",
        examples: &[("flameholder release", "give this node back before the agent is removed")],
        exit_status: &[],
    },
];

const PREPARE: [CommandPage; 2] = [
    CommandPage {
        name: "render",
        examples: &[(
            "flameholder render 00-base.yaml 50-ntp.yaml > worker.json",
            "merge MachineConfigs into the one that `apply` takes",
        )],
        exit_status: &[],
    },
    CommandPage {
        name: "version",
        examples: &[("flameholder version -o json", "record the versions of agent, worker and libostree")],
        exit_status: &[],
    },
];
