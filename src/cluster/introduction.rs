//! Identity for the daemon on the host: the installer pod copies the token of its service account there. The token is bound
//! to the pod and its node, and the cluster renews it; on the host it is in `/run` only.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// File name of the token, in the pod and on the host.
const TOKEN: &str = "token";

/// Failure to copy the token.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {}", path.display())]
pub struct IntroductionError {
    /// Failed operation, such as `reading`.
    pub doing: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

/// Copy the pod's token from `account`, the directory in which the cluster renews it, to `directory` of the host.
pub fn introduce(account: &Path, directory: &Path) -> Result<(), IntroductionError> {
    let from = account.join(TOKEN);
    let failed = |doing, path: &Path, source| IntroductionError { doing, path: path.to_owned(), source };
    let token = fs::read(&from).map_err(|source| failed("reading", &from, source))?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    // An existing directory may have another mode.
    let made = made.and_then(|()| fs::set_permissions(directory, Permissions::from_mode(0o700)));
    made.map_err(|source| failed("making", directory, source))?;
    let to = directory.join(TOKEN);
    replace(&to, &token).map_err(|source| failed("writing", &to, source))
}

/// Replace a file by rename: a reader finds the old or the new contents, complete.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(contents)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_on_the_host_is_the_pods_and_for_root_only() {
        let (host, account) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directory = host.path().join("run/flameholder/cluster");
        for token in ["one", "two"] {
            fs::write(account.path().join(TOKEN), token).unwrap();
            introduce(account.path(), &directory).unwrap();
            assert_eq!(fs::read_to_string(directory.join(TOKEN)).unwrap(), token);
            for (path, mode) in [("", 0o700), (TOKEN, 0o600)] {
                let found = fs::metadata(directory.join(path)).unwrap().permissions().mode();
                assert_eq!(found & 0o777, mode, "{path}");
            }
            fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn missing_file_is_named_in_the_error() {
        let (host, account) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let said = introduce(account.path(), host.path()).unwrap_err().to_string();
        assert!(said.starts_with("reading ") && said.ends_with("/token"), "{said}");
        fs::write(account.path().join(TOKEN), "one").unwrap();
        fs::write(host.path().join("file"), "").unwrap();
        let said = introduce(account.path(), &host.path().join("file")).unwrap_err().to_string();
        assert!(said.ends_with("/file") || said.ends_with("/file/token"), "{said}");
    }
}
