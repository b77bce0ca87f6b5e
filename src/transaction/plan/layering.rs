//! What becomes of a deployment's packages.

use crate::core::config::host_config::{HostConfig, KernelType};
use crate::core::config::layering::LayeringChange;
use crate::core::plan::Plan;
use crate::core::values::image::ImageRef;
use crate::core::values::refusal::Refusal;
use crate::host::Root;
use crate::host::facts::os_release;
use crate::os::Deployment;

/// The architecture whose kernels there are with pages of 64 KiB.
const PAGES_64K: &str = "aarch64";

/// Decides it, and says in `plan` what is left out or stands in the way. `is_served` is whether somebody can change
/// packages here, and `image` the one that the base's is replaced with.
pub(crate) fn plan_layering(
    root: &Root,
    base: &Deployment,
    desired: &HostConfig,
    image: Option<&ImageRef>,
    is_served: bool,
    plan: &mut Plan,
) -> LayeringChange {
    if !is_served && image.is_some() && !base.layering.is_empty() {
        let packages = [&base.layering.requested[..], &base.layering.removed[..]].concat().join(", ");
        let reason = format!(
            "what is deployed differs from its image in packages ({packages}), which only rpm-ostreed can put onto another image; apply it on the running host, where `systemctl status rpm-ostreed` says that there is one, and without `--os-backend libostree`"
        );
        plan.irreconcilable.push(Refusal::new("spec.osImageURL", reason));
    }
    let is_enterprise = os_release::read(root).is_enterprise_coreos();
    if !is_served || !is_enterprise {
        let reason = if is_served {
            "there are packages for it on RHEL CoreOS and CentOS Stream CoreOS alone; build it into the image"
        } else {
            "packages are changed by rpm-ostreed, on a host that runs and has it"
        };
        plan.unsupported.extend(requested_parts(desired).map(|part| format!("{part}: {reason}")));
        return LayeringChange::default();
    }
    if desired.os.kernel_type == KernelType::Pages64k && std::env::consts::ARCH != PAGES_64K {
        let reason = format!("there are kernels with 64 KiB pages on {PAGES_64K} only");
        plan.irreconcilable.push(Refusal::new("spec.kernelType", reason));
        return LayeringChange::default();
    }
    LayeringChange::between(&base.layering, &desired.os)
}

fn requested_parts(config: &HostConfig) -> impl Iterator<Item = &'static str> {
    let parts = [
        ("spec.kernelType", config.os.kernel_type != KernelType::Default),
        ("spec.extensions", !config.os.extensions.is_empty()),
    ];
    parts.into_iter().filter(|(_, is_set)| *is_set).map(|(part, _)| part)
}
