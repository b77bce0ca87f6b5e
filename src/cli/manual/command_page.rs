//! Page of a command.

/// Text of the manual on a command, besides its options.
#[derive(Debug)]
pub struct CommandPage {
    pub name: &'static str,
    /// Each with its purpose.
    pub examples: &'static [(&'static str, &'static str)],
    /// Exit codes that mean something else than in other commands.
    exit_status: &'static [(u8, &'static str)],
    /// Exit codes that the command never has.
    never: &'static [u8],
}

/// Commands that belong together.
#[derive(Debug)]
pub struct CommandGroup {
    pub heading: &'static str,
    pub pages: &'static [CommandPage],
}

/// Exit codes of all commands. A code of a page replaces the one here.
const EXIT_STATUS: [(u8, &str); 5] = [
    (0, "done"),
    (1, "failed or refused; the error says why, and what to do"),
    (64, "the command line is wrong"),
    (
        75,
        "try again: a lock is held, a boot check runs, the network failed, or the daemon follows another config",
    ),
    (78, "the config or a settings fragment is malformed; each problem has its field"),
];

/// Page of a command with the exit codes of all commands. Each example is a command line with its purpose.
pub(crate) const fn page(
    name: &'static str,
    examples: &'static [(&'static str, &'static str)],
) -> CommandPage {
    CommandPage { name, examples, exit_status: &[], never: &[] }
}

impl CommandPage {
    /// Add exit codes that mean something else than in other commands.
    pub(crate) const fn exiting(self, exit_status: &'static [(u8, &'static str)]) -> Self {
        Self { exit_status, ..self }
    }

    /// Take away exit codes that the command never has.
    pub(crate) const fn never_exiting(self, never: &'static [u8]) -> Self {
        Self { never, ..self }
    }

    /// Return the exit codes with their meanings, in order.
    #[must_use]
    pub fn exit_status(&self) -> Vec<(u8, &'static str)> {
        let is_common = |(code, _): &&(u8, &str)| {
            !self.never.contains(code) && self.exit_status.iter().all(|(own, _)| own != code)
        };
        let mut codes: Vec<_> =
            EXIT_STATUS.iter().filter(is_common).chain(self.exit_status).copied().collect();
        codes.sort_unstable();
        codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_a_page_replaces_the_common_one_or_takes_it_away() {
        let page = page("try", &[]).exiting(&[(2, "differs"), (0, "equal")]).never_exiting(&[75]);
        let codes = page.exit_status();
        assert_eq!(codes.iter().map(|(code, _)| *code).collect::<Vec<_>>(), [0, 1, 2, 64, 78]);
        assert_eq!(codes[0].1, "equal");
    }
}
