//! Which names may stand for which units.

use super::EnablementError;
use super::name::{NameKind, UnitName};
use super::tree::basename;

/// The unit that a name stands for when it is a link to `target`: an instance keeps its instance.
pub(super) fn named_by(name: &UnitName, target: &str) -> Option<UnitName> {
    let target = UnitName::parse(target).ok()?;
    if name.kind() == NameKind::Instance && target.kind() == NameKind::Template {
        target.with_instance(name.instance())
    } else {
        Some(target)
    }
}

/// Whether a link from one unit to the other is an alias that systemd would honour.
fn is_valid(alias: &UnitName, unit: &UnitName) -> bool {
    let kinds_fit = match (alias.kind(), unit.kind()) {
        (NameKind::Instance, NameKind::Template) => true,
        (NameKind::Instance, NameKind::Instance) => alias.instance() == unit.instance(),
        (alias, unit) => alias == unit,
    };
    alias.may_have_aliases()
        && (alias.kind() == NameKind::Plain || alias.may_be_template())
        && kinds_fit
        && alias.unit_type() == unit.unit_type()
}

/// Checks a link between unit files that was found at `path`. One to its own name leads nowhere.
pub(super) fn ensure_link(unit: &UnitName, path: &str, target: &str) -> Result<(), EnablementError> {
    let invalid = || EnablementError::InvalidLink { unit: unit.clone(), target: target.to_owned() };
    let source = UnitName::parse(basename(path)).map_err(|_| invalid())?;
    let destination = UnitName::parse(basename(target)).map_err(|_| invalid())?;
    if source == destination {
        Err(EnablementError::LinkInConfig { unit: unit.clone() })
    } else if is_valid(&source, &destination) {
        Ok(())
    } else {
        Err(invalid())
    }
}

/// The link that a word of `Alias=` asks for, relative to `/etc/systemd/system`. None for the
/// unit's own name.
///
/// Besides names, `Alias=` takes `TARGET.wants/UNIT` and `TARGET.requires/UNIT`, from before
/// `WantedBy=` existed.
pub(super) fn link_for(unit: &UnitName, word: &str) -> Result<Option<String>, EnablementError> {
    let invalid = || EnablementError::InvalidAlias { unit: unit.clone(), alias: word.to_owned() };
    if let Some((directory, name)) = word.rsplit_once('/') {
        let depending = directory
            .strip_suffix(".wants")
            .or_else(|| directory.strip_suffix(".requires"))
            .ok_or_else(invalid)?;
        let depending = UnitName::parse(depending).map_err(|_| invalid())?;
        let name = UnitName::parse(name).map_err(|_| invalid())?;
        return if is_dependency(&depending, &name, unit) {
            Ok(Some(word.to_owned()))
        } else {
            Err(invalid())
        };
    }
    let alias = UnitName::parse(word).map_err(|_| invalid())?;
    let alias = match (alias.kind(), unit.kind()) {
        (NameKind::Template, NameKind::Instance) => {
            alias.with_instance(unit.instance()).ok_or_else(invalid)?
        }
        _ => alias,
    };
    if alias == *unit {
        Ok(None)
    } else if is_valid(&alias, unit) {
        Ok(Some(alias.to_string()))
    } else {
        Err(invalid())
    }
}

/// Whether `name` in a `.wants` directory of `depending` may be a link to `unit`.
fn is_dependency(depending: &UnitName, name: &UnitName, unit: &UnitName) -> bool {
    let of_template = unit.kind() == NameKind::Template && name.template().as_ref() == Some(unit);
    match name.kind() {
        NameKind::Plain => name == unit,
        NameKind::Instance => name == unit || of_template,
        NameKind::Template => of_template && depending.kind() == NameKind::Template,
    }
}
