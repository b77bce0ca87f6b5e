//! `flameholder render`: merge MachineConfigs into a rendered one, as the machine-config-controller does.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::cli::input::{load_document, print_json};
use crate::cli::output::terminal::warn;
use crate::cli::{CliError, CommandOutcome};
use crate::core::config::machine_config;
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::render::{PoolName, ReleaseImages, render};
use crate::core::values::image::{ImageRef, ImageRefError};
use crate::core::values::refusal::RefusalList;

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// MachineConfigs, or Lists of them, in JSON or YAML; `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Pool name, the middle part of the rendered config's name
    #[arg(long, value_name = "NAME", default_value = "worker")]
    pool: PoolName,
    /// OS image of the release, in place of the osImageURL of the controller's base configs
    #[arg(long, value_name = "REF", value_parser = image_reference)]
    os_image: Option<String>,
    /// Image of the release that holds the extension packages
    #[arg(long, value_name = "REF", value_parser = image_reference)]
    extensions_image: Option<String>,
    /// Notation of the rendered config
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: Notation,
}

/// Notation of a Kubernetes object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Notation {
    /// JSON, which YAML parsers read too
    #[default]
    Json,
}

pub(crate) fn run(args: &RenderArgs) -> Result<CommandOutcome, CliError> {
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
    Ok(CommandOutcome::Success)
}

/// Read the MachineConfigs of one file. Unknown keys of an Ignition config, which the merge drops, are warned of on standard
/// error; those of a spec are refused.
fn load_configs(file: &Path) -> Result<Vec<MachineConfig>, CliError> {
    let bytes = load_document(file)?;
    let shown = file.display().to_string();
    let configs = machine_config::parse_all(&bytes).and_then(|configs| {
        let unknown = configs.iter().flat_map(|config| &config.unknown);
        RefusalList::or(unknown.cloned().collect(), configs)
    });
    let configs = configs.map_err(|source| CliError::Refused { file: shown.clone(), source })?;
    for config in &configs {
        for key in &config.ignition.unused {
            warn(&format!(
                "{shown}: {key} of {} is unknown to its Ignition version and is left out",
                config.name
            ));
        }
    }
    Ok(configs)
}

/// Validate an image reference and return it unchanged: the rendered config carries it as it was given.
fn image_reference(text: &str) -> Result<String, ImageRefError> {
    text.parse::<ImageRef>().map(|_| text.to_owned())
}
