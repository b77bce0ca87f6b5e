//! What rpm-ostreed offers on the bus, as far as it is asked.

use std::collections::HashMap;

use zbus::zvariant::{OwnedObjectPath, Value};

/// The daemon's well-known name on the bus.
pub const NAME: &str = "org.projectatomic.rpmostree1";

/// A dictionary that is sent. The daemon ignores keys that it does not know, and values of a wrong type.
pub(super) type DbusOptions<'a> = HashMap<&'static str, Value<'a>>;

/// `…/RpmOstreeSysroot`. Its properties are current once `Reload` has returned, so nothing is kept.
#[zbus::proxy(
    interface = "org.projectatomic.rpmostree1.Sysroot",
    default_service = "org.projectatomic.rpmostree1",
    default_path = "/org/projectatomic/rpmostree1/Sysroot",
    gen_blocking = false
)]
pub(super) trait RpmOstreeSysroot {
    /// Starts the daemon, and keeps it from leaving while this connection lives.
    fn register_client(&self, options: &DbusOptions<'_>) -> zbus::Result<()>;

    /// Lets it go.
    fn unregister_client(&self, options: &DbusOptions<'_>) -> zbus::Result<()>;

    /// Looks at the sysroot again.
    fn reload(&self) -> zbus::Result<()>;

    /// The object of the stateroot that runs; `/` where none does.
    #[zbus(property(emits_changed_signal = "false"))]
    fn booted(&self) -> zbus::Result<OwnedObjectPath>;

    /// The method that is carried out, who called it, and the object that it was called on; empty where none is.
    #[zbus(property(emits_changed_signal = "false"))]
    fn active_transaction(&self) -> zbus::Result<(String, String, String)>;
}

/// The object of a stateroot.
#[zbus::proxy(
    interface = "org.projectatomic.rpmostree1.OS",
    default_service = "org.projectatomic.rpmostree1",
    gen_blocking = false
)]
pub(super) trait RpmOstreeStateroot {
    /// Makes a new deployment from the one that is pending, else from the one that runs. Returns where the transaction
    /// is found that does so.
    fn update_deployment(
        &self,
        modifiers: &DbusOptions<'_>,
        options: &DbusOptions<'_>,
    ) -> zbus::Result<String>;
}
