//! Agent of an OS image, and the choice between it and an adopted copy. The copy's paths precede the image's
//! in every search path, so the copy has to give way by itself.

use semver::Version;

use super::{COMMAND, EXECUTABLES};
use crate::core::values::names::ManagedPath;

/// Executable of an image's agent.
pub const IMAGE_COMMAND: &str = "/usr/bin/flameholder";
/// Directory of an image's units.
pub const IMAGE_UNITS: &str = "/usr/lib/systemd/system";
/// Unit that names the version of its agent.
pub const VERSION_UNIT: &str = "flameholder-activate.service";
/// Drop-in without which no generation is finalized.
pub const FINALIZE_DROP_IN: &str = "ostree-finalize-staged.service.d/50-flameholder.conf";

/// Section of [`VERSION_UNIT`], ignored by systemd, and its key with the version.
const SECTION: &str = "[X-Flameholder]";
const KEY: &str = "Version=";

/// Agent that an image ships with the parts without which it cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageAgent {
    /// Text of [`VERSION_UNIT`].
    pub version_unit: String,
}

/// Agent that runs where an image and an adopted copy both have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentChoice {
    AdoptedCopy,
    Image,
}

/// Reason why the versions of two agents cannot be compared; the adopted copy runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentVersionError {
    #[error(
        "{IMAGE_UNITS}/{VERSION_UNIT} of the OS image names no version of its agent in {SECTION}; rebuild the image with the units of its agent's release"
    )]
    Missing,
    #[error("`{0}` is no version of the agent (major.minor.patch)")]
    Malformed(String),
}

impl ImageAgent {
    /// Choose between this agent and an adopted copy: the newer one, and the image's if the versions are
    /// equal.
    pub fn choose(&self, adopted: &str) -> Result<AgentChoice, AgentVersionError> {
        let shipped = self.version().ok_or(AgentVersionError::Missing)?;
        let parse = |text: &str| {
            Version::parse(text).map_err(|_| AgentVersionError::Malformed(text.escape_default().to_string()))
        };
        let is_older = parse(shipped)?.cmp_precedence(&parse(adopted)?).is_lt();
        Ok(if is_older { AgentChoice::AdoptedCopy } else { AgentChoice::Image })
    }

    fn version(&self) -> Option<&str> {
        let lines = self.version_unit.lines().map(str::trim);
        let section = lines.skip_while(|line| *line != SECTION).skip(1);
        section.take_while(|line| !line.starts_with('[')).find_map(|line| line.strip_prefix(KEY))
    }
}

/// Return the version of the adopted copy that the link at [`COMMAND`] with this target leads to; `None` if
/// the link is not one of `adopt`.
#[must_use]
pub fn adopted_version(target: &str) -> Option<String> {
    let executable = ManagedPath::constant(COMMAND).leads_to(target)?;
    let below = executable.as_str().strip_prefix(EXECUTABLES)?.strip_prefix('/')?;
    Some(below.split_once('/')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(version: &str) -> String {
        format!("[Unit]\nVersion=7.0.0\n\n[X-Flameholder]\nVersion={version}\n[Install]\nVersion=8.0.0\n")
    }

    #[test]
    fn newer_agent_is_chosen_and_the_image_of_two_equal_ones() {
        for (adopted, shipped, expected) in [
            ("0.1.0", "0.1.0", AgentChoice::Image),
            ("0.1.0", "0.1.1", AgentChoice::Image),
            ("0.9.0", "0.10.0", AgentChoice::Image),
            ("1.0.0-rc.1", "1.0.0", AgentChoice::Image),
            ("1.0.0+a", "1.0.0", AgentChoice::Image),
            ("1.0.0", "1.0.0+a", AgentChoice::Image),
            ("0.1.1", "0.1.0", AgentChoice::AdoptedCopy),
            ("0.10.0", "0.9.9", AgentChoice::AdoptedCopy),
            ("1.0.0", "1.0.0-rc.1", AgentChoice::AdoptedCopy),
        ] {
            let image = ImageAgent { version_unit: unit(shipped) };
            assert_eq!(image.choose(adopted), Ok(expected), "{adopted} beside {shipped}");
        }
    }

    #[test]
    fn agent_without_a_readable_version_is_not_chosen() {
        for (adopted, text, expected) in [
            ("0.1.0", "[Unit]\nVersion=7.0.0\n".to_owned(), AgentVersionError::Missing),
            ("0.1.0", "[X-Flameholder]\n[Unit]\nVersion=7.0.0\n".to_owned(), AgentVersionError::Missing),
            ("0.1.0", unit("1.0"), AgentVersionError::Malformed("1.0".to_owned())),
            ("0.1.0", unit(""), AgentVersionError::Malformed(String::new())),
            ("latest", unit("0.1.0"), AgentVersionError::Malformed("latest".to_owned())),
        ] {
            assert_eq!(ImageAgent { version_unit: text.clone() }.choose(adopted), Err(expected), "{text}");
        }
    }

    #[test]
    fn version_of_the_adopted_copy_is_read_from_its_link() {
        for (target, expected) in [
            ("../libexec/flameholder/0.1.0/flameholder", Some("0.1.0")),
            ("../libexec/flameholder/flameholder", None),
            ("../libexec/other/0.1.0/flameholder", None),
            ("/usr/bin/flameholder", None),
        ] {
            assert_eq!(adopted_version(target).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn own_activation_unit_names_this_version() {
        let text = include_str!("../../../../systemd/flameholder-activate.service");
        let image = ImageAgent { version_unit: text.to_owned() };
        assert_eq!(image.version(), Some(env!("CARGO_PKG_VERSION")));
    }
}
