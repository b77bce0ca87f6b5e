//! Drop-ins of the daemon's unit: keys that a config may set, by a list of harmless ones.

/// Accepted keys by section; a trailing `*` accepts all keys that begin so.
const KEYS: [(&str, &[&str]); 2] = [
    ("Unit", &["After", "Description", "Documentation", "Wants"]),
    (
        "Service",
        &[
            "CPU*",
            "Environment",
            "EnvironmentFile",
            "IO*",
            "LimitNOFILE",
            "Log*",
            "Memory*",
            "Nice",
            "OOM*",
            "Tasks*",
        ],
    ),
];

/// The accepted keys, for messages.
pub(super) const ACCEPTED: &str = "After, Description, Documentation and Wants in [Unit]; CPU*, Environment, \
                                   EnvironmentFile, IO*, LimitNOFILE, Log*, Memory*, Nice, OOM* and Tasks* in \
                                   [Service]";

/// Return the first section or key in `text` that is not accepted, quoted.
pub(super) fn refused_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let (mut section, mut continued) = (String::new(), false);
    // systemd ends a line at each of these.
    for line in text.split(['\n', '\r', '\0']).map(str::trim) {
        let is_comment = line.starts_with(['#', ';']);
        if continued || is_comment || line.is_empty() {
            // A comment between continuation lines does not end the assignment.
            continued = continued && (is_comment || line.ends_with('\\'));
            continue;
        }
        continued = line.ends_with('\\');
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
            let is_known = KEYS.iter().any(|(known, _)| *known == section);
            if !is_known && !section.starts_with("X-") {
                return Some(format!("the section `[{section}]`"));
            }
            continue;
        }
        if section.starts_with("X-") {
            continue;
        }
        let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
            // The line may be anything, a secret too.
            return Some("a line without `=`".to_owned());
        };
        if !is_accepted(&section, key) {
            return Some(format!("`{key}`"));
        }
        if key == "EnvironmentFile" && !value.is_empty() && !value.starts_with('-') {
            return Some("`EnvironmentFile` without `-` before its path".to_owned());
        }
    }
    None
}

fn is_accepted(section: &str, key: &str) -> bool {
    let known = KEYS.iter().find(|(known, _)| *known == section);
    known.is_some_and(|(_, keys)| {
        keys.iter().any(|accepted| match accepted.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => key == *accepted,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_outside_the_list_is_named() {
        for (text, expected) in [
            ("", None),
            ("# x\n[Unit]\nAfter=a.service\nWants=a.service\n", None),
            ("[Service]\nEnvironment=A=1 \\\n# note\n  ExecStart=no\nMemoryMax=1G\nLimitNOFILE=9\n", None),
            ("[X-Site]\nOwner=me\n", None),
            ("[Service]\nExecStart=\n", Some("`ExecStart`")),
            ("[Service]\nNice=5\nRestart=no\n", Some("`Restart`")),
            ("[Service]\nNice=5\rUser=core\n", Some("`User`")),
            ("[Service]\nAfter=a.service\n", Some("`After`")),
            ("[Unit]\nConditionPathExists=/nowhere\n", Some("`ConditionPathExists`")),
            ("[Unit]\nConflicts=a.service\n", Some("`Conflicts`")),
            ("[Service]\nEnvironmentFile=-/etc/sysconfig/proxy\nEnvironmentFile=\n", None),
            (
                "[Service]\nEnvironmentFile=/etc/sysconfig/proxy\n",
                Some("`EnvironmentFile` without `-` before its path"),
            ),
            ("secret\n", Some("a line without `=`")),
            ("[Install]\nWantedBy=a.target\n", Some("the section `[Install]`")),
            ("Nice=5\n", Some("`Nice`")),
        ] {
            assert_eq!(refused_line(text.as_bytes()).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn message_lists_every_accepted_key() {
        for key in KEYS.iter().flat_map(|(_, keys)| *keys) {
            assert!(ACCEPTED.contains(key), "{key}");
        }
    }
}
