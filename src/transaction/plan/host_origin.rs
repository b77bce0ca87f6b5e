//! Origin of a host: the image that it was installed from, and later changes of its config without effect.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::plan::irreconcilable_changes::{IrreconcilableChange, irreconcilable_changes};
use crate::core::values::image::boot_image::BootImage;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CONTENT, CURRENT_CONFIG};
use crate::host::Root;

/// Documents of the installer, by coreos-assembler and bootc.
const ALEPHS: [&str; 2] = ["/sysroot/.coreos-aleph-version.json", "/sysroot/.bootc-aleph.json"];
/// Most bytes of such a document.
const ALEPH_BYTES: usize = 1 << 20;

/// Origin of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostOrigin {
    /// Image that the host was installed from; `None` if its installer left no document.
    pub boot_image: Option<BootImage>,
    /// Changes of the config since the first boot that only an installation applies.
    pub irreconcilable_changes: Vec<IrreconcilableChange>,
    /// Documents that cannot be read, with reasons.
    pub unreadable: Vec<(String, String)>,
}

impl HostOrigin {
    /// Read the origin of the running host. Informative: an unreadable part is missing.
    #[must_use]
    pub fn load(root: &Root) -> Self {
        let mut origin = Self::default();
        origin.boot_image =
            ALEPHS.iter().find_map(|path| origin.read(root, path, ALEPH_BYTES, BootImage::parse));
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes);
        let installed = origin.read(root, CONTENT, limits::DOCUMENT_BYTES, json);
        // Many hosts have no config of their first boot to compare with.
        if let Some(installed) = installed
            && let Some(current) = origin.read(root, CURRENT_CONFIG, limits::DOCUMENT_BYTES, json)
        {
            origin.irreconcilable_changes = irreconcilable_changes(&installed, &current);
        }
        origin
    }

    fn read<T, E: Display>(
        &mut self,
        root: &Root,
        path: &str,
        limit: usize,
        parse: impl Fn(&[u8]) -> Result<T, E>,
    ) -> Option<T> {
        let read = match root.read(&ManagedPath::constant(path), limit) {
            Ok(bytes) => parse(&bytes?).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        read.map_err(|reason| self.unreadable.push((path.to_owned(), reason))).ok()
    }
}
