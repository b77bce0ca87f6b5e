//! Input of commands: configs from files or standard input (`-`), and the tree given by `--root`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::cli::output::terminal::{note, warn};
use crate::cli::server_access::{ServerAccessArgs, block_on};
use crate::cli::{CliError, artifact};
use crate::core::config::artifact::ArtifactRef;
use crate::core::config::butane::{LocalFiles, NoLocalFiles};
use crate::core::config::ignition::remote_contents::{RemoteContents, UnresolvedConfig};
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::received;
use crate::core::config::received::document_set::merge_artifact;
use crate::core::config::received::{IgnitionOrigin, ReceivedObject, ReferencedContents};
use crate::core::config::settings::server_url::{ServerUrl, is_url};
use crate::core::config::settings::source::SourceName;
use crate::core::values::limits;
use crate::core::values::refusal::RefusalList;
use crate::host::Root;
use crate::host::facts::boot;
use crate::host::local_directory::LocalDirectory;
use crate::source::contents_fetcher::ContentsFetcher;
use crate::source::directory;
use crate::transaction::state::current::DecodedConfig;

/// Characters that a note shows of an Ignition version.
const SHOWN_VERSION: usize = 16;

/// Read and parse the desired config: a MachineConfig, or an Ignition or Butane config in place of one, in a file or on a server;
/// or those of a directory, or of an artifact in a registry, merged as by the daemon.
/// An Ignition config, unknown keys, and a size that a cluster cannot store, are pointed out on standard error.
/// What it names by URL and hash is fetched, and kept for the next command where the running host `is_target` of a change.
pub(crate) fn load_configuration(
    file: &Path,
    access: &ServerAccessArgs,
    is_target: bool,
) -> Result<DecodedConfig, CliError> {
    let contents = contents_fetcher(is_target)?;
    match file.to_str() {
        Some(name) if ArtifactRef::is_meant_by(name) => load_artifact(name, &contents),
        Some(url) if is_url(url) => {
            let address: ServerUrl = url.parse().map_err(|error| CliError::Usage(format!("{error}")))?;
            let stem = received::stem_of(address.last_element());
            let document =
                InputDocument { bytes: &access.fetch(&address)?, shown: url, stem, file: Path::new("-") };
            document.decoded(&contents, DecodedConfig::decode)
        }
        name => match name.map(str::parse) {
            Some(Ok(SourceName::Directory(path))) => load_directory(&path, &contents),
            _ if file.is_dir() => load_directory(file, &contents),
            _ => load_file(file, &contents, DecodedConfig::decode),
        },
    }
}

/// Read a directory as the daemon reads it: its configs are merged, under the name that the daemon gives them.
fn load_directory(path: &Path, contents: &ContentsFetcher) -> Result<DecodedConfig, CliError> {
    let shown = path.display().to_string();
    let config = with_contents(contents, &shown, |remote| directory::read_config(path, remote))??;
    decode_merged(config, &shown)
}

fn load_artifact(name: &str, contents: &ContentsFetcher) -> Result<DecodedConfig, CliError> {
    let artifact: ArtifactRef = name.parse()?;
    let files = artifact::pull(&artifact)?.files;
    let config = with_contents(contents, name, |remote| merge_artifact(&artifact, &files, remote))??;
    decode_merged(config, name)
}

/// Decode what several documents were merged into.
fn decode_merged(config: MachineConfig, shown: &str) -> Result<DecodedConfig, CliError> {
    let refused = |source| CliError::Refused { file: shown.to_owned(), source };
    let configuration = DecodedConfig::decode(config).map_err(refused)?;
    warn_of_unused_keys(&configuration, shown);
    Ok(configuration)
}

/// Read and parse a MachineConfig like [`load_configuration`] from a file, one that was applied already.
pub(crate) fn load_applied_configuration(file: &Path) -> Result<DecodedConfig, CliError> {
    load_file(file, &contents_fetcher(false)?, DecodedConfig::decode_applied)
}

/// Checks of a config, which one that was applied already need not all pass.
type ConfigDecoder = fn(MachineConfig) -> Result<DecodedConfig, RefusalList>;

fn load_file(
    file: &Path,
    contents: &ContentsFetcher,
    decode: ConfigDecoder,
) -> Result<DecodedConfig, CliError> {
    let (bytes, shown) = (load_document(file)?, display_name(file));
    let stem = received::DEFAULT_STEM;
    InputDocument { bytes: &bytes, shown: &shown, stem, file }.decoded(contents, decode)
}

/// Create the fetcher of a command, which keeps what it fetched where the running host `is_target` of its change.
pub(crate) fn contents_fetcher(is_target: bool) -> Result<ContentsFetcher, CliError> {
    let root = Root::open(Path::new("/"))?;
    // Another user is refused later, with the reason.
    let keeps = is_target && rustix::process::geteuid().is_root();
    Ok(if keeps { ContentsFetcher::keeping(root) } else { ContentsFetcher::reading(root) })
}

/// Read the config `shown` with the contents that it names by URL and hash.
pub(crate) fn with_contents<T, E>(
    contents: &ContentsFetcher,
    shown: &str,
    read: impl Fn(&RemoteContents) -> Result<T, UnresolvedConfig<E>>,
) -> Result<Result<T, E>, CliError> {
    Ok(block_on(contents.read(read), || shown.to_owned())??)
}

/// Return the files that a Butane config may name: those below its own directory. One on standard input has none.
pub(crate) fn local_files(file: &Path) -> Box<dyn LocalFiles> {
    if file == Path::new("-") {
        return Box::new(NoLocalFiles);
    }
    Box::new(LocalDirectory::new(LocalDirectory::of_file(file)))
}

/// Document of a config.
struct InputDocument<'a> {
    bytes: &'a [u8],
    /// Its name in messages.
    shown: &'a str,
    /// Beginning of the config's name, if it has none.
    stem: &'a str,
    /// File with whose directory the local files are; `-` for none.
    file: &'a Path,
}

impl InputDocument<'_> {
    fn decoded(&self, contents: &ContentsFetcher, decode: ConfigDecoder) -> Result<DecodedConfig, CliError> {
        let Self { bytes, shown, stem, file } = *self;
        let refused = |source: RefusalList| CliError::Refused {
            file: shown.to_owned(),
            source: source.placed_in(bytes),
        };
        let received = with_contents(contents, shown, |remote| {
            let local = local_files(file);
            received::parse(bytes, stem, ReferencedContents { local: &*local, remote })
        })?;
        let ReceivedObject { config, ignition } = received.map_err(refused)?;
        if let Some(origin) = ignition {
            point_out(&origin, &config, shown);
        }
        let configuration = decode(config).map_err(refused)?;
        warn_of_unused_keys(&configuration, shown);
        if bytes.len() > limits::CLUSTER_BYTES {
            let (bytes, most) = (bytes.len(), limits::CLUSTER_BYTES);
            warn(&format!(
                "{shown} has {bytes} bytes; a rendered config in a cluster may have at most {most}"
            ));
        }
        Ok(configuration)
    }
}

fn warn_of_unused_keys(configuration: &DecodedConfig, shown: &str) {
    for key in &configuration.object.ignition.unused {
        warn(&format!("{shown}: {key} is unknown to its Ignition version and has no effect"));
    }
}

/// Point out that an Ignition config takes the place of a MachineConfig, and what of it is not applied.
fn point_out(origin: &IgnitionOrigin, config: &MachineConfig, shown: &str) {
    let IgnitionOrigin { version, is_butane, left_out, is_served } = origin;
    let version: String = version.chars().take(SHOWN_VERSION).filter(|c| !c.is_control()).collect();
    let kind = if *is_butane {
        format!("a Butane config for Ignition {version}")
    } else {
        format!("an Ignition config (version {version})")
    };
    note(&format!("{shown} is {kind}, not a MachineConfig; it is taken as the spec.config of one"));
    if *is_served {
        note(&format!("{shown} comes from a config server: its MachineConfig {} is taken", config.name));
    }
    for name in left_out {
        warn(&format!("{shown}: {name} is of use to Ignition only, and is not applied"));
    }
}

/// Return the name of an input in messages.
fn display_name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// Read a document up to the accepted size. Standard input is cut one byte beyond, where the parser refuses
/// it.
pub(crate) fn load_document(file: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::Input { file: display_name(file), source };
    if file.to_str().is_some_and(|name| is_url(name) || ArtifactRef::is_meant_by(name)) {
        let reason =
            "only `--desired` takes a URL; save the document, and give the file or `-` for standard input";
        return Err(CliError::Usage(format!("{}: {reason}", file.display())));
    }
    let mut bytes = Vec::new();
    let bound = limits::DOCUMENT_BYTES as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().lock().take(bound).read_to_end(&mut bytes).map_err(failed)?;
        return Ok(bytes);
    }
    let opened = File::open(file).map_err(failed)?;
    let length = opened.metadata().map_err(failed)?.len();
    if length >= bound {
        let reason = format!("the document has {length} bytes; the limit is {}", limits::DOCUMENT_BYTES);
        let source = RefusalList::one("", reason);
        return Err(CliError::Refused { file: file.display().to_string(), source });
    }
    opened.take(bound).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Open the plain tree of `--root` for writing; refuse the root of a booted OSTree host.
pub(crate) fn open_to_change(path: &Path) -> Result<Root, CliError> {
    if boot::is_booted_ostree(path) {
        let reason = "--root cannot be the root of the running OSTree host; leave the option out to change the running host";
        return Err(CliError::Usage(reason.to_owned()));
    }
    Ok(Root::open(path)?)
}
