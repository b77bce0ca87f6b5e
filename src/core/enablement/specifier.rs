//! Expansion of the `%` specifiers that systemd.unit(5) allows in `[Install]`.

use super::name::{NameKind, UnitName};

/// The reason why a value cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecifierError {
    /// The specifier depends on the host that runs systemctl, so it has no meaning for a tree.
    #[error("%{specifier} in {value:?} depends on the running host, so it cannot be expanded for a tree")]
    HostFact { specifier: char, value: String },
    /// systemctl does not accept the specifier in `[Install]`, even if other sections may have it.
    #[error("%{specifier} in {value:?} is not allowed in [Install]")]
    Unknown { specifier: char, value: String },
}

/// Expand one word of `[Install]`. A template with a `DefaultInstance=` is expanded as that instance.
pub(super) fn expand(
    value: &str,
    unit: &UnitName,
    default_instance: Option<&str>,
) -> Result<String, SpecifierError> {
    let named = match (unit.kind(), default_instance) {
        (NameKind::Template, Some(instance)) => unit.with_instance(instance),
        _ => None,
    };
    let named = named.as_ref().unwrap_or(unit);
    let mut expanded = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            expanded.push(character);
            continue;
        }
        match characters.next() {
            None | Some('%') => expanded.push('%'),
            Some('n') => expanded.push_str(named.as_str()),
            Some('N') => expanded.push_str(named.stem()),
            Some('p') => expanded.push_str(unit.prefix()),
            Some('j') => expanded.push_str(last_component(unit.prefix())),
            Some('i') => expanded.push_str(named.instance()),
            // The system manager runs as root, for any calling user.
            Some('u' | 'g') => expanded.push_str("root"),
            Some('U' | 'G') => expanded.push('0'),
            Some(specifier) if "aAbBHlmMoqvwW".contains(specifier) => {
                return Err(SpecifierError::HostFact { specifier, value: value.to_owned() });
            }
            Some(specifier) if specifier.is_ascii_alphanumeric() => {
                return Err(SpecifierError::Unknown { specifier, value: value.to_owned() });
            }
            Some(other) => expanded.extend(['%', other]),
        }
    }
    Ok(expanded)
}

fn last_component(prefix: &str) -> &str {
    prefix.rsplit_once('-').map_or(prefix, |(_, last)| last)
}
