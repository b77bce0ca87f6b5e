//! Removal of the links of units.

use std::collections::BTreeSet;

use super::agenda::{ConfigLinks, LoadDepth, LoadState, UnitAgenda};
use super::name::UnitName;
use super::tree::{UnitTree, UnreadFiles, basename, config_path};
use super::{EnablementError, EnablementNote};

/// Remove the links of every unit on the agenda. A masked unit keeps its links; a unit that cannot be loaded
/// does not.
pub(super) fn apply(
    tree: &mut UnitTree<'_>,
    mut agenda: UnitAgenda,
    notes: &mut Vec<EnablementNote>,
) -> Result<(), EnablementError> {
    let mut marked = BTreeSet::new();
    while let Some(unit) = agenda.next() {
        match agenda.traverse(tree, &unit, LoadDepth::Install, ConfigLinks::Follow) {
            Err(EnablementError::NotRead(unread)) => return Err(unread.into()),
            Err(error) => {
                notes.push(EnablementNote::NotLoaded { unit: unit.clone(), error });
                marked.insert(unit.to_string());
            }
            Ok(_) => match agenda.entry(&unit).state {
                LoadState::Masked => notes.push(EnablementNote::MaskedSkipped { unit }),
                LoadState::Regular => {
                    marked.insert(unit.to_string());
                }
                LoadState::NotLoaded | LoadState::Alias { .. } | LoadState::Linked { .. } => {}
            },
        }
    }
    remove(tree, marked)?;
    Ok(())
}

/// Remove links that have a marked name or lead to one, then links that led through a removed link.
///
/// `marked` holds unit names, and the absolute paths of removed links.
fn remove(tree: &mut UnitTree<'_>, mut marked: BTreeSet<String>) -> Result<(), UnreadFiles> {
    while !marked.is_empty() {
        let mut doomed = Vec::new();
        let mut unread = UnreadFiles::default();
        for link in tree.links.keys() {
            match is_marked(tree, link, &marked) {
                Ok(true) => doomed.push(link.clone()),
                Ok(false) => {}
                Err(more) => unread.merge(more),
            }
        }
        if !unread.is_empty() {
            return Err(unread);
        }
        if doomed.is_empty() {
            break;
        }
        for link in doomed {
            tree.links.remove(&link);
            marked.insert(config_path(&link));
        }
    }
    Ok(())
}

/// True if the link's name or its final target is marked. A marked template also marks its instances.
fn is_marked(tree: &UnitTree<'_>, link: &str, marked: &BTreeSet<String>) -> Result<bool, UnreadFiles> {
    let Ok(name) = UnitName::parse(basename(link)) else {
        return Ok(false);
    };
    let by_name = |name: &UnitName| marked.contains(name.as_str());
    if by_name(&name) || name.template().as_ref().is_some_and(by_name) {
        return Ok(true);
    }
    let destination = tree.chase(&config_path(link))?;
    Ok(marked.contains(&destination) || marked.contains(basename(&destination)))
}
