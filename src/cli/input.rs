//! Input of commands: configs from files or standard input (`-`), and the tree given by `--root`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::cli::CliError;
use crate::cli::output::terminal::{say, write_out};
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::{document, machine_config};
use crate::core::plan::plain_ignition;
use crate::core::values::foreign_text::escaped_json;
use crate::core::values::limits;
use crate::core::values::refusal::RefusalList;
use crate::host::Root;
use crate::host::facts::boot;
use crate::transaction::state::current::DecodedConfig;

/// Characters that a note shows of an Ignition version.
const SHOWN_VERSION: usize = 16;

/// Read and parse a MachineConfig, or an Ignition config in place of one. An Ignition config, unknown keys, and a
/// size that a cluster cannot store, are pointed out on standard error.
pub(crate) fn load_configuration(file: &Path) -> Result<DecodedConfig, CliError> {
    load_parsed(file, DecodedConfig::decode)
}

/// Read and parse a MachineConfig like [`load_configuration`], one that was applied already.
pub(crate) fn load_applied_configuration(file: &Path) -> Result<DecodedConfig, CliError> {
    load_parsed(file, DecodedConfig::decode_applied)
}

fn load_parsed(
    file: &Path,
    decode: fn(MachineConfig) -> Result<DecodedConfig, RefusalList>,
) -> Result<DecodedConfig, CliError> {
    let bytes = load_document(file)?;
    let shown = display_name(file);
    let configuration = parse_object(&bytes, &shown).and_then(decode);
    let configuration = configuration.map_err(|source| CliError::Refused { file: shown.clone(), source })?;
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

/// Parse a MachineConfig, or the one that stands for an Ignition config, which is pointed out.
fn parse_object(bytes: &[u8], shown: &str) -> Result<MachineConfig, RefusalList> {
    let document = document::parse(bytes)?;
    let Some(version) = plain_ignition::version(&document) else {
        return machine_config::parse_document(document);
    };
    say(&format!(
        "note: {shown} is an Ignition config (version {}), not a MachineConfig; it is taken as the spec.config of one",
        version.chars().take(SHOWN_VERSION).filter(|c| !c.is_control()).collect::<String>()
    ));
    let carrier = plain_ignition::carrier(document)?;
    // From its text, because the recorded form has to be readable too.
    let object = machine_config::parse(carrier.document.to_string().as_bytes())?;
    if carrier.is_served {
        say(&format!("note: {shown} comes from a config server: its MachineConfig {} is taken", object.name));
    }
    for name in &carrier.left_out {
        say(&format!("warning: {shown}: {name} is of use to Ignition only, and is not applied"));
    }
    Ok(object)
}

/// Return the name of an input in messages.
fn display_name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// Read a document up to the accepted size. Standard input is cut one byte beyond, where the parser refuses
/// it.
pub(crate) fn load_document(file: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::Input { file: display_name(file), source };
    if file.to_str().is_some_and(|name| name.starts_with("https://") || name.starts_with("http://")) {
        let reason = "URLs are not supported; save the document, and give the file or `-` for standard input";
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

/// Print the document of `-o json`.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), CliError> {
    let mut text = serde_json::to_string_pretty(document).expect("keys of a document are strings");
    text.push('\n');
    write_out(&escaped_json(&text))
}
