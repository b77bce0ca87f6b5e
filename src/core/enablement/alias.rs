//! Aliases: links from one unit name to another that systemd accepts.

use super::EnablementError;
use super::name::{NameKind, UnitName};
use super::tree::basename;

/// The unit that `name` is an alias of if it links to `target`; an instance that links to a template keeps
/// its instance string.
pub(super) fn named_by(name: &UnitName, target: &str) -> Option<UnitName> {
    let target = UnitName::parse(target).ok()?;
    if name.kind() == NameKind::Instance && target.kind() == NameKind::Template {
        target.with_instance(name.instance())
    } else {
        Some(target)
    }
}

/// True if systemd accepts a link from `alias` to `unit` as an alias.
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

/// Check a link between unit files that was found at `path`. A link to its own name is no alias either.
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

/// The path of the link that a word of `Alias=` asks for, relative to `/etc/systemd/system`. `None` if the
/// word is the unit's own name.
///
/// Besides unit names, `Alias=` accepts `TARGET.wants/UNIT` and `TARGET.requires/UNIT`, its use before
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

/// True if `name` in the `.wants` directory of `depending` may be a link to `unit`.
fn is_dependency(depending: &UnitName, name: &UnitName, unit: &UnitName) -> bool {
    let of_template = unit.kind() == NameKind::Template && name.template().as_ref() == Some(unit);
    match name.kind() {
        NameKind::Plain => name == unit,
        NameKind::Instance => name == unit || of_template,
        NameKind::Template => of_template && depending.kind() == NameKind::Template,
    }
}
