//! Consent to the installation of software on this machine.

use std::io::{IsTerminal, Write};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages::listing;
use crate::project_tree::ProjectTree;

/// The state of the consent before the first question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallConsent {
    /// Given by `--yes`, or by `CI` in the environment.
    Given,
    /// Not given yet: standard input is a terminal, so a question can be answered.
    Ask,
    /// Not given, and no terminal to ask on.
    Withheld,
}

impl InstallConsent {
    /// Determine the consent from `yes`, `CI` and standard input.
    pub fn from_environment(yes: bool) -> Self {
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        Self::derive(yes || ci, std::io::stdin().is_terminal())
    }

    fn derive(given: bool, terminal: bool) -> Self {
        match (given, terminal) {
            (true, _) => Self::Given,
            (false, true) => Self::Ask,
            (false, false) => Self::Withheld,
        }
    }

    /// Return the command that installs a subcommand of cargo, after consent. Such a program works on few files here:
    /// unoptimized, it is built in half the time.
    ///
    /// # Errors
    /// The consent is not given; the error shows the command.
    pub fn to_subcommand(self, tree: &ProjectTree, name: &str) -> Result<Command> {
        let program = format!("cargo-{name}");
        let install = tree.cargo(&["install", "--locked", "--debug", &program]);
        let missing = || format!("{program} is not installed");
        self.ensure(&listing(std::slice::from_ref(&install), "")).with_context(missing)?;
        Ok(install)
    }

    /// Ask, if necessary, for the consent to run `commands`, one per line.
    ///
    /// # Errors
    /// The consent is not given; the error shows the commands.
    pub fn ensure(self, commands: &str) -> Result<()> {
        match self {
            Self::Given => Ok(()),
            Self::Withheld => bail!("run these commands, or use --yes:\n{commands}"),
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
    fn question_needs_a_terminal() {
        assert_eq!(InstallConsent::derive(true, true), InstallConsent::Given);
        assert_eq!(InstallConsent::derive(true, false), InstallConsent::Given);
        assert_eq!(InstallConsent::derive(false, true), InstallConsent::Ask);
        assert_eq!(InstallConsent::derive(false, false), InstallConsent::Withheld);
    }

    #[test]
    fn error_without_consent_shows_the_commands() {
        let error = InstallConsent::Withheld.ensure("  apt-get update").unwrap_err();
        assert!(error.to_string().contains("apt-get update"));
    }
}
