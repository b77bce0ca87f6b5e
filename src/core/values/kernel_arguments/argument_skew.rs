//! Difference between the kernel arguments of a boot entry and those of the running kernel. A soft reboot boots another
//! deployment with the kernel, and the arguments, of the one before it.

use serde::{Deserialize, Serialize};

use super::{KernelArgument, KernelArguments};
use crate::core::values::paths::GENERATION_ARGUMENT;

/// Arguments that identify the boot entry, or that bootloaders add to it.
const NOT_CONFIGURED: [&str; 4] = ["ostree=", "BOOT_IMAGE=", "initrd=", GENERATION_ARGUMENT];

/// Changes to the kernel arguments that the next full reboot makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentSkew {
    /// Arguments of the boot entry that the running kernel lacks.
    pub added: KernelArguments,
    /// Arguments of the running kernel that the boot entry lacks.
    pub removed: KernelArguments,
}

impl ArgumentSkew {
    /// Compare a boot entry with the command line of the running kernel. Order does not count.
    #[must_use]
    pub fn between(entry: &KernelArguments, running: &KernelArguments) -> Self {
        let mut skew = Self { added: entry.subtract(running), removed: running.subtract(entry) };
        let is_configured =
            |argument: &KernelArgument| !NOT_CONFIGURED.iter().any(|key| argument.as_str().starts_with(key));
        skew.added.retain(is_configured);
        skew.removed.retain(is_configured);
        skew
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_lists_what_the_next_full_reboot_changes() {
        let entry =
            "root=LABEL=root quiet app=two console=a ostree=/ostree/boot.1/x/y/0 flameholder.generation=2";
        let running = "BOOT_IMAGE=/vmlinuz console=a root=LABEL=root quiet app=one ostree=/ostree/boot.0/x/y/0 flameholder.generation=1";
        for (entry, running, added, removed) in [
            (entry, running, "app=two", "app=one"),
            (entry, entry, "", ""),
            ("a a", "a", "a", ""),
            ("a", "a a", "", "a"),
            ("a b", "b a initrd=/x", "", ""),
        ] {
            let skew =
                ArgumentSkew::between(&KernelArguments::parse(entry), &KernelArguments::parse(running));
            assert_eq!([&skew.added, &skew.removed].map(ToString::to_string), [added, removed]);
            assert_eq!(skew.is_empty(), added.is_empty() && removed.is_empty());
        }
    }
}
