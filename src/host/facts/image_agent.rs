//! Agent that the OS image of a tree ships below `/usr`.

use crate::core::state::installation::image_agent::{
    FINALIZE_DROP_IN, IMAGE_COMMAND, IMAGE_UNITS, ImageAgent, VERSION_UNIT,
};
use crate::core::state::installation::unit_names;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileKind;
use crate::host::fs::error::HostError;
use crate::host::fs::root::Root;

/// Look for the agent of the image; `None` unless its executable and the units that activate and finalize are
/// all there. A link in place of the executable does not count: it may lead to an adopted copy.
pub fn load(root: &Root) -> Result<Option<ImageAgent>, HostError> {
    let command = root.status_of(&ManagedPath::constant(IMAGE_COMMAND))?;
    let is_executable =
        command.is_some_and(|command| command.kind == FileKind::File && command.attributes.mode & 0o111 != 0);
    if !is_executable || !root.exists(&unit_path(FINALIZE_DROP_IN))? {
        return Ok(None);
    }
    Ok(unit_text(root, VERSION_UNIT)?.map(|version_unit| ImageAgent { version_unit }))
}

/// Load the texts of the agent's units that the image ships.
pub fn load_units(root: &Root) -> Result<Vec<(&'static str, String)>, HostError> {
    let mut units = Vec::new();
    for name in unit_names() {
        units.extend(unit_text(root, name)?.map(|text| (name, text)));
    }
    Ok(units)
}

fn unit_path(name: &str) -> ManagedPath {
    ManagedPath::constant(&format!("{IMAGE_UNITS}/{name}"))
}

fn unit_text(root: &Root, name: &str) -> Result<Option<String>, HostError> {
    let text = root.read(&unit_path(name), limits::FRAGMENT_BYTES)?;
    Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}
