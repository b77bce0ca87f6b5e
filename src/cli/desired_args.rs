//! The desired config of a command, and the rules by which it is planned and applied.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::cli::input::load_configuration;
use crate::cli::server_access::ServerAccessArgs;
use crate::cli::{CliError, ProfileName};
use crate::core::values::image::{ImageRef, redact_credentials};
use crate::core::values::profile::Profile;
use crate::transaction::state::current::DecodedConfig;

#[derive(Debug, Args)]
pub(crate) struct DesiredArgs {
    /// The desired config, a MachineConfig, Ignition config or Butane config in JSON or YAML; a directory of them, which are merged
    /// as by the daemon; `-` for standard input; its address on a server, such as `https://HOST:22623/config/worker`; or an artifact
    /// in a registry, `oci://REGISTRY/REPOSITORY:TAG`
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath)]
    desired: PathBuf,
    /// Take this OS image instead of the one that the config names
    #[arg(long, value_name = "REF", conflicts_with = "root")]
    os_image: Option<String>,
    /// Rules that decide which changes can be applied
    #[arg(long, value_enum, default_value_t)]
    profile: ProfileName,
    #[command(flatten)]
    access: ServerAccessArgs,
}

impl DesiredArgs {
    /// Read the config. The running host `is_target` of `apply` without a tree or a sysroot.
    pub(crate) fn load(&self, is_target: bool) -> Result<DecodedConfig, CliError> {
        load_configuration(&self.desired, &self.access, is_target)
    }

    /// Return the OS image that is given.
    pub(crate) fn image(&self) -> Result<Option<ImageRef>, CliError> {
        Ok(self.os_image.as_deref().map(str::parse).transpose()?)
    }

    pub(crate) fn profile(&self) -> Profile {
        self.profile.into()
    }

    /// Return the name of the config in messages.
    pub(crate) fn shown(&self) -> String {
        self.desired.display().to_string()
    }

    /// Return the options that give another command the same config; `None` for standard input, which can be read once.
    pub(crate) fn as_options(&self) -> Option<Vec<String>> {
        if self.desired == Path::new("-") {
            return None;
        }
        let profile = (self.profile == ProfileName::Mcd).then(|| OsStr::new("mcd"));
        let image = self.os_image.as_deref().map(redact_credentials);
        let options = [
            ("--desired", Some(self.desired.as_os_str())),
            ("--os-image", image.as_deref().map(OsStr::new)),
            ("--profile", profile),
        ];
        let given = options.into_iter().filter_map(|(option, value)| Some((option, value?)));
        let spelled =
            given.flat_map(|(option, value)| [option.to_owned(), value.to_string_lossy().into_owned()]);
        Some(spelled.chain(self.access.as_options()).collect())
    }
}
