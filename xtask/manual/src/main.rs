//! Manual pages (`docs/man`), the book's page of the commands and shell completions (`docs/completions`): written from the command line that the executable
//! has, and from the sources of messages and settings.

mod command_pages;
mod completions;
mod introduction;
mod page;
mod phases_page;
mod reference_page;
mod settings_page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

/// Write the manual pages and shell completions.
#[derive(Debug, Parser)]
struct ManualOptions {
    /// Compare them with those in the repository, and write nothing
    #[arg(long)]
    check: bool,
}

/// Generated file, below the repository's root.
#[derive(Debug)]
struct GeneratedFile {
    path: PathBuf,
    text: String,
}

fn main() -> Result<ExitCode> {
    let options = ManualOptions::parse();
    let repository =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("the repository's root")?;
    let mut files = command_pages::all(repository)?;
    files.push(phases_page::page());
    files.push(settings_page::page(repository)?);
    files.push(reference_page::page()?);
    files.push(kubectl_plugin_page());
    files.extend(completions::all()?);
    let mut is_stale = false;
    for GeneratedFile { path, text } in files {
        let place = repository.join(&path);
        if options.check {
            if fs::read_to_string(&place).unwrap_or_default() != text {
                eprintln!("{} is stale; `cargo xtask man` writes it", path.display());
                is_stale = true;
            }
            continue;
        }
        let directory = place.parent().context("a file in a folder")?;
        fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
        fs::write(&place, text).with_context(|| format!("writing {}", place.display()))?;
    }
    Ok(if is_stale { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Return the manual page of the plugin of kubectl: that of the command that the plugin runs.
fn kubectl_plugin_page() -> GeneratedFile {
    let text = ".so man8/flameholder-fleet.8\n".to_owned();
    GeneratedFile { path: "docs/man/kubectl-flameholder.1".into(), text }
}
