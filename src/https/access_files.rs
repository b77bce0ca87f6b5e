//! Files that a request needs: CA bundle, client certificate and key, bearer token.

use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use http::HeaderValue;

use super::HttpsError;
use crate::core::config::settings::server_access::ServerAccess;
use crate::core::trust::certificate::der_blocks;

/// Limit of each file in bytes; a bundle of all public CAs has a quarter of it.
const FILE_BYTES: u64 = 1 << 20;
/// Mode bits that a file with a private key may not have.
const OTHERS: u32 = 0o077;

/// Contents of the files of a [`ServerAccess`].
pub(super) struct AccessFiles {
    /// File of CAs and its certificates in DER; `None` for those of the system.
    pub(super) cas: Option<(PathBuf, Vec<Vec<u8>>)>,
    pub(super) client: Option<ClientIdentity>,
    pub(super) token: Option<HeaderValue>,
}

/// Certificate chain of the client in DER, and its private key in PEM, each with its file.
pub(super) struct ClientIdentity {
    pub(super) chain: (PathBuf, Vec<Vec<u8>>),
    pub(super) key: (PathBuf, Vec<u8>),
}

impl AccessFiles {
    /// Read the files anew: certificates and tokens are renewed while the daemon runs.
    pub(super) fn load(access: &ServerAccess) -> Result<Self, HttpsError> {
        let cas = access.ca.as_deref().map(read_certificates).transpose()?;
        let client = match (&access.client_certificate, &access.client_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(ClientIdentity {
                key: (key.clone(), read_key(key)?),
                chain: read_certificates(certificate)?,
            }),
            _ => return Err(HttpsError::HalfIdentity),
        };
        let token = access.token_file.as_deref().map(read_token).transpose()?;
        Ok(Self { cas, client, token })
    }
}

fn refused(path: &Path, reason: &dyn Display) -> HttpsError {
    HttpsError::Credential { path: path.to_owned(), reason: reason.to_string() }
}

fn read(path: &Path) -> Result<Vec<u8>, HttpsError> {
    let file = File::open(path).map_err(|error| refused(path, &error))?;
    read_opened(path, file)
}

fn read_opened(path: &Path, file: File) -> Result<Vec<u8>, HttpsError> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| refused(path, &error))?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(refused(path, &format!("the file has more than {FILE_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Read the certificates of a PEM file, at least one.
fn read_certificates(path: &Path) -> Result<(PathBuf, Vec<Vec<u8>>), HttpsError> {
    let blocks = der_blocks(&read(path)?);
    let blocks = blocks.map_err(|error| refused(path, &format!("the file {error}")))?;
    Ok((path.to_owned(), blocks))
}

fn read_key(path: &Path) -> Result<Vec<u8>, HttpsError> {
    let file = File::open(path).map_err(|error| refused(path, &error))?;
    let mode = file.metadata().map_err(|error| refused(path, &error))?.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(refused(
            path,
            &format!("its mode is {mode:04o}, so that other users can use the private key; set 0600"),
        ));
    }
    read_opened(path, file)
}

fn read_token(path: &Path) -> Result<HeaderValue, HttpsError> {
    let bytes = read(path)?;
    let token = bytes.trim_ascii();
    if token.is_empty() {
        return Err(refused(path, &"the file holds no token"));
    }
    let value = HeaderValue::from_bytes(&[b"Bearer ", token].concat());
    let mut value = value.map_err(|_| refused(path, &"the token has characters that no header can have"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn unusable_files_are_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str, content: &str| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            Some(path)
        };
        let key = at("key", "very-secret");
        fs::set_permissions(key.as_ref().unwrap(), fs::Permissions::from_mode(0o640)).unwrap();
        let absent = ServerAccess::default();
        for (access, mentions) in [
            (
                ServerAccess { ca: Some("/nowhere/ca.pem".into()), ..absent.clone() },
                "/nowhere/ca.pem cannot be used: No such",
            ),
            (
                ServerAccess { ca: at("ca", "very-secret"), ..absent.clone() },
                "ca cannot be used: the file has no certificate",
            ),
            (ServerAccess { client_key: key.clone(), ..absent.clone() }, "belong together"),
            (
                ServerAccess { client_certificate: at("chain", ""), client_key: key, ..absent.clone() },
                "key cannot be used: its mode is 0640",
            ),
            (
                ServerAccess { token_file: at("empty", " \n"), ..absent.clone() },
                "empty cannot be used: the file holds no token",
            ),
            (
                ServerAccess { token_file: at("two", "very-secret\nlines"), ..absent },
                "two cannot be used: the token has",
            ),
        ] {
            let refused = AccessFiles::load(&access).err().unwrap().to_string();
            assert!(refused.contains(mentions) && !refused.contains("very-secret"), "{refused}");
        }
    }

    #[test]
    fn token_is_sent_as_one_line_and_shown_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, "very-secret\n").unwrap();
        let access = ServerAccess { token_file: Some(path), ..ServerAccess::default() };
        let token = AccessFiles::load(&access).unwrap().token.unwrap();
        assert_eq!(token.as_bytes(), b"Bearer very-secret");
        assert!(!format!("{token:?}").contains("secret"));
    }
}
