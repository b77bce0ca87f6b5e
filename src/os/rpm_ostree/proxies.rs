//! D-Bus interfaces of rpm-ostreed, as far as they are used.

use std::collections::HashMap;

use zbus::zvariant::{OwnedObjectPath, Value};

/// Well-known bus name.
pub const NAME: &str = "org.projectatomic.rpmostree1";

/// Dictionary argument of a method. rpm-ostreed ignores unknown keys and values of a wrong type.
pub(super) type DbusOptions<'a> = HashMap<&'static str, Value<'a>>;

/// `…/RpmOstreeSysroot`. Its properties are current when `Reload` has returned, so none is cached.
#[zbus::proxy(
    interface = "org.projectatomic.rpmostree1.Sysroot",
    default_service = "org.projectatomic.rpmostree1",
    default_path = "/org/projectatomic/rpmostree1/Sysroot",
    gen_blocking = false
)]
pub(super) trait RpmOstreeSysroot {
    /// Start the daemon, and keep it running while this connection is open.
    fn register_client(&self, options: &DbusOptions<'_>) -> zbus::Result<()>;

    /// Allow the daemon to exit when idle.
    fn unregister_client(&self, options: &DbusOptions<'_>) -> zbus::Result<()>;

    fn reload(&self) -> zbus::Result<()>;

    /// Object of the booted stateroot; `/` if none is booted.
    #[zbus(property(emits_changed_signal = "false"))]
    fn booted(&self) -> zbus::Result<OwnedObjectPath>;

    /// Method of the active transaction, its caller, and the object path; empty strings if no transaction is
    /// active.
    #[zbus(property(emits_changed_signal = "false"))]
    fn active_transaction(&self) -> zbus::Result<(String, String, String)>;
}

#[zbus::proxy(
    interface = "org.projectatomic.rpmostree1.OS",
    default_service = "org.projectatomic.rpmostree1",
    gen_blocking = false
)]
pub(super) trait RpmOstreeStateroot {
    /// Make a new deployment from the pending one, or else from the booted one. Returns the address of the
    /// transaction's socket.
    fn update_deployment(
        &self,
        modifiers: &DbusOptions<'_>,
        options: &DbusOptions<'_>,
    ) -> zbus::Result<String>;
}
