//! Path, environment and start of the worker's executable, `flameholder-ostree`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::core::config::settings::image::SignatureDemand;
use crate::core::values::image::ImageRef;
use crate::os::{OsError, RedactedCause};

/// Installation directory of distribution packages.
const LIBEXEC: &str = "/usr/libexec/flameholder";

/// Environment variable with the time in seconds in which a fetch must not stall.
pub const FETCH_TIMEOUT: &str = "FLAMEHOLDER_FETCH_TIMEOUT";
/// Environment variable with the number of layers fetched at a time.
pub const PARALLEL_FETCHES: &str = "FLAMEHOLDER_PARALLEL_FETCHES";

/// Environment variable with the images of which a signature is demanded: the words of the setting `image.signature`.
pub const IMAGE_SIGNATURE: &str = "FLAMEHOLDER_IMAGE_SIGNATURE";

/// Environment variables passed on to the worker: its own settings, paths, proxies and CA certificates, and settings of
/// skopeo, libostree and systemd. `LANG` is not passed on: errors are classified by their English text.
const ENVIRONMENT: [&str; 19] = [
    IMAGE_SIGNATURE,
    FETCH_TIMEOUT,
    PARALLEL_FETCHES,
    "PATH",
    "HOME",
    "TMPDIR",
    "INVOCATION_ID",
    "RUST_BACKTRACE",
    "OSTREE_SYSROOT_DEBUG",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Path and environment of the worker.
#[derive(Debug, Clone)]
pub struct WorkerProgram {
    path: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl WorkerProgram {
    /// File name of the executable.
    pub const NAME: &str = "flameholder-ostree";

    /// Find the worker: beside the running executable, in `../libexec/flameholder` relative to it, or in
    /// `/usr/libexec/flameholder`.
    pub fn locate() -> Result<Self, OsError> {
        let executable = std::env::current_exe().map_err(|source| OsError::Other {
            doing: "finding the running executable".into(),
            source: RedactedCause::new(&source.to_string()),
        })?;
        let candidates = candidates(&executable);
        match candidates.iter().find(|path| path.is_file()) {
            Some(path) => Ok(Self::at(path)),
            None => Err(OsError::WorkerMissing { looked_for: candidates }),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Use the executable at `path` as the worker.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let kept = |name: &&str| Some((OsString::from(name), std::env::var_os(name)?));
        Self { path: path.into(), environment: ENVIRONMENT.iter().filter_map(kept).collect() }
    }

    /// Set a variable in the worker's environment.
    #[must_use]
    pub fn with_env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let name = name.as_ref();
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.into(), value.as_ref().into()));
        self
    }

    /// Set a variable in the worker's environment, unless this process has passed a usable one on: a number above 0.
    #[must_use]
    pub fn with_default(self, name: &str, value: Option<impl std::fmt::Display>) -> Self {
        let is_usable = |value: &OsString| value.to_str()?.parse::<u64>().ok().filter(|number| *number > 0);
        let mut known = self.environment.iter().filter(|(known, _)| known == name);
        let is_set = known.any(|(_, value)| is_usable(value).is_some());
        match value {
            Some(value) if !is_set => self.with_env(name, value.to_string()),
            _ => self,
        }
    }

    /// Demand signatures by the settings. A demand of the environment is kept: neither can take the other away.
    #[must_use]
    pub fn with_signature_demand(self, demand: SignatureDemand) -> Self {
        match demand {
            SignatureDemand::ByReference => self,
            SignatureDemand::Required => self.with_env(IMAGE_SIGNATURE, demand.as_str()),
        }
    }

    /// Return true if the worker demands a signature of the image. It refuses a word that it does not know.
    #[must_use]
    pub fn demands_signature(&self, image: &ImageRef) -> bool {
        let by_reference = SignatureDemand::ByReference;
        let mut variables = self.environment.iter();
        let is_strict =
            variables.any(|(name, word)| name == IMAGE_SIGNATURE && word != by_reference.as_str());
        if is_strict { SignatureDemand::Required } else { by_reference }.governs(image)
    }

    pub(super) fn start(&self) -> Result<Child, OsError> {
        Command::new(&self.path)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| OsError::WorkerNotStarted {
                program: self.path.clone(),
                source: RedactedCause::new(&source.to_string()),
            })
    }
}

fn candidates(executable: &Path) -> Vec<PathBuf> {
    let directory = executable.parent().unwrap_or(Path::new("/"));
    let prefix = directory.parent().unwrap_or(Path::new("/"));
    vec![
        directory.join(WorkerProgram::NAME),
        prefix.join("libexec/flameholder").join(WorkerProgram::NAME),
        Path::new(LIBEXEC).join(WorkerProgram::NAME),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_is_passed_on_unless_the_environment_has_a_usable_number() {
        let passed = |before: Option<&str>, setting: Option<u32>| {
            let program = WorkerProgram { path: PathBuf::new(), environment: Vec::new() };
            let program = before.map_or(program.clone(), |before| program.with_env(FETCH_TIMEOUT, before));
            let program = program.with_default(FETCH_TIMEOUT, setting);
            program.environment.into_iter().map(|(_, value)| value.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(passed(None, Some(7)), ["7"]);
        assert_eq!(passed(Some("2"), Some(7)), ["2"]);
        assert_eq!(passed(Some("2"), None), ["2"]);
        for unusable in ["", "x", "0"] {
            assert_eq!(passed(Some(unusable), Some(7)), ["7"]);
        }
        assert!(passed(None, None).is_empty());
    }

    #[test]
    fn worker_beside_the_executable_is_preferred() {
        let found = candidates(Path::new("/usr/local/bin/flameholder"));
        let expected = [
            "/usr/local/bin/flameholder-ostree",
            "/usr/local/libexec/flameholder/flameholder-ostree",
            "/usr/libexec/flameholder/flameholder-ostree",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
