//! `flameholder render`

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::cli::input::{load_document, print_json};
use crate::cli::output::terminal::say;
use crate::cli::{CliError, Verdict};
use crate::core::config::machine_config;
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::render::{PoolName, ReleaseImages, render};
use crate::core::values::image::{ImageRef, ImageRefError};

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// A `MachineConfig` or a List of them, as JSON or YAML; `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The pool that the rendered config is named after
    #[arg(long, value_name = "NAME", default_value = "worker")]
    pool: PoolName,
    /// The release's OS image, for which the controller's own configs stand otherwise
    #[arg(long, value_name = "REF", value_parser = image_reference)]
    os_image: Option<String>,
    /// The release's image of extension packages
    #[arg(long, value_name = "REF", value_parser = image_reference)]
    extensions_image: Option<String>,
    /// How the rendered config is written
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: Notation,
}

/// What Kubernetes objects are written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Notation {
    /// One JSON document, which is YAML too
    #[default]
    Json,
}

pub(crate) fn run(args: &RenderArgs) -> Result<Verdict, CliError> {
    let mut configs = Vec::new();
    for file in &args.files {
        configs.extend(load_configs(file)?);
    }
    let images = ReleaseImages { os: args.os_image.clone(), extensions: args.extensions_image.clone() };
    let rendered = render(&configs, &args.pool, &images)
        .map_err(|source| CliError::Refused { file: format!("the config of pool {}", args.pool), source })?;
    match args.output {
        Notation::Json => print_json(&rendered.document)?,
    }
    Ok(Verdict::Fine)
}

/// Reads what one file holds; keys that the merge will drop are mentioned on standard error.
fn load_configs(file: &Path) -> Result<Vec<MachineConfig>, CliError> {
    let bytes = load_document(file)?;
    let shown = file.display().to_string();
    let configs = machine_config::parse_all(&bytes)
        .map_err(|source| CliError::Refused { file: shown.clone(), source })?;
    for config in &configs {
        for key in &config.ignition.unused {
            say(&format!(
                "warning: {shown}: {key} of {} is unknown to its Ignition version and is left out",
                config.name
            ));
        }
    }
    Ok(configs)
}

/// Checks a reference and keeps its spelling, which is what a config's reader expects to find.
fn image_reference(text: &str) -> Result<String, ImageRefError> {
    text.parse::<ImageRef>().map(|_| text.to_owned())
}
