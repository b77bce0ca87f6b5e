//! Input of commands: configs from files or standard input (`-`), and the tree given by `--root`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::cli::CliError;
use crate::cli::output::terminal::{say, write_out};
use crate::core::values::limits;
use crate::core::values::refusal::RefusalList;
use crate::host::Root;
use crate::host::facts::boot;
use crate::transaction::state::current::DecodedConfig;

/// Read and parse a MachineConfig. Unknown keys, and a size that a cluster cannot store, are warned of on
/// standard error.
pub(crate) fn load_configuration(file: &Path) -> Result<DecodedConfig, CliError> {
    load_parsed(file, DecodedConfig::parse)
}

/// Read and parse a MachineConfig like [`load_configuration`], one that was applied already.
pub(crate) fn load_applied_configuration(file: &Path) -> Result<DecodedConfig, CliError> {
    load_parsed(file, DecodedConfig::parse_applied)
}

fn load_parsed(
    file: &Path,
    parse: fn(&[u8]) -> Result<DecodedConfig, RefusalList>,
) -> Result<DecodedConfig, CliError> {
    let bytes = load_document(file)?;
    let shown = file.display().to_string();
    let configuration = parse(&bytes).map_err(|source| CliError::Refused { file: shown.clone(), source })?;
    for key in &configuration.object.ignition.unused {
        say(&format!("warning: {shown}: {key} is unknown to its Ignition version and has no effect"));
    }
    if bytes.len() > limits::CLUSTER_BYTES {
        let (bytes, most) = (bytes.len(), limits::CLUSTER_BYTES);
        say(&format!(
            "warning: {shown} has {bytes} bytes; a rendered config in a cluster may have at most {most}"
        ));
    }
    Ok(configuration)
}

/// Read a document up to the accepted size. Standard input is cut one byte beyond, where the parser refuses
/// it.
pub(crate) fn load_document(file: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::Input { file: file.display().to_string(), source };
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

/// Print the document of `-o json`.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), CliError> {
    let mut text = serde_json::to_string_pretty(document).expect("keys of a document are strings");
    text.push('\n');
    write_out(&text)
}
