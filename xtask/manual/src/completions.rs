//! Completions for bash, zsh and fish.

use std::path::Path;

use anyhow::{Context, Result};
use clap_complete::Shell;

use crate::GeneratedFile;

/// Folder of the completions.
const COMPLETIONS: &str = "docs/completions";

pub(crate) fn all() -> Result<Vec<GeneratedFile>> {
    let shells =
        [(Shell::Bash, "flameholder"), (Shell::Zsh, "_flameholder"), (Shell::Fish, "flameholder.fish")];
    let file = |(shell, name)| {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut flameholder::cli::command_line(), "flameholder", &mut text);
        let text = String::from_utf8(text).with_context(|| format!("the completion for {shell}"))?;
        Ok(GeneratedFile { path: Path::new(COMPLETIONS).join(name), text })
    };
    shells.into_iter().map(file).collect()
}
