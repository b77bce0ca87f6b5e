//! The host's signature policy, as skopeo reads it.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::core::image_policy::{ImagePolicy, ImagePolicyError};
use crate::core::values::paths::SIGNATURE_POLICY;

/// Limit of a policy, and of a file with keys, in bytes: a thousand times what hosts have.
const LIMIT: u64 = 4 << 20;

/// Policy that cannot be used: skopeo pulls no image then.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// Missing, unreadable or too large.
    #[error("reading the signature policy {SIGNATURE_POLICY}")]
    Read(#[source] io::Error),
    /// Malformed.
    #[error("decoding {SIGNATURE_POLICY}")]
    Decode(#[source] ImagePolicyError),
}

/// Read the policy of this host.
///
/// # Errors
/// There is none, or it is malformed or larger than 4 MiB.
pub fn load() -> Result<ImagePolicy, PolicyFileError> {
    let text = read_file(Path::new(SIGNATURE_POLICY)).map_err(PolicyFileError::Read)?;
    ImagePolicy::parse(&text).map_err(PolicyFileError::Decode)
}

/// Read a file that the policy names, or the policy.
///
/// # Errors
/// It cannot be read, or is larger than 4 MiB.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {LIMIT} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_file_is_not_read_to_its_end() {
        assert_eq!(read_file(Path::new("/dev/zero")).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_file(Path::new("/dev/null")).unwrap(), b"");
    }
}
