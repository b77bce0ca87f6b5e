//! FIPS mode of the kernel, which demands validated cryptography: of the two TLS libraries, only the host's OpenSSL can
//! have been validated.

use crate::host::facts::boot;

/// Library that speaks TLS to servers and to the cluster.
pub const TLS_LIBRARY: &str = if IS_LINKED_IN { "rustls" } else { "openssl" };
/// True for the library that is linked in, false for the host's.
pub const IS_LINKED_IN: bool = cfg!(feature = "rustls");

/// Refusal to speak TLS with cryptography that was not validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the kernel is in FIPS mode, and this build of flameholder speaks TLS with rustls, which is not validated: install \
     the build with the host's OpenSSL, which flameholder's Containerfiles make (features `openssl,ostree`)"
)]
pub struct UnvalidatedTls;

/// Fail if the kernel is in FIPS mode and the library that speaks TLS is not the host's.
pub fn ensure_validated_tls() -> Result<(), UnvalidatedTls> {
    judge(boot::fips_mode(), IS_LINKED_IN)
}

fn judge(mode: Option<bool>, is_linked_in: bool) -> Result<(), UnvalidatedTls> {
    if mode == Some(true) && is_linked_in { Err(UnvalidatedTls) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kernel_in_fips_mode_refuses_the_library_that_is_linked_in() {
        assert_eq!(judge(Some(true), true), Err(UnvalidatedTls));
        for (mode, is_linked_in) in
            [(Some(true), false), (Some(false), true), (None, true), (Some(false), false), (None, false)]
        {
            assert_eq!(judge(mode, is_linked_in), Ok(()), "{mode:?} {is_linked_in}");
        }
    }
}
