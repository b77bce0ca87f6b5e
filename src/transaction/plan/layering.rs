//! Package layering: extensions, kernel types, and packages of the base deployment.

use crate::core::config::host_config::{HostConfig, KernelType};
use crate::core::config::layering::LayeringChange;
use crate::core::plan::Plan;
use crate::core::values::image::ImageRef;
use crate::core::values::refusal::Refusal;
use crate::host::Root;
use crate::host::facts::os_release;
use crate::os::Deployment;

/// Only architecture with kernels for 64 KiB pages.
const PAGES_64K: &str = "aarch64";

/// Plan the package changes. Adds unsupported parts and refusals to `plan`. `is_served` is true if
/// rpm-ostreed can change packages here; `image` replaces the base's image.
pub(crate) fn plan_layering(
    root: &Root,
    base: &Deployment,
    desired: &HostConfig,
    image: Option<&ImageRef>,
    is_served: bool,
    plan: &mut Plan,
) -> LayeringChange {
    if !is_served && image.is_some() && base.is_layered() {
        let packages = [&base.layering.requested[..], &base.layering.removed[..]].concat().join(", ");
        let packages = Some(packages).filter(|packages| !packages.is_empty());
        let packages = packages.unwrap_or_else(|| "see `rpm-ostree status -v`".to_owned());
        let reason = format!(
            "the base deployment has layered, replaced or removed packages ({packages}), which only rpm-ostreed can carry over to another image; apply on the running host, with rpm-ostreed installed and without `--os-backend libostree`"
        );
        plan.irreconcilable.push(Refusal::new("spec.osImageURL", reason));
    }
    let is_enterprise = os_release::read(root).is_enterprise_coreos();
    if !is_served || !is_enterprise {
        let reason = if is_served {
            "packages for it exist only for RHEL CoreOS and CentOS Stream CoreOS; build it into the image"
        } else {
            "only rpm-ostreed on a running host can change packages"
        };
        plan.unsupported.extend(requested_parts(desired).map(|part| format!("{part}: {reason}")));
        return LayeringChange::default();
    }
    if desired.os.kernel_type == KernelType::Pages64k && std::env::consts::ARCH != PAGES_64K {
        let reason = format!("kernels with 64 KiB pages exist for {PAGES_64K} only");
        plan.irreconcilable.push(Refusal::new("spec.kernelType", reason));
        return LayeringChange::default();
    }
    LayeringChange::between(&base.layering, &desired.os, image.is_none())
}

fn requested_parts(config: &HostConfig) -> impl Iterator<Item = &'static str> {
    let parts = [
        ("spec.kernelType", config.os.kernel_type != KernelType::Default),
        ("spec.extensions", !config.os.extensions.is_empty()),
    ];
    parts.into_iter().filter(|(_, is_set)| *is_set).map(|(part, _)| part)
}
