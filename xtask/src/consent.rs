//! May this machine be changed?

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result, bail};

/// Whether software may be installed on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// `--yes`, or a CI machine, which is nobody's own.
    Given,
    /// Somebody sits at a terminal and can answer.
    Ask,
    /// Nobody was asked and nobody can be.
    Withheld,
}

impl Consent {
    /// Reads `CI` and looks at standard input.
    pub fn from_environment(yes: bool) -> Self {
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        Self::judge(yes || ci, std::io::stdin().is_terminal())
    }

    fn judge(given: bool, terminal: bool) -> Self {
        match (given, terminal) {
            (true, _) => Self::Given,
            (false, true) => Self::Ask,
            (false, false) => Self::Withheld,
        }
    }

    /// Returns once it is settled that `commands`, one per line, may run.
    ///
    /// # Errors
    /// They may not; the error shows the commands.
    pub fn ensure(self, commands: &str) -> Result<()> {
        match self {
            Self::Given => Ok(()),
            Self::Withheld => bail!("run this, or call again with --yes:\n{commands}"),
            Self::Ask => {
                print!("This would run:\n{commands}\nRun it now? [y/N] ");
                std::io::stdout().flush().context("asking")?;
                let mut answer = String::new();
                std::io::stdin().read_line(&mut answer).context("reading the answer")?;
                if matches!(answer.trim(), "y" | "Y" | "yes") {
                    return Ok(());
                }
                bail!("nothing was installed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_is_asked() {
        assert_eq!(Consent::judge(true, true), Consent::Given);
        assert_eq!(Consent::judge(true, false), Consent::Given);
        assert_eq!(Consent::judge(false, true), Consent::Ask);
        assert_eq!(Consent::judge(false, false), Consent::Withheld);
    }

    #[test]
    fn without_consent_the_commands_are_in_the_error() {
        let error = Consent::Withheld.ensure("  apt-get update").unwrap_err();
        assert!(error.to_string().contains("apt-get update"));
    }
}
