//! `flameholder render`: merge MachineConfigs, Ignition configs and Butane configs into a rendered one, as the
//! machine-config-controller does.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::input::{contents_fetcher, load_document, local_files, with_contents};
use crate::cli::inspect::fleet::{FleetPlace, prune};
use crate::cli::inspect::release::ReleaseImageArgs;
use crate::cli::output::document::DocumentNotation;
use crate::cli::output::terminal::{print_text, warn};
use crate::cli::output::words::counted;
use crate::cli::{CliError, CommandOutcome, artifact};
use crate::core::config::artifact::ArtifactRef;
use crate::core::config::decode;
use crate::core::config::ignition::remote_contents::{RemoteContents, UnresolvedConfig};
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::received;
use crate::core::config::received::ReferencedContents;
use crate::core::config::received::document_set::{DocumentSetError, is_document};
use crate::core::config::render::documents::name_documents;
use crate::core::config::render::{PoolName, ReleaseImages, RenderedName, render};
use crate::core::values::image::{ImageRef, ImageRefError};
use crate::core::values::refusal::{Refusal, RefusalList};
use crate::source::directory::config_files;

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// MachineConfigs, or Lists of them, Ignition configs or Butane configs, in JSON or YAML; a directory of them; `-` for standard
    /// input; or an artifact of such files in a registry, `oci://REGISTRY/REPOSITORY:TAG`
    #[arg(value_name = "FILE", required_unless_present = "prune")]
    files: Vec<PathBuf>,
    /// In a cluster without the machine-config-operator: remove the rendered configs that no pool and no node names
    #[arg(long, conflicts_with_all = ["files", "check", "output", "name"])]
    prune: bool,
    #[command(flatten)]
    place: FleetPlace,
    /// Pool name, the middle part of the rendered config's name
    #[arg(long, value_name = "NAME", default_value = "worker")]
    pool: PoolName,
    /// Name of the rendered config, in place of one with its digest
    #[arg(long, value_name = "NAME", conflicts_with = "pool")]
    name: Option<String>,
    /// Check the configs and their merge, and print a summary only
    #[arg(long, conflicts_with = "output")]
    check: bool,
    /// OS image of the release, in place of the osImageURL of the controller's base configs
    #[arg(long, value_name = "REF", value_parser = image_reference)]
    os_image: Option<String>,
    /// Image of the release that holds the extension packages
    #[arg(long, value_name = "REF", value_parser = image_reference)]
    extensions_image: Option<String>,
    #[command(flatten)]
    release: ReleaseImageArgs,
    /// Notation of the rendered config: JSON, which YAML parsers read too, unless asked for otherwise. A failure is a document
    /// of this notation as well, if it is given
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<DocumentNotation>,
}

pub(crate) fn run(args: &RenderArgs) -> Result<CommandOutcome, CliError> {
    if args.prune {
        return prune(&args.place);
    }
    let files = expanded(&args.files)?;
    let mut configs = Vec::new();
    for file in &files {
        configs.extend(load_configs(file)?);
    }
    let given = || ReleaseImages { os: args.os_image.clone(), extensions: args.extensions_image.clone() };
    let images = args.release.images()?.unwrap_or_else(given);
    let name = args.name.clone().map_or_else(|| RenderedName::OfPool(args.pool.clone()), RenderedName::Given);
    let refused = |source| CliError::Refused { file: "the merged config".to_owned(), source };
    let mut rendered = render(&configs, &name, &images).map_err(refused)?;
    if configs.iter().any(|config| config.replaces_paths) {
        rendered = name_documents(rendered, &configs);
    }
    if args.check {
        let (files, configs) = (counted(files.len(), "file"), counted(configs.len(), "config"));
        print_text(&format!("{configs} in {files}: no problems; merged into {}\n", rendered.name))?;
    } else {
        args.output.unwrap_or_default().print(&rendered.document)?;
    }
    Ok(CommandOutcome::Success)
}

/// Return the files, with those of a directory in its place.
fn expanded(named: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() { files.extend(config_files(path)?) } else { files.push(path.clone()) }
    }
    Ok(files)
}

/// Read the configs of one file, or of all documents of an artifact, and check each.
fn load_configs(file: &Path) -> Result<Vec<MachineConfig>, CliError> {
    let Some(name) = file.to_str().filter(|name| ArtifactRef::is_meant_by(name)) else {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let shown = file.display().to_string();
        let bytes = load_document(file)?;
        return checked_configs(&bytes, &shown, |remote| {
            let local = local_files(file);
            received::parse_all(&bytes, &name, ReferencedContents { local: &*local, remote })
        });
    };
    let artifact: ArtifactRef = name.parse()?;
    let files = artifact::pull(&artifact)?.files;
    let mut configs = Vec::new();
    for document in files.at_root().filter(|file| is_document(&file.path)) {
        let (name, bytes) = (&document.path, &document.contents);
        let parsed = checked_configs(bytes, &format!("{artifact}: {name}"), |remote| {
            received::parse_all(bytes, name, ReferencedContents { local: &files, remote })
        });
        configs.extend(parsed?);
    }
    if configs.is_empty() { Err(DocumentSetError::Empty(artifact.to_string()).into()) } else { Ok(configs) }
}

/// Parse the configs of a document, and check them. Unknown keys of an Ignition config, which the merge drops, are warned of on
/// standard error; those of a spec are refused.
fn checked_configs(
    bytes: &[u8],
    shown: &str,
    parse: impl Fn(&RemoteContents) -> Result<Vec<MachineConfig>, UnresolvedConfig>,
) -> Result<Vec<MachineConfig>, CliError> {
    let parsed = with_contents(&contents_fetcher(false)?, shown, parse)?;
    let configs = parsed.and_then(|configs| {
        let mut refused: Vec<Refusal> = configs.iter().flat_map(|config| &config.unknown).cloned().collect();
        // Fields in a list have the number of their object, which is not known here: the merge refuses such a config.
        if let [only] = configs.as_slice()
            && let Err(list) = decode::decode(only)
        {
            refused.extend_from_slice(list.as_slice());
        }
        RefusalList::or(refused, configs)
    });
    let configs = configs
        .map_err(|source| CliError::Refused { file: shown.to_owned(), source: source.placed_in(bytes) })?;
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
