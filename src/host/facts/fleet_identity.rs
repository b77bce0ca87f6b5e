//! Identity of the host among the hosts of a fleet.

use libsystemd::id128;

/// Application for which zincati derives the identity of a host. With the same one, a host keeps a slot that zincati
/// requested for it, and the server's records stay valid.
const ZINCATI: [u8; 16] =
    [0xde, 0x35, 0x10, 0x6b, 0x6e, 0xc2, 0x46, 0x88, 0xb6, 0x3a, 0xfd, 0xda, 0xa1, 0x56, 0x67, 0x9b];

/// Host without a usable machine ID.
#[derive(Debug, thiserror::Error)]
#[error("the host has no identity: /etc/machine-id cannot be read; set `reboot-lock.id`")]
pub struct NoIdentity(#[source] libsystemd::errors::SdError);

/// Derive the identity from the machine ID, as zincati does: 32 hexadecimal digits.
pub fn fleet_identity() -> Result<String, NoIdentity> {
    let application = id128::Id128::try_from_slice(&ZINCATI).map_err(NoIdentity)?;
    let identity = id128::get_machine_app_specific(&application).map_err(NoIdentity)?;
    Ok(identity.lower_hex())
}
